//! Waiters that wait for each other, and what must not be taken for that.
//!
//! Each client stands for a process.

use std::sync::Arc;
use std::time::Duration;

use leasehold::inspect::Deadlock;
use leasehold::{Client, Lease, Lock};
use leasehold_testbed::{Bed, eventually, ms, waiting};
use tokio::sync::{Barrier, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep};

const KEY: &str = "leasehold_waits";

async fn named(bed: &Bed, name: &str) -> Client {
    let builder = bed.builder().name(name).describe_holds();
    builder.connect().await.unwrap()
}

/// Tasks that take one lock each, and then, all at once, wait for another one.
struct Tasks {
    tasks: Vec<JoinHandle<()>>,
    all_hold: watch::Sender<bool>,
}

impl Tasks {
    fn new() -> Self {
        Tasks {
            tasks: Vec::new(),
            all_hold: watch::Sender::new(false),
        }
    }

    async fn add(&mut self, held: Lock, purpose: &'static str, wanted: Lock) {
        let (taken, is_taken) = oneshot::channel();
        let mut all_hold = self.all_hold.subscribe();
        self.tasks.push(tokio::spawn(async move {
            let outer = held.acquire().purpose(purpose).await.unwrap();
            taken.send(()).unwrap();
            all_hold.wait_for(|all| *all).await.unwrap();
            let inner = wanted.lock().await;
            drop((outer, inner));
        }));
        is_taken.await.unwrap();
    }

    /// Two tasks of two clients that wait for each other.
    async fn pair(one: &Client, other: &Client) -> Self {
        let mut tasks = Tasks::new();
        tasks.add(one.lock("a"), "x", one.lock("b")).await;
        tasks.add(other.lock("b"), "x", other.lock("a")).await;
        tasks.wait();
        tasks
    }

    fn wait(&self) {
        self.all_hold.send_replace(true);
    }

    /// Waits until all tasks have ended.
    async fn end(self) {
        for task in self.tasks {
            task.await.unwrap();
        }
    }

    /// Drops their guards and their waits.
    async fn abort(self) {
        for task in self.tasks {
            task.abort();
            drop(task.await);
        }
    }
}

async fn found(client: &Client) -> Vec<Deadlock> {
    client.deadlocks().await.unwrap()
}

async fn until_found(client: &Client) -> Deadlock {
    let mut deadlock = None;
    eventually("the deadlock is found", async || {
        deadlock = found(client).await.pop();
        deadlock.is_some()
    })
    .await;
    deadlock.unwrap()
}

/// Asserts that there is none, after all waits that are long by now have been said several times.
async fn nothing(bed: &Bed, client: &Client) {
    for _ in 0..3 {
        sleep(bed.span(1000)).await;
        assert_eq!(found(client).await, []);
    }
}

pub(crate) async fn two_processes_are_named_with_both_purposes(bed: Bed) {
    let (billing, shipping) = (named(&bed, "billing").await, named(&bed, "shipping").await);
    let observer = bed.client().await;
    let start = Instant::now();
    let mut tasks = Tasks::new();
    let (a, b) = (billing.lock("a"), billing.fair_lock("b"));
    tasks.add(a, "nightly run", b).await;
    let (a, b) = (shipping.lock("a"), shipping.fair_lock("b"));
    tasks.add(b, "export", a).await;
    tasks.wait();
    let mut deadlock = until_found(&observer).await.to_vec();
    if bed.is_embedded() {
        assert!(start.elapsed() < ms(2000), "{:?}", start.elapsed());
    }
    deadlock.sort_by(|one, other| one.holds.cmp(&other.holds));
    let [first, second] = &deadlock[..] else {
        panic!("{deadlock:?}")
    };
    let names = [first, second].map(|waiter| {
        let (name, purpose) = (waiter.name.as_deref(), waiter.purpose.as_deref());
        (name.unwrap(), purpose.unwrap(), &*waiter.waits_for)
    });
    assert_eq!(
        names,
        [("billing", "nightly run", "b"), ("shipping", "export", "a")]
    );
    for (waiter, client) in [(first, &billing), (second, &shipping)] {
        assert!(waiter.owner.starts_with(&client.id()), "{waiter:?}");
        assert!(waiter.waited >= ms(600), "{waiter:?}");
    }
    assert!(
        first
            .to_string()
            .starts_with("billing (nightly run) holds `a` and has waited "),
        "{first}"
    );
    // An operator ends it.
    let lock = observer.lock("a");
    assert!(lock.force_unlock_of(&first.owner, "a test").await.unwrap());
    tasks.end().await;
    assert_eq!(found(&observer).await, []);
    eventually("nothing is said any more", async || !bed.exists(KEY)).await;
}

