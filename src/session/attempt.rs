//! One acquisition's calls to Redis.
//!
//! From the first byte sent, an attempt is an obligation: it becomes a hold, or its drop undoes
//! whatever it may have taken.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::{Moment, Reading};
use crate::error::Error;
use crate::protocol::calls::{AcquireArgs, HeardBy, Queueing};
use crate::protocol::kind::Kind;
use crate::protocol::lock::LISTED;
use crate::protocol::replies::{self, Acquired};
use crate::protocol::{Call, Field, Value};
use crate::session::cleanup_queue::CleanupPending;
use crate::session::core::Core;
use crate::session::deadline::{HoldIdentity, InDoubt};
use crate::session::hold::Hold;
use crate::session::poll_watch::Wait;
use crate::session::request::Request;
use crate::session::subscriptions::{Listener, Source};
use crate::session::waiter::{ConnectionEpoch, Waiter, Yield};
use crate::transport::{CallError, Epoch, Fault, Lane, rarely};

pub(super) struct Attempt<'a> {
    core: &'a Core,
    request: &'a Request,
    /// The waiter, if it may have a place in Redis.
    waiter: Option<&'a Waiter>,
    /// This acquisition's name on the wire, which no other acquisition ever uses.
    field: Arc<str>,
    /// When the last call was sent.
    asked_at: Instant,
    /// A call is on the wire.
    in_flight: Option<InDoubt>,
    /// An earlier call may have been executed, or may still be.
    doubt: Option<InDoubt>,
    /// The client hears when the lock is released, or handed over to this waiter.
    listens: bool,
    /// Who must be subscribed for that.
    heard_by: HeardBy,
    /// By the last reply, releases hand the lock over to waiters: to this one, or to others that
    /// came before.
    others_are_listed: bool,
    /// How many messages to all it lets pass, because the list was full when it came.
    messages_to_skip: Option<u32>,
    /// This acquisition may have a place in Redis.
    queued_in_redis: bool,
    /// The servers that sent messages before the last call, if that asked for a place from which a
    /// message may come.
    asked_for_place: Option<ConnectionEpoch>,
    /// Set while something may have to be undone. The drop posts the undo before it drops this
    /// marker.
    pending: Option<CleanupPending>,
}

/// Redis' reply.
pub(super) enum Answer {
    Granted(Grant),
    HeldFor(Option<Duration>),
    /// The latch is open, and there is nothing to hold.
    Open,
    /// However long the acquisition waited, it would not be granted.
    Never(Error),
}

/// A new hold, and the reading of the clock by which it was found to be live.
pub(super) struct Grant {
    pub(super) hold: Arc<Hold>,
    pub(super) clock: Reading,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(core: &'a Core, request: &'a Request) -> Self {
        let (field, heard_by) = new_field(core, request);
        Attempt {
            core,
            request,
            waiter: None,
            field,
            asked_at: request.started,
            in_flight: None,
            doubt: None,
            listens: false,
            others_are_listed: false,
            messages_to_skip: None,
            heard_by,
            queued_in_redis: false,
            asked_for_place: None,
            pending: None,
        }
    }

    /// Lets the attempt wait in Redis too, if its kind of lock can.
    pub(super) fn waiting(mut self, waiter: &'a Waiter) -> Self {
        let has_places = matches!(self.request.resource.kind, Kind::Fair | Kind::Lock);
        let waits = has_places && self.request.wait != Wait::Once;
        self.waiter = waits.then_some(waiter);
        self
    }

    /// Where the messages to this attempt come.
    pub(super) fn source(&self) -> Source {
        Source {
            channel: self.request.resource.channel_of(&self.field),
            own_field: (self.request.resource.kind == Kind::Fair).then(|| self.field.clone()),
            by: self.heard_by,
        }
    }

    /// Asks Redis once, unless a message has said that the lock was handed over.
    pub(super) async fn ask(&mut self) -> Result<Answer, CallError> {
        if let Some(handed_over) = self.take_handed_over_hold() {
            return Ok(handed_over);
        }
        let key = &self.request.resource.key;
        let before = self.core.calls.epoch_if_durable(Lane::Caller, key);
        let mut asks_again = self.waiter;
        let (sent, acquired) = loop {
            let (sent, acquired) = self.ask_once().await?;
            match asks_again.take() {
                // Ask again at once: without a place, no message would wake this waiter.
                Some(waiter) if acquired == Acquired::PlaceGone => waiter.record_lost_place(),
                _ => break (sent, acquired),
            }
        };
        self.note_list(&acquired);
        match acquired {
            Acquired::Yes(_) if self.request.resource.kind == Kind::Latch => {
                self.doubt = None;
                Ok(Answer::Open)
            }
            Acquired::Yes(token) => {
                self.make_durable(before).await?;
                self.grant(sent, token)
            }
            Acquired::HeldFor(left) | Acquired::Listed(left) | Acquired::NoRoom(left, _) => {
                Ok(self.refused(sent, left))
            }
            Acquired::PlaceGone => Ok(self.refused(sent, None)),
            Acquired::WokenByOthers => {
                self.heard_by = HeardBy::Owner;
                Ok(self.refused(sent, None))
            }
            Acquired::Never(limit) => {
                self.took_nothing();
                Ok(Answer::Never(self.request.never(limit)))
            }
        }
    }

