//! Locks of every kind, with one name on one server. Invariants, checked every few milliseconds of
//! simulated time:
//!
//! - every key has the layout that its kind requires;
//! - while a guard is valid, Redis has its hold;
//! - no hold without a guard stays in Redis for longer than a moment;
//! - no lock is free for longer than a moment while somebody waits for it;
//! - fair locks are granted in the order of their queues;
//! - a process that was shut down has no valid guard, and after a successful shutdown it has left
//!   nothing behind.

mod queue_order;
mod redis_state;
mod shared;
mod target;
mod user;
mod wild;

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use futures::FutureExt;
use futures::future::BoxFuture;
use leasehold::{Client, Lease};
use tokio::time::{Instant, sleep};

use crate::kind::Kind;
use crate::lasting::Lasting;
use crate::ledger::{Actor, Side, Wish};
use crate::plan::{Plan, Weather, in_ms, ms, name_of};
use crate::user::Users;
use crate::workload::Workload;
use crate::world::World;
use queue_order::QueueOrder;
use redis_state::RedisState;
use shared::Shared;
use user::Usual;

pub(crate) struct Locks {
    kind: Kind,
    shared: Shared,
    wild: Rng,
    /// Names that are free although somebody waits for them.
    free: Lasting<usize>,
    /// Those of them whose last hold ended with its lease, where waiters need not know that lease.
    ended: Lasting<usize>,
    /// When the lease of each name ends or has ended. Not of names that were released before.
    leases: BTreeMap<usize, Instant>,
    /// Fields without a guard.
    orphans: Lasting<String>,
    order: QueueOrder,
}

impl Locks {
    pub(crate) fn new(plan: &Plan) -> Self {
        Locks {
            kind: plan.kind,
            shared: Shared::default(),
            wild: plan.kind.rng(plan.seed, 0x3117D),
            free: Lasting::default(),
            ended: Lasting::default(),
            leases: BTreeMap::new(),
            orphans: Lasting::default(),
            order: QueueOrder::default(),
        }
    }

    fn look_for_orphans(&mut self, world: &World, all: &BTreeMap<usize, RedisState>) {
        let (Some(limit), Some(from)) = (world.plan.orphans_within(), world.unhurt_since()) else {
            return;
        };
        let entries = world.ledger.entries();
        let has_guard = |field: &String| entries.iter().any(|entry| entry.held.owner() == field);
        let fields = all.values().flat_map(|state| state.holds.keys());
        let orphans = fields.filter(|field| !has_guard(field) && !self.shared.is_stray(field));
        self.orphans
            .are_from(orphans.map(|field| (field.clone(), Some(from))));
        self.orphans
            .check(&world.ledger, "nobody has the guard of", Some(limit));
    }

    fn look_for_idle_names(&mut self, world: &World, all: &BTreeMap<usize, RedisState>) {
        self.note_leases(all);
        let limits = world.plan.prompt_within().zip(world.unhurt_since());
        let Some((limit, from)) = limits else { return };
        let from = from + world.plan.recovers_within();
        let (wishes, entries) = (world.ledger.wishes(), world.ledger.entries());
        let mut free = Vec::new();
        for (name, state) in all {
            let may_enter = |wish: &&Wish| match state.side {
                None => true,
                Some(Side::Read) => wish.side == Side::Read,
                Some(Side::Write) => false,
            };
            let here = wishes.values().filter(|wish| wish.names == [*name]);
            let here = here.filter(|wish| world.processes[wish.actor.process].alive);
            // A waiter behind a hold of its own client goes on when the guard of that hold learns
            // of the loss.
            let untold = world.ledger.is_forced(*name)
                || entries.iter().any(|entry| {
                    let void = entry.is_void() && entry.held.check().is_ok();
                    entry.wish.names == [*name] && void
                });
            if let Some(since) = here.filter(may_enter).map(|wish| wish.since).min()
                && !untold
            {
                free.push((
                    *name,
                    since
                        .max(from)
                        .max(world.ledger.last_crash().unwrap_or(since)),
                ));
            }
        }
        let has_ended =
            |(name, _): &(usize, Instant)| self.kind.is_given() && self.leases.contains_key(name);
        let (ended, free): (Vec<_>, Vec<_>) = free.into_iter().partition(has_ended);
        let limits = [limit, limit + world.ledger.lease_max()];
        for (these, names, limit) in [
            (&mut self.free, free, limits[0]),
            (&mut self.ended, ended, limits[1]),
        ] {
            these.are_from(names.into_iter().map(|(name, from)| (name, Some(from))));
            these.check(&world.ledger, "free and waited for:", Some(limit));
        }
    }

