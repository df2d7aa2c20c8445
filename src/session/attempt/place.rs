//! The place of an attempt in a queue in Redis, and the hold that a release makes of it.

use std::sync::Arc;
use std::time::Duration;

use super::Attempt;
use crate::clock::Moment;
use crate::protocol::calls::{HeardBy, Queueing};
use crate::protocol::kind::Kind;
use crate::protocol::lock::LISTED;
use crate::protocol::replies::Acquired;
use crate::session::hold::Hold;
use crate::session::local_queue::{Waiter, Yield};
use crate::session::subscriptions::Listener;
use crate::transport::Lane;

impl Attempt<'_> {
    /// How the next call asks for a place.
    pub(super) fn queueing(&mut self, claim: Duration) -> Queueing {
        let Some(waiter) = self.waiter else {
            return Queueing::Not;
        };
        if self.request.resource.kind == Kind::Lock {
            return self.beside(waiter);
        }
        let is_first = !self.queued_in_redis;
        self.queued_in_redis = true;
        self.asked_for_place = is_first.then(|| self.holds.subscriptions.changes());
        if is_first {
            Queueing::First
        } else {
            waiter.queueing(claim, self.holds.calls.now())
        }
    }

    /// The waiters behind which a lost place is.
    pub(super) fn behind(&self, queueing: Queueing) -> Vec<Arc<str>> {
        let lost = self.waiter.filter(|_| queueing == Queueing::AtTheFront);
        lost.map_or_else(Vec::new, |waiter| {
            self.holds.queues.ahead_of(&self.request.resource, waiter)
        })
    }

    /// Who does not listen yet has just come, and most of those find the lock free.
    fn beside(&mut self, waiter: &Waiter) -> Queueing {
        self.asked_for_place = None;
        let (calls, terms) = (&self.holds.calls, self.request.terms);
        // A lease that is over before the waiter can ask would be in everybody's way.
        let lasts = calls.grace() <= terms.first_lease().min(calls.settings.fair_claim);
        let may_be_given = self.listens && lasts && calls.gives_locks();
        if !may_be_given || !self.holds.client_channel.is_heard_or_wanted() {
            return Queueing::Not;
        }
        self.queued_in_redis = true;
        self.asked_for_place = Some(self.holds.subscriptions.changes());
        Queueing::Beside(waiter.asks_beside(&self.field, self.holds.calls.now()))
    }

    /// The call was answered *not yours*, and has kept a place if it asked for one.
    pub(super) fn has_place(&self, sent: Moment) {
        let Some(waiter) = self.waiter else { return };
        let since = self.asked_for_place.filter(|_| self.doubt.is_none());
        if self.request.resource.kind == Kind::Lock {
            self.holds.contention.was_met();
            waiter.is_beside(sent, since);
        } else {
            if self.holds.calls.gives_locks() {
                // The next waiter need not subscribe.
                self.holds.client_channel.is_heard_or_wanted();
            }
            let queues = &self.holds.queues;
            queues.has_place(waiter, &self.field, sent, since);
        }
    }

    /// What a reply says of the list beside a plain lock. All that find no room would ask after each message, and most in
    /// vain. So each lets as many messages pass as there are lists of others, once. Those that come together, before any
    /// release, choose at random.
    pub(super) fn reads_list(&mut self, acquired: &Acquired) {
        self.beside_a_list = matches!(acquired, Acquired::Listed(_) | Acquired::NoRoom(..));
        if let Acquired::NoRoom(_, crowd) = acquired {
            let lists = crowd.clients / LISTED;
            let chosen = || match crowd.streak {
                0 => fastrand::u32(0..=lists),
                _ => lists,
            };
            self.lets_pass.get_or_insert_with(chosen);
        }
    }

    /// A release has told all instead of giving the lock to a waiter, so those that cannot be listed have a turn, or waiters
    /// that came before this one.
    pub(in crate::session) fn yields(&mut self) -> Option<Yield> {
        let rounds = self.lets_pass.as_mut().map_or(0, std::mem::take);
        self.beside_a_list.then(|| match rounds {
            0 => Yield::to_listening(1),
            _ => Yield::to_rounds(rounds),
        })
    }

    /// True if the waiter can listen without a call.
    pub(in crate::session) fn is_heard_by_its_client(&self) -> bool {
        self.heard_by == HeardBy::Client
    }

    pub(in crate::session) fn listens_by(&mut self, listener: Option<&Listener<'_>>) {
        self.listens = listener.is_some();
    }

    /// The hold that a message has told of. The lease counts from the call that was last answered *not yours*, because
    /// the server granted the lock later (HOLD-2). `None` if there was no such message, or if only Redis can tell.
    pub(in crate::session) fn told(&mut self) -> Option<Arc<Hold>> {
        let (calls, terms) = (&self.holds.calls, self.request.terms);
        let told = self
            .waiter?
            .take_grant(&self.field, self.holds.subscriptions.changes())?;
        let is_durable = calls.epoch_if_durable(Lane::Caller, &self.request.resource.key);
        let is_plain = terms.renewed && is_durable.is_none();
        if !is_plain || self.doubt.is_some() {
            return None;
        }
        let mut hold = self.new_hold(told.since);
        let now = calls.now();
        hold.is_granted_for(told.lease, told.since, now);
        // Little is left for the first renewal, which may have to be repeated.
        if hold.lease_left(now) < told.lease / 2 {
            return None;
        }
        self.queued_in_redis = false;
        self.holds.contention.was_met();
        let harness = &calls.settings.telemetry.harness;
        let lock = (&self.request.resource.key, &self.field);
        harness.granted_by_message(lock, told.since, told.lease);
        Some(Arc::new(hold))
    }
}
