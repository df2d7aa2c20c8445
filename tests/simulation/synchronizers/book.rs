//! Who holds what and who waits for what, as their users see it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use leasehold::{ExpirablePermit, HoldState, LockGuard, SemaphorePermit};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::log::Log;

/// One future of one process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Who {
    pub(crate) process: usize,
    pub(crate) actor: usize,
}

impl fmt::Debug for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.process, self.actor)
    }
}

/// A guard of any sort.
pub(crate) enum Held {
    Lock(LockGuard),
    Semaphore(SemaphorePermit),
    Permit(ExpirablePermit),
}

impl Deref for Held {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        match self {
            Held::Lock(guard) => guard,
            Held::Semaphore(permit) => permit.guard().expect("never taken for none"),
            Held::Permit(permit) => permit,
        }
    }
}

/// What somebody wants: names by number, and how much of each.
#[derive(Clone)]
pub(crate) struct Wish {
    pub(crate) who: Who,
    pub(crate) names: Vec<usize>,
    pub(crate) permits: u32,
    pub(crate) since: Instant,
}

impl fmt::Debug for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wish { who: Who { process, actor }, names, permits, since } = self;
        write!(f, "{process}.{actor} {names:?} x {permits} since {:?}", since.elapsed())
    }
}

/// A guard that is in use.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) id: u64,
    pub(crate) wish: Wish,
    pub(crate) held: Arc<Held>,
    /// The server broke its promise about this hold then.
    void_since: Arc<Mutex<Option<Instant>>>,
    lost: bool,
}

impl Entry {
    /// Its user may rely on it.
    pub(crate) fn is_valid(&self) -> bool {
        self.void_since.lock().is_none() && self.held.check().is_ok()
    }

    /// Was it surely asked for, or renewed, after that? What no lease can reach was not confirmed
    /// before.
    fn is_younger_than(&self, at: Instant, lease_max: Duration) -> bool {
        self.held.deadline() > at + lease_max
    }
}

#[derive(Default)]
struct State {
    entries: Vec<Entry>,
    wishes: BTreeMap<u64, Wish>,
    next: u64,
    granted: u64,
    /// When a name was last forgotten by its server.
    breaks: BTreeMap<usize, Instant>,
}

#[derive(Clone)]
pub(crate) struct Book {
    state: Arc<Mutex<State>>,
    pub(crate) log: Log,
    lease_max: Duration,
}

/// A wait in progress; dropping it ends it.
pub(crate) struct Waiting {
    book: Book,
    id: u64,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.book.state.lock().wishes.remove(&self.id);
    }
}

impl Book {
    pub(crate) fn new(lease_max: Duration) -> Self {
        Book { state: Arc::default(), log: Log::new(), lease_max }
    }

    pub(crate) fn waits(&self, wish: Wish) -> Waiting {
        let mut state = self.state.lock();
        state.next += 1;
        let id = state.next;
        state.wishes.insert(id, wish);
        Waiting { book: self.clone(), id }
    }

    pub(crate) fn wishes(&self) -> BTreeMap<u64, Wish> {
        self.state.lock().wishes.clone()
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.state.lock().entries.clone()
    }

    pub(crate) fn granted(&self) -> u64 {
        self.state.lock().granted
    }

    /// A guard was given out.
    pub(crate) fn enters(&self, wish: Wish, held: Held) -> Entry {
        self.log.note(&format!("{:?} has {:?} x {}", wish.who, wish.names, wish.permits));
        let held = Arc::new(held);
        let mut state = self.state.lock();
        state.granted += 1;
        state.next += 1;
        let id = state.next;
        let entry = Entry { id, wish, held, void_since: Arc::default(), lost: false };
        // The reply may have been on its way when the server forgot it.
        let broken = entry.wish.names.iter().filter_map(|name| state.breaks.get(name).copied());
        let broken = broken.max().filter(|at| !entry.is_younger_than(*at, self.lease_max));
        *entry.void_since.lock() = broken;
        state.entries.push(entry.clone());
        entry
    }

    /// Its user gives it up, or lets go of it in whatever way.
    pub(crate) fn leaves(&self, entry: Entry) -> Held {
        self.log.note(&format!("{:?} leaves {:?}", entry.wish.who, entry.wish.names));
        self.state.lock().entries.retain(|other| other.id != entry.id);
        match Arc::try_unwrap(entry.held) {
            Ok(held) => held,
            Err(held) => unreachable!("a guard in two hands: {:?}", **held),
        }
    }

    /// The server broke its promise about all holds of these names.
    pub(crate) fn void(&self, names: &[usize]) {
        let now = Instant::now();
        let mut state = self.state.lock();
        for name in names {
            state.breaks.insert(*name, now);
        }
        for entry in &state.entries {
            if entry.wish.names.iter().any(|name| names.contains(name)) {
                *entry.void_since.lock() = Some(now);
            }
        }
    }

    /// Somebody else ends this hold.
    pub(crate) fn void_one(&self, id: u64) {
        let state = self.state.lock();
        if let Some(entry) = state.entries.iter().find(|entry| entry.id == id) {
            *entry.void_since.lock() = Some(Instant::now());
        }
    }

    /// A process is gone without a farewell: its guards mean nothing any more.
    pub(crate) fn crashed(&self, process: usize) {
        let mut state = self.state.lock();
        state.wishes.retain(|_, wish| wish.who.process != process);
        let entries = std::mem::take(&mut state.entries);
        let (dead, alive) =
            entries.into_iter().partition(|entry| entry.wish.who.process == process);
        state.entries = alive;
        drop(state);
        // Their drops must not reach anybody.
        std::mem::forget::<Vec<Entry>>(dead);
    }

    /// What must hold of every guard at every moment.
    pub(crate) fn check_guards(&self) {
        let mut violation = None;
        for entry in &mut self.state.lock().entries {
            let lost = entry.held.state() == HoldState::Lost;
            let who = (entry.wish.who, &entry.wish.names);
            if entry.lost && !lost {
                violation = Some(format!("what was lost is held again: {who:?}"));
            }
            entry.lost |= lost;
            if !lost && Instant::now() >= entry.held.deadline() {
                violation = Some(format!("held beyond its deadline: {who:?}"));
            }
            // Renewed after the break: it had survived.
            let mut since = *entry.void_since.lock();
            since = since.filter(|at| !entry.is_younger_than(*at, self.lease_max));
            *entry.void_since.lock() = since;
            if let Some(since) = since
                && !lost
                && since.elapsed() > self.lease_max + Duration::from_millis(50)
            {
                violation = Some(format!("what is gone was never reported lost: {who:?}"));
            }
        }
        if let Some(violation) = violation {
            self.log.violation(violation);
        }
    }
}
