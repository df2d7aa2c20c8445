//! How a hold ends: guards leave it, its field is released or passes on, or it is lost.

use std::time::Duration;

use tokio::time::Instant;

use super::phase::{Phase, ReleaseCall};
use super::{Heir, Hold, HoldTerms, InDoubt, Left};
use crate::error::Error;
use crate::lease::{Ended, LossReason};
use crate::session::holds::release::under_way::ReleaseUnderWay;

impl Hold {
    /// Adds a guard; the count that Redis is to reach, or nothing if the hold is over.
    pub(crate) fn join(&self, terms: HoldTerms) -> Option<u32> {
        let mut state = self.state.lock();
        let now = self.clock.now();
        if !state.phase.is_live() || state.loss(now).is_some() {
            return None;
        }
        state.guards.join(terms);
        state.deadline.join(terms, now);
        Some(state.guards.count())
    }

    /// Takes a guard away.
    pub(crate) fn leave(&self, terms: HoldTerms) -> Left {
        {
            let mut state = self.state.lock();
            state.guards.leave(terms);
            if let Some(reason) = state.loss(self.clock.now()) {
                return Left::Lost(reason);
            }
            if state.guards.count() > 0 {
                return Left::Inner;
            }
            state.phase = Phase::Leaving(ReleaseCall::NotSent);
        }
        self.ends(Ended::Released);
        Left::Last
    }

    /// The only guard leaves the field in Redis; false if the hold has other guards, is over, or may not pass to
    /// another owner.
    pub(crate) fn hand_on(&self, to: Heir) -> bool {
        {
            let mut state = self.state.lock();
            let alone = state.guards.count() == 1 && state.phase.is_live();
            if !alone
                || to == Heir::NextOwner && state.doubt.forbids_transfer()
                || state.loss(self.clock.now()).is_some()
            {
                return false;
            }
            state.phase = Phase::HandedOn;
        }
        self.ends(Ended::HandedOn);
        true
    }

    /// Ends the hold as lost; true for the first caller.
    pub(crate) fn lose(&self, reason: LossReason) -> bool {
        {
            let mut state = self.state.lock();
            if !state.phase.is_live() {
                return false;
            }
            state.phase = Phase::Lost(reason);
        }
        self.ends(Ended::Lost(reason));
        true
    }

    fn ends(&self, ended: Ended) {
        self.observer.ends(ended);
        self.changed.notify_waiters();
    }

    /// The hold is leaving: its field is under release for as long as anybody knows the hold.
    pub(in crate::session) fn set_under_way(&self, under_way: ReleaseUnderWay) {
        *self.under_way.lock() = Some(under_way);
    }

    /// The release goes on the wire; true if it did before.
    pub(crate) fn release_sent(&self) -> bool {
        let mut state = self.state.lock();
        let release = state.phase.release_mut();
        let before = release.map(|release| std::mem::replace(release, ReleaseCall::Sent));
        matches!(before, Some(ReleaseCall::Sent))
    }

    /// Called before the release counts as settled: it is given up, or found nothing.
    pub(crate) fn release_failed(&self, error: Error) {
        if let Some(release) = self.state.lock().phase.release_mut() {
            *release = ReleaseCall::Failed(Box::new(error));
        }
    }

    /// The release found nothing: the hold was lost before, and nobody knew.
    pub(crate) fn was_gone(&self) {
        self.observer.is_lost(LossReason::Gone);
    }

    /// The next hold has the field.
    pub(crate) fn passed_on(&self) {
        self.observer.passes_on();
        self.release_settled();
    }

    /// The field is released, or another hold's.
    pub(in crate::session) fn release_settled(&self) {
        let under_way = self.under_way.lock().take();
        drop(under_way);
        let failed = {
            let mut state = self.state.lock();
            state.phase.settle();
            state.phase.release().and_then(ReleaseCall::error)
        };
        self.observer.is_released(failed.as_ref());
        self.changed.notify_waiters();
    }

    /// Resolves when the field of a hold that is leaving is settled, with the outcome of its release.
    pub(crate) async fn settled(&self) -> Result<(), Error> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let state = self.state.lock();
                if !state.phase.is_leaving() {
                    let error = state.phase.release().and_then(ReleaseCall::error);
                    return error.map_or(Ok(()), Err);
                }
            }
            changed.await;
        }
    }

    /// A guard is given to its caller: the lock is not to be free for this long after the acquisition.
    pub(crate) fn unlock_not_before(&self, span: Duration) {
        let mut state = self.state.lock();
        // The call that granted this guard is the last one that was confirmed.
        let until = state.deadline.confirmed() + span;
        state.linger.at_least_until(until);
    }

    /// How long the hold is to stay in Redis if it is released now.
    pub(crate) fn lingers_for(&self) -> Option<Duration> {
        self.state.lock().linger.left(self.clock.now())
    }

    /// The instant until which the hold is to stay in Redis if it is released now.
    pub(crate) fn lingers_until(&self) -> Option<Instant> {
        self.lingers_for().map(|rest| Instant::now() + rest)
    }

    /// A call goes on the wire that leaves the hold to its expiry.
    pub(crate) fn linger_sent(&self) {
        self.state.lock().linger.set_sent();
    }

    /// The hold was left to its expiry, which a renewal on the wire may put off.
    pub(crate) fn is_left_to_expire(&self) -> bool {
        self.state.lock().linger.was_sent()
    }

    /// Somebody else has freed the lock.
    pub(crate) fn lingers_no_more(&self) {
        self.state.lock().linger.forget();
    }

    /// May the field pass to another owner of this client without asking Redis?
    pub(crate) fn can_hand_over(&self) -> bool {
        let (state, now) = (self.state.lock(), self.clock.now());
        let lease_left = state.deadline.lease_ends().saturating_duration_since(now);
        state.phase.is_leaving()
            && state.doubt.is_none()
            && !state.deadline.is_uncertain()
            && state.linger.left(now).is_none()
            && lease_left >= state.guards.lease() / 2
    }

    /// A read hold is to be taken under this write hold, whose release may then leave readers behind;
    /// false if the last guard has left: the field may be the next owner's.
    pub(crate) fn make_not_transferable(&self) -> bool {
        let mut state = self.state.lock();
        let lives = state.phase.is_live();
        if lives {
            state.doubt.forbid_transfer();
        }
        lives
    }

    pub(crate) fn with_doubt(self, doubt: Option<InDoubt>) -> Self {
        self.state.lock().doubt.set_attempt(doubt);
        self
    }

    /// A call of this hold that may still be executed.
    pub(crate) fn doubt(&self) -> Option<InDoubt> {
        self.state.lock().doubt.attempt()
    }

    /// A re-entry or the release of an inner guard goes on the wire.
    pub(crate) fn call_sent(&self) {
        self.state.lock().doubt.call_sent();
    }

    /// Its outcome is known.
    pub(crate) fn call_settled(&self) {
        self.state.lock().doubt.call_settled();
    }

    /// Its outcome is not known: the field never passes to another owner. The call that makes up for
    /// it is open instead.
    pub(crate) fn call_in_doubt(&self) {
        self.state.lock().doubt.call_in_doubt();
    }
}