    pub(super) fn asked_at(&self) -> Instant {
        self.asked_at
    }

    /// Sends the acquisition, and reads its reply.
    async fn ask_once(&mut self) -> Result<(Moment, Acquired), CallError> {
        let calls = &self.core.calls;
        let clock = calls.read_clock();
        let (sent, call) = (clock.moment(), self.acquire_call());
        self.asked_at = clock.instant;
        self.begin();
        let reply = if calls.life.is_closed() {
            Err(CallError::Closed)
        } else {
            // CANCEL: the attempt's drop queues an undo behind this call.
            let limit = self.request.limit(calls);
            calls.call_until(limit, call).await
        };
        self.end(&reply);
        if reply.is_err() {
            // The lost reply may have said that Redisson may wake this waiter.
            self.heard_by = HeardBy::Owner;
        }
        let reply = match self.request.resource.kind {
            Kind::Latch => reply.map_err(CallError::took_nothing),
            _ => reply,
        };
        // A reply that no script sends may stand for a grant.
        let acquired = replies::acquired(reply?).inspect_err(|_| self.mark_in_doubt())?;
        Ok((sent, acquired))
    }

    /// Another owner holds the lock, and the call that was sent at `sent` has kept a place if it
    /// asked for one.
    fn refused(&mut self, sent: Moment, left: Option<Duration>) -> Answer {
        self.record_place(sent);
        self.took_nothing();
        self.request.saw_holder(left);
        Answer::HeldFor(left)
    }

    /// The last call took nothing.
    fn took_nothing(&mut self) {
        if self.doubt.is_none() && !self.queued_in_redis {
            self.pending = None;
        }
    }

    /// A reply was not understood, so the field may be taken.
    fn mark_in_doubt(&mut self) {
        self.doubt = self.doubt.or(Some(self.first_doubt()));
    }

    fn acquire_call(&mut self) -> Call {
        let (core, request) = (self.core, self.request);
        let claim = core.calls.settings.fair_claim;
        let queueing = self.queueing(claim);
        let behind = self.behind(queueing);
        // The write hold must not pass to another owner: its release may leave this reader behind.
        let under = request
            .writes_already()
            .filter(|write| write.make_not_transferable());
        let writer = under.as_ref().map(|hold| &hold.field);
        let lease = request.terms.first_lease();
        let ask = AcquireArgs {
            field: &self.field,
            lease,
            permits: request.permits,
            limit: request.settings.limit,
            queueing,
            behind: &behind,
            claim,
            writer,
        };
        request
            .resource
            .acquire(core.calls.publish_command(&request.resource), &ask)
    }

    /// Gives up the place in a queue in Redis, so that it is gone when the caller gets the timeout.
    /// If Redis does not confirm that in time, or an earlier call may still arrive, the attempt's
    /// drop leaves the rest to the background task.
    pub(super) async fn leave(&mut self) {
        // A place in a holder's field keeps nobody waiting for long, so the drop may remove it.
        if !self.queued_in_redis || self.request.resource.kind == Kind::Lock {
            return;
        }
        let core = self.core;
        let call = core
            .calls
            .release_call(&self.request.resource, &self.field, 0);
        // CANCEL: the attempt's drop undoes the field again.
        let limit = Instant::now() + core.calls.grace();
        let left = core.calls.call_until(Some(limit), call).await.is_ok();
        if left && self.doubt.is_none() {
            self.queued_in_redis = false;
            self.pending = None;
        }
    }

    /// Called before a call about the field is sent.
    fn begin(&mut self) {
        let cleanups = &self.core.cleanups;
        self.pending.get_or_insert_with(|| cleanups.expect_one());
        self.request.observer.asks();
        self.in_flight = Some(self.first_doubt());
    }

    /// The doubt about a call that is sent now, without an earlier one.
    fn first_doubt(&self) -> InDoubt {
        let epoch = self
            .core
            .calls
            .transport
            .epoch(Lane::Caller, &self.request.resource.key);
        InDoubt {
            epoch,
            lease: self.request.terms.first_lease(),
        }
    }

