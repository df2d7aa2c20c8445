//! What the watchdog does with a hold.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Duty, Hold, VERIFICATION};
use crate::clock::Moment;
use crate::harness::Hearing;
use crate::lease::ForcedRelease;

impl Hold {
    /// A message said that a release has granted it for this long, which began no earlier than `since`.
    pub(crate) fn is_granted_for(&mut self, lease: Duration, since: Moment, now: Moment) {
        self.state
            .get_mut()
            .deadline
            .is_granted_for(lease, since, now);
    }

    /// The watchdog's next duty for this hold.
    pub(crate) fn duty(&self) -> Duty {
        let now = self.clock.now();
        let state = self.state.lock();
        if !state.phase.is_live() {
            return Duty::None;
        }
        if let Some(reason) = state.loss(now) {
            return Duty::End(reason);
        }
        let (lease, picked_up) = (state.guards.lease(), state.phase.is_picked_up());
        let wait = |until: Moment| Duty::Wait(self.clock.timer(until.min(state.deadline.end())));
        match state.renew_at(now) {
            due if state.deadline.is_unverified() => Duty::Renew(if due.is_some() && picked_up {
                lease
            } else {
                VERIFICATION
            }),
            Some(at) if at > now => wait(at),
            Some(_) if picked_up => Duty::Renew(lease),
            Some(_) | None => wait(state.deadline.end()),
        }
    }

    /// The rest of its lease in Redis, at least.
    pub(crate) fn lease_left(&self, now: Moment) -> Duration {
        let ends = self.state.lock().deadline.lease_ends();
        ends.saturating_duration_since(now)
    }

    /// Like [`confirmed`](Hold::confirmed), for a renewal.
    pub(crate) fn renewed(&self, harness: &Hearing, sent: Moment, lease: Duration) {
        let due = self.state.lock().renew_at(sent).unwrap_or(sent);
        self.observer
            .is_renewed(sent.saturating_duration_since(due));
        self.confirmed(harness, sent, lease);
    }

    /// Redis confirmed a lease that was asked for at `sent`. Never moves the deadline back
    /// (HOLD-2).
    pub(crate) fn confirmed(&self, harness: &Hearing, sent: Moment, lease: Duration) {
        let (certain_again, at_and_until) = {
            let mut state = self.state.lock();
            let now = self.clock.now();
            // HOLD-1: if the deadline passed while the call was in flight, the hold stays lost.
            if state.loss(now).is_some() {
                return;
            }
            let certain_again = state.deadline.confirm(sent, lease);
            let is_live = state.phase.is_live();
            (
                certain_again,
                is_live.then_some((now, state.deadline.lease_ends())),
            )
        };
        if let Some(at_and_until) = at_and_until {
            self.trusted(harness, at_and_until);
        }
        if certain_again {
            self.observer.is_certain();
        }
        self.notify();
    }

    /// Another server serves the key, so the hold is uncertain until that server has confirmed it.
    /// True if the hold was certain until now: call [`report_uncertain`](Self::report_uncertain)
    /// once no lock is held.
    #[must_use]
    pub(crate) fn must_be_verified(&self) -> bool {
        self.state
            .lock()
            .deadline
            .must_be_verified(self.clock.now())
    }

    /// Somebody may have ended the hold by force, or the server may have lost it while it was out of reach. It stays
    /// as certain as it is, because nothing says that it is lost: Redis is asked at once.
    pub(crate) fn ask_again(&self, forced: Option<&Arc<ForcedRelease>>) {
        let now = self.clock.now();
        self.state.lock().deadline.ask_again(now, forced);
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

    /// True if no call sent after `change` has confirmed the hold. `change` is when another server
    /// began to serve the key; the former server may have answered calls that were sent before.
    pub(crate) fn is_older_than(&self, change: Instant) -> bool {
        self.clock.timer(self.state.lock().deadline.confirmed()) < change
    }
}
