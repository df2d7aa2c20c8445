//! The queue of a fair lock, shared by threads and tasks: they are served strictly in the order in
//! which they came, however long the lock is held, and whoever of them died or gave up.

use std::collections::HashSet;
use std::time::Duration;

use leasehold::{Client, Lease, Lock};
use leasehold_testbed as testbed;
use leasehold_testbed::eventually;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::harness::{Harness, NOW, builder, joined};
use crate::observer::Observer;

const QUEUE: &str = "redisson_lock_queue:{door}";
/// A heartbeat is sent after a third of it. The rest is a margin in case the machine stalls.
const CLAIM: Duration = Duration::from_secs(3);
/// More than twice our claim.
const LONG: Duration = Duration::from_secs(7);
/// Longer than a test takes, shorter than Redisson's default wait of 5 min.
const A_WHILE: Duration = Duration::from_secs(40);
const A_MOMENT: Duration = Duration::from_millis(20);

/// Who queues, and how.
#[derive(Clone, Copy, Debug)]
enum Comes {
    /// A thread in `lock()`, whose wait of 5 min is subtracted from all deadlines behind it.
    Thread,
    /// A thread in `tryLock(wait)`.
    ThreadFor(Duration),
    /// A task of one client of ours.
    Task,
    /// A task of another client of ours.
    OtherTask,
    /// A task with a limited wait.
    TaskFor(Duration),
}

/// The queue of a fair lock that somebody holds.
struct Line {
    harness: Harness,
    other: Client,
    /// Everybody who queued and must enter, with their numbers.
    waiting: Vec<(usize, JoinHandle<bool>)>,
    numbers: usize,
    /// Every entry that was seen in the queue.
    seen: HashSet<String>,
    /// The proxies in front of clients that died.
    dead: Vec<testbed::Line>,
}

impl Line {
    async fn with_claim(claim: Duration) -> Line {
        let harness = Harness::with(None, |ours| ours.fair_claim(claim)).await;
        let other = builder(&harness.server.url())
            .fair_claim(claim)
            .connect()
            .await;
        let (waiting, numbers, seen, dead) = (Vec::new(), 0, HashSet::new(), Vec::new());
        Line {
            harness,
            other: other.expect("connect"),
            waiting,
            numbers,
            seen,
            dead,
        }
    }

    /// Lets a waiter queue, and returns when it is at the end of the queue.
    async fn comes(&mut self, who: Comes) {
        let number = self.numbers;
        self.numbers += 1;
        let entering = match who {
            Comes::Thread => self.thread(number, None),
            Comes::ThreadFor(wait) => self.thread(number, Some(wait)),
            Comes::Task => self.task(number, &self.harness.client, Duration::MAX),
            Comes::OtherTask => self.task(number, &self.other, Duration::MAX),
            Comes::TaskFor(wait) => self.task(number, &self.harness.client, wait),
        };
        self.waiting.push((number, entering));
        self.stands_in_line().await;
    }

    /// A task with its own client queues, and its process dies.
    async fn dies(&mut self) {
        let line = self.harness.server.line();
        let client = builder(line.url()).fair_claim(CLAIM).connect().await;
        drop(self.task(self.numbers, &client.expect("connect"), Duration::MAX));
        self.numbers += 1;
        self.stands_in_line().await;
        line.refuse();
        line.cut();
        self.dead.push(line);
    }

    async fn stands_in_line(&mut self) {
        let last = format!("LINDEX {QUEUE} -1");
        eventually("it queues", async || {
            let last = self.harness.observer.ask(&last).await.remove(0);
            !last.is_empty() && self.seen.insert(last)
        })
        .await;
    }

    fn thread(&self, number: usize, wait: Option<Duration>) -> JoinHandle<bool> {
        let number = number.to_string();
        tokio::spawn(
            self.harness
                .java
                .enter_fair(&number, "door", "entered", A_MOMENT, wait),
        )
    }

    fn task(&self, number: usize, client: &Client, wait: Duration) -> JoinHandle<bool> {
        let mut redis = Observer::of(&self.harness.server.url());
        let lock = client.fair_lock("door");
        tokio::spawn(async move {
            let Ok(guard) = lock.try_lock(wait, Lease::Renewed).await else {
                return false;
            };
            redis.ask(&format!("RPUSH entered {number}")).await;
            sleep(A_MOMENT).await;
            guard.unlock().await.is_ok()
        })
    }

    /// Asserts that everybody enters in the order in which they came, and nobody else.
    async fn served_in_order(mut self) {
        eprintln!(
            "the queue: {:?}",
            self.harness
                .observer
                .ask(&format!("LRANGE {QUEUE} 0 -1"))
                .await
        );
        let mut came = Vec::new();
        for (number, entering) in self.waiting {
            assert!(
                joined(&format!("{number} has been in"), entering).await,
                "{number} gave up"
            );
            came.push(number.to_string());
        }
        assert_eq!(self.harness.observer.ask("LRANGE entered 0 -1").await, came);
        self.harness.observer.wait_until("EXISTS door", 0).await;
        let keys = format!("EXISTS {QUEUE} redisson_lock_timeout:{{door}}");
        assert_eq!(
            self.harness.observer.integer(&keys).await,
            0,
            "nobody is left in the queue"
        );
    }

    /// Java unlocks what it has held.
    async fn served_after_java(self) {
        let java = &self.harness.java;
        java.unlock("door", "fair:door").await.expect("unlock");
        self.served_in_order().await;
    }
}

