//! What happened, and the checks that every event must pass.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold::{HoldState, LockGuard};
use parking_lot::Mutex;
use tokio::time::Instant;

/// One future of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Actor {
    pub(crate) client: usize,
    pub(crate) number: usize,
}

/// A guard that is in use.
struct Entry {
    id: u64,
    actor: Actor,
    name: String,
    guard: Arc<LockGuard>,
    /// The server broke its promise about this hold then.
    void_since: Option<Instant>,
    lost: bool,
}

#[derive(Default)]
struct State {
    entries: Vec<Entry>,
    /// Who waits for what since when.
    waiting: BTreeMap<(String, u64), (Actor, Instant)>,
    next: u64,
    violation: Option<String>,
    trace: Vec<String>,
    acquired: u64,
    /// When the server last forgot holds of a name.
    breaks: BTreeMap<String, Instant>,
}

/// The history of one run.
#[derive(Clone)]
pub(crate) struct History {
    start: Instant,
    state: Arc<Mutex<State>>,
    lease_max: Duration,
}

/// A wait in progress; dropping it ends it.
pub(crate) struct Waiting {
    history: History,
    key: (String, u64),
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.history.state.lock().waiting.remove(&self.key);
    }
}

impl Entry {
    /// Was the hold surely asked for, or renewed, after that? What no lease can reach was not
    /// confirmed before.
    fn is_younger_than(&self, at: Instant, lease_max: Duration) -> bool {
        self.guard.deadline() > at + lease_max
    }
}

impl History {
    pub(crate) fn new(lease_max: Duration) -> Self {
        History { start: Instant::now(), state: Arc::default(), lease_max }
    }

    pub(crate) fn note(&self, text: &str) {
        let at = self.start.elapsed();
        self.state.lock().trace.push(format!("{:>12.6} {text}", at.as_secs_f64()));
    }

    /// Records the first thing that must not be.
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

    pub(crate) fn acquired(&self) -> u64 {
        self.state.lock().acquired
    }

    pub(crate) fn waits(&self, actor: Actor, name: &str) -> Waiting {
        let mut state = self.state.lock();
        state.next += 1;
        let key = (name.to_owned(), state.next);
        state.waiting.insert(key.clone(), (actor, Instant::now()));
        Waiting { history: self.clone(), key }
    }

    /// Since when has anybody of these clients waited for a name?
    pub(crate) fn waiting_since(
        &self,
        name: &str,
        alive: &dyn Fn(usize) -> bool,
    ) -> Option<Instant> {
        let state = self.state.lock();
        let waiting =
            state.waiting.iter().filter(|((of, _), (actor, _))| of == name && alive(actor.client));
        waiting.map(|(_, (_, since))| *since).min()
    }

    pub(crate) fn waiters(&self) -> Vec<String> {
        let state = self.state.lock();
        let text = |((name, _), (actor, since)): (&(String, u64), &(Actor, Instant))| {
            format!("{actor:?} for {name} since {:?}", since.elapsed())
        };
        state.waiting.iter().map(text).collect()
    }

    /// A guard was given out: nobody else's may be valid now.
    pub(crate) fn granted(
        &self,
        actor: Actor,
        name: &str,
        guard: LockGuard,
    ) -> (u64, Arc<LockGuard>) {
        let guard = Arc::new(guard);
        let (id, rival) = {
            let mut state = self.state.lock();
            state.acquired += 1;
            state.next += 1;
            let id = state.next;
            let rival = state.entries.iter().find(|entry| {
                let valid = entry.void_since.is_none() && entry.guard.check().is_ok();
                entry.name == name && entry.actor != actor && valid
            });
            let rival = rival.map(|entry| {
                format!("{:?} until {:?}", entry.actor, entry.guard.deadline() - Instant::now())
            });
            let mut entry = Entry {
                id,
                actor,
                name: name.to_owned(),
                guard: guard.clone(),
                void_since: None,
                lost: false,
            };
            // The reply may have been on its way when the server forgot it.
            let broken = state.breaks.get(name).copied();
            entry.void_since = broken.filter(|at| !entry.is_younger_than(*at, self.lease_max));
            let void = entry.void_since.is_some();
            state.entries.push(entry);
            // A hold that the server forgot may be handed on before anybody knows.
            (id, rival.filter(|_| !void))
        };
        self.note(&format!("{actor:?} has {name}"));
        if let Some(rival) = rival.filter(|_| guard.check().is_ok()) {
            self.violation(format!("two hold {name}: {actor:?} got it while {rival}"));
        }
        (id, guard)
    }

    /// A guard is about to be released or dropped.
    pub(crate) fn leaves(&self, actor: Actor, id: u64) {
        self.note(&format!("{actor:?} leaves"));
        self.state.lock().entries.retain(|entry| entry.id != id);
    }

    /// The server broke its promise about all holds of these names.
    pub(crate) fn void(&self, names: &[String]) {
        let mut state = self.state.lock();
        for name in names {
            state.breaks.insert(name.clone(), Instant::now());
        }
        for entry in &mut state.entries {
            if names.contains(&entry.name) {
                entry.void_since = Some(Instant::now());
            }
        }
    }

    /// A client is gone without a farewell: its guards mean nothing any more.
    pub(crate) fn crashed(&self, client: usize) {
        let mut state = self.state.lock();
        state.waiting.retain(|_, (actor, _)| actor.client != client);
        let entries = std::mem::take(&mut state.entries);
        let (dead, alive) = entries.into_iter().partition(|entry| entry.actor.client == client);
        state.entries = alive;
        drop(state);
        // Their drops must not reach anybody.
        std::mem::forget::<Vec<Entry>>(dead);
    }

    pub(crate) fn owners(&self) -> Vec<String> {
        self.state.lock().entries.iter().map(|entry| entry.guard.owner().to_owned()).collect()
    }

    /// What must hold of every guard at every moment.
    pub(crate) fn check_guards(&self) {
        let mut violation = None;
        for entry in &mut self.state.lock().entries {
            let lost = entry.guard.state() == HoldState::Lost;
            let who = (entry.actor, &entry.name);
            if entry.lost && !lost {
                violation = Some(format!("a lost lock is held again: {who:?}"));
            }
            entry.lost |= lost;
            // Renewed after the break: it had survived.
            let since = entry.void_since;
            entry.void_since = since.filter(|at| !entry.is_younger_than(*at, self.lease_max));
            if let Some(since) = entry.void_since
                && !lost
                && since.elapsed() > self.lease_max + Duration::from_millis(50)
            {
                violation = Some(format!("a lock that is gone was never reported lost: {who:?}"));
            }
        }
        if let Some(violation) = violation {
            self.violation(violation);
        }
    }
}

impl History {
    /// Does an actor have a valid guard of a name?
    pub(crate) fn holds(&self, actor: Actor, name: &str) -> bool {
        let state = self.state.lock();
        let mut own =
            state.entries.iter().filter(|entry| entry.actor == actor && entry.name == name);
        own.any(|entry| entry.guard.check().is_ok())
    }
}
