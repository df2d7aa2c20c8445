//! What happened, and the checks that every event must pass.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold::{HoldState, LockGuard};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::kind::Kind;
use crate::plan::Plan;
use crate::rare::Rare;
use crate::stalls::Stalls;
use crate::target::{Manners, Side};

/// One future of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Actor {
    pub(crate) client: usize,
    pub(crate) number: usize,
    /// Actors of one client that share an owner may be in a section together.
    pub(crate) owner: usize,
}

impl Actor {
    pub(crate) fn excludes(self, other: Actor) -> bool {
        (self.client, self.owner) != (other.client, other.owner)
    }
}

/// A guard that is in use.
struct Entry {
    id: u64,
    actor: Actor,
    name: String,
    side: Side,
    guard: Arc<LockGuard>,
    /// The server broke its promise about this hold then.
    void_since: Option<Instant>,
    lost: bool,
}

#[derive(Default)]
struct State {
    entries: Vec<Entry>,
    waiting: BTreeMap<(String, u64), Wish>,
    next: u64,
    violation: Option<String>,
    trace: Vec<String>,
    acquired: u64,
    /// What each client's actors asked for: acquisitions and extensions.
    asked: BTreeMap<usize, u64>,
    /// When the server last forgot holds of a name.
    breaks: BTreeMap<String, Instant>,
    last_crash: Option<Instant>,
    /// The highest fencing token of each name and the hold that has it.
    tokens: BTreeMap<String, (i64, String)>,
    /// Whose turn has come, by name and owner field, since that was last asked.
    served: Vec<(String, String)>,
}

/// Who waits for what since when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) actor: Actor,
    pub(crate) side: Side,
    pub(crate) manners: Manners,
    pub(crate) since: Instant,
}

/// A guard that must stand in the engine for so long.
pub(crate) struct Valid {
    pub(crate) name: String,
    pub(crate) owner: String,
    pub(crate) left: Duration,
}

/// The history of one run.
#[derive(Clone)]
pub(crate) struct History {
    start: Instant,
    state: Arc<Mutex<State>>,
    lease_max: Duration,
    kind: Kind,
    stalls: Stalls,
    pub(crate) rare: Rare,
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

impl State {
    /// Tokens grow with each outermost acquisition and are the same in nested ones.
    fn check_token(&mut self, kind: Kind, entry: &Entry) -> Option<String> {
        let token = entry.guard.token().map(leasehold::FencingToken::value);
        if kind != Kind::Fenced {
            return token.map(|token| format!("a token: {token}"));
        }
        let Some(token) = token else { return Some("no token".into()) };
        let owner = entry.guard.owner().to_owned();
        let last = self.tokens.insert(entry.name.clone(), (token, owner));
        let (last, holder) = last.unwrap_or_default();
        // Nested guards of one hold have the same.
        let follows = if entry.guard.owner() == holder { token == last } else { token > last };
        (!follows).then(|| format!("token {token} after {last}"))
    }
}

impl History {
    pub(crate) fn new(plan: &Plan, stalls: &Stalls) -> Self {
        let (lease_max, kind, stalls) = (plan.lease, plan.kind, stalls.clone());
        let (start, state, rare) = (Instant::now(), Arc::default(), Rare::default());
        History { start, state, lease_max, kind, stalls, rare }
    }

