//! Semaphores of both sorts: permits are never given out twice, and none is ever missing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use leasehold::EmbeddedRedis;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::book::{Book, Entry, Held};
use super::plan::Sort;
use super::player::Player;
use super::totals::Totals;
use super::user_of_permits::User;
use super::world::World;

/// What the users of one run know together.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) sort: Sort,
    pub(crate) totals: Totals,
    /// Ids and fields that were given out.
    seen: Arc<Mutex<BTreeSet<String>>>,
    /// Permits that were left to their leases.
    pub(crate) forgotten: Arc<Mutex<BTreeSet<String>>>,
}

pub(crate) struct Game {
    shared: Shared,
    /// Since when a waiter could have been served.
    idle: BTreeMap<u64, Instant>,
    /// Since when a hold stands for no guard.
    orphans: BTreeMap<String, Instant>,
}

/// A semaphore as its server has it.
struct Seen {
    available: Option<i64>,
    /// Field or id, how many permits, and whether its lease is over.
    holds: Vec<(String, i64, bool)>,
}

pub(crate) fn name_of(number: usize) -> String {
    format!("permits:{number}")
}

impl Shared {
    fn beside(&self, number: usize) -> String {
        let name = name_of(number);
        match self.sort {
            Sort::Permits => format!("{{{name}}}:timeout"),
            _ => format!("leasehold_semaphore:{{{name}}}"),
        }
    }

    fn look(&self, engine: &EmbeddedRedis, number: usize) -> Seen {
        let dump = engine.dump();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let number_of = |bytes: &[u8]| text(bytes).parse::<f64>().expect("a number");
        let available = dump
            .get(name_of(number).as_bytes())
            .map(|entry| text(&entry.content[0]).parse().expect("a number"));
        let now = super::world::now_ms(engine);
        let holds = dump.get(self.beside(number).as_bytes()).map(|entry| {
            let hold = |pair: &[Vec<u8>]| {
                let over = number_of(&pair[1]) <= now;
                if self.sort == Sort::Permits {
                    return (hex(&pair[0]), 1, over);
                }
                let field = text(&pair[0]);
                let (_, permits) = field.rsplit_once(':').expect("with its permits");
                let permits = permits.parse().expect("a number");
                (field, permits, over)
            };
            entry.content.chunks(2).map(hold).collect()
        });
        Seen { available, holds: holds.unwrap_or_default() }
    }

    /// A guard was given out.
    pub(crate) fn granted(&self, book: &Book, entry: &Entry) {
        let mut seen = self.seen.lock();
        for id in ids_of(entry) {
            if !seen.insert(id.clone()) {
                book.log.violation(format!("given out twice: {id}"));
            }
        }
        drop(seen);
        self.check_sum(book, entry.wish.names[0]);
    }

    /// Those who rely on permits never rely on more than there are. When the last of them was
    /// granted the others were held already, so there were so many then.
    fn check_sum(&self, book: &Book, name: usize) {
        let entries = book.entries();
        let valid = entries.iter().filter(|entry| entry.wish.names[0] == name && entry.is_valid());
        let valid: Vec<_> = valid.map(|entry| &entry.wish).collect();
        let sum: i64 = valid.iter().map(|wish| i64::from(wish.permits)).sum();
        let Some(last) = valid.iter().map(|wish| wish.since).max() else { return };
        let most = self.totals.most_since(name, last);
        if sum > most {
            book.log.violation(format!("{sum} permits of {most} are held: {valid:?}"));
        }
    }
}

/// What the server knows a guard by.
fn ids_of(entry: &Entry) -> Vec<String> {
    match &*entry.held {
        Held::Permit(permit) => permit.ids().map(str::to_owned).collect(),
        held => vec![held.owner().to_owned()],
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes it");
        text
    })
}

impl Game {
    pub(crate) fn new(world: &World) -> Self {
        let plan = &world.plan;
        let shared = Shared {
            sort: plan.sort,
            totals: Totals::new(plan.names, plan.permits.into()),
            seen: Arc::default(),
            forgotten: Arc::default(),
        };
        Game { shared, idle: BTreeMap::new(), orphans: BTreeMap::new() }
    }

    /// Permits that are there and permits that are held are all that there are, at every moment.
    fn check_books(&self, world: &World, name: usize, seen: &Seen) {
        let Some(available) = seen.available else { return };
        let held: i64 = seen.holds.iter().map(|(_, permits, _)| permits).sum();
        let (low, high) = self.shared.totals.range(name);
        if !(low..=high).contains(&(available + held)) {
            let text = format!("{available} permits and {held} held are not {low} to {high}");
            world.book.log.violation(text);
        }
    }

