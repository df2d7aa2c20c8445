//! The local queue of one lock in one client, and the hand-over to the next in it.
//!
//! All waiters of a name in this process stand here; only the front talks to Redis. When a hold
//! ends, the next waiter gets it directly for a bounded streak; then it is released for everybody.
//!
//! Where several may hold at once, the front is followed by the next one as soon as it was granted.
//! Where Redis keeps the queue, nobody waits here: all stand in the open.
//!
//! # Invariants
//!
//! - **R1** A room is in the map while it has a tenant or waiters in the open, or keeps a pause in
//!   favour of other clients, or remembers that it met some.
//! - **R2** There is one front or one holder, never both: whoever stops being one of them gives the
//!   room to the next waiter or closes it.
//! - **R3** A waiter in the queue is told of its turn once; what it is told may be an obligation
//!   (a tenancy), which its seat pays when it is dropped.
//!
//! # Locking
//!
//! One shard of the map at a time, then a hold's state, the watchdog's table or one waiter's `turn`.
//! No turn is dropped while a shard is locked (a tenancy in it would come back here), and nobody is
//! woken: a waker is code of others, which may drop its future at once and come back here as well.
//!
//! # Bounds
//!
//! Rooms: names held or waited for. Waiters: futures inside `acquire`.

mod rest;
mod state;
mod waiter;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use tokio::time::Instant;

use super::hold::{Hold, Terms};
use super::tenancy::Tenancy;
use crate::protocol::kind::{HandOver, Line};
use crate::protocol::place::Place;

use rest::Idle;
pub(crate) use rest::{REST, Rest, Rested};
use state::{Next, Room, Tenant};
pub(crate) use waiter::{Turn, Waiter};

/// How long one client may keep a lock among its own waiters before others get their turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Streak {
    /// Hand-overs in a row; zero switches them off.
    pub(crate) count: u32,
    pub(crate) time: Duration,
}

/// Waiters that stand in a queue in Redis, each with its field.
pub(crate) type InLine = Vec<(Arc<str>, Arc<Waiter>)>;

/// The rooms of one client.
pub(crate) struct Rooms {
    map: DashMap<Arc<str>, Room>,
    streak: Streak,
}

/// What happens to a room when its hold is given up.
pub(crate) enum Departure {
    /// The next waiter has it.
    HandedOver,
    /// Release it in Redis, then call [`Rooms::vacate`].
    Release,
}

impl Rooms {
    pub(crate) fn new(streak: Streak) -> Self {
        Rooms { map: DashMap::new(), streak }
    }

    /// Joins the room of a place; the first becomes its front.
    pub(crate) fn enter(&self, place: &Arc<Place>, waiter: &Arc<Waiter>) {
        let mut room =
            self.map.entry(place.room.clone()).or_insert_with(|| Room::new(place.clone()));
        if place.kind.line() == Line::Open {
            room.open.insert(waiter.id, waiter.clone());
            waiter.leads(None);
            return;
        }
        room.queue.insert(waiter.id, waiter.clone());
        let Tenant::Nobody { rest } = room.tenant else { return };
        let next = room.promote(rest.filter(|rest| rest.until > Instant::now()));
        drop(room);
        self.follow(&place.room, next);
    }

    pub(crate) fn is_occupied(&self, place: &Place) -> bool {
        let nobody = |room: &Room| matches!(room.tenant, Tenant::Nobody { .. });
        place.kind.line() == Line::Open
            || self.map.get(&place.room).is_some_and(|room| !nobody(&room))
    }

    /// Does anybody of this client wait in a room?
    pub(crate) fn is_waited_in(&self, room: &str) -> bool {
        self.map.get(room).is_some_and(|room| room.waiting() > 0)
    }

    /// A waiter goes away without the lock: from the queue, or from the front.
    pub(crate) fn leave(&self, place: &Place, waiter: &Arc<Waiter>) {
        self.settle(&place.room, |room| {
            if room.is_front(waiter) {
                return room.promote(None);
            }
            room.queue.remove(&waiter.id);
            room.open.remove(&waiter.id);
            if room.open.is_empty() { Next::Empty } else { Next::Same }
        });
        self.nudge_readers(place);
    }

    /// A writer waits no longer: readers that let it go first may ask.
    fn nudge_readers(&self, place: &Place) {
        if let Some(readers) = place.room_behind() {
            self.nudge(&readers);
        }
    }