    /// Called when the call has ended.
    fn end(&mut self, reply: &Result<Value, CallError>) {
        let open = self.in_flight.take();
        // A script that Redis stops half-way has already done its earlier writes.
        if let (Some(open), Err(CallError::Unknown(_) | CallError::Refused(_))) = (open, reply) {
            // The oldest doubt is the one that takes longest to settle.
            let epoch = self.doubt.map_or(open.epoch, |doubt| doubt.epoch);
            self.doubt = Some(InDoubt { epoch, ..open });
        }
    }

    /// The field is taken. There must be no await between the reply and the hold: a drop in between
    /// would undo the grant.
    fn grant(&mut self, sent: Moment, token: Option<i64>) -> Result<Answer, CallError> {
        let hold = Arc::new(self.new_hold(sent));
        let clock = self.core.calls.read_clock();
        self.queued_in_redis = false;
        if hold.is_over(clock.moment()) {
            // The process stalled for the whole lease, so the grant is worthless.
            self.give_back();
            let fault = "the grant came after its lease had ended";
            return Err(CallError::NotApplied(Fault(fault.into())));
        }
        if let Some(token) = token {
            hold.set_token(token);
        }
        if let Some(doubt) = self.doubt.take() {
            hold.set_doubt(doubt);
        }
        Ok(Answer::Granted(Grant { hold, clock }))
    }

    fn new_hold(&self, sent: Moment) -> Hold {
        let calls = &self.core.calls;
        let identity = HoldIdentity {
            resource: self.request.resource.clone(),
            field: self.field.clone(),
            client: calls.client_id,
        };
        let (id, terms) = (calls.next_id(), self.request.terms);
        Hold::new(id, identity, terms, &calls.settings.clock, sent)
    }

    /// Waits until enough servers have a copy of the grant, if the client asks for that. Otherwise
    /// gives the grant back.
    async fn make_durable(&mut self, before: Option<Epoch>) -> Result<(), CallError> {
        if before.is_none() {
            return Ok(());
        }
        // CANCEL: the attempt's drop undoes the field, which is already taken.
        self.begin();
        let key = self.request.resource.key.clone();
        let calls = &self.core.calls;
        let outcome = rarely(calls.made_durable(Lane::Caller, &key, before)).await;
        self.settle_durable(&outcome);
        outcome
    }

    /// The wait for copies, which counts as a call, is over.
    fn settle_durable(&mut self, outcome: &Result<(), CallError>) {
        self.in_flight = None;
        if outcome.is_err() {
            self.give_back();
        }
    }

    /// Undoes a worthless grant and continues with a fresh field.
    fn give_back(&mut self) {
        self.undo();
        self.queued_in_redis = false;
        (self.field, self.heard_by) = new_field(self.core, self.request);
        self.doubt = None;
    }

    /// Undoes what the field may have taken or may still take.
    fn undo(&self) {
        // Keep the older doubt, which takes longer to settle.
        let doubt = self
            .doubt
            .or(self.in_flight)
            .unwrap_or_else(|| self.first_doubt());
        self.core.undo(&self.request.resource, &self.field, doubt);
    }
}

