//! The quorum lock. The invariant, checked at every look:
//!
//! While a guard is valid, its field is on a majority of the servers. A server that forgot its
//! keys, or whose clock jumped, within the last lease counts as having it. Two guards that are
//! valid at once have two majorities, which share a server, and a server holds one field of a name.
//! So two guards are valid at once only if a server broke its promise within a lease and its vote
//! was needed. That never happens while servers are merely down, slow, unreachable or restarted
//! with their data.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use futures::FutureExt;
use leasehold::test_util::Dumped;
use leasehold::{Client, EmbeddedRedis, Lease, Lock};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until};

use crate::lasting::Lasting;
use crate::ledger::{Entry, Ledger, Wish};
use crate::plan::{name_of, us};
use crate::user::{User, Users};
use crate::workload::Workload;
use crate::world::World;

/// The kind of the members.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MemberKind {
    Plain,
    String,
}

/// The servers, seen from outside.
#[derive(Clone)]
pub(crate) struct Servers {
    kind: MemberKind,
    engines: Vec<EmbeddedRedis>,
    /// When each server last broke its promise.
    broken: Arc<Mutex<Vec<Option<Instant>>>>,
    lease_max: Duration,
}

pub(crate) struct Quorums {
    servers: Servers,
    /// Waits whose name is free on every server.
    idle: Lasting<u64>,
    /// When each field was first seen.
    seen: BTreeMap<String, Instant>,
    /// Fields whose acquisition and hold are both over.
    orphans: Lasting<String>,
}

fn owner_of(entry: &Dumped) -> String {
    String::from_utf8_lossy(&entry.content[0]).into_owned()
}

impl Servers {
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

    /// Checks the invariant. `ids` are the prefixes of the fields of the entry's process on each
    /// server.
    fn check(&self, ledger: &Ledger, entry: &Entry, ids: &[String]) {
        if !entry.is_valid() {
            return;
        }
        let owners = self.owners(entry.wish.names[0]);
        let all = || 0..self.engines.len();
        let stands = |engine: usize| {
            owners[engine]
                .as_ref()
                .is_some_and(|owner| owner.starts_with(&ids[engine]))
        };
        let counted = |engine: &usize| stands(*engine) || self.broke_lately(*engine);
        let count = all().filter(counted).count();
        if count < self.need() {
            ledger.violation(format!("{:?} relies on {count} of {owners:?}", entry.wish));
        }
        if !all().any(|engine| self.broke_lately(engine))
            && let Some(rival) = ledger.rival(entry)
        {
            ledger.violation(format!("{:?} beside {rival:?}", entry.wish));
        }
    }
}

impl Quorums {
    pub(crate) fn new(world: &World) -> Self {
        let plain = (world.plan.seed / 5).is_multiple_of(2);
        let servers = Servers {
            kind: if plain {
                MemberKind::Plain
            } else {
                MemberKind::String
            },
            engines: world.engines.clone(),
            broken: Arc::new(Mutex::new(vec![None; world.engines.len()])),
            lease_max: world.plan.lease,
        };
        Quorums {
            servers,
            idle: Lasting::default(),
            seen: BTreeMap::new(),
            orphans: Lasting::default(),
        }
    }
}

impl Workload for Quorums {
    fn users(&mut self, world: &World, process: usize, rng: &mut Rng) -> Users {
        world.users(process, rng, &self.servers, |user| user.run().boxed())
    }

    fn look(&mut self, world: &World) {
        let entries = world.ledger.entries();
        for entry in &entries {
            let ids = &world.processes[entry.wish.actor.process].ids;
            self.servers.check(&world.ledger, entry, ids);
        }
        let wishes = world.ledger.wishes();
        let (mut idle, mut orphans) = (Vec::new(), Vec::new());
        for number in 0..world.plan.names {
            let owners = self.servers.owners(number);
            let here = |wish: &&Wish| wish.names == [number];
            if owners.iter().all(Option::is_none) {
                idle.extend(
                    wishes
                        .iter()
                        .filter(|(_, wish)| here(wish))
                        .map(|(id, _)| *id),
                );
            }
            let wanted = wishes
                .values()
                .chain(entries.iter().map(|entry| &entry.wish));
            let wanted: Vec<_> = wanted.filter(here).collect();
            for (engine, owner) in owners.into_iter().enumerate() {
                let Some(owner) = owner else { continue };
                let seen = *self.seen.entry(owner.clone()).or_insert_with(Instant::now);
                let of = |wish: &&Wish| {
                    let prefix = &world.processes[wish.actor.process].ids[engine];
                    owner.starts_with(prefix) && wish.since <= seen
                };
                if !wanted.iter().any(of) {
                    orphans.push(format!("{owner} on server {engine}"));
                }
            }
        }
        self.idle.are(idle);
        self.orphans.are(orphans);
        self.idle.check(
            &world.ledger,
            "free everywhere for",
            world.plan.prompt_within(),
        );
        self.orphans.check(
            &world.ledger,
            "nobody holds or wants",
            world.plan.orphans_within(),
        );
    }

    fn forgets(&mut self, _world: &World, engine: usize, _names: &[usize]) {
        self.servers.broken.lock()[engine] = Some(Instant::now());
    }
}

impl User<Servers> {
    async fn run(mut self) {
        let lock = |number| {
            let name = name_of(number);
            Lock::quorum(self.clients.iter().map(|client| match self.shared.kind {
                MemberKind::Plain => client.lock(&name),
                MemberKind::String => client.string_lock(&name),
            }))
        };
        let locks: Vec<_> = (0..self.plan.names).map(lock).collect();
        while !self.is_over() {
            self.pauses().await;
            let number = self.rng.usize(0..locks.len());
            Box::pin(self.visit(&locks[number], number)).await;
        }
    }

    async fn visit(&mut self, lock: &Lock, number: usize) {
        let request = self.request();
        let wish = Wish::new(self.actor, vec![number]);
        let Some(entry) = self.takes(wish, request, request.take(lock)).await else {
            return;
        };
        self.check(&entry);
        if self.plan.overrun && request.lease != Lease::Renewed {
            // Until the last moment.
            sleep_until(entry.held.deadline().checked_sub(us(200)).expect("later")).await;
        } else if self.rng.u8(0..6) == 0 {
            // Some members may be lost in the meantime.
            sleep(self.plan.lease.mul_f64(2.0 * self.rng.f64())).await;
        } else {
            self.works(&entry).await;
            self.extends(&entry).await;
        }
        self.check(&entry);
        self.lets_go(entry).await;
    }

    fn check(&self, entry: &Entry) {
        let ids: Vec<_> = self.clients.iter().map(Client::id).collect();
        self.shared.check(&self.ledger, entry, &ids);
    }
}
