//! One acquisition's talk with Redis: an obligation from the first byte sent.
//!
//! An attempt becomes a hold, or whatever it may have taken is undone when it is dropped.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::hold::{Hold, HoldIdentity, InDoubt};
use super::holds::Holds;
use super::holds::release::cleanup::CleanupPending;
use super::local_queue::Waiter;
use super::request::Request;
use super::wait::Wait;
use crate::clock::Moment;
use crate::protocol::calls::{AcquireArgs, Queueing};
use crate::protocol::kind::Kind;
use crate::protocol::replies::{self, Acquired, TakenOver};
use crate::protocol::{Call, Unexpected, Value};
use crate::transport::{CallError, Epoch, Fault, Lane};

pub(super) struct Attempt<'a> {
    holds: &'a Holds,
    request: &'a Request,
    /// The waiter, if this kind of lock has a queue in Redis.
    waiter: Option<&'a Waiter>,
    /// Our name on the wire; never used by another acquisition.
    field: Arc<str>,
    /// A call is on the wire.
    in_flight: Option<InDoubt>,
    /// An earlier call may be applied, or may yet be.
    doubt: Option<InDoubt>,
    /// We may have a place in a queue in Redis.
    queued_in_redis: bool,
    /// Something may have to be undone, which our drop posts before this goes.
    pending: Option<CleanupPending>,
}

/// What Redis said.
pub(super) enum Answer {
    Granted(Arc<Hold>),
    HeldFor(Option<Duration>),
    /// The latch is open: there is nothing to hold.
    Open,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(holds: &'a Holds, request: &'a Request) -> Self {
        let field = holds.calls.next_field(&request.resource, request.permits);
        Attempt {
            holds,
            request,
            waiter: None,
            field,
            in_flight: None,
            doubt: None,
            queued_in_redis: false,
            pending: None,
        }
    }

    /// Waits in Redis too, where the kind of lock does that.
    pub(super) fn waiting(mut self, waiter: &'a Waiter) -> Self {
        let waits = self.request.resource.kind == Kind::Fair && self.request.wait != Wait::Once;
        self.waiter = waits.then_some(waiter);
        self
    }

