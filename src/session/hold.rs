//! One hold: a field that is ours in Redis, and what this process knows of it.
//!
//! # Invariants
//!
//! - **HOLD-1** A hold is lost once and for ever; nothing makes it held again.
//! - **HOLD-2** The local deadline is counted from before a call was sent and moves only with a reply,
//!   so it passes before Redis frees the lock. It also counts the time for which the machine was
//!   suspended (`clock.rs`).
//! - **HOLD-3** The number of guards is the number of shares. The share that takes it to zero ends the hold.
//!
//! # Parts
//!
//! [`State`] has a [`Phase`] and four plain parts: [`Deadline`], [`Guards`], [`Doubt`] and [`Linger`]. They take no
//! lock and call nobody. [`Hold`] puts a mutex around them, and observers and waiters learn of each change
//! after it is released (FOREIGN-1).
//!
//! # Locking
//!
//! `state` is taken alone and never across an await.

mod deadline;
mod doubt;
mod guards;
mod leaving;
mod linger;
mod phase;
mod renewal;
mod terms;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;

use super::holds::release::under_way::ReleaseUnderWay;
use crate::client_id::ClientId;
use crate::clock::{Clock, Moment};
use crate::lease::{Ended, HoldState, LossReason};
use crate::protocol::resource::Resource;
use crate::sync::{Mutex, Notify};
use crate::telemetry::{Holding, Telemetry};

use deadline::Deadline;
use doubt::Doubt;
use guards::Guards;
use linger::Linger;
use phase::Phase;

pub(crate) use terms::{Clocks, Description, HoldIdentity, HoldTerms, InDoubt};

#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) resource: Arc<Resource>,
    pub(crate) field: Arc<str>,
    pub(crate) client: ClientId,
    /// Orders the watchdog's table; fresh for each hold of this client.
    pub(crate) id: u64,
    /// The token of a fenced lock.
    token: OnceLock<i64>,
    clock: Clock,
    state: Mutex<State>,
    /// While the hold is leaving: nobody is given its field.
    under_way: Mutex<Option<ReleaseUnderWay>>,
    changed: Notify,
    observer: Holding,
    description: OnceLock<Description>,
    /// The field was another hold's, which was described.
    follows_described: bool,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    deadline: Deadline,
    guards: Guards,
    doubt: Doubt,
    linger: Linger,
    /// The hold's key in the watchdog's table.
    due: Option<Instant>,
}

/// Who gets a hold that its guard leaves in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heir {
    /// The hold ends with its lease.
    Nobody,
    /// A later owner takes the hold over.
    NextOwner,
}

/// What is left of a hold when a guard has left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Other guards.
    Inner,
    /// Nothing: the field is to be released.
    Last,
    /// The hold was lost before.
    Lost(LossReason),
}

/// The watchdog's next duty for a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    Renew(Duration),
    /// Nothing yet; look again then.
    Wait(Instant),
    End(LossReason),
    /// The hold is not live any more.
    None,
}

/// The lease that a renewal asks for if it is only to find out whether the hold is there: a renewal
/// shortens no lease.
pub(crate) const VERIFICATION: Duration = Duration::from_millis(1);

impl Hold {
    /// A hold that was granted by a call sent at `sent`, with one guard.
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
            phase: Phase::Live { claimed: true },
            deadline: Deadline::new(terms, sent),
            guards: Guards::new(terms),
            doubt: Doubt::none(),
            linger: Linger::default(),
            due: None,
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
            under_way: Mutex::default(),
            changed: Notify::new(),
            description: OnceLock::new(),
            follows_described: false,
        }
    }

    /// The same field for the next local owner, with what is left of its lease.
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
            state.phase = Phase::Live { claimed: false };
        }
        next
    }

    /// A hold that was handed over is picked up; true if it became due for a renewal meanwhile.
    pub(crate) fn claim(&self) -> bool {
        let mut state = self.state.lock();
        if let Phase::Live { claimed } = &mut state.phase {
            *claimed = true;
        }
        let now = self.clock.now();
        state.renew_at(now).is_some_and(|at| at <= now)
    }

    /// Observers learn of the hold from now on. Apart from `new`: a hold may be made under a lock (FOREIGN-1).
    pub(crate) fn observe(&self, telemetry: &Telemetry) {
        self.observer
            .begins(telemetry, self.resource.kind.label(), &self.resource.name);
        // It may have ended before.
        let ended = self.state.lock().phase.ended();
        if let Some(ended) = ended {
            self.observer.ends(ended);
        }
    }

    /// What is said of it in Redis.
    pub(crate) fn description(&self) -> Option<&Description> {
        self.description.get()
    }

    /// Said once, when it is granted.
    pub(super) fn describe(&self, description: Description) {
        self.description.get_or_init(|| description);
    }

    pub(super) fn follows_described(&self) -> bool {
        self.follows_described
    }

    /// The token of a fenced lock.
    pub(crate) fn token(&self) -> Option<i64> {
        self.token.get().copied()
    }

    /// Set once, when the hold is granted or taken over.
    pub(crate) fn set_token(&self, token: i64) {
        // A second one could only be the same.
        self.token.get_or_init(|| token);
    }

    pub(crate) fn is_under(&self, client: ClientId, key: &str) -> bool {
        self.client == client && *self.resource.key == *key
    }

    pub(crate) fn is_live(&self) -> bool {
        let state = self.state.lock();
        state.phase.is_live() && state.loss(self.clock.now()).is_none()
    }

    /// The hold protects nothing, nothing about it is under way, and its guards know.
    pub(crate) fn has_ended(&self) -> bool {
        self.state.lock().phase.is_over()
    }

    /// The same, or its lease has ended by now.
    pub(crate) fn is_over(&self, now: Moment) -> bool {
        let state = self.state.lock();
        state.loss(now).is_some() || state.phase.is_over()
    }

    /// Why the hold protects nothing, if so.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        self.state.lock().loss(self.clock.now())
    }

    /// The last guard left before the hold was lost.
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

    /// The instant until which the lock is certainly held. A renewal moves it on. After a suspension of the
    /// machine it is earlier, because tokio's clock did not count that time.
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

    /// A call goes on the wire that asks for a lease.
    pub(crate) fn asks_for(&self, lease: Duration) {
        self.state.lock().guards.asks_for(lease);
    }

    pub(crate) fn guards(&self) -> u32 {
        self.state.lock().guards.count()
    }

    /// Resolves when the hold has come to its end, whichever it was.
    pub(crate) async fn ended(&self) -> Ended {
        loop {
            let changed = self.changed.notified();
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
                () = tokio::time::sleep_until(end) => {}
            }
        }
    }

    /// The machine was suspended: timers that were set before are late.
    pub(crate) fn set_timers_again(&self) {
        self.changed.notify_waiters();
    }

    /// The hold's key in the watchdog's table, replaced.
    pub(crate) fn set_due(&self, due: Option<Instant>) -> Option<Instant> {
        std::mem::replace(&mut self.state.lock().due, due)
    }
}

impl State {
    fn loss(&self, now: Moment) -> Option<LossReason> {
        match self.phase {
            Phase::Lost(reason) => Some(reason),
            Phase::Live { .. } => self.deadline.passed(now),
            Phase::Leaving(_) => self
                .deadline
                .lease_has_ended(now)
                .then_some(LossReason::Expired),
            Phase::Released(_) | Phase::HandedOn => None,
        }
    }

    /// The next renewal is due then, if the hold is renewed.
    fn renew_at(&self, now: Moment) -> Option<Moment> {
        self.guards.renew_at(&self.deadline, now)
    }
}

#[cfg(test)]
mod tests;