pub(crate) async fn a_ring_of_kinds_is_one_deadlock(bed: Bed) {
    let observer = bed.client().await;
    let kinds: [fn(&Client) -> Lock; 6] = [
        |client| client.lock("plain"),
        |client| client.fair_lock("fair"),
        |client| client.fenced_lock("fenced").into(),
        |client| client.string_lock("string"),
        |client| client.read_write_lock("w\tr\n{i}te\\").write().clone(),
        |client| client.read_write_lock("read").read().clone(),
    ];
    let mut tasks = Tasks::new();
    for (at, kind) in kinds.iter().enumerate() {
        let client = named(&bed, "ring").await;
        let next = kinds[(at + 1) % kinds.len()](&client);
        // Readers wait for writers only.
        let wanted = if next.name() == "read" {
            client.read_write_lock("read").write().clone()
        } else {
            next
        };
        tasks.add(kind(&client), "its turn", wanted).await;
    }
    tasks.wait();
    let deadlock = until_found(&observer).await;
    assert_eq!(deadlock.len(), kinds.len(), "{deadlock}");
    for (at, waiter) in deadlock.iter().enumerate() {
        let next = &deadlock[(at + 1) % deadlock.len()];
        assert_eq!(waiter.waits_for, next.holds, "{deadlock}");
    }
    assert_eq!(found(&observer).await.len(), 1);
    tasks.abort().await;
}

pub(crate) async fn a_task_that_waits_for_itself_is_found(bed: Bed) {
    let client = named(&bed, "alone").await;
    let mut tasks = Tasks::new();
    tasks
        .add(client.lock("a"), "nesting", client.lock("a"))
        .await;
    tasks.wait();
    let deadlock = until_found(&client).await;
    assert_eq!(deadlock.len(), 1);
    assert_eq!((&*deadlock[0].holds, &*deadlock[0].waits_for), ("a", "a"));
    tasks.abort().await;
}

pub(crate) async fn two_readers_that_want_to_write_are_found(bed: Bed) {
    let (one, other) = (named(&bed, "one").await, named(&bed, "other").await);
    let side = |client: &Client| client.read_write_lock("x");
    let mut tasks = Tasks::new();
    for client in [&one, &other] {
        let (read, write) = (side(client).read().clone(), side(client).write().clone());
        tasks.add(read, "upgrade", write).await;
    }
    tasks.wait();
    // Each of them waits for itself as well.
    let deadlock = until_found(&one).await;
    assert!((1..=2).contains(&deadlock.len()), "{deadlock}");
    tasks.abort().await;
}

pub(crate) async fn what_is_no_deadlock_is_not_reported(bed: Bed) {
    let (one, other) = (named(&bed, "one").await, named(&bed, "other").await);
    // A chain.
    let mut tasks = Tasks::new();
    tasks.add(one.lock("a"), "x", one.lock("b")).await;
    tasks.add(other.lock("b"), "x", other.lock("c")).await;
    // Two tasks of each client: one holds what the other client waits for, and waits for nothing.
    let (holding, waits_for) = (one.lock("c").lock().await.unwrap(), other.lock("d"));
    let held = one.lock("d").lock().await.unwrap();
    tasks
        .tasks
        .push(tokio::spawn(async move { drop(waits_for.lock().await) }));
    let wanted = one.lock("b");
    tasks
        .tasks
        .push(tokio::spawn(async move { drop(wanted.lock().await) }));
    // Permits: another holder may give its own back.
    let jobs = [one.semaphore("jobs"), other.semaphore("jobs")];
    jobs[0].try_set_permits(2).await.unwrap();
    for (jobs, lock) in jobs.into_iter().zip([one.lock("e"), other.lock("f")]) {
        tasks.tasks.push(tokio::spawn(async move {
            let _outer = lock.lock().await.unwrap();
            let _permit = jobs.acquire(1).await.unwrap();
            drop(jobs.acquire(1).await);
        }));
    }
    // Locks that are taken together give way to each other.
    for (client, names) in [(&one, ["g", "h"]), (&other, ["h", "g"])] {
        let both = Lock::multi(names.map(|name| client.lock(name)));
        tasks.tasks.push(tokio::spawn(async move {
            loop {
                let _both = both.lock().await;
                sleep(ms(50)).await;
            }
        }));
    }
    tasks.wait();
    eventually("long waits are said", async || bed.exists(KEY)).await;
    nothing(&bed, &one).await;
    tasks.abort().await;
    drop((holding, held));
}

pub(crate) async fn readers_do_not_wait_for_readers(bed: Bed) {
    let (one, other) = (named(&bed, "one").await, named(&bed, "other").await);
    let writer = bed.client().await;
    let read = |client: &Client, name: &str| client.read_write_lock(name).read().clone();
    let mut tasks = JoinSet::new();
    let writing = writer.read_write_lock("y").write().lock().await.unwrap();
    // Both read `x`, and wait for the writer of `y`, which waits for nothing.
    for client in [&one, &other] {
        let (held, wanted) = (read(client, "x"), read(client, "y"));
        tasks.spawn(async move {
            let outer = held.lock().await.unwrap();
            drop((wanted.lock().await, outer));
        });
    }
    eventually("long waits are said", async || bed.exists(KEY)).await;
    nothing(&bed, &one).await;
    drop(writing);
}

