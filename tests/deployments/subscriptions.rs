//! Subscriptions in many slots, which are restored after a loss, and end while their slots move.
//!
//! `LEASEHOLD_UNSUBSCRIPTIONS` is how often slots move under subscriptions that come and go (20);
//! `LEASEHOLD_SEED` replays the times.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use leasehold::settings::ShardedPubSub;
use leasehold::{Client, ClientBuilder, Error, Lease};
use leasehold_testbed::{Cluster, LIMIT, Shape, eventually, keyslot};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::contenders::{held_and_waited_for, release_wakes_all, size};

/// So long that neither a poll nor the end of a lease makes up for a lost message.
const NEVER: Duration = Duration::from_secs(60);

const SLOTS: usize = 500;
const OF_A_SLOT: usize = 2;

fn masters_only() -> Cluster {
    Cluster::start_with(Shape {
        replicas: 0,
        full_coverage: false,
        ..Shape::default()
    })
}

fn deaf(cluster: &Cluster) -> ClientBuilder {
    let builder = Client::builder(&cluster.url()).connect_timeout(LIMIT);
    builder
        .lease(5 * NEVER)
        .safety_poll(NEVER)
        .sharded_pubsub(ShardedPubSub::On)
}

/// A known complaint: channels in several slots of one node are subscribed by one command, and all
/// are refused with CROSSSLOT.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_channels_of_five_hundred_slots_come_back() {
    let cluster = masters_only();
    let connect = || async { deaf(&cluster).connect().await.expect("connects") };
    let (holder, waiter) = (connect().await, connect().await);
    let here = cluster.slots_of(0);
    let mut tags = std::collections::BTreeMap::new();
    for tag in (0..).map(|number: u32| number.to_string()) {
        let slot = keyslot(&tag);
        if here.contains(&slot) {
            tags.entry(slot).or_insert(tag);
        }
        if tags.len() == SLOTS {
            break;
        }
    }
    let names: Vec<_> = tags
        .values()
        .flat_map(|tag| (0..OF_A_SLOT).map(move |number| format!("{{{tag}}}:{number}")))
        .collect();
    let (held, waiting) = held_and_waited_for([&holder, &waiter], &names).await;
    let node = cluster.node(0);
    let channels = || node.command(&["PUBSUB", "SHARDCHANNELS"]).array().len();
    eventually("all listen", async || channels() == names.len()).await;
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));

    let killed = node.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).int();
    assert!(killed >= 1, "there is a connection for messages");
    eventually("it is made anew", async || waiter.stats().reconnects > 0).await;
    eventually("all listen again", async || channels() == names.len()).await;
    let errors = node.command(&["INFO", "errorstats"]).text();
    assert!(!errors.contains("errorstat_CROSSSLOT"), "{errors}");
    release_wakes_all(held, waiting).await;
}

/// Calls whose replies are known, over the same connections as all others.
struct Asking {
    stop: Arc<AtomicBool>,
    asked: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<()>>,
}

impl Asking {
    /// Each number is the count of its own latch, and unique.
    async fn start(client: &Client, names: &[String]) -> Self {
        let (stop, asked) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let mut tasks = Vec::new();
        for (name, number) in names.iter().zip(1_000_u32..) {
            let latch = client.count_down_latch(format!("{name}:{number}"));
            assert!(latch.try_set_count(number).await.expect("an answer"));
            let (stop, asked) = (stop.clone(), asked.clone());
            tasks.push(tokio::spawn(async move {
                while !stop.load(SeqCst) {
                    let count = latch.count().await.expect("an answer of its kind");
                    assert_eq!(count, i64::from(number), "the answer to another call");
                    asked.fetch_add(1, SeqCst);
                }
            }));
        }
        Asking { stop, asked, tasks }
    }

    async fn stop(self) -> u64 {
        self.stop.store(true, SeqCst);
        for task in self.tasks {
            task.await.expect("all answers are right");
        }
        self.asked.load(SeqCst)
    }
}

/// A known complaint: if SUNSUBSCRIBE meets a moving slot, the server replies with its own message,
/// an error or both, and all later replies are assigned to the wrong calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(
    clippy::print_stderr,
    reason = "a failed test must show how to replay it"
)]
async fn replies_stay_in_step_when_unsubscribed_slots_move() {
    let seed = size("LEASEHOLD_SEED", usize::from(fastrand::u16(..)));
    eprintln!("seed {seed}: LEASEHOLD_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed as u64);
    let cluster = masters_only();
    let holder = deaf(&cluster).connect().await.expect("connects");
    let client = deaf(&cluster).connect().await.expect("connects");
    let tags = ["{a}", "{b}", "{c}", "{d}"];
    let names: Vec<_> = tags.iter().map(|tag| format!("{tag}:held")).collect();
    let mut held = Vec::new();
    for name in &names {
        held.push(holder.fair_lock(name).lock().await.expect("free"));
    }
    let asking = Asking::start(&client, &names).await;
    // Each wait subscribes its own channel and unsubscribes it.
    let stop = Arc::<AtomicBool>::default();
    let waiting = (0..12).map(|number| {
        let (lock, stop) = (client.fair_lock(&names[number % names.len()]), stop.clone());
        let mut random = random.fork();
        tokio::spawn(async move {
            let mut waited = 0_u64;
            while !stop.load(SeqCst) {
                let wait = Duration::from_micros(random.u64(500..20_000));
                match lock.try_lock(wait, Lease::Renewed).await {
                    // A call is in flight when the wait ends, or meets a moving slot.
                    Err(
                        Error::Timeout { .. } | Error::Unavailable { .. } | Error::Unknown { .. },
                    ) => {}
                    other => panic!("it is held: {other:?}"),
                }
                waited += 1;
            }
            waited
        })
    });
    let waiting: Vec<_> = waiting.collect();
    let (rounds, since) = (size("LEASEHOLD_UNSUBSCRIPTIONS", 20), Instant::now());
    for round in 0..rounds {
        sleep(Duration::from_micros(random.u64(0..30_000))).await;
        let slot = keyslot(tags[round % tags.len()]);
        let to = (cluster.owner(slot) + random.usize(1..3)) % 3;
        cluster.migrate(slot, to);
    }
    let took = since.elapsed();
    stop.store(true, SeqCst);
    let mut waited = 0;
    for waiting in waiting {
        waited += waiting.await.expect("no reply of another kind");
    }
    let asked = asking.stop().await;
    eprintln!("{rounds} slots moved in {took:?} under {waited} subscriptions and {asked} calls");
    assert_eq!(client.stats().reconnects, 0, "no connection was given up");
    // New waiters are woken.
    let waiting = names.iter().map(|name| {
        let lock = client.fair_lock(name);
        tokio::spawn(async move { lock.lock().await.expect("released").unlock().await })
    });
    let waiting: Vec<_> = waiting.collect();
    eventually("all queued", async || {
        client.stats().listeners == names.len() as u64
    })
    .await;
    release_wakes_all(held, waiting).await;
}