    /// What the front waited for has come: also for all who waited when it asked.
    pub(crate) fn opened(&self, place: &Place, front: &Arc<Waiter>, asked: Instant) {
        let mut told: Vec<Arc<Waiter>> = Vec::new();
        self.settle(&place.room, |room| {
            let queue = std::mem::take(&mut room.queue);
            let (before, after) = queue.into_iter().partition(|(_, one)| one.since < asked);
            room.queue = after;
            told = std::collections::BTreeMap::into_values(before).collect();
            for waiter in &told {
                waiter.set_turn(Turn::Open);
            }
            if room.is_front(front) { room.promote(None) } else { Next::Same }
        });
        for waiter in told {
            waiter.notify();
        }
    }

    /// The front got the lock from Redis; at once, if nobody was there before it.
    pub(crate) fn granted(&self, place: &Place, front: &Arc<Waiter>, hold: &Hold, rested: Rested) {
        self.settle(&place.room, |room| {
            room.open.remove(&front.id);
            if !room.is_front(front) {
                return if room.open.is_empty() { Next::Empty } else { Next::Same };
            }
            if place.kind.line() == Line::Chain {
                return room.promote(None);
            }
            room.tenant = Tenant::Holder { id: hold.id, leaving: false };
            if rested != Rested::TookOver {
                (room.streak, room.streak_since) = (0, Instant::now());
            }
            match rested {
                Rested::InVain => room.idle = Some(Idle::after(room.idle, room.told)),
                Rested::ForOthers => {
                    room.idle = None;
                    room.met = (!place.kind.pace().listens()).then(Instant::now);
                }
                Rested::Not | Rested::TookOver => {}
            }
            Next::Same
        });
        self.nudge_readers(place);
    }

    /// The last guard of a hold went: hand the hold over, or say that it must be released.
    ///
    /// `pass` makes the next tenancy; it is called with the shard locked and must not come back.
    pub(crate) fn depart(
        &self,
        hold: &Arc<Hold>,
        terms: Terms,
        pass: impl FnOnce(Terms) -> Tenancy,
    ) -> Departure {
        let Some(mut room) = self.map.get_mut(&hold.place.room) else { return Departure::Release };
        if !matches!(room.tenant, Tenant::Holder { id, .. } if id == hold.id) {
            return Departure::Release;
        }
        let bounded =
            room.streak >= self.streak.count || room.streak_since.elapsed() >= self.streak.time;
        let next = match room.queue.first_entry() {
            // Waiters elsewhere were told how long the lock is held: a shorter lease would end
            // behind their backs.
            Some(next)
                if !bounded
                    && hold.is_clear()
                    && next.get().terms.lease >= hold.longest_lease() =>
            {
                Some(next.remove())
            }
            _ => None,
        };
        let Some(next) = next else {
            room.tenant = Tenant::Holder { id: hold.id, leaving: true };
            return Departure::Release;
        };
        room.streak += 1;
        let free = hold.place.kind.hand_over() == HandOver::Free;
        if free && terms.renewed && next.terms.renewed {
            let tenancy = pass(next.terms);
            room.tenant = Tenant::Holder { id: tenancy.hold().id, leaving: false };
            next.set_turn(Turn::Granted(tenancy));
        } else {
            room.tenant = Tenant::Front(next.clone());
            next.set_turn(Turn::TakeOver(hold.clone()));
        }
        drop(room);
        next.notify();
        Departure::HandedOver
    }

    /// A hold is gone, released or lost: the next waiter asks Redis.
    ///
    /// Other clients that were told of it get a moment to ask first.
    /// So do readers of this client after its writers: both would learn of the release at once, and
    /// the writer by the shorter way.
    pub(crate) fn vacate(&self, hold: &Hold, told: i64) {
        let readers = hold.place.room_of_readers().is_some_and(|room| self.wake_front(&room));
        self.settle(&hold.place.room, |room| match room.tenant {
            Tenant::Holder { id, .. } if id == hold.id => {
                let now = Instant::now();
                let idle = room.idle.filter(|idle| now < idle.until).map_or(0, |idle| idle.told);
                room.told = told;
                let polite = told > idle;
                let others = if polite { told } else { 0 } + i64::from(readers);
                let rest = Rest::for_others(others);
                room.promote(room.rest_for_askers(now).or(rest))
            }
            _ => Next::Same,
        });
    }

    /// Every waiter of every room, for a reconnect and for shutdown.
    pub(crate) fn wake_all(&self) {
        for waiter in self.waiters(|_| true) {
            waiter.wake();
        }
    }

    /// Lets those look who should not have slept until `then`: their runtime stands still, so that they
    /// hold up others. They are passed over if they do not look.
    pub(crate) fn wake_overslept(&self, then: Instant) {
        for waiter in self.waiters(|waiter| waiter.overslept(then)) {
            waiter.notify();
        }
    }

