//! The guards of a hold, and the leases that they asked for.

use std::time::Duration;

use super::deadline::Deadline;
use super::terms::HoldTerms;
use crate::clock::Moment;

#[derive(Debug)]
pub(super) struct Guards {
    /// The number of shares (HOLD-3).
    count: u32,
    /// Guards whose lease the watchdog renews.
    renewed: u32,
    /// The longest lease that the renewed guards asked for, counted since the first of them.
    lease: Duration,
    /// The longest lease that was ever asked for.
    longest: Duration,
}

impl Guards {
    /// Counts the first guard.
    pub(super) fn new(terms: HoldTerms) -> Self {
        Guards {
            count: 1,
            renewed: terms.renewed.into(),
            lease: terms.lease,
            longest: terms.first_lease(),
        }
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn are_renewed(&self) -> bool {
        self.renewed > 0
    }

    /// The lease that renewals ask for.
    pub(super) fn lease(&self) -> Duration {
        self.lease
    }

    pub(super) fn longest_lease(&self) -> Duration {
        self.longest
    }

    /// A call that asks for this lease is about to be sent.
    pub(super) fn asks_for(&mut self, lease: Duration) {
        self.longest = self.longest.max(lease);
    }

    pub(super) fn join(&mut self, terms: HoldTerms) {
        self.count += 1;
        if terms.renewed {
            // The hold must go on for the outer guards, too.
            let outer = self.are_renewed().then_some(self.lease);
            self.lease = terms.lease.max(outer.unwrap_or(terms.lease));
            self.renewed += 1;
        }
    }

    pub(super) fn leave(&mut self, terms: HoldTerms) {
        self.count -= 1;
        self.renewed -= u32::from(terms.renewed);
    }

    /// When the next renewal is due, if the hold is renewed.
    pub(super) fn renew_at(&self, deadline: &Deadline, now: Moment) -> Option<Moment> {
        if let Some(first) = deadline.first_renewal() {
            return self.are_renewed().then_some(first);
        }
        let third = self.lease() / 3;
        let before_its_end = deadline.lease_ends().checked_sub(third * 2).unwrap_or(now);
        // A longer lease does not put the renewal off, because renewals also detect losses.
        let due = before_its_end.min(deadline.confirmed() + third);
        self.are_renewed().then_some(due)
    }
}
