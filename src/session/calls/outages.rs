//! The end of an outage: waiting calls are retried as soon as a connection is usable.

use std::time::Duration;

use tokio::sync::futures::Notified;

use crate::sync::Notify;
use crate::timer;

#[derive(Debug, Default)]
pub(crate) struct Outages {
    /// Notified when a lane is usable again.
    over: Notify,
}

/// Resolves when a connection becomes usable after this value was made.
pub(crate) struct Outage<'a>(Notified<'a>);

impl Outages {
    /// The outage that the next call may meet. Make it before the call, so that an outage that ends
    /// while the call fails is noticed.
    pub(crate) fn next(&self) -> Outage<'_> {
        Outage(self.over.notified())
    }

    /// Lets every call that waits for the end of an outage retry at once.
    pub(crate) fn end(&self) {
        self.over.notify_waiters();
    }
}

impl Outage<'_> {
    /// Returns when a connection has become usable, or after `limit`.
    pub(crate) async fn over_within(self, limit: Duration) {
        // The caller tries again in both cases.
        drop(timer::timeout(limit, self.0).await);
    }
}
