//! The record of one run: who holds what and who waits for what, as their users see it, and the
//! first violation.
//!
//! A hold is *void* from the moment when its server broke its promise until its guard reports that,
//! or until a renewal shows that it survived. Void holds are not checked.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use leasehold::{Error, ExpirablePermit, HoldState, LockGuard, SemaphorePermit};
use parking_lot::Mutex;
use tokio::time::Instant;

/// One future of one process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Actor {
    pub(crate) process: usize,
    pub(crate) number: usize,
    /// Actors of one process with the same owner may be in a section together.
    pub(crate) owner: usize,
}

impl Actor {
    pub(crate) fn new(process: usize, number: usize) -> Self {
        Actor {
            process,
            number,
            owner: number,
        }
    }

    pub(crate) fn excludes(self, other: Actor) -> bool {
        (self.process, self.owner) != (other.process, other.owner)
    }
}

impl fmt::Debug for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Actor {
            process,
            number,
            owner,
        } = self;
        write!(f, "{process}.{number}")?;
        if owner == number {
            Ok(())
        } else {
            write!(f, "({owner})")
        }
    }
}

/// How a lock is held. Locks without sides count as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Read,
    Write,
}

impl Side {
    pub(crate) fn excludes(self, other: Side) -> bool {
        (self, other) != (Side::Read, Side::Read)
    }
}

/// What a user wants or has: names by number, and how much of each.
#[derive(Clone)]
pub(crate) struct Wish {
    pub(crate) actor: Actor,
    pub(crate) names: Vec<usize>,
    pub(crate) permits: u32,
    pub(crate) side: Side,
    pub(crate) since: Instant,
}

impl Wish {
    pub(crate) fn new(actor: Actor, names: Vec<usize>) -> Self {
        let (permits, side, since) = (1, Side::Write, Instant::now());
        Wish {
            actor,
            names,
            permits,
            side,
            since,
        }
    }

    pub(crate) fn of_lock(actor: Actor, name: usize, side: Side) -> Self {
        Wish {
            side,
            ..Wish::new(actor, vec![name])
        }
    }

    fn excludes(&self, other: &Wish) -> bool {
        let shares = self.names.iter().any(|name| other.names.contains(name));
        shares && self.actor.excludes(other.actor) && self.side.excludes(other.side)
    }
}

impl fmt::Debug for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wish {
            actor,
            names,
            permits,
            side,
            since,
            ..
        } = self;
        write!(
            f,
            "{actor:?} {names:?} x {permits} {side:?} since {:?}",
            since.elapsed()
        )
    }
}

/// A guard of any kind.
#[derive(Clone)]
pub(crate) enum Held {
    Lock(Arc<LockGuard>),
    Semaphore(Arc<SemaphorePermit>),
    Permit(Arc<ExpirablePermit>),
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

impl Held {
    /// Releases the guard. Dropping this future before its first poll is another case than dropping
    /// the guard.
    pub(crate) fn release(self) -> BoxFuture<'static, Result<(), Error>> {
        match self {
            Held::Lock(guard) => alone(guard).unlock().boxed(),
            Held::Semaphore(permit) => alone(permit).release().boxed(),
            Held::Permit(permit) => alone(permit).release().boxed(),
        }
    }

    /// Leaves the hold to its lease.
    pub(crate) fn forget(self) {
        match self {
            Held::Lock(guard) => alone(guard).forget(),
            Held::Semaphore(permit) => alone(permit).forget(),
            Held::Permit(permit) => alone(permit).forget(),
        }
    }
}

/// The guard, which nobody else may have.
pub(crate) fn alone<T>(guard: Arc<T>) -> T {
    Arc::into_inner(guard).expect("a guard in two hands")
}

/// A guard in use.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) id: u64,
    pub(crate) wish: Wish,
    pub(crate) held: Held,
    /// When the server broke its promise about this hold.
    void_since: Arc<Mutex<Option<Instant>>>,
    lost: bool,
}

impl Entry {
    /// True if its user may rely on it.
    pub(crate) fn is_valid(&self) -> bool {
        !self.is_void() && self.held.check().is_ok()
    }

    pub(crate) fn is_void(&self) -> bool {
        self.void_since.lock().is_some()
    }