pub(crate) async fn who_does_not_describe_its_holds_says_nothing(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let tasks = Tasks::pair(&one, &other).await;
    waiting(&one, 1).await;
    waiting(&other, 1).await;
    sleep(bed.span(3000)).await;
    assert!(!bed.exists(KEY));
    tasks.abort().await;
}

/// Under paused time, a wait lasts exactly as long as the test says.
pub(crate) async fn short_waits_and_waits_with_nothing_held_cost_nothing(bed: Bed) {
    let (one, other) = (named(&bed, "one").await, named(&bed, "other").await);
    let guard = one.lock("a").lock().await.unwrap();
    let lock = other.lock("a");
    let waiter = tokio::spawn(async move { lock.lock().await.map(drop) });
    waiting(&other, 1).await;
    sleep(bed.span(3000)).await;
    assert!(!bed.exists(KEY), "it holds nothing");
    guard.unlock().await.unwrap();
    waiter.await.unwrap().unwrap();
    if !bed.is_embedded() {
        return;
    }
    let (held, wanted) = (other.lock("b"), other.lock("a"));
    for _ in 0..20 {
        let guard = one.lock("a").lock().await.unwrap();
        let mut tasks = Tasks::new();
        tasks.add(held.clone(), "x", wanted.clone()).await;
        tasks.wait();
        sleep(ms(500)).await;
        guard.unlock().await.unwrap();
        tasks.end().await;
        assert!(!bed.exists(KEY), "its wait was short");
    }
}

/// What a dead client has said last, with its holds still in Redis.
pub(crate) async fn a_dead_process_is_not_reported(bed: Bed) {
    let (one, other) = (named(&bed, "one").await, named(&bed, "other").await);
    let observer = bed.client().await;
    let tasks = Tasks::pair(&one, &other).await;
    let deadlock = until_found(&observer).await;
    let said = bed.list(&["HGETALL", KEY]);
    assert_eq!(said.len(), 4);
    tasks.abort().await;
    eventually("nothing is said any more", async || !bed.exists(KEY)).await;
    let again = |fields: &[String]| {
        for waiter in deadlock.iter() {
            bed.command(&["HSET", &waiter.holds, &waiter.owner, "1"]);
            bed.command(&["PEXPIRE", &waiter.holds, "600000"]);
        }
        for pair in fields.chunks(2) {
            let (_, waits) = pair[1].split_once('\n').unwrap();
            let text = format!("99999999999999\n{waits}");
            bed.command(&["HSET", KEY, &pair[0], &text]);
        }
    };
    again(&said);
    let start = Instant::now();
    assert_eq!(found(&observer).await, []);
    // It looked for long enough to hear of a living one.
    assert!(start.elapsed() >= ms(1000), "{:?}", start.elapsed());
}

/// The clients say that they hold and wait, but Redis has other owners by now.
pub(crate) async fn a_hold_that_redis_does_not_have_is_not_reported(bed: Bed) {
    let (one, other) = (named(&bed, "one").await, named(&bed, "other").await);
    let observer = bed.client().await;
    // Nothing but Redis tells the holder of a fixed lease that it has lost its lock.
    let hour = Lease::Fixed(Duration::from_secs(3600));
    let mut tasks = JoinSet::new();
    let both_hold = Arc::new(Barrier::new(2));
    for (client, held, wanted) in [(&one, "a", "b"), (&other, "b", "a")] {
        let (held, wanted) = (client.lock(held), client.lock(wanted));
        let both_hold = both_hold.clone();
        tasks.spawn(async move {
            let outer = held.try_lock_now(hour).await.unwrap();
            both_hold.wait().await;
            drop((wanted.lock().await, outer));
        });
    }
    until_found(&observer).await;
    bed.command(&["HSET", "a", "0b4e4b9c-9a1f-4c0e-8f6a-0c5f9d6b0f11:7", "1"]);
    let owner = observer.lock("a").holder().await.unwrap().unwrap().owner;
    let fields = bed.list(&["HKEYS", "a"]);
    assert!(fields.contains(&owner));
    for field in fields.iter().filter(|field| field.starts_with(&one.id())) {
        bed.command(&["HDEL", "a", field]);
    }
    nothing(&bed, &observer).await;
    assert!(bed.exists(KEY), "they still say it");
}

pub(crate) async fn texts_of_others_are_ignored(bed: Bed) {
    let client = bed.client().await;
    let uuid = "0b4e4b9c-9a1f-4c0e-8f6a-0c5f9d6b0f11";
    for text in [
        "",
        "x",
        "99999999999999",
        "99999999999999\n",
        "99999999999999\n1\t\nwait\t1\t2\tlock",
        "99999999999999\n1\t\nwait\t1\t2\tlock\ta\nhold\tlock\ta\tx\t",
        "1\n1\t\nwait\t1\t2\tlock\ta\nhold\tlock\ta\tx\t",
    ] {
        bed.command(&["HSET", KEY, uuid, text]);
        assert_eq!(found(&client).await, [], "{text:?}");
    }
    bed.delete(KEY);
    for number in 0..10_001 {
        bed.command(&["HSET", KEY, &number.to_string(), "x"]);
    }
    assert_eq!(found(&client).await, []);
}
