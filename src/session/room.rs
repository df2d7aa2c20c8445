//! The local queue of one lock in one client, and the hand-over to the next in it.
//!
//! All waiters of a name in this process stand here; only the front talks to Redis. When a hold
//! ends, the next waiter gets it directly for a bounded streak; then it is released for everybody.
//!
//! # Invariants
//!
//! - **R1** A room is in the map while it has a tenant, or keeps a pause in favour of other clients.
//! - **R2** There is one front or one holder, never both: whoever stops being one of them gives the
//!   room to the next waiter or closes it.
//! - **R3** A waiter in the queue is told of its turn once; what it is told may be an obligation
//!   (a tenancy), which its seat pays when it is dropped.
//!
//! # Locking
//!
//! One shard of the map at a time, then a hold's state, the watchdog's table or one waiter's `turn`.
//! No turn is dropped while a shard is locked (a tenancy in it would come back here); waking a task
//! under the lock only schedules it.
//!
//! # Bounds
//!
//! Rooms: names held or waited for. Waiters: futures inside `acquire`.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Release};
use std::time::Duration;

use dashmap::DashMap;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::hold::{Hold, Terms};
use super::place::Place;
use super::tenancy::Tenancy;
use crate::mutant::{Mutant, Mutants};

/// How long a client lets others go first: a few round trips.
pub(crate) const REST: Duration = Duration::from_millis(1);
/// How long subscribers that did not take their turn are taken for idle ones (a client keeps the
/// subscription of a hot name for a while after its last waiter), at first and at most: they may
/// just have been slow, so it doubles each time they leave their turn.
const IDLE_FIRST: Duration = Duration::from_millis(4);
const IDLE_MAX: Duration = Duration::from_millis(100);

/// How long one client may keep a lock among its own waiters before others get their turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Streak {
    /// Hand-overs in a row; zero switches them off.
    pub(crate) count: u32,
    pub(crate) time: Duration,
}

/// What a waiter is told.
pub(crate) enum Turn {
    /// Others are ahead.
    Wait,
    /// It is the front: ask Redis, after letting other clients go first.
    Front(Option<Rest>),
    /// The front may turn the field of the hold before into its own, in one call.
    TakeOver(Arc<Hold>),
    /// The lock is its own, handed over without a call.
    Granted(Tenancy),
    /// Its owner holds the lock already.
    Reenter,
}

/// One waiting future, as the room knows it.
pub(crate) struct Waiter {
    owner: u64,
    terms: Terms,
    turn: Mutex<Turn>,
    /// Something may have changed in Redis.
    woken: AtomicBool,
    notify: Notify,
}

/// The rooms of one client.
pub(crate) struct Rooms {
    map: DashMap<Arc<str>, Room>,
    streak: Streak,
    mutants: Mutants,
}

struct Room {
    place: Arc<Place>,
    tenant: Tenant,
    queue: VecDeque<Arc<Waiter>>,
    streak: u32,
    streak_since: Instant,
    /// Subscribers elsewhere that were told of the last release.
    told: i64,
    idle: Option<Idle>,
}

/// Subscribers elsewhere that did not take their turn when they were let first.
#[derive(Clone, Copy, Debug)]
struct Idle {
    told: i64,
    /// They are not waited for until then.
    until: Instant,
    span: Duration,
}

impl Idle {
    fn after(before: Option<Idle>, told: i64) -> Self {
        let span = before.map_or(IDLE_FIRST, |idle| (idle.span * 2).min(IDLE_MAX));
        Idle { told, until: Instant::now() + span, span }
    }
}

enum Tenant {
    /// This waiter asks Redis for all.
    Front(Arc<Waiter>),
    /// This hold is ours; its id, and whether it is being released.
    Holder { id: u64, leaving: bool },
    /// Between two tenants; whoever comes first shall let other clients go first until `rest`.
    Nobody { rest: Option<Rest> },
}

/// Politeness after a turn of this client, so that the turn goes round among all that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    /// Do not ask before that.
    pub(crate) until: Instant,
    /// Clients that were told of the release; each of them shall have a turn before ours.
    pub(crate) others: i64,
}

impl Rest {
    fn for_others(others: i64) -> Option<Self> {
        (others > 0).then(|| Rest { until: Instant::now() + super::jittered(REST), others })
    }
}

/// Did the front let others go first, and did they?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rested {
    Not,
    InVain,
    ForOthers,
}

/// What happens to a room when its hold is given up.
pub(crate) enum Departure {
    /// The next waiter has it.
    HandedOver,
    /// Release it in Redis, then call [`Rooms::vacate`].
    Release,
}

impl Waiter {
    pub(crate) fn new(owner: u64, terms: Terms) -> Arc<Self> {
        let turn = Mutex::new(Turn::Wait);
        Arc::new(Waiter {
            owner,
            terms,
            turn,
            woken: AtomicBool::new(false),
            notify: Notify::new(),
        })
    }

    /// Tells the waiter to ask again. Coalesces.
    pub(crate) fn wake(&self) {
        self.woken.store(true, Release);
        self.notify.notify_one();
    }

