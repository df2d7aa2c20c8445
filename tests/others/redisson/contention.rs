//! JVM threads and tasks of this process contend for one lock. Never two hold it at once, and
//! neither side starves.
//!
//! Whoever is inside raises a counter over a separate connection, and the counter must then be 1.
//! The token of a fenced lock must be higher than all earlier ones of both sides. The tasks
//! continue until the threads have finished all their rounds, so that no round of a thread is
//! without contention.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use leasehold::{Client, Lock};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::harness::{Harness, NOW};
use crate::observer::Observer;
use crate::redisson::Redisson;
use crate::redisson::contention::Contenders;

const JVM_THREADS: u32 = 2;
pub(crate) const TASKS: u32 = 2;
/// A thread that hears no message sleeps for the rest of a lease, which is longer than this. On a
/// busy machine a thread may wait for half of it, because the JVM asks later than all others.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(20);
/// So many turns of the tasks without one of a thread mean that it starves. The server says then
/// who is connected, and to what they listen.
const TURNS_ALONE: u64 = 1000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mixed_contenders_of_a_tagged_name_exclude_each_other() {
    contend(
        "lock",
        |client, name| client.lock(name),
        "{shop}:orders:42",
        1000,
    )
    .await;
}

/// `rounds` for each thread, and at least as many for each task. The name of a multi lock joins
/// those of its members by a plus sign.
pub(crate) async fn contend(
    theirs: &str,
    ours: fn(&Client, &str) -> Lock,
    name: &str,
    rounds: u32,
) {
    let rounds = scaled(rounds);
    let harness = Harness::with(None, |ours| ours).await;
    let locks = (0..TASKS).map(|_| ours(&harness.client, name)).collect();
    let contest = Contest {
        theirs: &format!("{theirs}:{name}"),
        rounds,
        work: NOW,
        rest: NOW,
        least_switches: 10,
    };
    let longest_wait = contest
        .run(&harness.java, locks, &harness.server.url())
        .await;
    assert!(longest_wait < LONGEST_WAIT, "somebody starved");
    let mut observer = harness.observer;
    observer
        .wait_until(&format!("EXISTS {}", name.replace('+', " ")), 0)
        .await;
}

/// JVM threads that share one lock object, and one task for each lock object of ours.
pub(crate) struct Contest<'a> {
    pub(crate) theirs: &'a str,
    /// The number of rounds of each thread, and the least number for each task.
    pub(crate) rounds: u32,
    /// How long a task has the lock, and how long its longest pause between two rounds is.
    pub(crate) work: Duration,
    pub(crate) rest: Duration,
    /// How often each side must have followed the other.
    pub(crate) least_switches: u64,
}

impl Contest<'_> {
    /// Returns the longest wait of all. The counters are on the server that Redisson connected to
    /// first.
    pub(crate) async fn run(&self, java: &Redisson, ours: Vec<Lock>, url: &str) -> Duration {
        let &Contest {
            theirs,
            rounds,
            work,
            rest,
            least_switches,
        } = self;
        let mut observer = Observer::of(url);
        let who = Contenders {
            threads: JVM_THREADS,
            rounds,
            work: NOW,
            rest,
        };
        let threads = java.contend("contend", who, theirs, None);
        // The JVM has started to take the lock, so from here on both sides want it.
        observer.wait_until("EXISTS inside:last", 1).await;
        let enough = Arc::new(AtomicBool::new(false));
        let turns_alone = Arc::new(AtomicU64::new(0));
        let least = u64::try_from(ours.len()).expect("few") * u64::from(rounds);
        let mut tasks = JoinSet::new();
        for lock in ours {
            let task = Task {
                lock,
                redis: Observer::of(url),
                enough: enough.clone(),
                turns_alone: turns_alone.clone(),
            };
            tasks.spawn(task.repeat(rounds, work, rest));
        }
        let threads = threads.await;
        enough.store(true, Ordering::SeqCst);
        let tasks = timeout(Duration::from_secs(60), tasks.join_all())
            .await
            .expect("in time");
        let tasks = tasks.into_iter().fold(Tally::default(), Tally::plus);
        eprintln!("{theirs}: rust {tasks:?}, java {threads:?}");

        assert_eq!((tasks.violations, threads.number("violations")), (0, 0));
        assert!(tasks.rounds >= least);
        assert_eq!(threads.number("rounds"), u64::from(JVM_THREADS * rounds));
        assert!(tasks.most_alone < TURNS_ALONE, "the threads starve");
        // The sides take turns, whichever is faster.
        let switches = tasks.switches.min(threads.number("switches"));
        assert!(
            switches >= least_switches,
            "one side had to wait for the other"
        );
        assert_eq!(observer.ask("GET inside").await, ["0"]);
        tasks.longest_wait.max(threads.longest_wait())
    }
}