    fn note_leases(&mut self, all: &BTreeMap<usize, RedisState>) {
        let now = Instant::now();
        for (name, state) in all {
            if let Some(left) = state.holds.values().max() {
                let left = u64::try_from(*left).map_or(ms(0), ms);
                self.leases.insert(*name, now + left);
            } else if self.leases.get(name).is_some_and(|ends| *ends > now) {
                self.leases.remove(name);
            }
        }
    }

    fn look_at_order(&mut self, world: &World, all: &BTreeMap<usize, RedisState>) {
        let served = self.shared.served();
        if !world.plan.keeps_order() {
            return;
        }
        for (name, state) in all {
            if state.kept != state.queue.iter().cloned().collect() {
                let (queue, kept) = (&state.queue, &state.kept);
                let text = format!("{}: {queue:?} wait, kept are {kept:?}", name_of(*name));
                world.ledger.violation(text);
            }
            let granted = served.iter().filter(|(of, _)| of == name);
            let granted: Vec<_> = granted.map(|(_, field)| field.clone()).collect();
            // A waiter that was not polled when its turn came loses its place, and is also put
            // back.
            let weather = if world.plan.wild {
                Weather::Lossy
            } else {
                world.plan.weather
            };
            // A waiter that had the lock when it was forced open, and did not know it yet, is put
            // back.
            let may_be_back = world.ledger.broken_since(*name, Instant::now() - ms(1000));
            let odd = self.order.look(weather, (*name, state), &granted);
            if let Some(odd) = odd.filter(|_| !may_be_back) {
                world.ledger.violation(odd);
            }
        }
    }

    /// A process that was shut down has no valid guard. Once it has reported success, nothing of it
    /// is left except holds that it forgot.
    fn check_the_closed(&self, world: &World, all: &BTreeMap<usize, RedisState>) {
        for (process, settled) in world.ledger.closed() {
            let entries = world.ledger.entries();
            let mut own = entries
                .iter()
                .filter(|entry| entry.wish.actor.process == process);
            if let Some(entry) = own.find(|entry| entry.held.check().is_ok()) {
                let text = format!("{:?} is held by a client that was shut down", entry.wish);
                world.ledger.violation(text);
            }
            let id = &world.processes[process].ids[0];
            let own = |field: &&String| field.starts_with(id) && !self.shared.is_stray(field);
            for (name, state) in all.iter().filter(|_| settled) {
                if let Some(field) = state.holds.keys().chain(&state.queue).find(own) {
                    let text = format!("{field} of a client that is gone is at {}", name_of(*name));
                    world.ledger.violation(text);
                }
            }
        }
    }

    /// How much one client may ask while it waits, for kinds whose waiters do not only listen.
    fn cost_of_waiting(world: &World, asked: u64) -> u64 {
        let waited = world.plan.names as u64 * in_ms(world.ledger.start.elapsed());
        match world.plan.kind {
            // A heartbeat in each third of the claim, and one whenever a lease ends.
            Kind::Fair => 2 * waited / in_ms((world.plan.claim / 3).min(ms(500))) + asked,
            // Pauses double up to the longest. Each is at least half of its nominal length.
            kind => kind
                .asks_within_ms()
                .map_or(0, |most| waited / (most / 2) + 8 * asked),
        }
    }
}