    /// The waiters of all rooms that are `chosen`, in the order in which they came, not that of a hash:
    /// simulations are replayed. They are for being woken when no room is locked any more.
    fn waiters(&self, chosen: impl Fn(&Waiter) -> bool) -> Vec<Arc<Waiter>> {
        let mut waiters = Vec::new();
        for room in &self.map {
            let front = if let Tenant::Front(front) = &room.tenant { Some(front) } else { None };
            let all = front.into_iter().chain(room.queue.values()).chain(room.open.values());
            waiters.extend(all.filter(|waiter| chosen(waiter)).cloned());
        }
        waiters.sort_by_key(|waiter| waiter.id);
        waiters
    }

    /// Takes back the holds that fronts were to take over and have not looked at yet.
    pub(crate) fn recall(&self) -> Vec<Arc<Hold>> {
        let recalled = |room: &Room| match &room.tenant {
            Tenant::Front(front) => front.recall(),
            Tenant::Holder { .. } | Tenant::Nobody { .. } => None,
        };
        let mut holds: Vec<_> = self.map.iter().filter_map(|room| recalled(&room)).collect();
        holds.sort_by_key(|hold| hold.id);
        holds
    }

    /// The places of which waiters stand in queues in Redis.
    pub(crate) fn with_lines(&self) -> Vec<Arc<Place>> {
        let in_line =
            |room: &Room| room.open.values().any(|waiter| waiter.field_in_line().is_some());
        let rooms = self.map.iter().filter(|room| in_line(room));
        let mut places: Vec<_> = rooms.map(|room| room.place.clone()).collect();
        places.sort_by(|one, other| one.room.cmp(&other.room));
        places
    }

    /// Waiters of a room that stand in a queue in Redis.
    pub(crate) fn in_line(&self, room: &str) -> InLine {
        let in_line = |waiter: &Arc<Waiter>| Some((waiter.field_in_line()?, waiter.clone()));
        let Some(room) = self.map.get(room) else { return InLine::new() };
        room.open.values().filter_map(in_line).collect()
    }

    /// Has the front of a room met a key without expiry?
    pub(crate) fn met_no_expiry(&self, place: &Place) -> bool {
        let front = |room: &Room| match &room.tenant {
            Tenant::Front(front) => front.met_no_expiry(),
            Tenant::Holder { .. } | Tenant::Nobody { .. } => false,
        };
        self.map.get(&place.room).is_some_and(|room| front(&room))
    }

    /// Wakes the front of a room, or says which hold of ours is in the way.
    pub(crate) fn nudge(&self, room: &str) -> Option<u64> {
        self.wake_front(room);
        self.holder(room)
    }

    /// Lets the front of a room ask; false if there is none.
    fn wake_front(&self, room: &str) -> bool {
        let front = self.map.get(room).and_then(|room| match &room.tenant {
            Tenant::Front(front) => Some(front.clone()),
            Tenant::Holder { .. } | Tenant::Nobody { .. } => None,
        });
        front.is_some_and(|front| {
            front.wake();
            true
        })
    }

    /// The hold of this client that is the tenant of a room and is not being released.
    pub(crate) fn holder(&self, room: &str) -> Option<u64> {
        self.map.get(room)?.holder()
    }

    /// Removes rooms that only kept a pause.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        self.map.retain(|_, room| !room.is_over(now));
    }

    /// What somebody waits for without asking, for the safety poll.
    pub(crate) fn waited_for(&self) -> Vec<Arc<Place>> {
        let waits = |room: &Room| match &room.tenant {
            Tenant::Front(_) => room.place.kind.pace().listens(),
            Tenant::Holder { .. } => room.holder().is_some() && !room.queue.is_empty(),
            Tenant::Nobody { .. } => false,
        };
        let waited = |room: &Room| room.place.kind.is_polled_by_key() && waits(room);
        let waited = self.map.iter().filter(|room| waited(room));
        let mut places: Vec<_> = waited.map(|room| room.place.clone()).collect();
        places.sort_by(|one, other| one.room.cmp(&other.room));
        places
    }

    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.map.iter().map(|room| room.waiting()).sum()
    }

    /// Changes a room under its lock; whoever is told something is told after it.
    fn settle(&self, room: &str, change: impl FnOnce(&mut Room) -> Next) {
        let next = match self.map.get_mut(room) {
            Some(mut room) => change(&mut room),
            None => return,
        };
        self.follow(room, next);
    }

    fn follow(&self, room: &str, next: Next) {
        match next {
            Next::Same => {}
            Next::Notify(waiter) => waiter.notify(),
            Next::Empty => self.close(room),
        }
    }

    /// Removes a room without a tenant, unless it keeps a pause (R1).
    fn close(&self, room: &str) {
        let now = Instant::now();
        self.map.remove_if(room, |_, room| room.is_over(now));
    }
}

impl fmt::Debug for Rooms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rooms").field("rooms", &self.map.len()).finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests;
