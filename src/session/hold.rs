//! One hold: a field that is ours in Redis, and what this process knows of it.
//!
//! # Invariants
//!
//! - **H1** A hold is lost once and for ever; nothing makes it held again.
//! - **H2** The local deadline is counted from before a call was sent and moves only with a reply,
//!   so it passes before Redis frees the lock. It also counts the time for which the machine was
//!   suspended (`clock.rs`).
//! - **H3** `guards` is the number of shares. The share that takes it to zero ends the hold.
//!
//! # Locking
//!
//! `state` is taken alone and never across an await. What is told of the hold is told without it (F1).

mod terms;

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::release::under_way::ReleaseUnderWay;
use crate::clock::{Clock, Moment};
use crate::error::Error;
use crate::lease::{Ended, HoldState, LossReason};
use crate::protocol::resource::Resource;
use crate::sync::{Mutex, Notify};
use crate::telemetry::{Holding, Telemetry};

pub(crate) use terms::{Clocks, Description, HoldIdentity, HoldTerms, InDoubt};

#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) resource: Arc<Resource>,
    pub(crate) field: Arc<str>,
    pub(crate) client: Uuid,
    /// Orders the watchdog's table; fresh for each hold of this client.
    pub(crate) id: u64,
    /// The token of a fenced lock.
    token: OnceLock<i64>,
    clock: Clock,
    state: Mutex<State>,
    /// While it is leaving: nobody is given its field.
    under_way: Mutex<Option<ReleaseUnderWay>>,
    changed: Notify,
    told: Holding,
    description: OnceLock<Description>,
    /// A call was sent that leaves it to its expiry: nobody is given the field.
    lingers: AtomicBool,
    /// The field was another hold's, which was described.
    follows_described: bool,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    uncertain: bool,
    /// Another server serves the key since then, and has not confirmed the hold yet.
    unverified: Option<Moment>,
    deadline: Moment,
    /// When the last call was sent of which is known that it found the field or took it.
    confirmed: Moment,
    clocks: Clocks,
    guards: u32,
    /// Guards whose lease the watchdog renews.
    renewed: u32,
    /// The longest lease that a renewed guard asked for, since there was one.
    lease: Duration,
    first_lease: FirstLease,
    /// A release before this leaves the hold in Redis until then.
    unlock_not_before: Option<Moment>,
    /// The longest lease that was ever asked for.
    longest: Duration,
    ends_at: Option<Moment>,
    /// Re-entries and partial releases on the wire, or about to be sent.
    open_calls: u32,
    /// An attempt for this field that may still be executed.
    doubt: Option<InDoubt>,
    passing: Passing,
    /// Handed over, and not picked up yet: it is not renewed until then.
    unclaimed: bool,
    release: Release,
    /// The hold's key in the watchdog's table.
    due: Option<Instant>,
}

/// To whom the field may pass; it only becomes stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Passing {
    Free,
    /// To no other owner of this client without a call: a later call about the field had no answer.
    NotHere,
    /// To nobody: a read hold was taken under this write hold.
    Never,
}

/// The lease that a hold began with, beside those of its renewals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstLease {
    Usual,
    /// Renewals do not wait until it is nearly over, as they find losses.
    Longer,
}

impl FirstLease {
    fn of(terms: HoldTerms, lease: Duration) -> Self {
        if terms.first_lease() > lease { FirstLease::Longer } else { FirstLease::Usual }
    }
}

/// The release of the last guard, for a caller that asks later.
#[derive(Debug)]
enum Release {
    NotSent,
    Sent,
    /// It was given up, or found nothing.
    Failed(Box<Error>),
}

