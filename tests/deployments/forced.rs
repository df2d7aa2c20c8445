//! Masters that are replaced by force while a replica lacks their last grants.
//!
//! `LEASEHOLD_FORCED` is the number of failovers for each setting (3). Where grants can be lost and
//! nothing else is done, the run goes on until a lost one has led to a double hold, because
//! otherwise it shows nothing. `LEASEHOLD_SEED` is the seed. With `--nocapture` it prints the rows
//! of the tables in `docs/guarantees.md`.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use leasehold::settings::Durability;
use leasehold::{
    Client, Ended, Error, FencingToken, HoldState, Lease, Lock, LockGuard, LossReason,
};
use leasehold_testbed::{Cluster, LIMIT, Shape, eventually};
use tokio::time::{Instant, sleep, timeout};

use crate::contenders::{BRIEF, size};

const NAMES: usize = 12;
/// A run without a double hold is given up after this many times `LEASEHOLD_FORCED` failovers.
const PATIENCE: usize = 10;
const WAIT: Duration = Duration::from_secs(5);
/// For how long the promoted replica has received nothing, in ms.
const LAG: std::ops::Range<u64> = 100..400;
/// How long a holder stays inside, in ms.
const SECTION: std::ops::Range<u64> = 20..400;

/// How clients are prepared for a failover.
#[derive(Clone, Copy, Debug)]
enum Setting {
    /// Grants wait for so many replicas, and a new primary gives locks at once. These locks have
    /// tokens.
    Copies(u32),
    /// A new primary gives locks at once. Locks of several kinds.
    NoGrace,
    /// The default. Locks of several kinds.
    Grace,
}

impl Setting {
    async fn client(self, cluster: &Cluster) -> Client {
        let builder = Client::builder(&cluster.url())
            .lease(BRIEF)
            .connect_timeout(LIMIT);
        let builder = match self {
            Setting::Copies(0) | Setting::NoGrace => builder.failover_grace(Duration::ZERO),
            Setting::Copies(replicas) => {
                let durability = Durability::replicas(replicas).within(Duration::from_millis(200));
                builder
                    .failover_grace(Duration::ZERO)
                    .durability(durability)
            }
            Setting::Grace => builder,
        };
        builder.connect().await.expect("connects")
    }

    fn lock(self, client: &Client, number: usize) -> Lock {
        let name = format!("{self:?}:{number}");
        let fenced = |name| client.fenced_lock(name).into();
        match (self, number % 4) {
            (Setting::Copies(_), _) | (_, 0) => fenced(name),
            (_, 1) => client.lock(name),
            (_, 2) => client.fair_lock(name),
            (_, _) => client.read_write_lock(name).write().clone(),
        }
    }
}

/// A name and the resource that its lock protects.
#[derive(Default)]
struct Place {
    inside: Mutex<Vec<Arc<Section>>>,
    /// The last step that the resource accepted. It refuses lower tokens, and equal ones of other
    /// work.
    last: Mutex<(i64, u64)>,
}

/// A holder inside its section.
struct Section {
    guard: LockGuard,
    work: u64,
    token: i64,
    refused: AtomicBool,
}

impl Place {
    fn enter(&self, guard: LockGuard, work: u64, run: &Run) -> Arc<Section> {
        let token = guard.token().map_or(0, FencingToken::value);
        let section = Arc::new(Section {
            guard,
            work,
            token,
            refused: AtomicBool::new(false),
        });
        let mut inside = self.inside.lock().expect("no panic");
        for other in inside.iter() {
            run.counts
                .believed
                .fetch_add(u64::from(other.guard.state() == HoldState::Held), SeqCst);
            run.doubles
                .lock()
                .expect("no panic")
                .push([other.clone(), section.clone()]);
        }
        inside.push(section.clone());
        drop(inside);
        self.step(&section);
        section
    }

    fn step(&self, section: &Section) {
        let mut last = self.last.lock().expect("no panic");
        let (token, work) = *last;
        // Not every kind has tokens.
        let is_accepted = section.token == 0
            || section.token > token
            || (section.token, section.work) == (token, work);
        if is_accepted {
            *last = (section.token, section.work);
        } else {
            section.refused.store(true, SeqCst);
        }
    }

    fn leave(&self, section: &Arc<Section>) {
        self.step(section);
        self.inside
            .lock()
            .expect("no panic")
            .retain(|other| !Arc::ptr_eq(other, section));
    }
}

