//! The end of an outage: who waits for it tries again as soon as a connection is usable.

use std::time::Duration;

use tokio::sync::futures::Notified;

use crate::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct Outages {
    /// A lane is usable again.
    over: Notify,
}

/// From when it was asked for until a connection is usable again.
pub(crate) struct Outage<'a>(Notified<'a>);

impl Outages {
    /// The outage that a call may meet which is about to be sent: its end is not missed while that call fails.
    pub(crate) fn next(&self) -> Outage<'_> {
        Outage(self.over.notified())
    }

    /// Lets everybody who waits for the end of an outage try at once.
    pub(crate) fn end(&self) {
        self.over.notify_waiters();
    }
}

impl Outage<'_> {
    /// Returns when a connection became usable meanwhile, after `limit` at the latest.
    pub(crate) async fn over_within(self, limit: Duration) {
        // Both outcomes mean the same: try again.
        drop(tokio::time::timeout(limit, self.0).await);
    }
}
