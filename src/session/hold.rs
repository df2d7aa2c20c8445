//! One hold: a field of this client in Redis, and what this process knows about it.
//!
//! # Invariants
//!
//! - **HOLD-1** A lost hold stays lost.
//! - **HOLD-2** The local deadline counts from the instant before a call was sent, and moves only
//!   with its reply. So it passes before Redis frees the lock. It also counts the time for which
//!   the machine was suspended (`clock.rs`).
//! - **HOLD-3** The number of guards is the number of shares. The share that brings it to zero ends
//!   the hold.
//!
//! # Parts
//!
//! [`HoldData`] has a [`Phase`] and three plain parts: [`Deadline`], [`Guards`] and [`Doubt`]. The
//! parts take no lock and call no other code. [`Hold`] puts a mutex around them,
//! and tells observers and waiters about a change after it has released the mutex (FOREIGN-1).
//!
//! # Locking
//!
//! `state` is locked alone, and never across an await.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;

use crate::client_id::ClientId;
use crate::clock::{Clock, Moment, Reading};
use crate::error::Error;
use crate::harness::Hearing;
use crate::lease::{Ended, ForcedRelease, HoldState, LossReason};
use crate::protocol::resource::Resource;
use crate::session::deadline::{
    Deadline, Description, Doubt, Guards, HoldIdentity, HoldTerms, InDoubt,
};
use crate::session::in_flight_release::InFlightRelease;
use crate::session::poll_watch::Caller;
use crate::sync::{Mutex, Notify};
use crate::telemetry::{Holding, Telemetry};
use crate::timer;

#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) resource: Arc<Resource>,
    pub(crate) field: Arc<str>,
    pub(crate) client: ClientId,
    /// Orders entries of the watchdog's table. Unique within the client.
    pub(crate) id: u64,
    /// The token of a fenced lock.
    token: OnceLock<i64>,
    clock: Clock,
    state: Mutex<HoldData>,
    observer: Holding,
    /// Boxed, because most holds have none.
    description: OnceLock<Box<Description>>,
    /// The field was handed over by a hold that had a description.
    follows_described: bool,
}

#[derive(Debug)]
struct HoldData {
    phase: Phase,
    deadline: Deadline,
    guards: Guards,
    doubt: Doubt,
    /// The hold's key in the watchdog's table.
    due: Option<Instant>,
    /// Set while the hold is leaving. Nobody else gets the field until then.
    in_flight: Option<InFlightRelease>,
    /// Who got the first guard.
    taken_by: Option<Caller>,
    /// Made when somebody waits for a change for the first time.
    changed: Option<Arc<Notify>>,
}

/// The result of dropping a guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LeaveOutcome {
    /// Other guards.
    Inner,
    /// Nothing: the field is to be released.
    Last,
    /// The hold was lost before.
    Lost(LossReason),
}

/// The watchdog's next duty for a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    Renew(Duration),
    /// Nothing is due before this instant.
    Wait(Instant),
    End(LossReason),
    /// The hold is not live any more.
    None,
}

/// The lease for a renewal that only checks whether the hold exists. It writes nothing.
pub(crate) const VERIFICATION: Duration = Duration::ZERO;

impl Hold {
    /// A hold with one guard, granted by a call that was sent at `sent`.
    pub(crate) fn new(
        id: u64,
        identity: HoldIdentity,
        terms: HoldTerms,
        clock: &Clock,
        sent: Moment,
    ) -> Self {
        let HoldIdentity {
            resource,
            field,
            client,
        } = identity;
        let state = HoldData {
            phase: Phase::Live { picked_up: true },
            deadline: Deadline::new(terms, sent),
            guards: Guards::new(terms),
            doubt: Doubt::none(),
            due: None,
            in_flight: None,
            taken_by: None,
            changed: None,
        };
        Hold {
            observer: Holding::default(),
            resource,
            field,
            client,
            id,
            token: OnceLock::new(),
            clock: clock.clone(),
            state: Mutex::new(state),
            description: OnceLock::new(),
            follows_described: false,
        }
    }

    /// A hold of the same field for the next local owner, with the rest of its lease.
    pub(crate) fn handed_over(&self, id: u64, terms: HoldTerms) -> Self {
        let (resource, field) = (self.resource.clone(), self.field.clone());
        let identity = HoldIdentity {
            resource,
            field,
            client: self.client,
        };
        let mut next = Hold::new(id, identity, terms, &self.clock, self.clock.now());
        next.follows_described = self.follows_described || self.description.get().is_some();
        {
            let (mut state, before) = (next.state.lock(), self.state.lock());
            state.deadline.take_lease_of(&before.deadline);
            state.phase = Phase::Live { picked_up: false };
        }
        next
    }

