//! The quorum lock. What is promised, and checked whenever anybody looks:
//!
//! While a guard is valid its field stands on a majority of the servers, where a server that forgot
//! its keys, or whose clock jumped, within the last lease counts as if it stood there. Two guards
//! that are valid at once have two majorities, which share a server; a server holds one field of a
//! name. So two are valid at once only if a server broke its promise within a lease and its vote was
//! needed; never while servers are merely down, slow, unreachable or restarted with their data.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use leasehold::test_util::Dumped;
use leasehold::{EmbeddedRedis, Lease, Lock};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until};

use super::book::{Entry, Held, Wish};
use super::permits::since;
use super::player::{Manner, Player};
use super::world::World;
use crate::plan::us;

/// The kind of the members.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Plain,
    String,
}

/// The servers, as one who sees all of them.
#[derive(Clone)]
struct Eye {
    engines: Vec<EmbeddedRedis>,
    /// When each server last broke its promise.
    broken: Arc<Mutex<Vec<Option<Instant>>>>,
    /// What the fields of each process begin with on each server.
    fields: Arc<Vec<Vec<String>>>,
    lease_max: Duration,
}

pub(crate) struct Game {
    kind: Kind,
    eye: Eye,
    /// Since when a name that somebody wants is free on every server.
    idle: BTreeMap<u64, Instant>,
    /// When each field was first seen.
    seen: BTreeMap<String, Instant>,
    /// Since when a field stands whose acquisition is over, and so is the hold.
    orphans: BTreeMap<String, Instant>,
}

fn name_of(number: usize) -> String {
    format!("quorum:{number}")
}

fn owner_of(entry: &Dumped) -> String {
    String::from_utf8_lossy(&entry.content[0]).into_owned()
}

impl Eye {
    fn need(&self) -> usize {
        self.engines.len() / 2 + 1
    }

    fn broke_lately(&self, engine: usize) -> bool {
        let broken = self.broken.lock()[engine];
        broken.is_some_and(|at| at.elapsed() <= self.lease_max)
    }

    fn owners(&self, number: usize) -> Vec<Option<String>> {
        let name = name_of(number);
        let owner = |engine: &EmbeddedRedis| engine.dump().get(name.as_bytes()).map(owner_of);
        self.engines.iter().map(owner).collect()
    }

    /// The promise.
    fn check(&self, entry: &Entry) -> Result<(), String> {
        if !entry.is_valid() {
            return Ok(());
        }
        let (number, process) = (entry.wish.names[0], entry.wish.who.process);
        let owners = self.owners(number);
        let stands = |engine: &usize| {
            let prefix = &self.fields[process][*engine];
            owners[*engine].as_ref().is_some_and(|owner| owner.starts_with(prefix))
        };
        let counted = |engine: &usize| stands(engine) || self.broke_lately(*engine);
        let count = (0..self.engines.len()).filter(counted).count();
        if count >= self.need() {
            return Ok(());
        }
        Err(format!("{:?} relies on {count} of {owners:?}", entry.wish))
    }

    /// Two at once, although no server broke its promise.
    fn check_alone(&self, entry: &Entry, entries: &[Entry]) -> Result<(), String> {
        let rival = entries.iter().find(|other| {
            let same = other.wish.names == entry.wish.names && other.id != entry.id;
            same && other.is_valid() && entry.is_valid()
        });
        match rival {
            Some(rival) if !(0..self.engines.len()).any(|engine| self.broke_lately(engine)) => {
                Err(format!("{:?} beside {:?}", entry.wish, rival.wish))
            }
            _ => Ok(()),
        }
    }
}

impl Game {
    pub(crate) fn new(world: &World) -> Self {
        let kind = if (world.plan.seed / 5).is_multiple_of(2) { Kind::Plain } else { Kind::String };
        let eye = Eye {
            engines: world.engines.clone(),
            broken: Arc::new(Mutex::new(vec![None; world.engines.len()])),
            fields: world.ids.clone(),
            lease_max: world.plan.lease,
        };
        let (idle, seen, orphans) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Game { kind, eye, idle, seen, orphans }
    }
}

