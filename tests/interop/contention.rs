//! JVM threads and tasks of this process share one lock: never two inside, and neither side starves.
//!
//! Who is inside raises a counter, over a connection that is not the lock's: it must then be 1.
//! The tasks go on until the threads have had all their rounds, so that no round of a thread is
//! without contention.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::{Client, Lock};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::observer::Observer;
use crate::redisson::Redisson;
use crate::support::server::Server;

const JVM_THREADS: u32 = 2;
const TASKS: u32 = 2;
/// The least for a task.
const ROUNDS_EACH: u32 = 1000;
/// Nobody waits longer than this while four contend for an almost empty section.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mixed_contenders_exclude_each_other_and_all_make_progress() {
    contend("orders:42", 1000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mixed_contenders_of_a_tagged_name_exclude_each_other() {
    contend("{shop}:orders:42", 250).await;
}

async fn contend(name: &str, rounds_of_a_thread: u32) {
    let server = Server::start();
    let java = Redisson::start(&server.url(), None).await;
    let client = Client::connect(&server.url()).await.expect("connect");
    let mut observer = Observer::connect(&server.url()).await;

    let theirs = java.contend(JVM_THREADS, rounds_of_a_thread, &format!("lock:{name}"), "inside");
    // The JVM has started to take the lock: from here on both sides want it.
    observer.wait_until("EXISTS inside:last", 1).await;
    let enough = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let redis = Observer::connect(&server.url()).await;
        tasks.spawn(repeat(client.lock(name), redis, enough.clone()));
    }
    let theirs = Tally::parse(&theirs.await);
    enough.store(true, Ordering::SeqCst);
    let ours = timeout(Duration::from_mins(1), tasks.join_all()).await.expect("in time");
    let ours = ours.into_iter().fold(Tally::default(), Tally::plus);
    eprintln!("{name}: rust {ours:?}, java {theirs:?}");

    assert_eq!((ours.violations, theirs.violations), (0, 0));
    assert!(ours.rounds >= u64::from(TASKS * ROUNDS_EACH));
    assert_eq!(theirs.rounds, u64::from(JVM_THREADS * rounds_of_a_thread));
    // The sides take turns, whoever is faster.
    assert!(ours.switches >= 10 && theirs.switches >= 10, "one side had to wait for the other");
    assert!(ours.longest_wait.max(theirs.longest_wait) < LONGEST_WAIT, "somebody starved");
    assert!(observer.ask("GET inside").await == ["0"]);
    observer.wait_until(&format!("EXISTS {name}"), 0).await;
}

/// What a contender did; the same as `Contention.java` reports.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    rounds: u64,
    violations: u64,
    switches: u64,
    longest_wait: Duration,
}

impl Tally {
    fn plus(self, other: Tally) -> Tally {
        Tally {
            rounds: self.rounds + other.rounds,
            violations: self.violations + other.violations,
            switches: self.switches + other.switches,
            longest_wait: self.longest_wait.max(other.longest_wait),
        }
    }

    /// `rounds=10 violations=0 switches=3 longest_wait_ms=7`
    fn parse(report: &str) -> Tally {
        let value = |name: &str| -> u64 {
            let mut pairs = report.split(' ').filter_map(|pair| pair.split_once('='));
            let (_, value) = pairs.find(|(n, _)| *n == name).expect("a value");
            value.parse().expect("a number")
        };
        Tally {
            rounds: value("rounds"),
            violations: value("violations"),
            switches: value("switches"),
            longest_wait: Duration::from_millis(value("longest_wait_ms")),
        }
    }
}

async fn repeat(mut lock: Lock, mut redis: Observer, enough: Arc<AtomicBool>) -> Tally {
    let mut tally = Tally::default();
    while tally.rounds < u64::from(ROUNDS_EACH) || !enough.load(Ordering::SeqCst) {
        let asked = Instant::now();
        let guard = lock.lock().await.expect("lock");
        tally.longest_wait = tally.longest_wait.max(asked.elapsed());
        tally.violations += u64::from(redis.integer("INCR inside").await != 1);
        tally.switches += u64::from(redis.ask("GETSET inside:last rust").await != ["rust"]);
        redis.integer("DECR inside").await;
        guard.unlock().await.expect("unlock");
        tally.rounds += 1;
    }
    tally
}
