//! Semaphores of both kinds. Permits are never given out twice, and none is ever missing.
//! Invariants:
//!
//! - the available and the held permits add up to the total, at every moment;
//! - valid guards never have more permits than that, and no id is given out twice;
//! - the first waiter of each client is served as soon as there are enough permits for it,
//!   including those of dead holders;
//! - no permit is held without a guard for longer than a moment, unless it was left to its lease.

mod named;
mod totals;
mod user;

use std::collections::BTreeSet;
use std::sync::Arc;

use fastrand::Rng;
use futures::FutureExt;
use futures::future::BoxFuture;
use leasehold::EmbeddedRedis;
use leasehold::test_util::{ErrorReply, Reply};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use crate::kind::Kind;
use crate::lasting::Lasting;
use crate::ledger::{Entry, Held, Ledger};
use crate::plan::{Plan, ms, name_of};
use crate::user::Users;
use crate::workload::Workload;
use crate::world::World;
use named::Named;
use totals::Totals;

/// What the users of one run share.
#[derive(Clone)]
pub(crate) struct Shared {
    kind: Kind,
    totals: Totals,
    /// Ids and fields that were given out.
    given_out: Arc<Mutex<BTreeSet<String>>>,
    /// Permits that were left to their leases.
    forgotten: Arc<Mutex<BTreeSet<String>>>,
}

pub(crate) struct Permits {
    shared: Shared,
    /// Waits that could be granted.
    idle: Lasting<u64>,
    /// Holds without a guard.
    orphans: Lasting<String>,
}

/// A semaphore as its server has it.
struct RedisState {
    available: Option<i64>,
    /// Field or id, number of permits, and whether the lease is over.
    holds: Vec<(String, i64, bool)>,
}

impl Shared {
    fn key_of_holds(&self, number: usize) -> String {
        let name = name_of(number);
        match self.kind {
            Kind::Permits => format!("{{{name}}}:timeout"),
            _ => format!("leasehold_semaphore:{{{name}}}"),
        }
    }

    fn look(&self, engine: &EmbeddedRedis, number: usize) -> RedisState {
        let dump = engine.dump();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let number_of = |bytes: &[u8]| text(bytes).parse::<f64>().expect("a number");
        let available = dump
            .get(name_of(number).as_bytes())
            .map(|entry| text(&entry.content[0]).parse().expect("a number"));
        let now = now_ms(engine);
        let holds = dump.get(self.key_of_holds(number).as_bytes()).map(|entry| {
            let hold = |pair: &[Vec<u8>]| {
                let over = number_of(&pair[1]) <= now;
                if self.kind == Kind::Permits {
                    return (hex(&pair[0]), 1, over);
                }
                let field = text(&pair[0]);
                let (_, permits) = field.rsplit_once(':').expect("with its permits");
                let permits = permits.parse().expect("a number");
                (field, permits, over)
            };
            entry.content.chunks(2).map(hold).collect()
        });
        RedisState {
            available,
            holds: holds.unwrap_or_default(),
        }
    }

    /// A guard was given out.
    fn granted(&self, ledger: &Ledger, entry: &Entry) {
        for id in ids_of(entry) {
            if !self.given_out.lock().insert(id.clone()) {
                ledger.violation(format!("given out twice: {id}"));
            }
        }
        self.check_sum(ledger, entry.wish.names[0]);
    }

    /// Valid guards never have more permits than there are. When the last of them was granted the
    /// others were already held, so there were that many at that time.
    fn check_sum(&self, ledger: &Ledger, name: usize) {
        let entries = ledger.entries();
        let valid = entries
            .iter()
            .filter(|entry| entry.wish.names[0] == name && entry.is_valid());
        let valid: Vec<_> = valid.map(|entry| &entry.wish).collect();
        let sum: i64 = valid.iter().map(|wish| i64::from(wish.permits)).sum();
        let Some(last) = valid.iter().map(|wish| wish.since).max() else {
            return;
        };
        let most = self.totals.most_since(name, last);
        if sum > most {
            ledger.violation(format!("{sum} permits of {most} are held: {valid:?}"));
        }
    }
}