    /// Forgets wakes that came before the call that is about to be sent: it will see for itself.
    pub(crate) fn forget_wakes(&self) {
        self.woken.store(false, Release);
    }

    /// Resolves when the waiter was woken or told something.
    pub(crate) async fn changed(&self) {
        self.notify.notified().await;
    }

    /// True once for each wake.
    pub(crate) fn take_wake(&self) -> bool {
        self.woken.swap(false, AcqRel)
    }

    /// What it was told since it last asked.
    pub(crate) fn take_turn(&self) -> Turn {
        std::mem::replace(&mut *self.turn.lock(), Turn::Wait)
    }

    fn tell(&self, turn: Turn) {
        *self.turn.lock() = turn;
        self.notify.notify_one();
    }
}

impl Rooms {
    pub(crate) fn new(streak: Streak, mutants: Mutants) -> Self {
        Rooms { map: DashMap::new(), streak, mutants }
    }

    /// Joins the room of a place; the first becomes its front.
    pub(crate) fn enter(&self, place: &Arc<Place>, waiter: &Arc<Waiter>) {
        let mut room = self.map.entry(place.key.clone()).or_insert_with(|| Room {
            place: place.clone(),
            tenant: Tenant::Nobody { rest: None },
            queue: VecDeque::new(),
            streak: 0,
            streak_since: Instant::now(),
            told: 0,
            idle: None,
        });
        room.queue.push_back(waiter.clone());
        if let Tenant::Nobody { rest } = room.tenant {
            room.promote(rest.filter(|rest| rest.until > Instant::now()));
        }
    }

    pub(crate) fn is_occupied(&self, place: &Place) -> bool {
        self.map.get(&place.key).is_some_and(|room| !matches!(room.tenant, Tenant::Nobody { .. }))
    }

    /// A waiter goes away without the lock: from the queue, or from the front.
    pub(crate) fn leave(&self, place: &Place, waiter: &Arc<Waiter>) {
        self.settle(place, |room| {
            if matches!(&room.tenant, Tenant::Front(front) if Arc::ptr_eq(front, waiter)) {
                return room.promote(None);
            }
            room.queue.retain(|queued| !Arc::ptr_eq(queued, waiter));
            Next::Same
        });
    }

    /// The front got the lock from Redis; at once, if nobody was there before it.
    pub(crate) fn granted(&self, place: &Place, front: &Arc<Waiter>, hold: &Hold, rested: Rested) {
        self.settle(place, |room| {
            if matches!(&room.tenant, Tenant::Front(waiter) if Arc::ptr_eq(waiter, front)) {
                room.tenant = Tenant::Holder { id: hold.id, leaving: false };
                (room.streak, room.streak_since) = (0, Instant::now());
                match rested {
                    Rested::InVain => room.idle = Some(Idle::after(room.idle, room.told)),
                    Rested::ForOthers => room.idle = None,
                    Rested::Not => {}
                }
            }
            room.call_in(hold.owner)
        });
    }

    /// An owner got the lock beside the room: its other futures re-enter.
    pub(crate) fn granted_aside(&self, place: &Place, owner: u64) {
        self.settle(place, |room| room.call_in(owner));
    }

    /// The last guard of a hold went: hand the hold over, or say that it must be released.
    ///
    /// `pass` makes the next tenancy; it is called with the shard locked and must not come back.
    pub(crate) fn depart(
        &self,
        hold: &Arc<Hold>,
        terms: Terms,
        pass: impl FnOnce(u64, Terms) -> Tenancy,
    ) -> Departure {
        let Some(mut room) = self.map.get_mut(&hold.place.key) else { return Departure::Release };
        let room = &mut *room;
        if !matches!(room.tenant, Tenant::Holder { id, .. } if id == hold.id) {
            return Departure::Release;
        }
        let bounded = !self.mutants.has(Mutant::HandOverUnbounded)
            && (room.streak >= self.streak.count
                || room.streak_since.elapsed() >= self.streak.time);
        // Waiters elsewhere were told how long the lock is held; a shorter lease would end behind
        // their backs.
        let next = match room.queue.front() {
            Some(next) if !bounded && hold.is_clear() && next.terms.lease >= hold.lease() => {
                room.queue.pop_front()
            }
            _ => None,
        };
        let Some(next) = next else {
            room.tenant = Tenant::Holder { id: hold.id, leaving: true };
            return Departure::Release;
        };
        room.streak += 1;
        if terms.renewed && next.terms.renewed {
            let tenancy = pass(next.owner, next.terms);
            room.tenant = Tenant::Holder { id: tenancy.hold().id, leaving: false };
            let owner = next.owner;
            next.tell(Turn::Granted(tenancy));
            let Next::Tell(told) = room.call_in(owner) else { return Departure::HandedOver };
            for waiter in told {
                waiter.tell(Turn::Reenter);
            }
        } else {
            room.tenant = Tenant::Front(next.clone());
            next.tell(Turn::TakeOver(hold.clone()));
        }
        Departure::HandedOver
    }