    /// Forgets a break if the hold was certainly acquired or renewed after it: no earlier lease
    /// could reach that far.
    fn outlive(&self, lease_max: Duration) {
        let deadline = self.held.deadline();
        let mut since = self.void_since.lock();
        *since = since.filter(|at| deadline <= *at + lease_max);
    }
}

#[derive(Default)]
struct State {
    trace: Vec<String>,
    violation: Option<String>,
    entries: Vec<Entry>,
    wishes: BTreeMap<u64, Wish>,
    next: u64,
    granted: u64,
    /// The number of acquisitions and extensions of each process.
    asked: BTreeMap<usize, u64>,
    /// When the server last forgot holds of a name.
    breaks: BTreeMap<usize, Instant>,
    /// For each name, how many users are about to force it open.
    forcing: BTreeMap<usize, u32>,
    last_crash: Option<Instant>,
    /// Processes that shut down: since when, and whether nothing may be left of them.
    closed: BTreeMap<usize, (Instant, bool)>,
}

#[derive(Clone)]
pub(crate) struct Ledger {
    pub(crate) start: Instant,
    state: Arc<Mutex<State>>,
    lease_max: Duration,
}

/// A wait in progress. Dropping it ends the wait.
pub(crate) struct Waiting {
    ledger: Ledger,
    id: u64,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.ledger.state.lock().wishes.remove(&self.id);
    }
}

impl Ledger {
    pub(crate) fn lease_max(&self) -> Duration {
        self.lease_max
    }

    pub(crate) fn new(lease_max: Duration) -> Self {
        Ledger {
            start: Instant::now(),
            state: Arc::default(),
            lease_max,
        }
    }

    pub(crate) fn note(&self, text: &str) {
        let at = self.start.elapsed();
        self.state
            .lock()
            .trace
            .push(format!("{:>12.6} {text}", at.as_secs_f64()));
    }

    /// Records the first violation.
    pub(crate) fn violation(&self, text: String) {
        self.note(&format!("VIOLATION {text}"));
        self.state.lock().violation.get_or_insert(text);
    }

    pub(crate) fn verdict(&self) -> Option<String> {
        self.state.lock().violation.clone()
    }

    pub(crate) fn trace(&self) -> Vec<String> {
        self.state.lock().trace.clone()
    }

    pub(crate) fn granted(&self) -> u64 {
        self.state.lock().granted
    }

    /// Counts an operation that may cost only a few calls.
    pub(crate) fn asks(&self, actor: Actor) {
        *self.state.lock().asked.entry(actor.process).or_default() += 1;
    }

    pub(crate) fn asked(&self, process: usize) -> u64 {
        self.state.lock().asked.get(&process).copied().unwrap_or(0)
    }

    pub(crate) fn waits(&self, wish: Wish) -> Waiting {
        let mut state = self.state.lock();
        state.next += 1;
        let id = state.next;
        state.wishes.insert(id, wish);
        Waiting {
            ledger: self.clone(),
            id,
        }
    }

    pub(crate) fn wishes(&self) -> BTreeMap<u64, Wish> {
        self.state.lock().wishes.clone()
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.state.lock().entries.clone()
    }

    /// A guard was given out.
    pub(crate) fn enters(&self, wish: Wish, held: Held) -> Entry {
        self.note(&format!(
            "{:?} has {:?} x {} {:?}",
            wish.actor, wish.names, wish.permits, wish.side
        ));
        let mut state = self.state.lock();
        state.granted += 1;
        state.next += 1;
        // The reply may have been in flight when the server forgot the hold.
        let broken = wish
            .names
            .iter()
            .filter_map(|name| state.breaks.get(name).copied())
            .max();
        let void_since = Arc::new(Mutex::new(broken));
        let entry = Entry {
            id: state.next,
            wish,
            held,
            void_since,
            lost: false,
        };
        entry.outlive(self.lease_max);
        state.entries.push(entry.clone());
        entry
    }

    /// The valid guard of another user that must not coexist with this one.
    pub(crate) fn rival(&self, entry: &Entry) -> Option<Wish> {
        let state = self.state.lock();
        let rival = state.entries.iter().find(|other| {
            other.id != entry.id && other.wish.excludes(&entry.wish) && other.is_valid()
        });
        rival
            .filter(|_| entry.is_valid())
            .map(|rival| rival.wish.clone())
    }