/// The fields or ids by which the server knows a guard.
fn ids_of(entry: &Entry) -> Vec<String> {
    match &entry.held {
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

/// The server's clock.
fn now_ms(engine: &EmbeddedRedis) -> f64 {
    let Ok(Reply::Array(parts)) = engine.command(&["TIME"]) else {
        unreachable!("TIME")
    };
    let number = |part: &Result<Reply, ErrorReply>| match part {
        Ok(Reply::Bulk(text)) => String::from_utf8_lossy(text)
            .parse::<f64>()
            .expect("a number"),
        other => unreachable!("{other:?}"),
    };
    (number(&parts[0]) * 1000.0 + number(&parts[1]) / 1000.0).floor()
}

impl Permits {
    pub(crate) fn new(plan: &Plan) -> Self {
        let shared = Shared {
            kind: plan.kind,
            totals: Totals::new(plan.names, plan.permits.into()),
            given_out: Arc::default(),
            forgotten: Arc::default(),
        };
        Permits {
            shared,
            idle: Lasting::default(),
            orphans: Lasting::default(),
        }
    }

    /// The available and the held permits add up to the total, at every moment.
    fn check_total(&self, world: &World, name: usize, state: &RedisState) {
        let Some(available) = state.available else {
            return;
        };
        let held: i64 = state.holds.iter().map(|(_, permits, _)| permits).sum();
        let (low, high) = self.shared.totals.range(name);
        if !(low..=high).contains(&(available + held)) {
            let text = format!("{available} permits and {held} held are not {low} to {high}");
            world.ledger.violation(text);
        }
    }

    /// The first waiter of each process is served as soon as there are enough permits for it.
    fn find_idle(world: &World, name: usize, state: &RedisState) -> Vec<u64> {
        let Some(available) = state.available else {
            return Vec::new();
        };
        let over: i64 = state
            .holds
            .iter()
            .filter(|hold| hold.2)
            .map(|hold| hold.1)
            .sum();
        let wishes = world.ledger.wishes();
        let here = wishes.iter().filter(|(_, wish)| wish.names[0] == name);
        let could_be_served = |id: u64| {
            let last = &wishes[&id];
            let ahead = wishes.values().filter(|wish| {
                let queue = (wish.names[0], wish.actor.process);
                queue == (name, last.actor.process) && wish.since <= last.since
            });
            let wanted = ahead.map(|wish| wish.permits).max().unwrap_or(0);
            available + over >= wanted.into()
        };
        here.map(|(id, _)| *id)
            .filter(|id| could_be_served(*id))
            .collect()
    }

    fn find_orphans(&self, world: &World, state: RedisState) -> Vec<String> {
        let mut known: BTreeSet<String> = world.ledger.entries().iter().flat_map(ids_of).collect();
        known.extend(self.shared.forgotten.lock().iter().cloned());
        let holds = state.holds.into_iter().map(|(id, _, _)| id);
        holds.filter(|id| !known.contains(id)).collect()
    }
}

impl Workload for Permits {
    fn users(&mut self, world: &World, process: usize, rng: &mut Rng) -> Users {
        world.users(process, rng, &self.shared, |user| user.run().boxed())
    }

    fn look(&mut self, world: &World) {
        let (mut idle, mut orphans) = (Vec::new(), Vec::new());
        for name in 0..world.plan.names {
            let state = self.shared.look(&world.engines[0], name);
            self.check_total(world, name, &state);
            self.shared.check_sum(&world.ledger, name);
            idle.extend(Permits::find_idle(world, name, &state));
            orphans.extend(self.find_orphans(world, state));
        }
        self.idle.are(idle);
        self.orphans.are(orphans);
        self.idle.check(
            &world.ledger,
            "there is enough for",
            world.plan.prompt_within(),
        );
        self.orphans.check(
            &world.ledger,
            "nobody has the guard of",
            world.plan.orphans_within(),
        );
    }

    fn evicted_with(&self, name: usize, _rng: &mut Rng) -> Vec<String> {
        vec![self.shared.key_of_holds(name)]
    }

    /// An emptied semaphore has no permits until somebody sets them; a client may need a moment to
    /// be connected again.
    fn repair<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, ()> {
        async {
            let patience = Instant::now() + ms(5000);
            for number in 0..world.plan.names {
                let named = Named::new(self.shared.kind, &world.witnesses()[0], number);
                while let Err(error) = named.try_set(world.plan.permits).await {
                    if Instant::now() > patience {
                        return world.ledger.violation(format!("cannot be set: {error}"));
                    }
                    sleep(ms(50)).await;
                }
            }
        }
        .boxed()
    }

    fn stays(&self, key: &str) -> bool {
        self.shared
            .totals
            .names()
            .map(name_of)
            .any(|name| name == key)
    }

    fn left<'a>(&'a self, world: &'a World) -> BoxFuture<'a, Vec<String>> {
        async {
            let mut left = Vec::new();
            for number in 0..world.plan.names {
                let named = Named::new(self.shared.kind, &world.witnesses()[0], number);
                let available = named.available().await;
                let (low, high) = self.shared.totals.range(number);
                if !available
                    .as_ref()
                    .is_ok_and(|available| (low..=high).contains(available))
                {
                    left.push(format!("{available:?} permits, not {low} to {high}"));
                }
            }
            left
        }
        .boxed()
    }
}
