//! Keeps a lock locked for some time after its release (`unlock_not_before`).

use std::time::Duration;

use crate::clock::{Clock, Moment};

#[derive(Debug, Default)]
pub(super) struct Linger {
    /// A release before this instant leaves the hold in Redis until then.
    until: Option<Moment>,
    /// A call that leaves the hold to its expiry was sent, so nobody else may get the field.
    sent: bool,
}

impl Linger {
    /// The latest instant counts.
    pub(super) fn at_least_until(&mut self, until: Moment) {
        self.until = self.until.max(Some(until));
    }

    /// Rounded up to whole milliseconds. `None` if a release may free the lock now.
    pub(super) fn left(&self, clock: &Clock) -> Option<Duration> {
        let left = self.until?.saturating_duration_since(clock.now());
        (!left.is_zero()).then(|| left + Duration::from_millis(1))
    }

    pub(super) fn forget(&mut self) {
        self.until = None;
    }

    pub(super) fn set_sent(&mut self) {
        self.sent = true;
    }

    pub(super) fn was_sent(&self) -> bool {
        self.sent
    }
}