    /// No lock is held.
    fn report_deadline(&self, harness: &Hearing, at_and_until: (Moment, Moment)) {
        let lock = (&self.resource.key, &self.field);
        harness.local_deadline(lock, self.id, at_and_until);
    }

    /// The caller picks up a hold that was handed over to it. True if a renewal became due in the
    /// meantime.
    pub(crate) fn pick_up(&self) -> bool {
        let mut state = self.state.lock();
        if let Phase::Live { picked_up } = &mut state.phase {
            *picked_up = true;
        }
        let now = self.clock.now();
        state.renew_at(now).is_some_and(|at| at <= now)
    }

    /// Reports the hold to observers from now on. Separate from `new`, because a hold may be made
    /// under a lock (FOREIGN-1).
    pub(crate) fn observe(&self, telemetry: &Telemetry, now: Moment) {
        self.observer
            .begins(telemetry, self.resource.kind.label(), &self.resource.name);
        let (ended, until) = {
            let state = self.state.lock();
            (state.phase.ended(), state.deadline.lease_ends())
        };
        // The hold may have ended before.
        if ended.is_none() {
            self.report_deadline(&telemetry.harness, (now, until));
        }
        if let Some(ended) = ended {
            self.observer.ends(ended);
        }
    }

    /// What Redis says about the hold.
    pub(crate) fn description(&self) -> Option<&Description> {
        self.description.get().map(|description| &**description)
    }

    /// Set once, when the hold is granted.
    pub(super) fn describe(&self, description: Description) {
        self.description.get_or_init(|| Box::new(description));
    }

    pub(super) fn follows_described(&self) -> bool {
        self.follows_described
    }

    pub(crate) fn taken_by(&self) -> Option<Caller> {
        self.state.lock().taken_by
    }

    /// The caller gets its guard. If it already has one, nothing changes.
    pub(super) fn set_taken_by(&self, caller: Caller) {
        self.state.lock().taken_by.get_or_insert(caller);
    }

    /// The token of a fenced lock.
    pub(crate) fn token(&self) -> Option<i64> {
        self.token.get().copied()
    }

    /// Set once, when the hold is granted or taken over.
    pub(crate) fn set_token(&self, token: i64) {
        // A second token could only be the same.
        self.token.get_or_init(|| token);
    }

    pub(crate) fn is_under(&self, client: ClientId, key: &str) -> bool {
        self.client == client && *self.resource.key == *key
    }

    pub(crate) fn is_live(&self) -> bool {
        let state = self.state.lock();
        state.phase.is_live() && state.loss(self.clock.now()).is_none()
    }

    /// True if the hold protects nothing, no call about it is in flight, and its guards know that.
    pub(crate) fn has_ended(&self) -> bool {
        self.state.lock().phase.is_over()
    }

    /// Like [`has_ended`](Self::has_ended), or its lease has ended by now.
    pub(crate) fn is_over(&self, now: Moment) -> bool {
        let state = self.state.lock();
        state.loss(now).is_some() || state.phase.is_over()
    }

    /// The reason why the hold protects nothing, if so.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        self.state.lock().loss(self.clock.now())
    }

    /// True if the last guard left before the hold was lost.
    pub(crate) fn all_guards_left(&self) -> bool {
        self.state.lock().phase.all_guards_left()
    }

    pub(crate) fn look(&self) -> HoldState {
        let state = self.state.lock();
        match state.loss(self.clock.now()) {
            Some(_) => HoldState::Lost,
            None if state.deadline.is_uncertain() => HoldState::Uncertain,
            None => HoldState::Held,
        }
    }

    /// The instant until which the lock is certainly held. A renewal moves it forward. After a
    /// suspension of the machine it moves back, because tokio's clock did not count that time.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline_by(&self.read_clock())
    }

    /// The same by a reading of the clock.
    pub(crate) fn deadline_by(&self, clock: &Reading) -> Instant {
        clock.timer(self.state.lock().deadline.end())
    }

    /// The time by the clock of the hold.
    pub(crate) fn read_clock(&self) -> Reading {
        self.clock.read()
    }

    /// How long the hold may stay in Redis: the longest lease that was asked for.
    pub(crate) fn longest_lease(&self) -> Duration {
        self.state.lock().guards.longest_lease()
    }

    /// The lease that renewals ask for.
    pub(crate) fn renewal_lease(&self) -> Duration {
        self.state.lock().guards.lease()
    }

    /// A call that asks for this lease is about to be sent.
    pub(crate) fn asks_for(&self, lease: Duration) {
        self.state.lock().guards.asks_for(lease);
    }

    pub(crate) fn guards(&self) -> u32 {
        self.state.lock().guards.count()
    }

    /// Whether the watchdog lists the hold at its deadline, as the timers are set now.
    pub(crate) fn is_listed_at_deadline(&self) -> bool {
        let state = self.state.lock();
        state.due == Some(self.clock.timer(state.deadline.end()))
    }

    /// Replaces the hold's key in the watchdog's table, and returns the old one.
    pub(crate) fn set_due(&self, due: Option<Instant>) -> Option<Instant> {
        std::mem::replace(&mut self.state.lock().due, due)
    }
}