    /// Whoever is first of its process is served as soon as there is enough for it.
    fn find_idle(world: &World, name: usize, seen: &Seen) -> Vec<u64> {
        let Some(available) = seen.available else { return Vec::new() };
        let over: i64 = seen.holds.iter().filter(|hold| hold.2).map(|hold| hold.1).sum();
        let wishes = world.book.wishes();
        let here = wishes.iter().filter(|(_, wish)| wish.names[0] == name);
        let could_be_served = |id: u64| {
            let last = &wishes[&id];
            let ahead = wishes.values().filter(|wish| {
                let queue = (wish.names[0], wish.who.process);
                queue == (name, last.who.process) && wish.since <= last.since
            });
            let wanted = ahead.map(|wish| wish.permits).max().unwrap_or(0);
            available + over >= wanted.into()
        };
        here.map(|(id, _)| *id).filter(|id| could_be_served(*id)).collect()
    }

    fn find_orphans(&self, world: &World, seen: Seen) -> Vec<String> {
        let mut known: BTreeSet<String> = world.book.entries().iter().flat_map(ids_of).collect();
        known.extend(self.shared.forgotten.lock().iter().cloned());
        let holds = seen.holds.into_iter().map(|(id, _, _)| id);
        holds.filter(|id| !known.contains(id)).collect()
    }
}

/// Keeps since when each of these has been so.
pub(crate) fn since<K: Ord + Clone>(before: &mut BTreeMap<K, Instant>, now: Vec<K>) {
    let since = |key: &K| before.get(key).copied().unwrap_or_else(Instant::now);
    *before = now.into_iter().map(|key| (key.clone(), since(&key))).collect();
}

impl super::world::Game for Game {
    fn play(&self, player: Player) -> BoxFuture<'static, ()> {
        User { player, shared: self.shared.clone() }.run().boxed()
    }

    fn look(&mut self, world: &World) {
        let (mut idle, mut orphans) = (Vec::new(), Vec::new());
        for name in 0..world.plan.names {
            let seen = self.shared.look(&world.engines[0], name);
            self.check_books(world, name, &seen);
            self.shared.check_sum(&world.book, name);
            idle.extend(Game::find_idle(world, name, &seen));
            orphans.extend(self.find_orphans(world, seen));
        }
        since(&mut self.idle, idle);
        since(&mut self.orphans, orphans);
        if let Some(limit) = world.plan.prompt_within() {
            world.complain("there is enough for", &self.idle, limit);
        }
        if let Some(limit) = world.plan.orphans_within() {
            world.complain("nobody has the guard of", &self.orphans, limit);
        }
    }

    fn forgets(&mut self, world: &World, _engine: usize) {
        world.book.void(&(0..world.plan.names).collect::<Vec<_>>());
    }

    fn evict(&mut self, world: &World, engine: usize, rng: &mut fastrand::Rng) {
        let number = rng.usize(0..world.plan.names);
        world.book.log.note(&format!("{} is evicted", name_of(number)));
        world.book.void(&[number]);
        world.engines[engine].lose(&name_of(number));
        world.engines[engine].lose(&self.shared.beside(number));
    }

    fn repair<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, ()> {
        let client = world.witness(0);
        let shared = self.shared.clone();
        async move {
            for number in 0..world.plan.names {
                let (name, permits) = (name_of(number), world.plan.permits);
                let set = match shared.sort {
                    Sort::Permits => {
                        client.permit_expirable_semaphore(name).try_set_permits(permits).await
                    }
                    _ => client.semaphore(name).try_set_permits(permits).await,
                };
                if let Err(error) = set {
                    world.book.log.violation(format!("cannot be set: {error}"));
                }
            }
        }
        .boxed()
    }

    fn left<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, Vec<String>> {
        let client = world.witness(0);
        let shared = self.shared.clone();
        async move {
            let mut left = Vec::new();
            for number in 0..world.plan.names {
                let name = name_of(number);
                let available = match shared.sort {
                    Sort::Permits => client.permit_expirable_semaphore(name).available().await,
                    _ => client.semaphore(name).available().await,
                };
                let (low, high) = shared.totals.range(number);
                if !available.as_ref().is_ok_and(|available| (low..=high).contains(available)) {
                    left.push(format!("{available:?} permits, not {low} to {high}"));
                }
            }
            for key in world.engines[0].dump().into_keys() {
                let key = String::from_utf8_lossy(&key).into_owned();
                if !(0..world.plan.names).any(|number| name_of(number) == key) {
                    left.push(format!("key {key}"));
                }
            }
            left
        }
        .boxed()
    }
}
