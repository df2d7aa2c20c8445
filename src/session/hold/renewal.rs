//! What the watchdog does with a hold.

use std::time::Duration;

use tokio::time::Instant;

use super::{Duty, Hold, VERIFICATION};
use crate::clock::Moment;

impl Hold {
    /// What the watchdog has to do now.
    pub(crate) fn duty(&self) -> Duty {
        let now = self.clock.now();
        let state = self.state.lock();
        if !state.phase.is_live() {
            return Duty::None;
        }
        if let Some(reason) = state.loss(now) {
            return Duty::End(reason);
        }
        let (lease, claimed) = (state.guards.lease(), !state.phase.is_unclaimed());
        let wait = |until: Moment| Duty::Wait(self.clock.timer(until.min(state.deadline.end())));
        match state.renew_at(now) {
            due if state.deadline.is_unverified() => Duty::Renew(if due.is_some() && claimed {
                lease
            } else {
                VERIFICATION
            }),
            Some(at) if at > now => wait(at),
            Some(_) if claimed => Duty::Renew(lease),
            Some(_) | None => wait(state.deadline.end()),
        }
    }

    /// As [`confirmed`](Hold::confirmed), by a renewal.
    pub(crate) fn renewed(&self, sent: Moment, lease: Duration) {
        let due = self.state.lock().renew_at(sent).unwrap_or(sent);
        self.observer
            .is_renewed(sent.saturating_duration_since(due));
        self.confirmed(sent, lease);
    }

    /// Redis confirmed a lease asked for at `sent`. Never moves the deadline back (HOLD-2).
    pub(crate) fn confirmed(&self, sent: Moment, lease: Duration) {
        let certain_again = {
            let mut state = self.state.lock();
            // HOLD-1: a hold whose deadline passed meanwhile stays lost.
            if state.loss(self.clock.now()).is_some() {
                return;
            }
            state.deadline.confirm(sent, lease)
        };
        if certain_again {
            self.observer.is_certain();
        }
        self.changed.notify_waiters();
    }

    /// Another server serves the key: uncertain until it has confirmed the hold. True if the hold was certain until
    /// now: [`report_uncertain`](Self::report_uncertain) says so when nothing is locked.
    #[must_use]
    pub(crate) fn must_be_verified(&self) -> bool {
        self.state
            .lock()
            .deadline
            .must_be_verified(self.clock.now())
    }

    pub(crate) fn report_uncertain(&self) {
        self.observer.is_uncertain();
    }

    pub(crate) fn mark_uncertain(&self) {
        let was_certain = self.state.lock().deadline.mark_uncertain();
        if was_certain {
            self.report_uncertain();
        }
    }

    pub(crate) fn is_unverified(&self) -> bool {
        self.state.lock().deadline.is_unverified()
    }

    /// Nothing confirmed the hold since `change`, when another server began to serve the key. The former server may
    /// have answered a call that was sent before.
    pub(crate) fn is_older_than(&self, change: Instant) -> bool {
        self.clock.timer(self.state.lock().deadline.confirmed()) < change
    }
}