impl HoldData {
    fn loss(&self, now: Moment) -> Option<LossReason> {
        match &self.phase {
            Phase::Lost(reason) => Some(reason.clone()),
            Phase::Live { .. } => self.deadline.passed(now),
            Phase::Leaving(_) => self
                .deadline
                .lease_has_ended(now)
                .then_some(LossReason::Expired),
            Phase::Released(_) | Phase::Forgotten => None,
        }
    }

    /// When the next renewal is due, if the hold is renewed.
    fn renew_at(&self, now: Moment) -> Option<Moment> {
        self.guards.renew_at(&self.deadline, now)
    }
}

// The life of a hold, from its grant to its end.
//
// ```text
// Live ── the last guard leaves ──▶ Leaving ── released, or handed over ──▶ Released
//   │ ╲── its guard leaves it in Redis ──▶ Forgotten
//   ╰── a deadline passes, a renewal finds nothing, shutdown ──▶ Lost
// ```

#[derive(Debug)]
enum Phase {
    Live {
        /// False while a hold that was handed over is not picked up. Until then it is not renewed.
        picked_up: bool,
    },
    Lost(LossReason),
    /// The last guard left; a release or a hand-over follows.
    Leaving(ReleaseCall),
    /// The field is released, or belongs to another hold.
    Released(ReleaseCall),
    /// The guard left the field to its lease.
    Forgotten,
}

/// The release after the last guard, for callers that ask about it later.
#[derive(Debug)]
enum ReleaseCall {
    NotSent,
    Sent,
    /// The release was given up, or it found nothing.
    Failed(Box<Error>),
}

impl ReleaseCall {
    fn error(&self) -> Option<Error> {
        match self {
            ReleaseCall::Failed(error) => Some(Error::clone(error)),
            ReleaseCall::NotSent | ReleaseCall::Sent => None,
        }
    }
}

impl Phase {
    fn is_live(&self) -> bool {
        matches!(self, Phase::Live { .. })
    }

    fn is_picked_up(&self) -> bool {
        !matches!(self, Phase::Live { picked_up: false })
    }

    fn is_leaving(&self) -> bool {
        matches!(self, Phase::Leaving(_))
    }

    fn all_guards_left(&self) -> bool {
        matches!(self, Phase::Leaving(_) | Phase::Released(_))
    }

    /// True if nothing about the hold is in flight any more.
    fn is_over(&self) -> bool {
        !matches!(self, Phase::Live { .. } | Phase::Leaving(_))
    }

    /// How the hold ended, from its guards' point of view.
    fn ended(&self) -> Option<Ended> {
        match self {
            Phase::Live { .. } => None,
            Phase::Lost(reason) => Some(Ended::Lost(reason.clone())),
            Phase::Leaving(_) | Phase::Released(_) => Some(Ended::Released),
            Phase::Forgotten => Some(Ended::Forgotten),
        }
    }

    /// The release after the last guard, if there is one.
    fn release(&self) -> Option<&ReleaseCall> {
        match self {
            Phase::Leaving(release) | Phase::Released(release) => Some(release),
            Phase::Live { .. } | Phase::Lost(_) | Phase::Forgotten => None,
        }
    }

    fn release_mut(&mut self) -> Option<&mut ReleaseCall> {
        match self {
            Phase::Leaving(release) | Phase::Released(release) => Some(release),
            Phase::Live { .. } | Phase::Lost(_) | Phase::Forgotten => None,
        }
    }

    /// The release is settled. Has no effect in other phases.
    fn settle(&mut self) {
        if let Phase::Leaving(release) = self {
            *self = Phase::Released(std::mem::replace(release, ReleaseCall::NotSent));
        }
    }
}

