//! Several locks as one: all of them or none, whatever their kinds and the order they are given in.

use std::collections::BTreeMap;

use futures::FutureExt;
use futures::future::BoxFuture;
use leasehold::test_util::Dumped;
use leasehold::{Client, Lease, Lock};
use tokio::time::{Instant, sleep};

use super::book::{Entry, Held, Wish};
use super::permits::since;
use super::player::{Manner, Player};
use super::world::World;
use crate::plan::{ms, us};

/// The kinds of the members, the same for all of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    Fair,
    Fenced,
    Spin,
    String,
    Write,
}

const KINDS: [Kind; 6] =
    [Kind::Plain, Kind::Fair, Kind::Fenced, Kind::Spin, Kind::String, Kind::Write];

pub(crate) struct Game {
    kinds: Vec<Kind>,
    /// Since when all that somebody wants is free.
    idle: BTreeMap<u64, Instant>,
    /// Since when a name is held for a process that neither holds nor wants it.
    orphans: BTreeMap<(usize, usize), Instant>,
}

fn name_of(number: usize) -> String {
    format!("member:{number}")
}

/// The process whose field this is.
fn holder(world: &World, number: usize, held: &Dumped) -> Option<usize> {
    let engine = number % world.engines.len();
    let text = held.content.iter().map(|part| String::from_utf8_lossy(part).into_owned());
    let text: Vec<_> = text.collect();
    let holds = |ids: &Vec<String>| text.iter().any(|part| part.starts_with(&ids[engine]));
    world.ids.iter().position(holds)
}

fn member(clients: &[Client], kind: Kind, number: usize) -> Lock {
    let (client, name) = (&clients[number % clients.len()], name_of(number));
    match kind {
        Kind::Plain => client.lock(name),
        Kind::Fair => client.fair_lock(name),
        Kind::Fenced => client.fenced_lock(name).into(),
        Kind::Spin => client.spin_lock(name),
        Kind::String => client.string_lock(name),
        Kind::Write => client.read_write_lock(name).split().1,
    }
}

impl Game {
    pub(crate) fn new(world: &World) -> Self {
        let mut rng = fastrand::Rng::with_seed(world.plan.seed ^ 0x4B1D);
        let plain = rng.bool();
        let mut kind = || if plain { Kind::Plain } else { KINDS[rng.usize(0..KINDS.len())] };
        let kinds = (0..world.plan.names).map(|_| kind()).collect();
        world.book.log.note(&format!("members are {kinds:?}"));
        Game { kinds, idle: BTreeMap::new(), orphans: BTreeMap::new() }
    }

    fn held(world: &World) -> Vec<Option<Dumped>> {
        let dumps: Vec<_> = world.engines.iter().map(leasehold::EmbeddedRedis::dump).collect();
        let engines = dumps.len();
        let held = |number: usize| dumps[number % engines].get(name_of(number).as_bytes());
        (0..world.plan.names).map(|number| held(number).cloned()).collect()
    }

    /// The names of keys that outlive their locks.
    fn stays(&self, key: &str) -> bool {
        let fenced = self.kinds.iter().enumerate().filter(|(_, kind)| **kind == Kind::Fenced);
        let counter = |(number, _)| format!("redisson_lock_token:{{{}}}", name_of(number));
        fenced.map(counter).any(|counter| counter == key)
    }
}