/// Checks that what valid guards believe is true.
fn check_guards_stand(world: &World, all: &BTreeMap<usize, RedisState>) {
    for entry in world.ledger.entries() {
        let name = entry.wish.names[0];
        if !entry.is_valid() || world.ledger.is_forced(name) {
            continue;
        }
        let left = all
            .get(&name)
            .and_then(|state| state.holds.get(entry.held.owner()));
        let needed = entry
            .held
            .deadline()
            .saturating_duration_since(Instant::now());
        let needed = i64::try_from(needed.as_millis()).unwrap_or(i64::MAX);
        if left.is_none_or(|left| *left < needed) {
            let name = name_of(name);
            world.ledger.violation(format!(
                "a guard of {name} is good for {needed} ms, in the engine it stands for {left:?}"
            ));
        }
    }
}

impl Workload for Locks {
    fn users(&mut self, world: &World, process: usize, rng: &mut Rng) -> Users {
        let mut users: Users = Vec::new();
        for number in 0..world.plan.actors {
            let seat = Usual(self.shared.clone());
            let user = world.user(Actor::new(process, number), rng.fork(), seat);
            users.push(user.run().boxed());
        }
        if world.plan.wild {
            let actor = Actor::new(process, world.plan.actors);
            let user = world.user(actor, self.wild.fork(), self.shared.clone());
            users.push(user.run().boxed());
        }
        users
    }

    fn look(&mut self, world: &World) {
        self.shared.sweep();
        let dump = world.engines[0].dump();
        match redis_state::read(&world.plan, &dump) {
            Ok(all) => {
                check_guards_stand(world, &all);
                self.check_the_closed(world, &all);
                self.look_for_orphans(world, &all);
                self.look_for_idle_names(world, &all);
                self.look_at_order(world, &all);
            }
            Err(odd) => world.ledger.violation(odd),
        }
    }

    fn is_emptied(&mut self) {
        self.shared.is_emptied();
    }

    /// For a fair lock, the queue or its deadlines or both may be evicted as well.
    fn evicted_with(&self, name: usize, rng: &mut Rng) -> Vec<String> {
        if self.kind != Kind::Fair {
            return Vec::new();
        }
        let keys = redis_state::keys_of_queue(&name_of(name)).into_iter();
        keys.filter(|_| rng.bool()).collect()
    }

    /// Without faults an acquisition costs at most four calls, plus one for each wake or ended
    /// lease. Renewals, undos and losses cost calls of their own.
    fn check_the_whole(&self, world: &World) {
        if !matches!(world.plan.weather, Weather::Calm | Weather::Busy) {
            return;
        }
        let clients = world.processes.iter().flat_map(|process| &process.clients);
        let stats: Vec<_> = clients.map(Client::stats).collect();
        let ended: u64 = stats.iter().map(|stats| stats.lost).sum();
        for (number, stats) in stats.iter().enumerate() {
            let events = stats.wakes + stats.renewed + stats.releases_queued + stats.polls + ended;
            let asked = world.ledger.asked(number);
            let budget = 4 * asked + events + Self::cost_of_waiting(world, asked) + 10;
            if stats.calls > budget {
                let calls = stats.calls;
                let text = format!("process {number} made {calls} calls, not {budget}");
                world.ledger.violation(text);
            }
        }
    }

    /// The next client that comes by removes the place of a dead waiter.
    fn pass_by<'a>(&'a self, world: &'a World) -> BoxFuture<'a, ()> {
        let dead_may_wait = matches!(world.plan.weather, Weather::Crash | Weather::Storm);
        async move {
            if self.kind != Kind::Fair || !dead_may_wait {
                return;
            }
            sleep(world.plan.claim).await;
            // All processes may have ended.
            let client = world.engines[0].client();
            for name in (0..world.plan.names).map(name_of) {
                match client
                    .fair_lock(&name)
                    .try_lock(Duration::ZERO, Lease::Renewed)
                    .await
                {
                    Ok(guard) => guard.unlock().await.expect("free"),
                    Err(error) => world.ledger.violation(format!("{name} at rest: {error}")),
                }
            }
        }
        .boxed()
    }

    fn stays(&self, key: &str) -> bool {
        redis_state::stays(self.kind, key)
    }
}