// How a hold ends: its guards leave, its field is released or passed on, or the hold is lost.

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
    pub(crate) fn leave(&self, terms: HoldTerms) -> LeaveOutcome {
        {
            let mut state = self.state.lock();
            state.guards.leave(terms);
            if let Some(reason) = state.loss(self.clock.now()) {
                return LeaveOutcome::Lost(reason);
            }
            if state.guards.count() > 0 {
                return LeaveOutcome::Inner;
            }
            state.phase = Phase::Leaving(ReleaseCall::NotSent);
        }
        self.ends(Ended::Released);
        LeaveOutcome::Last
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
    pub(super) fn set_in_flight(&self, in_flight: InFlightRelease) {
        let before = self.state.lock().in_flight.replace(in_flight);
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
    pub(crate) fn record_gone(&self) -> LossReason {
        let reason = self.state.lock().deadline.gone();
        self.observer.on_lost(&reason);
        reason
    }

    /// The next hold owns the field now.
    pub(crate) fn passed_on(&self) {
        self.observer.passes_on();
        self.release_settled();
    }

    /// The field is released, or belongs to another hold.
    pub(super) fn release_settled(&self) {
        let in_flight = self.state.lock().in_flight.take();
        drop(in_flight);
        let failed = {
            let mut state = self.state.lock();
            state.phase.settle();
            state.phase.release().and_then(ReleaseCall::error)
        };
        self.observer.on_released(failed.as_ref());
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

    /// An earlier call for the field of this hold may still be executed.
    pub(crate) fn set_doubt(&self, doubt: InDoubt) {
        self.state.lock().doubt.set_attempt(doubt);
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

// What the watchdog does with a hold.

impl Hold {
    /// A message said that a release has granted it for this long, which began no earlier than
    /// `since`.
    pub(crate) fn set_handed_over_lease(&mut self, lease: Duration, since: Moment, now: Moment) {
        self.state
            .get_mut()
            .deadline
            .set_handed_over_lease(lease, since, now);
    }

    /// The watchdog's next duty for this hold.
    pub(crate) fn duty(&self, clock: &Reading) -> Duty {
        let now = clock.moment();
        let state = self.state.lock();
        if !state.phase.is_live() {
            return Duty::None;
        }
        if let Some(reason) = state.loss(now) {
            return Duty::End(reason);
        }
        let (lease, picked_up) = (state.guards.lease(), state.phase.is_picked_up());
        let wait = |until: Moment| Duty::Wait(clock.timer(until.min(state.deadline.end())));
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
            .on_renewed(sent.saturating_duration_since(due));
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
            self.report_deadline(harness, at_and_until);
        }
        if certain_again {
            self.observer.on_certain();
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

    /// Somebody may have ended the hold by force, or the server may have lost it while it was out
    /// of reach. It stays as certain as it is, because nothing says that it is lost: Redis is asked
    /// at once.
    pub(crate) fn ask_again(&self, forced: Option<&Arc<ForcedRelease>>) {
        let now = self.clock.now();
        self.state.lock().deadline.ask_again(now, forced);
    }

    pub(crate) fn report_uncertain(&self) {
        self.observer.on_uncertain();
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

// Waits for changes of a hold.

impl Hold {
    /// Resolves when the hold has ended, however it ended.
    pub(crate) async fn ended(&self) -> Ended {
        loop {
            let changed = self.changed();
            let changed = changed.notified();
            tokio::pin!(changed);
            // Check, listen, check again: a change between the check and the await is not missed.
            changed.as_mut().enable();
            let end = {
                let state = self.state.lock();
                if let Some(ended) = state.phase.ended() {
                    return ended;
                }
                if let Some(reason) = state.loss(self.clock.now()) {
                    return Ended::Lost(reason);
                }
                self.clock.timer(state.deadline.end())
            };
            tokio::select! {
                biased;
                () = changed => {}
                () = timer::sleep_until(end) => {}
            }
        }
    }

    /// The machine was suspended, so timers set before would fire late.
    pub(crate) fn set_timers_again(&self) {
        self.notify();
    }

    /// Notified when the hold has changed. Get it before looking at the state: a change that comes
    /// after the look then finds it, and notifies it.
    fn changed(&self) -> Arc<Notify> {
        self.state.lock().changed.get_or_insert_default().clone()
    }

    /// Wakes all that wait for a change.
    fn notify(&self) {
        let changed = self.state.lock().changed.clone();
        if let Some(changed) = changed {
            changed.notify_waiters();
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