/// A field, and who hears the messages to it.
fn new_field(core: &Core, request: &Request) -> (Field, HeardBy) {
    let calls = &core.calls;
    // Behind a proxy, the client may be subscribed on another shard than that of the lock.
    let client_may_hear = request.resource.kind == Kind::Fair
        && calls.releases_hand_over()
        && calls.transport.takes_many_keys();
    let heard_by = if client_may_hear && core.client_channel.is_heard() {
        HeardBy::Client
    } else {
        HeardBy::Owner
    };
    let (permits, lease) = (request.permits, request.terms.lease);
    let field = calls.next_field(&request.resource, permits, lease, heard_by);
    (field, heard_by)
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

// The place of an attempt in a queue in Redis, and the hold that a release makes of it.

impl Attempt<'_> {
    /// How the next call asks for a place.
    fn queueing(&mut self, claim: Duration) -> Queueing {
        let Some(waiter) = self.waiter else {
            return Queueing::Not;
        };
        if self.request.resource.kind == Kind::Lock {
            return self.list_in_holder_field(waiter);
        }
        let is_first = !self.queued_in_redis;
        self.queued_in_redis = true;
        self.asked_for_place = is_first.then(|| self.core.subscriptions.connection_epoch());
        if is_first {
            Queueing::First
        } else {
            waiter.queueing(claim, self.core.calls.now())
        }
    }

    /// The waiters behind which a lost place is.
    fn behind(&self, queueing: Queueing) -> Vec<Arc<str>> {
        let lost = self.waiter.filter(|_| queueing == Queueing::AtTheFront);
        lost.map_or_else(Vec::new, |waiter| {
            self.core.queues.ahead_of(&self.request.resource, waiter)
        })
    }

    /// Who does not listen yet has just come, and most of those find the lock free.
    fn list_in_holder_field(&mut self, waiter: &Waiter) -> Queueing {
        self.asked_for_place = None;
        let (calls, terms) = (&self.core.calls, self.request.terms);
        // A lease that is over before the waiter can ask would be in everybody's way.
        let lasts = calls.grace() <= terms.first_lease().min(calls.settings.fair_claim);
        let may_be_handed_over = self.listens && lasts && calls.releases_hand_over();
        if !may_be_handed_over || !self.core.client_channel.ensure_heard() {
            return Queueing::Not;
        }
        self.queued_in_redis = true;
        self.asked_for_place = Some(self.core.subscriptions.connection_epoch());
        Queueing::InHolderField {
            attempt: waiter.next_attempt_number(&self.field, self.core.calls.now()),
        }
    }

    /// The call was answered *not yours*, and has kept a place if it asked for one.
    fn record_place(&self, sent: Moment) {
        let Some(waiter) = self.waiter else { return };
        // While an earlier call of this attempt is in doubt, it may hold the lock itself. Then a
        // message that names its field proves nothing.
        let since = self.asked_for_place.filter(|_| self.doubt.is_none());
        if self.request.resource.kind == Kind::Lock {
            self.core.contention.note_other_client();
            waiter.record_refusal(sent, since);
        } else {
            if self.core.calls.releases_hand_over() {
                // The next waiter need not subscribe.
                self.core.client_channel.ensure_heard();
            }
            let queues = &self.core.queues;
            queues.record_place(waiter, &self.field, sent, since);
        }
    }

    /// What a reply says of the list in the holder's field of a plain lock. All that find no room
    /// would ask after each message, and most in vain. So each lets as many messages pass as there
    /// are lists of others, once. Those that come together, before any release, choose at random.
    fn note_list(&mut self, acquired: &Acquired) {
        self.others_are_listed = matches!(acquired, Acquired::Listed(_) | Acquired::NoRoom(..));
        if let Acquired::NoRoom(_, crowd) = acquired {
            let lists = crowd.clients / LISTED;
            let chosen = || match crowd.streak {
                0 => fastrand::u32(0..=lists),
                _ => lists,
            };
            self.messages_to_skip.get_or_insert_with(chosen);
        }
    }

    /// A release has published to all instead of handing the lock over to a waiter, so those that
    /// cannot be listed have a turn, or waiters that came before this one.
    pub(super) fn yields(&mut self) -> Option<Yield> {
        let rounds = self.messages_to_skip.as_mut().map_or(0, std::mem::take);
        self.others_are_listed.then(|| match rounds {
            0 => Yield::to_listening(1),
            _ => Yield::to_rounds(rounds),
        })
    }

    /// True if the waiter can listen without a call.
    pub(super) fn is_heard_by_its_client(&self) -> bool {
        self.heard_by == HeardBy::Client
    }

    pub(super) fn set_listening(&mut self, listener: Option<&Listener<'_>>) {
        self.listens = listener.is_some();
    }

    /// The hold of a handover that a message has named. The lease counts from the call that was
    /// last answered *not yours*, because the release came later (HOLD-2). `None` if there was no
    /// such message, or if only Redis can tell.
    fn take_handed_over_hold(&mut self) -> Option<Answer> {
        let (calls, terms) = (&self.core.calls, self.request.terms);
        let handover = self
            .waiter?
            .take_handover(&self.field, self.core.subscriptions.connection_epoch())?;
        let is_durable = calls.epoch_if_durable(Lane::Caller, &self.request.resource.key);
        let is_plain = terms.renewed && is_durable.is_none();
        if !is_plain || self.doubt.is_some() {
            return None;
        }
        let mut hold = self.new_hold(handover.since);
        let now = calls.now();
        hold.set_handed_over_lease(handover.lease, handover.since, now);
        // Little is left for the first renewal, which may have to be repeated.
        if hold.lease_left(now) < handover.lease / 2 {
            return None;
        }
        self.queued_in_redis = false;
        self.core.contention.note_other_client();
        let harness = &calls.settings.telemetry.harness;
        let lock = (&self.request.resource.key, &self.field);
        harness.handed_over_by_message(lock, handover.since, handover.lease);
        // The harness judges by time, and the hold comes after what it has just heard.
        let (hold, clock) = (Arc::new(hold), calls.read_clock());
        Some(Answer::Granted(Grant { hold, clock }))
    }
}