impl super::world::Game for Game {
    fn play(&self, player: Player) -> BoxFuture<'static, ()> {
        User { player, kind: self.kind, eye: self.eye.clone() }.run().boxed()
    }

    fn look(&mut self, world: &World) {
        let entries = world.book.entries();
        for entry in &entries {
            let checked = self.eye.check(entry);
            if let Err(text) = checked.and_then(|()| self.eye.check_alone(entry, &entries)) {
                world.book.log.violation(text);
            }
        }
        let wishes = world.book.wishes();
        let (mut idle, mut orphans) = (Vec::new(), Vec::new());
        for number in 0..world.plan.names {
            let owners = self.eye.owners(number);
            let here = |wish: &&Wish| wish.names == [number];
            if owners.iter().all(Option::is_none) {
                idle.extend(wishes.iter().filter(|(_, wish)| here(wish)).map(|(id, _)| *id));
            }
            let wanted = wishes.values().chain(entries.iter().map(|entry| &entry.wish));
            let wanted: Vec<_> = wanted.filter(here).collect();
            for (engine, owner) in owners.into_iter().enumerate() {
                let Some(owner) = owner else { continue };
                let seen = *self.seen.entry(owner.clone()).or_insert_with(Instant::now);
                let of = |wish: &&Wish| {
                    let prefix = &self.eye.fields[wish.who.process][engine];
                    owner.starts_with(prefix) && wish.since <= seen
                };
                if !wanted.iter().any(of) {
                    orphans.push(format!("{owner} on server {engine}"));
                }
            }
        }
        since(&mut self.idle, idle);
        since(&mut self.orphans, orphans);
        if let Some(limit) = world.plan.prompt_within() {
            world.complain("free everywhere for", &self.idle, limit);
        }
        if let Some(limit) = world.plan.orphans_within() {
            world.complain("nobody holds or wants", &self.orphans, limit);
        }
    }

    fn forgets(&mut self, _world: &World, engine: usize) {
        self.eye.broken.lock()[engine] = Some(Instant::now());
    }

    fn evict(&mut self, world: &World, engine: usize, rng: &mut fastrand::Rng) {
        let number = rng.usize(0..world.plan.names);
        world.book.log.note(&format!("{} is evicted from server {engine}", name_of(number)));
        self.eye.broken.lock()[engine] = Some(Instant::now());
        world.engines[engine].lose(&name_of(number));
    }

    fn repair<'a>(&'a mut self, _world: &'a World) -> BoxFuture<'a, ()> {
        async {}.boxed()
    }

    fn left<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, Vec<String>> {
        let keys = world.engines.iter().flat_map(|engine| engine.dump().into_keys());
        let left = keys.map(|key| format!("key {}", String::from_utf8_lossy(&key))).collect();
        std::future::ready(left).boxed()
    }
}

struct User {
    player: Player,
    kind: Kind,
    eye: Eye,
}

impl User {
    async fn run(mut self) {
        let lock = |number| {
            let name = name_of(number);
            Lock::quorum(self.player.clients.iter().map(|client| match self.kind {
                Kind::Plain => client.lock(&name),
                Kind::String => client.string_lock(&name),
            }))
        };
        let mut locks: Vec<_> = (0..self.player.plan.names).map(lock).collect();
        while !self.player.is_over() {
            self.player.rests().await;
            let number = self.player.rng.usize(0..locks.len());
            self.visit(&mut locks[number], number).await;
        }
    }

    async fn visit(&mut self, lock: &mut Lock, number: usize) {
        let manner = self.player.manner();
        let wish = self.player.wish(vec![number], 1);
        let Some(entry) = self.take(lock, &wish, manner).await else { return };
        self.check(&entry);
        if self.player.plan.overrun && manner.lease != Lease::Renewed {
            // To the last moment.
            sleep_until(entry.held.deadline().checked_sub(us(200)).expect("later")).await;
        } else if self.player.rng.u8(0..6) == 0 {
            // Some members may be lost meanwhile.
            sleep(self.player.plan.lease.mul_f64(2.0 * self.player.rng.f64())).await;
        } else {
            self.player.works(&entry).await;
        }
        self.check(&entry);
        self.player.lets_go(entry).await;
    }

    fn check(&self, entry: &Entry) {
        let entries = self.player.book.entries();
        let checked = self.eye.check(entry);
        if let Err(text) = checked.and_then(|()| self.eye.check_alone(entry, &entries)) {
            self.player.violation(&text);
        }
    }

    async fn take(&mut self, lock: &mut Lock, wish: &Wish, manner: Manner) -> Option<Entry> {
        let acquire = async {
            let taken = match manner.wait {
                Some(wait) => lock.try_lock(wait, manner.lease).await,
                None => lock.acquire().lease(manner.lease).await,
            };
            taken.map(Held::Lock)
        };
        self.player.takes(wish, manner, acquire).await
    }
}