    /// A hold is gone, released or lost: the next waiter asks Redis.
    ///
    /// Other clients that were told of it get a moment to ask first.
    pub(crate) fn vacate(&self, hold: &Hold, told: i64) {
        self.settle(&hold.place, |room| match room.tenant {
            Tenant::Holder { id, .. } if id == hold.id => {
                let now = Instant::now();
                let idle = room.idle.filter(|idle| now < idle.until).map_or(0, |idle| idle.told);
                room.told = told;
                room.promote(Rest::for_others(if told > idle { told } else { 0 }))
            }
            _ => Next::Same,
        });
    }

    /// Every waiter of every room, for a reconnect and for shutdown.
    pub(crate) fn wake_all(&self) {
        for room in &self.map {
            if let Tenant::Front(front) = &room.tenant {
                front.wake();
            }
            room.queue.iter().for_each(|waiter| waiter.wake());
        }
    }

    /// Wakes the front of a room, or says which hold of ours is in the way.
    pub(crate) fn nudge(&self, key: &str) -> Option<u64> {
        let room = self.map.get(key)?;
        if let Tenant::Front(front) = &room.tenant {
            front.wake();
        }
        room.holder()
    }

    /// The hold of this client that is the tenant of a room and is not being released.
    pub(crate) fn holder(&self, key: &str) -> Option<u64> {
        self.map.get(key)?.holder()
    }

    /// Removes rooms that only kept a pause.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        self.map.retain(|_, room| !room.is_over(now));
    }

    /// The keys somebody waits for, for the safety poll.
    pub(crate) fn waited_for(&self) -> Vec<Arc<str>> {
        let waits = |room: &Room| match &room.tenant {
            Tenant::Front(_) => true,
            Tenant::Holder { .. } => room.holder().is_some() && !room.queue.is_empty(),
            Tenant::Nobody { .. } => false,
        };
        let waited = self.map.iter().filter(|room| waits(room));
        let mut keys: Vec<_> = waited.map(|room| room.place.key.clone()).collect();
        keys.sort();
        keys
    }

    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    pub(crate) fn waiting(&self) -> usize {
        let waiters =
            |room: &Room| room.queue.len() + usize::from(matches!(room.tenant, Tenant::Front(_)));
        self.map.iter().map(|room| waiters(&room)).sum()
    }

    /// Changes a room under its lock; whoever is told something is told after it.
    fn settle(&self, place: &Place, change: impl FnOnce(&mut Room) -> Next) {
        let next = match self.map.get_mut(&place.key) {
            Some(mut room) => change(&mut room),
            None => return,
        };
        match next {
            Next::Same => {}
            Next::Tell(waiters) => waiters.iter().for_each(|waiter| waiter.tell(Turn::Reenter)),
            Next::Empty => self.close(place),
        }
    }

    /// Removes a room without a tenant, unless it keeps a pause (R1).
    fn close(&self, place: &Place) {
        let now = Instant::now();
        self.map.remove_if(&place.key, |_, room| room.is_over(now));
    }
}

enum Next {
    Same,
    Tell(Vec<Arc<Waiter>>),
    Empty,
}

impl Room {
    /// Makes the next waiter the front.
    fn promote(&mut self, rest: Option<Rest>) -> Next {
        if let Some(next) = self.queue.pop_front() {
            next.tell(Turn::Front(rest));
            self.tenant = Tenant::Front(next);
            Next::Same
        } else {
            self.tenant = Tenant::Nobody { rest };
            Next::Empty
        }
    }

    /// Nobody is in it, and nothing is worth remembering.
    fn is_over(&self, now: Instant) -> bool {
        let rests = |rest: Option<Rest>| rest.is_some_and(|rest| now < rest.until);
        let remembers = self.idle.is_some_and(|idle| now < idle.until + IDLE_MAX);
        let empty = matches!(self.tenant, Tenant::Nobody { rest } if !rests(rest));
        empty && !remembers && self.queue.is_empty()
    }

    fn holder(&self) -> Option<u64> {
        match self.tenant {
            Tenant::Holder { id, leaving: false } => Some(id),
            Tenant::Holder { .. } | Tenant::Front(_) | Tenant::Nobody { .. } => None,
        }
    }

    /// Waiters of an owner that holds the lock now leave the queue: they re-enter.
    fn call_in(&mut self, owner: u64) -> Next {
        let mut told = Vec::new();
        if let Tenant::Front(front) = &self.tenant
            && front.owner == owner
        {
            told.push(front.clone());
        }
        if self.queue.iter().any(|waiter| waiter.owner == owner) {
            let (same, others) = self.queue.drain(..).partition(|waiter| waiter.owner == owner);
            self.queue = others;
            told.extend::<VecDeque<_>>(same);
        }
        if told.is_empty() { Next::Same } else { Next::Tell(told) }
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiter").field("owner", &self.owner).finish_non_exhaustive()
    }
}

impl fmt::Debug for Rooms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rooms").field("rooms", &self.map.len()).finish_non_exhaustive()
    }
}
