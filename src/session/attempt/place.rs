//! The place of an attempt in a queue in Redis, and the hold that a release makes of it.

use std::sync::Arc;
use std::time::Duration;

use super::Attempt;
use crate::protocol::calls::Queueing;
use crate::session::hold::Hold;
use crate::transport::Lane;

impl Attempt<'_> {
    /// How the next call asks for a place.
    pub(super) fn queueing(&mut self, claim: Duration) -> Queueing {
        let Some(waiter) = self.waiter else {
            return Queueing::Not;
        };
        let is_first = !self.queued_in_redis;
        self.queued_in_redis = true;
        self.first_asked = is_first.then(|| self.holds.subscriptions.changes());
        if is_first {
            Queueing::First
        } else {
            waiter.queueing(claim, self.holds.calls.now())
        }
    }

    /// The hold that a message has told of. The lease counts from the call that was last answered *not yours*, because
    /// the server granted the lock later (HOLD-2). `None` if there was no such message, or if only Redis can tell.
    pub(in crate::session) fn told(&mut self) -> Option<Arc<Hold>> {
        let (calls, terms) = (&self.holds.calls, self.request.terms);
        let told = self
            .waiter?
            .take_grant(self.holds.subscriptions.changes())?;
        let is_durable = calls.epoch_if_durable(Lane::Caller, &self.request.resource.key);
        let is_plain = terms.renewed && terms.unlock_not_before.is_none() && is_durable.is_none();
        if !is_plain || self.doubt.is_some() {
            return None;
        }
        let mut hold = self.new_hold(told.since);
        hold.is_granted_for(told.lease, told.since, calls.now());
        if hold.loss().is_some() {
            return None;
        }
        self.queued_in_redis = false;
        let history = &calls.settings.telemetry.history;
        let name = (&self.request.resource.key, &self.field);
        history.told_of_grant(name, (told.since, told.lease));
        Some(Arc::new(hold))
    }
}