    pub(crate) fn start(&self) -> Instant {
        self.start
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
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

    /// Something that must cost a few calls and no more.
    pub(crate) fn asks(&self, actor: Actor) {
        *self.state.lock().asked.entry(actor.client).or_default() += 1;
    }

    pub(crate) fn asked(&self, client: usize) -> u64 {
        self.state.lock().asked.get(&client).copied().unwrap_or(0)
    }

    pub(crate) fn waits(&self, actor: Actor, name: &str, side: Side, manners: Manners) -> Waiting {
        let mut state = self.state.lock();
        state.next += 1;
        let key = (name.to_owned(), state.next);
        state.waiting.insert(key.clone(), Wish { actor, side, manners, since: Instant::now() });
        Waiting { history: self.clone(), key }
    }

    /// Since when has anybody with such a wish waited for a name?
    pub(crate) fn waiting_since(
        &self,
        name: &str,
        such: &dyn Fn(&Wish) -> bool,
    ) -> Option<Instant> {
        let state = self.state.lock();
        let waiting = state.waiting.iter().filter(|((of, _), wish)| of == name && such(wish));
        waiting.map(|(_, wish)| wish.since).min()
    }

    pub(crate) fn waiters(&self) -> Vec<String> {
        let state = self.state.lock();
        let text = |((name, _), wish): (&(String, u64), &Wish)| {
            format!("{:?} for {name} since {:?}", wish.actor, wish.since.elapsed())
        };
        state.waiting.iter().map(text).collect()
    }

    /// A guard was given out: nobody else's may be valid now.
    pub(crate) fn granted(
        &self,
        actor: Actor,
        name: &str,
        side: Side,
        guard: LockGuard,
    ) -> (u64, Arc<LockGuard>) {
        let guard = Arc::new(guard);
        (self.granted_shared(actor, name, side, &guard), guard)
    }

    /// As [`granted`](History::granted), of a guard that somebody else may have as well.
    pub(crate) fn granted_shared(
        &self,
        actor: Actor,
        name: &str,
        side: Side,
        guard: &Arc<LockGuard>,
    ) -> u64 {
        let (id, rival, token, void) = {
            let mut state = self.state.lock();
            state.acquired += 1;
            state.next += 1;
            let id = state.next;
            let rival = state.entries.iter().find(|entry| {
                let valid = entry.void_since.is_none() && entry.guard.check().is_ok();
                let excludes = entry.actor.excludes(actor) && entry.side.excludes(side);
                entry.name == name && excludes && valid
            });
            let rival = rival.map(|entry| {
                format!("{:?} until {:?}", entry.actor, entry.guard.deadline() - Instant::now())
            });
            let mut entry = Entry {
                id,
                actor,
                name: name.to_owned(),
                side,
                guard: guard.clone(),
                void_since: None,
                lost: false,
            };
            // The reply may have been on its way when the server forgot it.
            let broken = state.breaks.get(name).copied();
            entry.void_since = broken.filter(|at| !entry.is_younger_than(*at, self.lease_max));
            let void = entry.void_since.is_some() || self.rare.is_forced(name);
            let token = if void || guard.check().is_err() {
                None
            } else {
                state.check_token(self.kind, &entry)
            };
            // What was forced open before anybody looked was served before those who wait now.
            if !void {
                state.served.push((name.to_owned(), guard.owner().to_owned()));
            }
            state.entries.push(entry);
            // A hold that the server forgot may be handed on before anybody knows.
            let closed = self.rare.is_closed(actor.client);
            (id, rival.filter(|_| !void), token, void || closed)
        };
        self.note(&format!("{actor:?} has {name}, {side:?}"));
        if let Some(lost) =
            guard.check().err().filter(|_| !void && !self.stalls.lately(actor.client))
        {
            self.violation(format!("{actor:?} is given what is lost: {lost}"));
        }
        if let Some(token) = token {
            self.violation(format!("{actor:?} has {name} with {token}"));
        }
        if let Some(rival) = rival.filter(|_| guard.check().is_ok()) {
            self.violation(format!("two hold {name}: {actor:?} got it while {rival}"));
        }
        id
    }

    /// Names and owner fields that were granted since this was last asked.
    pub(crate) fn served(&self) -> Vec<(String, String)> {
        std::mem::take(&mut self.state.lock().served)
    }

    /// The server lost all it had, the last tokens included.
    pub(crate) fn forget_tokens(&self) {
        self.rare.is_emptied();
        self.state.lock().tokens.clear();
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
        state.last_crash = Some(Instant::now());
        state.waiting.retain(|_, wish| wish.actor.client != client);
        let entries = std::mem::take(&mut state.entries);
        let (dead, alive) = entries.into_iter().partition(|entry| entry.actor.client == client);
        state.entries = alive;
        drop(state);
        // Their drops must not reach anybody.
        std::mem::forget::<Vec<Entry>>(dead);
    }

    pub(crate) fn last_crash(&self) -> Option<Instant> {
        self.state.lock().last_crash
    }

    /// Guards that are worth something.
    pub(crate) fn valid(&self) -> Vec<Valid> {
        let state = self.state.lock();
        let now = Instant::now();
        let valid = |entry: &&Entry| {
            let void = entry.void_since.is_some() || self.rare.is_forced(&entry.name);
            !void && entry.guard.check().is_ok()
        };
        let describe = |entry: &Entry| Valid {
            name: entry.name.clone(),
            owner: entry.guard.owner().to_owned(),
            left: entry.guard.deadline().saturating_duration_since(now),
        };
        state.entries.iter().filter(valid).map(describe).collect()
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
            state.entries.iter().filter(|entry| !entry.actor.excludes(actor) && entry.name == name);
        own.any(|entry| entry.guard.check().is_ok())
    }

    /// The server forgot a hold of a name, and its guard does not know yet.
    pub(crate) fn has_void(&self, name: &str) -> bool {
        let void = |entry: &Entry| entry.void_since.is_some() && entry.guard.check().is_ok();
        self.state.lock().entries.iter().any(|entry| entry.name == name && void(entry))
    }

    /// Did the server forget holds of a name since then?
    pub(crate) fn broken_since(&self, name: &str, at: Instant) -> bool {
        let last = self.state.lock().breaks.get(name).copied();
        self.rare.is_forced(name) || last.is_some_and(|last| last >= at)
    }

    /// Whose guard is worth something although the client was shut down.
    pub(crate) fn outlives(&self, client: usize) -> Option<Actor> {
        let state = self.state.lock();
        let mut own = state.entries.iter().filter(|entry| entry.actor.client == client);
        own.find(|entry| entry.guard.check().is_ok()).map(|entry| entry.actor)
    }
}
