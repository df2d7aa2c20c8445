//! Turns between clients: a far client beside a busy near one, several near ones, and subscribers
//! that do not want the lock. Only the embedded engine has the switches.

#![expect(clippy::print_stdout, reason = "with --nocapture it shows the shares")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use leasehold::settings::LocalHandover;
use leasehold::test_util::{Delay, Faults};
use leasehold::{Client, EmbeddedRedis, Lease, Lock};
use leasehold_testbed::{ms, waiting};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// One way. A message takes as long.
const DISTANCES_US: [u64; 4] = [500, 2_000, 10_000, 50_000];
/// How long the far client keeps the lock.
const SHORT: Duration = ms(1);
/// The sections of the near client: many in a turn, or one.
const SECTIONS: [Duration; 2] = [ms(2), ms(100)];

/// Eight tasks that always want the lock.
struct Busy {
    tasks: Vec<JoinHandle<()>>,
    taken: Arc<AtomicU32>,
    over: Arc<AtomicBool>,
}

impl Busy {
    async fn begin(client: &Client, make: fn(&Client) -> Lock, section: Duration) -> Self {
        let (taken, over) = (
            Arc::new(AtomicU32::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let task = |_| {
            let (lock, taken, over) = (make(client), taken.clone(), over.clone());
            tokio::spawn(async move {
                while !over.load(Relaxed) {
                    let guard = lock.lock().await.unwrap();
                    taken.fetch_add(1, Relaxed);
                    sleep(section).await;
                    guard.unlock().await.unwrap();
                }
            })
        };
        let tasks = (0..8).map(task).collect();
        waiting(client, 8).await;
        Busy { tasks, taken, over }
    }

    async fn end(self) -> u32 {
        let taken = self.taken.load(Relaxed);
        self.over.store(true, Relaxed);
        for task in self.tasks {
            task.await.unwrap();
        }
        taken
    }
}

/// What a far client got beside a busy near one.
struct Seen {
    near: u32,
    far: u32,
    longest_wait: Duration,
    /// The fraction of what it would get if the two took turns.
    share: f64,
}

/// The client that connected last is so far away from now on, one way.
fn last_is_away(engine: &EmbeddedRedis, distance: Duration, seed: u64) {
    let way = Delay::between(distance.mul_f64(0.8), distance.mul_f64(1.2));
    let uneven = Faults {
        request: way,
        reply: way,
        ..Faults::default()
    };
    engine.links().pop().unwrap().set_faults(uneven, seed);
}

async fn beside_a_busy_one(
    make: fn(&Client) -> Lock,
    (section, distance): (Duration, Duration),
    (rounds, pause): (u32, Duration),
) -> Seen {
    let engine = EmbeddedRedis::new();
    let near = engine.builder().connect().await.unwrap();
    let far = engine.builder().connect().await.unwrap();
    last_is_away(&engine, distance, 1);
    // Without messages, other clients are known only once they were met.
    let met = make(&far).lock().await.unwrap();
    let busy = Busy::begin(&near, make, section).await;
    met.unlock().await.unwrap();
    let LocalHandover::Streak { time: streak, .. } = LocalHandover::default() else {
        panic!("holds are handed over")
    };
    // A turn of the near client, the message that ends it, and a turn of the far one.
    let round = streak.max(section) + pause + 4 * distance + SHORT;
    let (span, begin) = (ms(2000) + rounds * round, Instant::now());
    let (lock, mut turns, mut longest_wait) = (make(&far), 0, Duration::ZERO);
    while begin.elapsed() < span {
        let asked = Instant::now();
        let taken = lock.try_lock(span, Lease::Renewed).await;
        longest_wait = longest_wait.max(asked.elapsed());
        let Ok(guard) = taken else { continue };
        turns += 1;
        sleep(SHORT).await;
        guard.unlock().await.unwrap();
    }
    let share = f64::from(turns) / begin.elapsed().div_duration_f64(round);
    Seen {
        near: busy.end().await,
        far: turns,
        longest_wait,
        share,
    }
}

/// `pause` is the longest average pause of its waiters.
async fn far_clients_have_their_share(make: fn(&Client) -> Lock, rounds: u32, pause: Duration) {
    fastrand::seed(1);
    let mut starved = Vec::new();
    for section in SECTIONS {
        for distance in DISTANCES_US.map(Duration::from_micros) {
            let seen = beside_a_busy_one(make, (section, distance), (rounds, pause)).await;
            let Seen {
                near,
                far,
                longest_wait,
                share,
            } = seen;
            let told = format!(
                "{distance:?} away, sections of {section:?}: {near} to {far}, {share:.2} of a fair \
                 share, longest wait {longest_wait:?}"
            );
            println!("{told}");
            if share < 0.1 {
                starved.push(told);
            }
        }
    }
    assert!(starved.is_empty(), "{starved:#?}");
}

#[tokio::test(start_paused = true)]
async fn far_clients_get_their_share_of_a_lock() {
    far_clients_have_their_share(|client| client.lock("x"), 80, ms(0)).await;
}

#[tokio::test(start_paused = true)]
async fn far_clients_get_their_share_of_a_spin_lock() {
    far_clients_have_their_share(|client| client.spin_lock("x"), 40, ms(96)).await;
}

#[tokio::test(start_paused = true)]
async fn far_clients_get_their_share_of_a_string_lock() {
    far_clients_have_their_share(|client| client.string_lock("x"), 40, ms(75)).await;
}

/// A client that waited a moment ago receives each release, but does not want the lock.
#[tokio::test(start_paused = true)]
async fn subscribers_that_do_not_want_the_lock_cost_little() {
    fastrand::seed(1);
    let engine = EmbeddedRedis::new();
    let (near, other) = (engine.client(), engine.client());
    let first = near.lock("x").lock().await.unwrap();
    let busy = Busy::begin(&near, |client| client.lock("x"), ms(2)).await;
    first.unlock().await.unwrap();
    let begin = Instant::now();
    while begin.elapsed() < ms(20_000) {
        // The idle client may come while it is let first; then it did not wait.
        while other
            .lock("x")
            .try_lock(ms(1), Lease::Renewed)
            .await
            .is_ok()
        {}
        assert_eq!(other.stats().subscriptions, 1);
        sleep(ms(2000)).await;
    }
    let most = begin.elapsed().div_duration_f64(ms(2));
    let had = f64::from(busy.end().await) / most;
    println!("{had:.3} of what it would have alone");
    assert!(had > 0.92, "{had}");
}

/// One way between a near client and the engine.
const NEAR: Duration = Duration::from_micros(100);

/// How often each of several busy near clients takes the lock. Idle clients wait for a moment every
/// three seconds and so stay subscribed.
async fn shares_of_near_clients(clients: usize, idle: usize) -> Vec<u32> {
    fastrand::seed(1);
    let engine = EmbeddedRedis::new();
    let first = engine.client().lock("x").lock().await.unwrap();
    let mut busy = Vec::new();
    for seed in 0..clients {
        let client = engine.builder().connect().await.unwrap();
        last_is_away(&engine, NEAR, seed as u64);
        busy.push(Busy::begin(&client, |client| client.lock("x"), ms(1)).await);
    }
    let subscriber = |_| {
        let lock = engine.client().lock("x");
        tokio::spawn(async move {
            loop {
                drop(lock.try_lock(ms(30), Lease::Renewed).await);
                sleep(ms(3000)).await;
            }
        })
    };
    let idle: Vec<_> = (0..idle).map(subscriber).collect();
    first.unlock().await.unwrap();
    sleep(ms(10_000)).await;
    idle.iter().for_each(JoinHandle::abort);
    let mut taken = Vec::new();
    for busy in busy {
        taken.push(busy.end().await);
    }
    println!("near clients beside {} idle ones: {taken:?}", idle.len());
    taken
}

/// A yield ends when every other client has had the lock. If the first one ended it, two clients
/// would alternate and starve the rest.
#[tokio::test(start_paused = true)]
async fn several_near_clients_share_evenly() {
    let taken = shares_of_near_clients(6, 0).await;
    let equal = taken.iter().sum::<u32>() / 6;
    assert!(taken.iter().all(|taken| *taken > equal / 2), "{taken:?}");
}

#[tokio::test(start_paused = true)]
async fn an_idle_subscriber_costs_two_busy_clients_little() {
    let alone: u32 = shares_of_near_clients(2, 0).await.iter().sum();
    let beside: u32 = shares_of_near_clients(2, 1).await.iter().sum();
    assert!(
        f64::from(beside) > 0.85 * f64::from(alone),
        "{beside} of {alone}"
    );
}

/// The turns of a client that is so far away, one way, and takes a fenced lock, and those of two
/// busy clients beside the engine. No two of their holds follow each other without a release.
async fn turns_beside_two_busy_ones(make: fn(&Client) -> Lock, distance: Duration) -> (u32, u32) {
    fastrand::seed(1);
    let engine = EmbeddedRedis::new();
    let far = engine.builder().connect().await.unwrap();
    last_is_away(&engine, distance, 1);
    let lock = far.fenced_lock("x");
    let first = lock.lock().await.unwrap();
    let mut busy = Vec::new();
    for _ in 0..2 {
        let builder = engine.builder().local_handover(LocalHandover::Off);
        let client = builder.connect().await.unwrap();
        busy.push(Busy::begin(&client, make, ms(2)).await);
    }
    first.unlock().await.unwrap();
    let (begin, mut turns) = (Instant::now(), 0);
    while begin.elapsed() < ms(5000) {
        if let Ok(guard) = lock.try_lock(ms(1000), Lease::Renewed).await {
            turns += 1;
            sleep(SHORT).await;
            guard.unlock().await.unwrap();
        }
    }
    let mut theirs = 0;
    for busy in busy {
        theirs += busy.end().await;
    }
    println!("{distance:?} away: {turns} turns beside {theirs}");
    (turns, theirs)
}

/// A release gives the lock to clients that are listed. This one listens to the same releases and
/// is not: it is a waiter of a fenced lock, and slower than they are, as a thread of Redisson is.
#[tokio::test(start_paused = true)]
async fn who_is_slow_and_not_listed_has_its_turns() {
    let (turns, theirs) = turns_beside_two_busy_ones(|client| client.lock("x"), NEAR).await;
    assert!(turns > theirs / 100, "{turns} turns beside {theirs}");
}

/// No release gives a fenced lock. Each of the busy clients lets the others go first, and takes the
/// turn of the far one.
#[tokio::test(start_paused = true)]
async fn who_is_slow_has_its_turns_of_a_lock_that_nobody_is_given() {
    for distance in DISTANCES_US.map(Duration::from_micros) {
        let make = |client: &Client| client.fenced_lock("x").into();
        let (turns, theirs) = turns_beside_two_busy_ones(make, distance).await;
        assert!(turns > theirs / 200, "{turns} turns beside {theirs}");
    }
}