impl super::world::Game for Game {
    fn play(&self, player: Player) -> BoxFuture<'static, ()> {
        User { player, kinds: self.kinds.clone() }.run().boxed()
    }

    fn look(&mut self, world: &World) {
        let held = Game::held(world);
        let wishes = world.book.wishes();
        let free = |wish: &Wish| wish.names.iter().all(|name| held[*name].is_none());
        let idle = wishes.iter().filter(|(_, wish)| free(wish)).map(|(id, _)| *id).collect();
        since(&mut self.idle, idle);
        let entries = world.book.entries().into_iter().map(|entry| entry.wish);
        let wanted: Vec<Wish> = wishes.into_values().chain(entries).collect();
        let mut orphans = Vec::new();
        for (name, held) in held.iter().enumerate() {
            let Some(process) = held.as_ref().and_then(|held| holder(world, name, held)) else {
                continue;
            };
            let knows = |wish: &Wish| wish.who.process == process && wish.names.contains(&name);
            if !wanted.iter().any(knows) {
                orphans.push((name, process));
            }
        }
        since(&mut self.orphans, orphans);
        if let Some(limit) = world.plan.prompt_within() {
            world.complain("all is free for", &self.idle, limit);
        }
        if let Some(limit) = world.plan.orphans_within() {
            world.complain("nobody holds or wants", &self.orphans, limit);
        }
    }

    fn forgets(&mut self, world: &World, engine: usize) {
        let here = |name: &usize| name % world.engines.len() == engine;
        world.book.void(&(0..world.plan.names).filter(here).collect::<Vec<_>>());
    }

    fn evict(&mut self, world: &World, _engine: usize, rng: &mut fastrand::Rng) {
        let number = rng.usize(0..world.plan.names);
        world.book.log.note(&format!("{} is evicted", name_of(number)));
        world.book.void(&[number]);
        world.engines[number % world.engines.len()].lose(&name_of(number));
    }

    fn repair<'a>(&'a mut self, _world: &'a World) -> BoxFuture<'a, ()> {
        async {}.boxed()
    }

    /// Places of dead waiters of fair locks are cleared by whoever comes next.
    fn left<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, Vec<String>> {
        let (_, process) = world.alive().next().expect("somebody lives");
        let clients = process.clients.clone();
        async move {
            for (number, kind) in self.kinds.iter().enumerate() {
                if *kind == Kind::Fair {
                    let lock = member(&clients, *kind, number);
                    if let Ok(guard) = lock.try_lock_now(Lease::fixed(ms(1000))).await {
                        drop(guard.unlock().await);
                    }
                }
            }
            let keys = world.engines.iter().flat_map(|engine| engine.dump().into_keys());
            let keys = keys.map(|key| String::from_utf8_lossy(&key).into_owned());
            keys.filter(|key| !self.stays(key)).map(|key| format!("key {key}")).collect()
        }
        .boxed()
    }
}

struct User {
    player: Player,
    kinds: Vec<Kind>,
}

impl User {
    async fn run(mut self) {
        // Some take the members one by one, in another order than a lock of several does.
        let old_school = self.player.who.actor == 3;
        while !self.player.is_over() {
            self.player.rests().await;
            let mut names: Vec<_> = (0..self.kinds.len()).collect();
            self.player.rng.shuffle(&mut names);
            names.truncate(self.player.rng.usize(1..=4));
            if old_school {
                names.truncate(2);
                names.sort_unstable_by(|one, other| other.cmp(one));
                self.one_by_one(&names).await;
            } else {
                self.together(names).await;
            }
        }
    }

    fn member(&self, number: usize) -> Lock {
        member(&self.player.clients, self.kinds[number], number)
    }

    async fn together(&mut self, names: Vec<usize>) {
        let mut lock = Lock::multi(names.iter().map(|number| self.member(*number)));
        let manner = self.player.manner();
        let wish = self.player.wish(names, 1);
        let Some(entry) = self.take(&mut lock, &wish, manner).await else { return };
        self.player.works(&entry).await;
        self.player.lets_go(entry).await;
    }

    async fn take(&mut self, lock: &mut Lock, wish: &Wish, manner: Manner) -> Option<Entry> {
        let acquire = async {
            match manner.wait {
                Some(wait) => lock.try_lock(wait, manner.lease).await,
                None => lock.acquire().lease(manner.lease).await,
            }
            .map(Held::Lock)
        };
        let entry = self.player.takes(wish, manner, acquire).await?;
        self.check_alone(&entry);
        Some(entry)
    }

    /// Nobody else's guard of any of these names is valid.
    fn check_alone(&self, entry: &Entry) {
        if !entry.is_valid() {
            return;
        }
        let entries = self.player.book.entries();
        let rival = entries.iter().find(|other| {
            let shares = other.wish.names.iter().any(|name| entry.wish.names.contains(name));
            other.id != entry.id && shares && other.is_valid()
        });
        if let Some(rival) = rival {
            self.player.violation(&format!("{:?} beside {:?}", entry.wish, rival.wish));
        }
    }

    /// As a program that knows nothing of locks of several.
    async fn one_by_one(&mut self, names: &[usize]) {
        let mut entries = Vec::new();
        for number in names {
            let mut lock = self.member(*number);
            let manner = Manner { cancel_at: None, ..self.player.manner() };
            let wish = self.player.wish(vec![*number], 1);
            match self.take(&mut lock, &wish, manner).await {
                Some(entry) => entries.push(entry),
                None => break,
            }
        }
        sleep(us(self.player.rng.u64(0..100_000))).await;
        for entry in entries {
            self.player.lets_go(entry).await;
        }
    }
}
