//! A hold that stays locked for some time after its release (`unlock_not_before`).

use std::time::Duration;

use crate::clock::Moment;

#[derive(Debug, Default)]
pub(super) struct Linger {
    /// A release before this instant leaves the hold in Redis until then.
    until: Option<Moment>,
    /// A call was sent that leaves the hold to its expiry: nobody is given its field.
    sent: bool,
}

impl Linger {
    /// The latest of several counts.
    pub(super) fn at_least_until(&mut self, until: Moment) {
        self.until = self.until.max(Some(until));
    }

    /// In whole milliseconds, rounded up; `None` if a release may free the lock.
    pub(super) fn left(&self, now: Moment) -> Option<Duration> {
        let left = self.until?.saturating_duration_since(now);
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