    /// Called when its user gives up the guard in any way.
    pub(crate) fn leaves(&self, entry: &Entry) {
        self.note(&format!(
            "{:?} leaves {:?}",
            entry.wish.actor, entry.wish.names
        ));
        self.state
            .lock()
            .entries
            .retain(|other| other.id != entry.id);
    }

    /// The server broke its promise about all holds of these names.
    pub(crate) fn void(&self, names: &[usize]) {
        let now = Instant::now();
        let mut state = self.state.lock();
        state.breaks.extend(names.iter().map(|name| (*name, now)));
        for entry in &state.entries {
            if entry.wish.names.iter().any(|name| names.contains(name)) {
                *entry.void_since.lock() = Some(now);
            }
        }
    }

    /// Another user ends this hold.
    pub(crate) fn void_one(entry: &Entry) {
        *entry.void_since.lock() = Some(Instant::now());
    }

    pub(crate) fn begins_to_force(&self, name: usize) {
        *self.state.lock().forcing.entry(name).or_default() += 1;
        self.void(&[name]);
    }

    pub(crate) fn has_forced(&self, name: usize) {
        self.void(&[name]);
        *self.state.lock().forcing.entry(name).or_default() -= 1;
    }

    pub(crate) fn is_forced(&self, name: usize) -> bool {
        self.state
            .lock()
            .forcing
            .get(&name)
            .is_some_and(|number| *number > 0)
    }

    /// True if the server forgot holds of a name since then.
    pub(crate) fn broken_since(&self, name: usize, at: Instant) -> bool {
        let last = self.state.lock().breaks.get(&name).copied();
        self.is_forced(name) || last.is_some_and(|last| last >= at)
    }

    /// A process died, so its guards mean nothing any more.
    pub(crate) fn crashed(&self, process: usize) {
        self.note(&format!("process {process} crashes"));
        let mut state = self.state.lock();
        state.last_crash = Some(Instant::now());
        state.wishes.retain(|_, wish| wish.actor.process != process);
        let entries = std::mem::take(&mut state.entries);
        let (dead, alive) = entries
            .into_iter()
            .partition(|entry| entry.wish.actor.process == process);
        state.entries = alive;
        drop(state);
        // Their drops must have no effect.
        std::mem::forget::<Vec<Entry>>(dead);
    }

    pub(crate) fn last_crash(&self) -> Option<Instant> {
        self.state.lock().last_crash
    }

    pub(crate) fn closes(&self, process: usize) {
        self.state
            .lock()
            .closed
            .insert(process, (Instant::now(), false));
    }

    /// The shutdown has reported that nothing is left.
    pub(crate) fn has_closed(&self, process: usize) {
        if let Some((_, settled)) = self.state.lock().closed.get_mut(&process) {
            *settled = true;
        }
    }

    pub(crate) fn is_closed(&self, process: usize) -> bool {
        self.state.lock().closed.contains_key(&process)
    }

    /// Processes whose shutdown has begun, and whether it has succeeded.
    pub(crate) fn closed(&self) -> Vec<(usize, bool)> {
        let state = self.state.lock();
        let begun = state
            .closed
            .iter()
            .filter(|(_, (since, _))| !since.elapsed().is_zero());
        begun
            .map(|(process, (_, settled))| (*process, *settled))
            .collect()
    }

    /// True if the client was shut down and reports that.
    pub(crate) fn excuses(&self, actor: Actor, error: &Error) -> bool {
        matches!(error, Error::Closed) && self.is_closed(actor.process)
    }

    /// Checks the invariants of all guards.
    pub(crate) fn check_guards(&self) {
        let mut violation = None;
        for entry in &mut self.state.lock().entries {
            let lost = entry.held.state() == HoldState::Lost;
            let wish = &entry.wish;
            if entry.lost && !lost {
                violation = Some(format!("what was lost is held again: {wish:?}"));
            }
            entry.lost |= lost;
            if !lost && Instant::now() >= entry.held.deadline() {
                violation = Some(format!("held beyond its deadline: {wish:?}"));
            }
            entry.outlive(self.lease_max);
            let since = *entry.void_since.lock();
            let notice_within = self.lease_max + Duration::from_millis(50);
            if since.is_some_and(|since| since.elapsed() > notice_within) && !lost {
                violation = Some(format!("what is gone was never reported lost: {wish:?}"));
            }
        }
        if let Some(violation) = violation {
            self.violation(violation);
        }
    }
}