#[derive(Default)]
struct Counts {
    acquired: AtomicU64,
    /// Holds whose guard said `Held` when another hold was granted.
    believed: AtomicU64,
    refused: AtomicU64,
    not_durable: AtomicU64,
    highest: AtomicI64,
}

#[derive(Default)]
struct Run {
    stop: AtomicBool,
    counts: Counts,
    doubles: Mutex<Vec<[Arc<Section>; 2]>>,
    faults: Mutex<Vec<Error>>,
    /// Holds that were lost though their clients live.
    lost: Mutex<Vec<LossReason>>,
    /// When a replica was last promoted, until somebody who asked later got a lock and kept it.
    promoted: Mutex<Option<Instant>>,
    /// How long that took.
    let_in: Mutex<Vec<Duration>>,
}

impl Run {
    async fn contend(&self, lock: Lock, place: &Place, mut random: Rng) {
        while !self.stop.load(SeqCst) {
            let asked = Instant::now();
            let guard = match lock.try_lock(WAIT, Lease::Renewed).await {
                Ok(guard) => guard,
                Err(error) => {
                    self.failed(error);
                    continue;
                }
            };
            let granted = Instant::now();
            let section = place.enter(guard, random.u64(1..), self);
            self.counts.acquired.fetch_add(1, SeqCst);
            self.counts.highest.fetch_max(section.token, SeqCst);
            sleep(Duration::from_millis(random.u64(SECTION))).await;
            place.leave(&section);
            self.counts
                .refused
                .fetch_add(u64::from(section.refused.load(SeqCst)), SeqCst);
            // One guard of a double hold is kept until one of the two reports the loss.
            if let Ok(section) = Arc::try_unwrap(section) {
                match section.guard.unlock().await {
                    Ok(()) => self.kept(asked, granted),
                    Err(Error::Lost { reason, .. }) => {
                        self.lost.lock().expect("no panic").push(reason);
                    }
                    Err(error) => self.failed(error),
                }
            }
        }
    }

    fn kept(&self, asked: Instant, granted: Instant) {
        let mut promoted = self.promoted.lock().expect("no panic");
        if let Some(at) = promoted.filter(|at| asked >= *at) {
            *promoted = None;
            self.let_in.lock().expect("no panic").push(granted - at);
        }
    }

    fn failed(&self, error: Error) {
        if matches!(error, Error::NotDurable { .. }) {
            self.counts.not_durable.fetch_add(1, SeqCst);
        } else if !error.is_retryable() {
            self.faults.lock().expect("no panic").push(error);
        }
    }