/// The same number of each kind, in an order that the test prints.
fn shuffled(each: &[(Comes, usize)]) -> Vec<Comes> {
    let mut all: Vec<_> = each
        .iter()
        .flat_map(|&(who, times)| std::iter::repeat_n(who, times))
        .collect();
    fastrand::shuffle(&mut all);
    eprintln!("they come in this order: {all:?}");
    all
}

const CROWD: &[(Comes, usize)] = &[
    (Comes::Thread, 4),
    (Comes::ThreadFor(A_WHILE), 2),
    (Comes::Task, 3),
    (Comes::OtherTask, 3),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mixed_queue_for_our_lock_is_served_in_order() {
    let mut line = Line::with_claim(CLAIM).await;
    let door: Lock = line.harness.client.fair_lock("door");
    let guard = door.lock().await.expect("lock");
    for who in shuffled(CROWD) {
        line.comes(who).await;
    }
    // This is the point of the test: they wait for longer than a claim.
    sleep(LONG).await;
    guard.unlock().await.expect("unlock");
    line.served_in_order().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mixed_queue_for_javas_lock_is_served_in_order() {
    let mut line = Line::with_claim(CLAIM).await;
    line.harness.java.lock("door", "fair:door", None).await;
    for who in shuffled(CROWD) {
        line.comes(who).await;
    }
    sleep(LONG).await;
    for key in [QUEUE, "redisson_lock_timeout:{door}"] {
        let left = line.harness.observer.integer(&format!("PTTL {key}")).await;
        assert_eq!(left, -1, "a thread's place would end with {key}");
    }
    line.served_after_java().await;
}

/// Each thread that is granted subtracts its wait from our places behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_places_behind_threads_survive_their_grants() {
    let mut line = Line::with_claim(CLAIM).await;
    line.harness.java.lock("door", "fair:door", None).await;
    for who in [
        Comes::Thread,
        Comes::Thread,
        Comes::ThreadFor(A_WHILE),
        Comes::Task,
        Comes::OtherTask,
        Comes::Thread,
        Comes::Task,
        Comes::ThreadFor(A_WHILE),
        Comes::OtherTask,
        Comes::Thread,
    ] {
        line.comes(who).await;
    }
    sleep(LONG).await;
    line.served_after_java().await;
}

/// Redisson also subtracts the wait of a thread that leaves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_that_give_up_block_nobody() {
    let mut line = Line::with_claim(CLAIM).await;
    let door: Lock = line.harness.client.fair_lock("door");
    let guard = door.lock().await.expect("lock");
    line.comes(Comes::Thread).await;
    for leaves in [Comes::TaskFor(LONG), Comes::ThreadFor(LONG)] {
        line.comes(leaves).await;
        let (_, leaving) = line.waiting.pop().expect("it came");
        line.comes(Comes::Thread).await;
        line.comes(Comes::Task).await;
        assert!(!joined("gave up", leaving).await);
    }
    line.harness
        .observer
        .wait_until(&format!("LLEN {QUEUE}"), 5)
        .await;
    guard.unlock().await.expect("unlock");
    line.served_in_order().await;
}

/// No waiter of ours is left to remove the dead ones. The threads before them subtract time from
/// their places, so these must have been made longer than the claim by exactly that time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_task_between_threads_delays_them_by_about_its_claim() {
    let mut line = Line::with_claim(CLAIM).await;
    let door: Lock = line.harness.client.fair_lock("door");
    let guard = door.lock().await.expect("lock");
    line.comes(Comes::Thread).await;
    line.dies().await;
    line.comes(Comes::Thread).await;
    line.comes(Comes::Thread).await;
    line.dies().await;
    line.dies().await;
    line.comes(Comes::Thread).await;
    // Their claims have ended before their turn; otherwise Redisson notifies only a dead waiter.
    sleep(LONG).await;
    guard.unlock().await.expect("unlock");
    line.served_in_order().await;
}

/// Behind a thread that waits less than Redisson's 5 min, the dead waiter's place is kept for the
/// rest of them, unless a waiter of ours is in the queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_living_task_removes_a_dead_one_behind_a_short_wait() {
    let mut line = Line::with_claim(CLAIM).await;
    line.harness.java.lock("door", "fair:door", None).await;
    line.comes(Comes::ThreadFor(A_WHILE)).await;
    line.dies().await;
    line.comes(Comes::Thread).await;
    line.comes(Comes::Task).await;
    line.served_after_java().await;
}

/// The release notified the dead waiter, and no task is left to remove that waiter. A forced
/// release removes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_behind_a_dead_task_is_notified_when_the_free_lock_is_forced() {
    let mut line = Line::with_claim(CLAIM).await;
    let door: Lock = line.harness.client.fair_lock("door");
    let guard = door.lock().await.expect("lock");
    line.dies().await;
    line.comes(Comes::Thread).await;
    line.harness.java.until_parked("1").await;
    guard.unlock().await.expect("unlock");
    // This is the point of the test: the dead waiter has used up its claim.
    sleep(LONG).await;
    assert!(
        !door.force_unlock("a test").await.expect("force_unlock"),
        "nobody holds it"
    );
    line.served_in_order().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zero_wait_does_not_overtake_a_queue_of_the_other_side() {
    let mut line = Line::with_claim(CLAIM).await;
    line.harness.java.lock("door", "fair:door", None).await;
    line.comes(Comes::Thread).await;
    line.comes(Comes::Task).await;
    let late = line.other.fair_lock("door");
    assert!(late.try_lock(NOW, Lease::Renewed).await.is_err());
    assert!(
        !line
            .harness
            .java
            .try_lock("late", "fair:door", NOW, None)
            .await
    );
    line.served_after_java().await;
}