    /// An earlier call may have been granted.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.doubt.is_some()
    }

    /// The channel of the message that it waits for.
    pub(super) fn channel(&self) -> Arc<str> {
        self.request.resource.channel_of(&self.field)
    }

    /// Asks Redis once, until `limit` at most.
    pub(super) async fn ask(&mut self, limit: Option<Instant>) -> Result<Answer, CallError> {
        let key = self.request.resource.key.clone();
        let before = self.holds.calls.epoch_if_durable(Lane::Caller, &key);
        let call = self.acquire_call();
        let (sent, reply) = self.send(call, limit).await;
        let reply = match self.request.resource.kind {
            Kind::Latch => reply.map_err(CallError::took_nothing),
            _ => reply,
        };
        match self.understood(reply, replies::acquired)? {
            Acquired::Yes(_) if self.request.resource.kind == Kind::Latch => {
                self.doubt = None;
                Ok(Answer::Open)
            }
            Acquired::Yes(token) => {
                self.make_durable(before).await?;
                self.grant(sent, token).map(Answer::Granted)
            }
            Acquired::HeldFor(left) => {
                if let Some(waiter) = self.waiter {
                    let kept = self.holds.calls.settings.clock.timer(sent);
                    self.holds.queues.has_place(waiter, &self.field, kept);
                }
                if self.doubt.is_none() && !self.queued_in_redis {
                    self.pending = None;
                }
                self.request.met(left);
                Ok(Answer::HeldFor(left))
            }
        }
    }

    /// Turns the field of a hold that was handed on into ours; `None` if it is not there.
    pub(super) async fn take_over_from(
        &mut self,
        from: &Arc<str>,
    ) -> Result<Option<Arc<Hold>>, CallError> {
        let (resource, lease) = (&self.request.resource, self.request.terms.first_lease());
        let call = resource.take_over(from, &self.field, lease);
        let (sent, reply) = self.send(call, None).await;
        match self.understood(reply, replies::taken_over)? {
            TakenOver::Held(token) => {
                self.holds.note_release(resource, from, lease);
                self.grant(sent, token).map(Some)
            }
            TakenOver::Gone => Ok(None),
        }
    }

    /// What a reply means. A reply that no script gives may mean a grant.
    fn understood<T>(
        &mut self,
        reply: Result<Value, CallError>,
        read: impl FnOnce(Value) -> Result<T, Unexpected>,
    ) -> Result<T, CallError> {
        read(reply?).map_err(|unexpected| {
            self.is_not_understood();
            unexpected.into()
        })
    }

    /// The reply was not understood: the field may be ours.
    pub(super) fn is_not_understood(&mut self) {
        self.doubt = self.doubt.or(Some(self.first_doubt()));
    }

    pub(super) fn acquire_call(&mut self) -> Call {
        let (holds, request) = (self.holds, self.request);
        let claim = holds.calls.settings.fair_claim;
        let queueing = self
            .waiter
            .map_or(Queueing::Not, |waiter| waiter.queueing(claim));
        self.queued_in_redis |= queueing != Queueing::Not;
        // Its release must know that it may leave a reader behind.
        let under = request
            .writes_already()
            .filter(|write| write.make_not_transferable());
        let writer = under.as_ref().map(|hold| &hold.field);
        let lease = request.terms.first_lease();
        let ask = AcquireArgs {
            field: &self.field,
            lease,
            queueing,
            claim,
            writer,
        };
        request
            .resource
            .acquire(holds.calls.publish_command(&request.resource), &ask)
    }

    /// Gives up a place in a queue, so that it is gone when the caller gets its time-out. If that is not
    /// confirmed in time, or an earlier call may yet come, our drop leaves it to the background.
    pub(super) async fn leave(&mut self) {
        if !self.queued_in_redis {
            return;
        }
        let holds = self.holds;
        let call = holds
            .calls
            .release_call(&self.request.resource, &self.field, 0);
        // CANCEL: our drop undoes the field again.
        let limit = Instant::now() + holds.calls.grace();
        let left = holds.calls.call_until(Some(limit), call).await.is_ok();
        if left && self.doubt.is_none() {
            self.queued_in_redis = false;
            self.pending = None;
        }
    }

    async fn send(
        &mut self,
        call: Call,
        limit: Option<Instant>,
    ) -> (Moment, Result<Value, CallError>) {
        let sent = self.holds.calls.settings.clock.now();
        self.begin();
        let reply = if self.holds.calls.life.is_closed() {
            Err(CallError::Closed)
        } else {
            // CANCEL: our drop queues an undo behind this call.
            self.holds.calls.call_until(limit, call).await
        };
        self.end(&reply);
        (sent, reply)
    }

    /// A call about our field goes on the wire.
    pub(super) fn begin(&mut self) {
        let cleanups = &self.holds.cleanups;
        self.pending.get_or_insert_with(|| cleanups.expect_one());
        self.request.told.asks();
        self.in_flight = Some(self.first_doubt());
    }

    /// As if a call about our field were sent now, and none before.
    fn first_doubt(&self) -> InDoubt {
        let epoch = self
            .holds
            .calls
            .transport
            .epoch(Lane::Caller, &self.request.resource.key);
        InDoubt {
            epoch,
            lease: self.request.terms.first_lease(),
        }
    }

    /// It came to an end.
    pub(super) fn end(&mut self, reply: &Result<Value, CallError>) {
        let open = self.in_flight.take();
        // A script that was refused in its middle has done its earlier writes.
        if let (Some(open), Err(CallError::Unknown(_) | CallError::Refused(_))) = (open, reply) {
            // The oldest doubt is the one that takes longest to settle.
            let epoch = self.doubt.map_or(open.epoch, |doubt| doubt.epoch);
            self.doubt = Some(InDoubt { epoch, ..open });
        }
    }

    /// The field is ours: no await from the reply to the hold.
    pub(super) fn grant(
        &mut self,
        sent: Moment,
        token: Option<i64>,
    ) -> Result<Arc<Hold>, CallError> {
        let holds = self.holds;
        let identity = HoldIdentity {
            resource: self.request.resource.clone(),
            field: self.field.clone(),
            client: holds.calls.client_id,
        };
        let (id, terms) = (holds.calls.next_id(), self.request.terms);
        let hold = Hold::new(id, identity, terms, &holds.calls.settings.clock, sent);
        self.queued_in_redis = false;
        if hold.loss().is_some() {
            // The process stalled for the whole lease: the grant is worth nothing any more.
            self.give_back();
            let fault = "the grant came after its lease had ended";
            return Err(CallError::NotApplied(Fault(fault.into())));
        }
        if let Some(token) = token {
            hold.set_token(token);
        }
        Ok(Arc::new(hold.with_doubt(self.doubt.take())))
    }

    /// Waits for the copies of the grant that the client wants. Without them it is given back.
    async fn make_durable(&mut self, before: Option<Epoch>) -> Result<(), CallError> {
        if before.is_none() {
            return Ok(());
        }
        // CANCEL: our drop undoes the field, which is ours already.
        self.begin();
        let key = self.request.resource.key.clone();
        let outcome = self
            .holds
            .calls
            .made_durable(Lane::Caller, &key, before)
            .await;
        self.settle_durable(&outcome);
        outcome
    }

    /// The wait for copies, which began as a call, is over.
    pub(super) fn settle_durable(&mut self, outcome: &Result<(), CallError>) {
        self.in_flight = None;
        if outcome.is_err() {
            self.give_back();
        }
    }

    /// A grant that counts for nothing. What follows has another field.
    fn give_back(&mut self) {
        self.undo();
        self.queued_in_redis = false;
        self.field = self
            .holds
            .calls
            .next_field(&self.request.resource, self.request.permits);
        self.doubt = None;
    }

    /// Ends what our field may have taken, or may take yet.
    fn undo(&self) {
        // The older doubt is the one that takes longer to settle.
        let doubt = self
            .doubt
            .or(self.in_flight)
            .unwrap_or_else(|| self.first_doubt());
        self.holds.undo(&self.request.resource, &self.field, doubt);
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let may_stand = self.in_flight.is_some() || self.doubt.is_some() || self.queued_in_redis;
        // A latch takes nothing.
        if may_stand && self.request.resource.kind != Kind::Latch {
            self.undo();
        }
    }
}