    /// Asserts for each double hold that one guard reports its loss, and that the resource has
    /// refused a step of one of the two.
    async fn settle(&self) -> usize {
        let doubles = std::mem::take(&mut *self.doubles.lock().expect("no panic"));
        for [one, other] in &doubles {
            let ended = timeout(LIMIT, async {
                tokio::select! {
                    ended = one.guard.ended() => ended,
                    ended = other.guard.ended() => ended,
                }
            });
            let ended = ended.await.expect("lost");
            assert!(matches!(ended, Ended::Lost(_)), "{ended:?}");
        }
        for pair in &doubles {
            eventually("both have left", async || {
                pair.iter().all(|section| Arc::strong_count(section) == 1)
            })
            .await;
            // Other kinds have no tokens, so nothing can be refused.
            let has_token = pair.iter().all(|section| section.token > 0);
            assert!(!has_token || pair.iter().any(|section| section.refused.load(SeqCst)));
        }
        doubles.len()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_double_hold_is_reported_and_refused_by_the_resource() {
    let (cluster, failovers, seed) = scene();
    let until_lost = failovers..=PATIENCE * failovers;
    let none = forced(&cluster, Setting::Copies(0), until_lost.clone(), seed).await;
    let one = forced(&cluster, Setting::Copies(1), until_lost, seed).await;
    let all = forced(&cluster, Setting::Copies(2), failovers..=failovers, seed).await;
    assert!(none.doubles > 0, "the run shows nothing: no grant was lost");
    assert!(
        one.doubles > 0,
        "the run shows nothing: the other replica did not acknowledge"
    );
    assert_eq!(all.doubles, 0, "a grant that every replica had was lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_let_in_while_a_guard_says_that_it_holds() {
    let (cluster, failovers, seed) = scene();
    let until_lost = failovers..=PATIENCE * failovers;
    let without = forced(&cluster, Setting::NoGrace, until_lost, seed).await;
    assert!(
        without.doubles > 0,
        "the run shows nothing: no grant was lost"
    );
    let with = forced(&cluster, Setting::Grace, failovers..=failovers, seed).await;
    assert_eq!(
        with.believed, 0,
        "a former holder had not heard of the change"
    );
}

/// A master with two replicas, the number of failovers, and the seed.
fn scene() -> (Cluster, usize, usize) {
    let cluster = Cluster::start_with(Shape {
        masters: 1,
        replicas: 2,
        ..Shape::default()
    });
    (
        cluster,
        size("LEASEHOLD_FORCED", 3),
        size("LEASEHOLD_SEED", 1),
    )
}

/// Double holds.
struct Doubles {
    doubles: usize,
    /// While the first guard said that it holds the lock.
    believed: u64,
}

/// After the lower number of failovers, the run ends when there was a double hold.
async fn forced(
    cluster: &Cluster,
    setting: Setting,
    failovers: RangeInclusive<usize>,
    seed: usize,
) -> Doubles {
    let run = Arc::<Run>::default();
    let mut random = Rng::with_seed(u64::try_from(seed).expect("a seed"));
    let mut tasks = Vec::new();
    let places: Vec<_> = (0..NAMES).map(|_| Arc::<Place>::default()).collect();
    for _ in 0..2 {
        let client = setting.client(cluster).await;
        for (number, place) in places.iter().enumerate() {
            let lock = setting.lock(&client, number);
            let (run, place, random) = (run.clone(), place.clone(), random.fork());
            tasks.push(tokio::spawn(async move {
                run.contend(lock, &place, random).await;
            }));
        }
    }
    let (mut done, mut doubles) = (0, 0);
    while done < *failovers.start() || (doubles == 0 && done < *failovers.end()) {
        let before = run.counts.acquired.load(SeqCst);
        eventually("they are at work", async || {
            run.counts.acquired.load(SeqCst) > before + 20
        })
        .await;
        replace_by_force(cluster, Duration::from_millis(random.u64(LAG)), &run).await;
        doubles += run.settle().await;
        done += 1;
    }
    run.stop.store(true, SeqCst);
    for task in tasks {
        timeout(LIMIT, task)
            .await
            .expect("no waiter is left behind")
            .expect("no contender panics");
    }
    doubles += run.settle().await;
    let faults = run.faults.lock().expect("no panic");
    assert!(faults.is_empty(), "{faults:#?}");
    show(setting, done, doubles, &run);
    let believed = run.counts.believed.load(SeqCst);
    Doubles { doubles, believed }
}

/// Cuts a replica off and makes it master a while later, without a vote. The former master lives,
/// and follows when it hears of it.
async fn replace_by_force(cluster: &Cluster, lag: Duration, run: &Run) {
    let (old, new) = (cluster.master(0), cluster.replica_of(0));
    let mut master = cluster.node(old).connection();
    let mut command = |words: &[&str]| master.command(words).expect("answered");
    // Existing connections stay, but the replica cannot return.
    command(&["CONFIG", "SET", "requirepass", "nobody knows"]);
    cluster
        .node(new)
        .command(&["CLIENT", "KILL", "TYPE", "master"]);
    sleep(lag).await;
    cluster
        .node(new)
        .command(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
    *run.promoted.lock().expect("no panic") = Some(Instant::now());
    command(&["CONFIG", "SET", "requirepass", ""]);
    tokio::task::block_in_place(|| {
        cluster.until_replaced(0, old);
        cluster.until_in_step();
    });
}

#[expect(
    clippy::print_stderr,
    reason = "what was measured is shown with --nocapture"
)]
fn show(setting: Setting, failovers: usize, doubles: usize, run: &Run) {
    let counts = &run.counts;
    let [acquired, believed, refused, not_durable] = [
        &counts.acquired,
        &counts.believed,
        &counts.refused,
        &counts.not_durable,
    ]
    .map(|count| count.load(SeqCst));
    let lost = run.lost.lock().expect("no panic").len();
    let mut let_in = run.let_in.lock().expect("no panic").clone();
    let_in.sort();
    let median = let_in.get(let_in.len() / 2);
    eprintln!(
        "{setting:?}: {failovers} failovers, {acquired} acquisitions, {doubles} double holds, \
         {believed} of them believed, {refused} works refused, {not_durable} not durable, {lost} \
         lost, new owners after {median:?}, at most {:?}",
        let_in.last()
    );
}
