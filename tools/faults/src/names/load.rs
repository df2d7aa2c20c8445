//! The load: two clients of the library in their own process, so that its memory, threads and
//! descriptors are those of the library.

use std::collections::BTreeMap;
use std::io::{Read as _, stdin};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Args;
use leasehold::Client;
use serde::{Deserialize, Serialize};
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::losses::Losses;
use super::visit::{Tally, Visitor};
use crate::process::Usage;
use crate::stalls::Stalls;

/// The size of the load.
#[derive(Args, Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Size {
    /// Names to lock and release, each once
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) names: u64,
    /// Names between two samples
    #[arg(long, default_value_t = 10_000)]
    pub(crate) round: u64,
    /// Tasks at once
    #[arg(long, default_value_t = 300)]
    pub(crate) tasks: u64,
    /// The lease of every hold
    #[arg(long, default_value_t = 10_000)]
    pub(crate) lease_ms: u64,
}

impl Size {
    pub(super) fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    /// The clients must be idle after this time. They give up an unconfirmed release after two
    /// leases and 10 s, and remember for 30 s that others poll for a name.
    pub(super) fn rest(&self) -> Duration {
        2 * self.lease() + Duration::from_secs(32)
    }
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[arg(long)]
    pub(super) url: String,
    #[arg(long)]
    pub(super) seed: u64,
    #[command(flatten)]
    pub(super) size: Size,
}

/// A line that the load prints.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Message {
    /// Sent before the first round and after each round.
    Sample(Sample),
    /// Sent after the last round.
    Loaded(Totals),
    /// Sent when all gauges are zero, or when the time for that is over.
    Idle(Sample),
    /// Sent when the clients are shut down.
    Closed { error: Option<String> },
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(super) names_done: u64,
    pub(super) ms: u64,
    #[serde(flatten)]
    pub(super) usage: Usage,
    /// Tasks of the load's runtime. The library has its own runtime.
    pub(super) tasks: u64,
    /// The sum of both clients.
    #[serde(flatten)]
    pub(super) gauges: Gauges,
    pub(super) reconnects: u64,
}

/// What the clients hold at the moment. All are zero when the clients are idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Gauges {
    pub(super) subscriptions: u64,
    pub(super) listeners: u64,
    pub(super) local_queues: u64,
    pub(super) waiting: u64,
    pub(super) holds: u64,
    pub(super) releases_pending: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Totals {
    /// Names that were locked and released.
    pub(super) names: u64,
    pub(super) by_kind: BTreeMap<String, u64>,
    /// Names that both clients tried to lock at the same time.
    pub(super) contended: u64,
    /// Guards that were dropped instead of unlocked.
    pub(super) dropped: u64,
    /// Errors after which the call was retried, by kind.
    pub(super) retried: BTreeMap<String, u64>,
    /// Errors that cannot be retried, one sentence each.
    pub(super) refused: Vec<String>,
    /// Losses that came with a stall of the machine.
    pub(super) lost_in_stalls: u64,
    /// The counters of both clients, added up.
    pub(super) counters: BTreeMap<String, u64>,
}

/// Runs the load. Ends when the input of this process ends.
pub(crate) fn run(options: &Options) {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(load(options));
}

async fn load(options: &Options) {
    let size = &options.size;
    let clients = [connect(options).await, connect(options).await];
    let visitor = Arc::new(Visitor::new(clients, options.seed));
    let losses = Arc::new(Mutex::new(Losses::with_lease(size.lease())));
    let stalls = watch(&visitor, &losses);
    let started = Instant::now();
    let mut done = 0;
    send(&Message::Sample(sample(&visitor, started)));
    while done < size.names {
        let end = size.names.min(done + size.round);
        round(&visitor, done..end, size.tasks).await;
        done = end;
        send(&Message::Sample(sample(&visitor, started)));
    }
    let lost_in_stalls = losses.lock().expect("no panic").explained();
    send(&Message::Loaded(totals(&visitor, lost_in_stalls)));

    let limit = Instant::now() + size.rest();
    while gauges(&visitor.clients) != Gauges::default() && Instant::now() < limit {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    send(&Message::Idle(sample(&visitor, started)));
    drop(stalls);
    stdin()
        .read_to_end(&mut Vec::new())
        .expect("the input ends");
    let mut error = None;
    for client in &visitor.clients {
        error = error.or(client.shutdown(Duration::from_secs(5)).await.err());
    }
    send(&Message::Closed {
        error: error.map(|error| error.to_string()),
    });
}

async fn connect(options: &Options) -> Client {
    let client = Client::builder(&options.url).lease(options.size.lease());
    client
        .connect()
        .await
        .expect("the server runs, and no fault is active yet")
}

/// Looks for losses until it is dropped.
fn watch(visitor: &Arc<Visitor>, losses: &Arc<Mutex<Losses>>) -> Stalls {
    let (visitor, losses) = (visitor.clone(), losses.clone());
    Stalls::watch(move |late| {
        let lost = visitor.clients.iter().map(|client| client.stats().lost);
        let mut losses = losses.lock().expect("no panic");
        losses.look(std::time::Instant::now(), late, lost.sum());
    })
}

/// Locks and releases all names of the range, with this many tasks.
async fn round(visitor: &Arc<Visitor>, names: std::ops::Range<u64>, tasks: u64) {
    let next = Arc::new(AtomicU64::new(names.start));
    let mut workers = JoinSet::new();
    for _ in 0..tasks {
        let (visitor, next, end) = (visitor.clone(), next.clone(), names.end);
        workers.spawn(async move {
            loop {
                let number = next.fetch_add(1, Relaxed);
                if number >= end {
                    return;
                }
                Box::pin(visitor.visit(number)).await;
            }
        });
    }
    workers.join_all().await;
}

fn sample(visitor: &Visitor, started: Instant) -> Sample {
    Sample {
        names_done: visitor.tally.names.load(Relaxed),
        ms: u64::try_from(started.elapsed().as_millis()).expect("no such age"),
        usage: Usage::of(std::process::id()).expect("this process runs"),
        tasks: Handle::current().metrics().num_alive_tasks() as u64,
        gauges: gauges(&visitor.clients),
        reconnects: visitor
            .clients
            .iter()
            .map(|client| client.stats().reconnects)
            .sum(),
    }
}

fn gauges(clients: &[Client; 2]) -> Gauges {
    let [one, other] = clients.each_ref().map(Client::stats);
    Gauges {
        subscriptions: one.subscriptions + other.subscriptions,
        listeners: one.listeners + other.listeners,
        local_queues: one.local_queues + other.local_queues,
        waiting: one.waiting + other.waiting,
        holds: one.holds + other.holds,
        releases_pending: one.releases_pending + other.releases_pending,
    }
}

fn totals(visitor: &Visitor, lost_in_stalls: u64) -> Totals {
    let Tally {
        names,
        contended,
        dropped,
        by_kind,
        retried,
        refused,
    } = &visitor.tally;
    let mut counters = BTreeMap::new();
    for client in &visitor.clients {
        for (name, value) in client.stats().iter() {
            *counters.entry(name.to_owned()).or_default() += value;
        }
    }
    Totals {
        names: names.load(Relaxed),
        by_kind: by_kind.lock().expect("no panic").clone(),
        contended: contended.load(Relaxed),
        dropped: dropped.load(Relaxed),
        retried: retried.lock().expect("no panic").clone(),
        refused: refused.lock().expect("no panic").clone(),
        lost_in_stalls,
        counters,
    }
}

fn send(message: &Message) {
    println!("{}", serde_json::to_string(message).expect("plain data"));
}