/// What the tasks did; the same as `Contention.java` reports.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    rounds: u64,
    violations: u64,
    switches: u64,
    longest_wait: Duration,
    /// The most turns of tasks in a row.
    most_alone: u64,
}

impl Tally {
    fn plus(self, other: Tally) -> Tally {
        Tally {
            rounds: self.rounds + other.rounds,
            violations: self.violations + other.violations,
            switches: self.switches + other.switches,
            longest_wait: self.longest_wait.max(other.longest_wait),
            most_alone: self.most_alone.max(other.most_alone),
        }
    }
}

struct Task {
    lock: Lock,
    redis: Observer,
    enough: Arc<AtomicBool>,
    /// The turns of all tasks since the last one of a thread.
    turns_alone: Arc<AtomicU64>,
}

impl Task {
    async fn repeat(mut self, rounds: u32, work: Duration, rest: Duration) -> Tally {
        let mut tally = Tally::default();
        while tally.rounds < u64::from(rounds) || !self.enough.load(Ordering::SeqCst) {
            let asked = Instant::now();
            let guard = self.lock.lock().await.expect("lock");
            tally.longest_wait = tally.longest_wait.max(asked.elapsed());
            tally.violations += u64::from(self.redis.integer("INCR inside").await != 1);
            if let Some(token) = guard.token() {
                let exchange = format!("GETSET inside:token {}", token.value());
                let last = self.redis.ask(&exchange).await.remove(0);
                tally.violations += u64::from(last.parse().unwrap_or(0) >= token.value());
            }
            let alone = self.turns_alone().await;
            tally.switches += u64::from(alone == 0);
            if !self.enough.load(Ordering::SeqCst) {
                tally.most_alone = tally.most_alone.max(alone);
            }
            // Even a sleep of no time takes until the next tick, and most sections must be almost
            // empty.
            if !work.is_zero() {
                sleep(work).await;
            }
            self.redis.integer("DECR inside").await;
            guard.unlock().await.expect("unlock");
            tally.rounds += 1;
            sleep(rest.mul_f64(fastrand::f64())).await;
        }
        tally
    }

    /// How many turns of tasks came before this one since the last turn of a thread.
    async fn turns_alone(&mut self) -> u64 {
        if self.redis.ask("GETSET inside:last rust").await != ["rust"] {
            self.turns_alone.store(0, Ordering::SeqCst);
            return 0;
        }
        let alone = self.turns_alone.fetch_add(1, Ordering::SeqCst) + 1;
        if alone == TURNS_ALONE && !self.enough.load(Ordering::SeqCst) {
            self.says_who_is_there().await;
        }
        alone
    }

    /// Prints what the server knows, to help find out why a thread starves.
    async fn says_who_is_there(&mut self) {
        for question in ["CLIENT LIST", "PUBSUB CHANNELS", "KEYS *"] {
            let answer = self.redis.ask(question).await.join("\n");
            eprintln!("{question} after {TURNS_ALONE} turns of tasks alone:\n{answer}");
        }
    }
}

/// With replicas, Redisson waits for them in each acquisition, so fewer rounds take as long.
fn scaled(rounds: u32) -> u32 {
    match std::env::var_os("LEASEHOLD_DEPLOYMENT") {
        Some(_) => (rounds / 10).max(25),
        None => rounds,
    }
}
