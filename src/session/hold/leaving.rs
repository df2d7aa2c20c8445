//! How a hold ends: its guards leave, its field is released or passed on, or the hold is lost.

use super::phase::{Phase, ReleaseCall};
use super::{Hold, HoldTerms, InDoubt, Left};
use crate::error::Error;
use crate::harness::Hearing;
use crate::lease::{Ended, LossReason};
use crate::session::holds::release::under_way::ReleaseUnderWay;

impl Hold {
    /// Adds a guard. Returns the count to set in Redis, or `None` if the hold is over.
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

    /// Removes a guard.
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

    /// The only guard leaves the field in Redis. False if the hold has other guards or is over.
    pub(crate) fn forget(&self, harness: &Hearing) -> bool {
        {
            let mut state = self.state.lock();
            let alone = state.guards.count() == 1 && state.phase.is_live();
            if !alone || state.loss(self.clock.now()).is_some() {
                return false;
            }
            state.phase = Phase::Forgotten;
        }
        harness.handed_on((&self.resource.key, &self.field));
        self.ends(Ended::Forgotten);
        true
    }

    /// Marks the hold as lost. True for the first caller only.
    pub(crate) fn lose(&self, mut reason: LossReason) -> bool {
        {
            let mut state = self.state.lock();
            if !state.phase.is_live() {
                return false;
            }
            if reason == LossReason::Gone {
                reason = state.deadline.gone();
            }
            state.phase = Phase::Lost(reason.clone());
        }
        self.ends(Ended::Lost(reason));
        true
    }

    fn ends(&self, ended: Ended) {
        self.observer.ends(ended);
        self.notify();
    }

    /// Marks the field as being released for as long as this hold is known to anybody.
    pub(in crate::session) fn set_under_way(&self, under_way: ReleaseUnderWay) {
        let before = self.state.lock().under_way.replace(under_way);
        drop(before);
    }

    /// Called before the release is sent. True if it was sent before.
    pub(crate) fn release_sent(&self) -> bool {
        let mut state = self.state.lock();
        let release = state.phase.release_mut();
        let before = release.map(|release| std::mem::replace(release, ReleaseCall::Sent));
        matches!(before, Some(ReleaseCall::Sent))
    }

    /// Records why the release was given up or found nothing. Call this before the release counts
    /// as settled, because waiters read the error then.
    pub(crate) fn release_failed(&self, error: Error) {
        if let Some(release) = self.state.lock().phase.release_mut() {
            *release = ReleaseCall::Failed(Box::new(error));
        }
    }

    /// The release found nothing: the hold had been lost before without this client knowing.
    pub(crate) fn was_gone(&self) -> LossReason {
        let reason = self.state.lock().deadline.gone();
        self.observer.is_lost(&reason);
        reason
    }

    /// The next hold owns the field now.
    pub(crate) fn passed_on(&self) {
        self.observer.passes_on();
        self.release_settled();
    }

    /// The field is released, or belongs to another hold.
    pub(in crate::session) fn release_settled(&self) {
        let under_way = self.state.lock().under_way.take();
        drop(under_way);
        let failed = {
            let mut state = self.state.lock();
            state.phase.settle();
            state.phase.release().and_then(ReleaseCall::error)
        };
        self.observer.is_released(failed.as_ref());
        self.notify();
    }

    /// Waits until the field of a leaving hold is settled. Returns the outcome of its release.
    pub(crate) async fn settled(&self) -> Result<(), Error> {
        loop {
            let changed = self.changed();
            let changed = changed.notified();
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

    /// True if the field may pass to another owner of this client without a call to Redis.
    pub(crate) fn can_hand_over(&self) -> bool {
        let (state, now) = (self.state.lock(), self.clock.now());
        let lease_left = state.deadline.lease_ends().saturating_duration_since(now);
        state.phase.is_leaving()
            && state.doubt.is_none()
            && !state.deadline.is_uncertain()
            && (lease_left >= state.guards.lease() / 2
                || state.deadline.first_renewal().is_some_and(|due| now < due))
    }

    /// A read hold is about to be taken under this write hold, whose release may then leave readers
    /// behind. False if the last guard has left: the field may already belong to the next owner.
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

    /// A call for the field of this hold that Redis may still execute.
    pub(crate) fn doubt(&self) -> Option<InDoubt> {
        self.state.lock().doubt.attempt()
    }

    /// A re-entry or the release of an inner guard is about to be sent.
    pub(crate) fn call_sent(&self) {
        self.state.lock().doubt.call_sent();
    }

    /// The outcome of that call is known.
    pub(crate) fn call_settled(&self) {
        self.state.lock().doubt.call_settled();
    }

    /// The outcome of that call is unknown, so the field never passes to another owner in memory.
    /// The call that repairs the count counts as open instead.
    pub(crate) fn call_in_doubt(&self) {
        self.state.lock().doubt.call_in_doubt();
    }
}