impl Release {
    fn error(&self) -> Option<Error> {
        match self {
            Release::Failed(error) => Some(Error::clone(error)),
            Release::NotSent | Release::Sent => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Live,
    Lost(LossReason),
    /// The last guard went; a release or a hand-over follows.
    Leaving,
    /// It was released, or another hold has its field.
    Released,
    /// Its guard left it to its lease, or to a later owner that takes it over.
    HandedOn,
}

impl Phase {
    /// Nothing of it is under way any more.
    fn is_over(self) -> bool {
        !matches!(self, Phase::Live | Phase::Leaving)
    }

    /// How it ended for its guards.
    fn ended(self) -> Option<Ended> {
        match self {
            Phase::Live => None,
            Phase::Lost(reason) => Some(Ended::Lost(reason)),
            Phase::Leaving | Phase::Released => Some(Ended::Released),
            Phase::HandedOn => Some(Ended::HandedOn),
        }
    }
}

/// Who has a hold that its guard leaves as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heir {
    /// It ends with its lease.
    Nobody,
    /// A later owner takes it over.
    NextOwner,
}

/// What the departure of a guard means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Others of this hold remain, so many.
    Inner(u32),
    /// It was the last: release the field.
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
    /// Not live any more.
    None,
}

/// The lease that a renewal asks for which is only to find out whether the hold is there: a renewal
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
        let HoldIdentity { resource, field, client } = identity;
        let state = State {
            phase: Phase::Live,
            uncertain: false,
            unverified: None,
            deadline: terms.clocks.local_deadline(sent, terms.first_lease()),
            confirmed: sent,
            clocks: terms.clocks,
            guards: 1,
            renewed: terms.renewed.into(),
            lease: terms.lease,
            first_lease: FirstLease::of(terms, terms.lease),
            unlock_not_before: None,
            longest: terms.first_lease(),
            ends_at: terms.max_hold.map(|span| sent + span),
            open_calls: 0,
            doubt: None,
            passing: Passing::Free,
            unclaimed: false,
            release: Release::NotSent,
            due: None,
        };
        Hold {
            told: Holding::default(),
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
            lingers: AtomicBool::new(false),
            follows_described: false,
        }
    }

    /// The same field for the next local owner, with what is left of its lease.
    pub(crate) fn handed_over(&self, id: u64, terms: HoldTerms) -> Self {
        let (resource, field) = (self.resource.clone(), self.field.clone());
        let identity = HoldIdentity { resource, field, client: self.client };
        let mut next = Hold::new(id, identity, terms, &self.clock, self.clock.now());
        next.follows_described = self.follows_described || self.description.get().is_some();
        {
            let (mut state, before) = (next.state.lock(), self.state.lock());
            (state.deadline, state.confirmed) = (before.deadline, before.confirmed);
            state.unclaimed = true;
        }
        next
    }

    /// Tells of the hold from now on. Apart from `new`: a hold may be made under a lock (F1).
    pub(crate) fn is_told_to(&self, telemetry: &Telemetry) {
        self.told.begins(telemetry, self.resource.kind.label(), &self.resource.name);
        // It may have ended before.
        let ended = self.state.lock().phase.ended();
        if let Some(ended) = ended {
            self.told.ends(ended);
        }
    }

    /// Its field is the next hold's.
    pub(crate) fn has_passed_on(&self) {
        self.told.passes_on();
        self.has_ended();
    }

    /// A hold that was handed over is picked up; true if it was due for a renewal meanwhile.
    pub(crate) fn claim(&self) -> bool {
        let mut state = self.state.lock();
        state.unclaimed = false;
        let now = self.clock.now();
        state.renew_at(now).is_some_and(|at| at <= now)
    }

    pub(crate) fn with_doubt(self, doubt: Option<InDoubt>) -> Self {
        self.state.lock().doubt = doubt;
        self
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

    /// A read hold is to be taken under this write hold, whose release may then leave readers behind;
    /// false if its last guard went: the next owner's field is the same.
    pub(crate) fn stays_with_its_owner(&self) -> bool {
        let mut state = self.state.lock();
        let lives = state.phase == Phase::Live;
        if lives {
            state.passing = Passing::Never;
        }
        lives
    }

    /// A call of this hold that may still be executed.
    pub(crate) fn doubt(&self) -> Option<InDoubt> {
        self.state.lock().doubt
    }

    pub(crate) fn is_under(&self, client: Uuid, key: &str) -> bool {
        self.client == client && *self.resource.key == *key
    }

    pub(crate) fn is_live(&self) -> bool {
        self.loss().is_none() && self.state.lock().phase == Phase::Live
    }

    /// It protects nothing, nothing about it is under way, and it was told so.
    pub(crate) fn was_ended(&self) -> bool {
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

    pub(crate) fn look(&self) -> HoldState {
        let state = self.state.lock();
        match state.loss(self.clock.now()) {
            Some(_) => HoldState::Lost,
            None if state.uncertain => HoldState::Uncertain,
            None => HoldState::Held,
        }
    }

    /// The instant until which the lock is certainly held. It moves on with a renewal, and back when the
    /// machine was suspended.
    pub(crate) fn deadline(&self) -> Instant {
        self.clock.timer(self.state.lock().end())
    }

    /// How long it may stay in Redis: the longest lease that was asked for.
    pub(crate) fn longest_lease(&self) -> Duration {
        self.state.lock().longest
    }

    /// The lease that renewals ask for.
    pub(crate) fn renewal_lease(&self) -> Duration {
        self.state.lock().lease
    }

    /// A call goes on the wire that asks for a lease.
    pub(crate) fn asks_for(&self, lease: Duration) {
        let mut state = self.state.lock();
        state.longest = state.longest.max(lease);
    }

    pub(crate) fn guards(&self) -> u32 {
        self.state.lock().guards
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
                self.clock.timer(state.end())
            };
            tokio::select! {
                biased;
                () = changed => {}
                () = tokio::time::sleep_until(end) => {}
            }
        }
    }

    /// Adds a guard; the count that Redis shall reach, or nothing if the hold is over.
    pub(crate) fn join(&self, terms: HoldTerms) -> Option<u32> {
        let mut state = self.state.lock();
        let now = self.clock.now();
        if state.phase != Phase::Live || state.loss(now).is_some() {
            return None;
        }
        state.guards += 1;
        state.clocks = state.clocks.max(terms.clocks);
        if terms.renewed {
            // The hold goes on for the outer guards, too.
            let outer = if state.renewed > 0 { state.lease } else { Duration::ZERO };
            state.lease = terms.lease.max(outer);
            if FirstLease::of(terms, state.lease) == FirstLease::Longer {
                state.first_lease = FirstLease::Longer;
            }
            state.renewed += 1;
        }
        if let Some(span) = terms.max_hold {
            let ends_at = now + span;
            state.ends_at = Some(state.ends_at.map_or(ends_at, |end| end.min(ends_at)));
        }
        Some(state.guards)
    }

    /// Takes a guard away.
    pub(crate) fn leave(&self, terms: HoldTerms) -> Left {
        {
            let mut state = self.state.lock();
            state.guards -= 1;
            state.renewed -= u32::from(terms.renewed);
            if let Some(reason) = state.loss(self.clock.now()) {
                return Left::Lost(reason);
            }
            if state.guards > 0 {
                return Left::Inner(state.guards);
            }
            state.phase = Phase::Leaving;
        }
        self.told.ends(Ended::Released);
        self.changed.notify_waiters();
        Left::Last
    }

    /// A guard is given to its caller, whose lock is not to be free for so long after the acquisition.
    pub(crate) fn unlock_not_before(&self, span: Duration) {
        let mut state = self.state.lock();
        // The call that granted this guard is the last one that was confirmed.
        let until = state.confirmed + span;
        state.unlock_not_before = state.unlock_not_before.max(Some(until));
    }

    /// How long it is to stay in Redis when it is released now.
    pub(crate) fn lingers_for(&self) -> Option<Duration> {
        let state = self.state.lock();
        let left = state.unlock_not_before?.saturating_duration_since(self.clock.now());
        // In whole milliseconds, and not less.
        (!left.is_zero()).then(|| left + Duration::from_millis(1))
    }

    /// Until when it is to stay in Redis when it is released now.
    pub(crate) fn lingers_until(&self) -> Option<Instant> {
        self.lingers_for().map(|rest| Instant::now() + rest)
    }

    /// A call goes on the wire that leaves it to its expiry.
    pub(crate) fn begins_to_linger(&self) {
        self.lingers.store(true, SeqCst);
    }

    /// It was left to its expiry, which a renewal on its way may put off.
    pub(crate) fn was_left_to_linger(&self) -> bool {
        self.lingers.load(SeqCst)
    }

    /// Somebody else has freed it.
    pub(crate) fn lingers_no_more(&self) {
        self.state.lock().unlock_not_before = None;
    }

    /// Its only guard goes, and it stays; false if it has other guards, is over, or may not pass to another owner.
    pub(crate) fn hand_on(&self, to: Heir) -> bool {
        {
            let mut state = self.state.lock();
            let alone = state.guards == 1 && state.phase == Phase::Live;
            if !alone
                || to == Heir::NextOwner && state.passing == Passing::Never
                || state.loss(self.clock.now()).is_some()
            {
                return false;
            }
            state.phase = Phase::HandedOn;
        }
        self.told.ends(Ended::HandedOn);
        self.changed.notify_waiters();
        true
    }

    /// It is leaving: its field is under release for as long as the hold is known to anybody.
    pub(super) fn leaves(&self, under_way: ReleaseUnderWay) {
        *self.under_way.lock() = Some(under_way);
    }

    /// Its field is released, or another hold's.
    pub(super) fn has_ended(&self) {
        let under_way = self.under_way.lock().take();
        drop(under_way);
        let failed = {
            let mut state = self.state.lock();
            if state.phase == Phase::Leaving {
                state.phase = Phase::Released;
            }
            state.release.error()
        };
        self.told.is_released(failed.as_ref());
        self.changed.notify_waiters();
    }

    /// Its release goes on the wire; true if it did before.
    pub(crate) fn release_sent(&self) -> bool {
        let before = std::mem::replace(&mut self.state.lock().release, Release::Sent);
        matches!(before, Release::Sent)
    }

    /// Called before it counts as settled: its release is given up, or found nothing.
    pub(crate) fn release_failed(&self, error: Error) {
        self.state.lock().release = Release::Failed(Box::new(error));
    }

    /// Resolves when the field of a hold that is leaving is settled, with what became of its release.
    pub(crate) async fn settled(&self) -> Result<(), Error> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let state = self.state.lock();
                if state.phase != Phase::Leaving {
                    return state.release.error().map_or(Ok(()), Err);
                }
            }
            changed.await;
        }
    }

    /// Its last guard went, and it was not lost before.
    pub(crate) fn was_left(&self) -> bool {
        matches!(self.state.lock().phase, Phase::Leaving | Phase::Released)
    }

    /// A re-entry or a partial release goes on the wire.
    pub(crate) fn call_sent(&self) {
        self.state.lock().open_calls += 1;
    }

    /// Its outcome is known.
    pub(crate) fn call_settled(&self) {
        self.state.lock().open_calls -= 1;
    }

    /// Its outcome is not known: the field never passes to another owner. The call that makes up for
    /// it is open instead.
    pub(crate) fn call_in_doubt(&self) {
        let mut state = self.state.lock();
        state.passing = state.passing.max(Passing::NotHere);
    }

    /// As [`confirmed`](Hold::confirmed), by a renewal.
    pub(crate) fn renewed(&self, sent: Moment, lease: Duration) {
        let due = self.state.lock().renew_at(sent).unwrap_or(sent);
        self.told.is_renewed(sent.saturating_duration_since(due));
        self.confirmed(sent, lease);
    }

    /// Redis confirmed a lease asked for at `sent`. Never moves the deadline back (H2).
    pub(crate) fn confirmed(&self, sent: Moment, lease: Duration) {
        let mut state = self.state.lock();
        // H1: a hold whose deadline passed meanwhile stays lost.
        if state.loss(self.clock.now()).is_some() {
            return;
        }
        state.deadline = state.deadline.max(state.clocks.local_deadline(sent, lease));
        state.confirmed = state.confirmed.max(sent);
        // A call that was sent before may have been answered by the server before.
        let verified = state.unverified.is_none_or(|since| sent >= since);
        if verified {
            state.unverified = None;
        }
        let certain_again = verified && std::mem::take(&mut state.uncertain);
        drop(state);
        if certain_again {
            self.told.is_certain();
        }
        self.changed.notify_waiters();
    }

    /// Another server serves the key: uncertain until it has confirmed the hold. True if it was certain until
    /// now: [`is_told_uncertain`](Self::is_told_uncertain) tells that when nothing is locked.
    #[must_use]
    pub(crate) fn must_be_verified(&self) -> bool {
        let mut state = self.state.lock();
        state.unverified = Some(self.clock.now());
        !std::mem::replace(&mut state.uncertain, true)
    }

    pub(crate) fn is_told_uncertain(&self) {
        self.told.is_uncertain();
    }

    /// A server that serves the key since `change` has not been heard of the hold. A call that was sent before
    /// may have been answered by the server before.
    pub(crate) fn is_older_than(&self, change: Instant) -> bool {
        self.clock.timer(self.state.lock().confirmed) < change
    }

    pub(crate) fn is_unverified(&self) -> bool {
        self.state.lock().unverified.is_some()
    }

    pub(crate) fn mark_uncertain(&self) {
        let before = std::mem::replace(&mut self.state.lock().uncertain, true);
        if !before {
            self.told.is_uncertain();
        }
    }

    /// Its release found nothing: it was lost before, and nobody knew.
    pub(crate) fn was_gone(&self) {
        self.told.is_lost(LossReason::Gone);
    }

    /// Ends the hold as lost; true for the first who says so.
    pub(crate) fn lose(&self, reason: LossReason) -> bool {
        {
            let mut state = self.state.lock();
            if state.phase != Phase::Live {
                return false;
            }
            state.phase = Phase::Lost(reason);
        }
        self.told.ends(Ended::Lost(reason));
        self.changed.notify_waiters();
        true
    }

    /// The machine was suspended: timers that were set before are late.
    pub(crate) fn set_timers_again(&self) {
        self.changed.notify_waiters();
    }

    /// What the watchdog has to do now.
    pub(crate) fn duty(&self) -> Duty {
        let now = self.clock.now();
        let state = self.state.lock();
        if state.phase != Phase::Live {
            return Duty::None;
        }
        if let Some(reason) = state.loss(now) {
            return Duty::End(reason);
        }
        let is_renewed = state.renewed > 0 && !state.unclaimed;
        match state.renew_at(now) {
            _ if state.unverified.is_some() => {
                Duty::Renew(if is_renewed { state.lease } else { VERIFICATION })
            }
            Some(at) if at > now => Duty::Wait(self.clock.timer(at.min(state.end()))),
            Some(_) if !state.unclaimed => Duty::Renew(state.lease),
            Some(_) | None => Duty::Wait(self.clock.timer(state.end())),
        }
    }

    /// May the field pass to another owner of this client without asking Redis?
    pub(crate) fn is_clear(&self) -> bool {
        let state = self.state.lock();
        state.open_calls == 0
            && state.doubt.is_none()
            && state.passing == Passing::Free
            && !state.uncertain
            && state.unlock_not_before.is_none_or(|until| until <= self.clock.now())
            && state.phase == Phase::Leaving
            && state.deadline.saturating_duration_since(self.clock.now()) >= state.lease / 2
    }

    /// The hold's key in the watchdog's table, replaced.
    pub(crate) fn set_due(&self, due: Option<Instant>) -> Option<Instant> {
        std::mem::replace(&mut self.state.lock().due, due)
    }
}

impl State {
    /// When it is to be renewed, if it is.
    fn renew_at(&self, now: Moment) -> Option<Moment> {
        let before_its_end = self.deadline.checked_sub(self.lease / 3 * 2).unwrap_or(now);
        let due = match self.first_lease {
            FirstLease::Usual => before_its_end,
            FirstLease::Longer => before_its_end.min(self.confirmed + self.lease / 3),
        };
        (self.renewed > 0).then_some(due)
    }

    fn end(&self) -> Moment {
        self.ends_at.map_or(self.deadline, |ends_at| ends_at.min(self.deadline))
    }

    fn loss(&self, now: Moment) -> Option<LossReason> {
        match self.phase {
            Phase::Lost(reason) => Some(reason),
            Phase::Live | Phase::Leaving if now >= self.deadline => Some(LossReason::Expired),
            Phase::Live if self.ends_at.is_some_and(|end| now >= end) => Some(LossReason::MaxHold),
            Phase::Live | Phase::Leaving | Phase::Released | Phase::HandedOn => None,
        }
    }
}

#[cfg(test)]
mod tests;
