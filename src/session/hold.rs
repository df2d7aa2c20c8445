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
//! [`State`] has a [`Phase`] and three plain parts: [`Deadline`], [`Guards`] and [`Doubt`]. The
//! parts take no lock and call no other code. [`Hold`] puts a mutex around them,
//! and tells observers and waiters about a change after it has released the mutex (FOREIGN-1).
//!
//! # Locking
//!
//! `state` is locked alone, and never across an await.

mod changes;
mod deadline;
mod doubt;
mod guards;
mod leaving;
mod phase;
mod renewal;
mod terms;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;

use super::caller::Caller;
use super::holds::release::under_way::ReleaseUnderWay;
use crate::client_id::ClientId;
use crate::clock::{Clock, Moment};
use crate::harness::Hearing;
use crate::lease::{HoldState, LossReason};
use crate::protocol::resource::Resource;
use crate::sync::{Mutex, Notify};
use crate::telemetry::{Holding, Telemetry};

use deadline::Deadline;
use doubt::Doubt;
use guards::Guards;
use phase::Phase;

pub(crate) use terms::{Clocks, Description, HoldIdentity, HoldTerms, InDoubt};

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
    state: Mutex<State>,
    observer: Holding,
    /// Boxed, because most holds have none.
    description: OnceLock<Box<Description>>,
    /// The field was handed over by a hold that had a description.
    follows_described: bool,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    deadline: Deadline,
    guards: Guards,
    doubt: Doubt,
    /// The hold's key in the watchdog's table.
    due: Option<Instant>,
    /// Set while the hold is leaving. Nobody else is given the field until then.
    under_way: Option<ReleaseUnderWay>,
    /// Who got the first guard.
    taken_by: Option<Caller>,
    /// Made when somebody waits for a change for the first time.
    changed: Option<Arc<Notify>>,
}

/// The result of dropping a guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Left {
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
        let state = State {
            phase: Phase::Live { picked_up: true },
            deadline: Deadline::new(terms, sent),
            guards: Guards::new(terms),
            doubt: Doubt::none(),
            due: None,
            under_way: None,
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
    fn trusted(&self, harness: &Hearing, at_and_until: (Moment, Moment)) {
        let lock = (&self.resource.key, &self.field);
        harness.trusted(lock, self.id, at_and_until);
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
    pub(crate) fn observe(&self, telemetry: &Telemetry) {
        self.observer
            .begins(telemetry, self.resource.kind.label(), &self.resource.name);
        let (ended, until, now) = {
            let state = self.state.lock();
            (
                state.phase.ended(),
                state.deadline.lease_ends(),
                self.clock.now(),
            )
        };
        // The hold may have ended before.
        if ended.is_none() {
            self.trusted(&telemetry.harness, (now, until));
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
        self.clock.timer(self.state.lock().deadline.end())
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

impl State {
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

#[cfg(test)]
mod tests;
