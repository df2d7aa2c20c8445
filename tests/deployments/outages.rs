//! Shards that are down for a while and come back, from the point of view of holders and waiters
//! there and elsewhere.
//!
//! `LEASEHOLD_OUTAGE` is the duration in seconds (3).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use leasehold::{Client, Ended, Error, HoldState, Lease, Lock, LockGuard, LossReason};
use leasehold_testbed::{
    Cluster, CommandStats, LIMIT, Sentinels, Server, Shape, Watch, assert_lost, command_stats,
    eventually, keyslot, take_and_release, until_certain,
};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::contenders::size;

/// No hold ends during an outage for lack of renewals.
const LONG: Duration = Duration::from_secs(300);

/// Ends during an outage, and is renewed otherwise.
const SHORT: Duration = Duration::from_millis(1_500);

/// Outlasts a failover of busy servers. A sentinel whose clock jumped, or that stood still for two
/// seconds, does nothing for half a minute.
const RENEWED: Duration = Duration::from_secs(90);

const WAIT: Duration = Duration::from_millis(500);

fn outage() -> Duration {
    Duration::from_secs(size("LEASEHOLD_OUTAGE", 3) as u64)
}

async fn connect(url: &str) -> Client {
    let builder = Client::builder(url).lease(LONG).connect_timeout(LIMIT);
    builder.connect().await.expect("connects")
}

async fn take(client: &Client, name: &str, lease: Duration) -> LockGuard {
    client
        .lock(name)
        .try_lock(LIMIT, Lease::RenewedFor(lease))
        .await
        .expect("free")
}

/// How the holds of pairs end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// With a reply, which confirms that the lock was held.
    Unlocked,
    /// In the background.
    Dropped,
}

/// Takes and releases locks as fast as possible. None may fail.
struct Pairs {
    done: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    working: JoinHandle<()>,
}

impl Pairs {
    fn start(lock: Lock, end: End) -> Self {
        let (done, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let working = tokio::spawn({
            let (done, stop) = (done.clone(), stop.clone());
            async move {
                while !stop.load(SeqCst) {
                    let guard = lock
                        .try_lock(outage() + LIMIT, Lease::Renewed)
                        .await
                        .expect("it serves");
                    match end {
                        End::Unlocked => guard.unlock().await.expect("held"),
                        End::Dropped => drop(guard),
                    }
                    done.fetch_add(1, SeqCst);
                }
            }
        });
        Pairs {
            done,
            stop,
            working,
        }
    }

    fn done(&self) -> u64 {
        self.done.load(SeqCst)
    }

    async fn stop(self) {
        self.stop.store(true, SeqCst);
        self.working.await.expect("no error");
    }
}

/// Asserts that a wait with no reachable server ends in time, with the reason, and that nothing is
/// held.
async fn is_refused(client: &Client, name: &str) {
    let since = Instant::now();
    // In a task: on a busy machine, the test's thread is woken late and its future would be passed
    // over.
    let lock = client.lock(name);
    let trying = tokio::spawn(async move { lock.try_lock(WAIT, Lease::Renewed).await });
    let refused = trying.await.expect("no panic").expect_err("it is down");
    let took = since.elapsed();
    assert!(
        took >= WAIT && took < WAIT + Duration::from_secs(2),
        "{took:?}: {refused:?}"
    );
    assert!(
        matches!(refused, Error::Unavailable { .. } | Error::Unknown { .. }),
        "{refused:?}"
    );
    assert!(refused.is_retryable(), "{refused:?}");
}

/// A waiter without a limit for a name that is free as soon as a server serves it.
fn waiter(client: &Client, name: &str) -> JoinHandle<()> {
    let lock = client.lock(name);
    tokio::spawn(async move {
        take_and_release(&lock).await;
    })
}

async fn goes_on(waiting: JoinHandle<()>) {
    timeout(LIMIT, waiting)
        .await
        .expect("it goes on by itself")
        .expect("no panic");
}

/// A known complaint: one bad node blocks the healthy ones, and its waiters hang when it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(
    clippy::print_stderr,
    reason = "measured rates are shown with --nocapture"
)]
async fn without_full_coverage_a_shard_that_is_down_is_its_own_affair() {
    let shape = Shape {
        replicas: 0,
        full_coverage: false,
        ..Shape::default()
    };
    let mut cluster = Cluster::start_with(shape);
    let client = connect(&cluster.url()).await;
    let [on_0, on_1, lost, waited, refused] = [
        (0, "a"),
        (1, "b"),
        (2, "lost"),
        (2, "waited"),
        (2, "refused"),
    ]
    .map(|(shard, part)| cluster.name_in(shard, part));
    let elsewhere = [
        take(&client, &on_0, SHORT).await,
        take(&client, &on_1, SHORT).await,
    ];
    let (kept_long, kept_short) = (
        take(&client, &lost, LONG).await,
        take(&client, &cluster.name_in(2, "short"), SHORT).await,
    );
    let pairs = [0, 1]
        .map(|shard| Pairs::start(client.lock(cluster.name_in(shard, "pair")), End::Unlocked));
    eventually("pairs are done", async || {
        pairs.iter().all(|pairs| pairs.done() > 10)
    })
    .await;

    let since = Instant::now();
    cluster.kill(2);
    let waiting = waiter(&client, &waited);
    let before = pairs.each_ref().map(Pairs::done);
    while since.elapsed() < outage() {
        is_refused(&client, &refused).await;
        assert!(
            elsewhere
                .iter()
                .all(|guard| guard.state() == HoldState::Held),
            "they do not notice"
        );
    }
    let after = pairs.each_ref().map(Pairs::done);
    eprintln!("pairs of the healthy shards while one was down: {before:?} to {after:?}");
    assert!(
        after[0] > before[0] + 10 && after[1] > before[1] + 10,
        "{before:?} to {after:?}"
    );
    // The renewal of the long lease is not due yet. That of the short one has failed all the time.
    let ended = timeout(LIMIT, kept_short.ended()).await.expect("lost");
    assert_eq!(ended, Ended::Lost(LossReason::Expired));
    assert!(!waiting.is_finished());

    cluster.restart(2);
    goes_on(waiting).await;
    let guard = client
        .lock(&refused)
        .try_lock(LIMIT, Lease::Renewed)
        .await
        .expect("it serves");
    guard.unlock().await.expect("held");
    let refused = kept_long.unlock().await.expect_err("it came back empty");
    assert_lost(&refused, LossReason::Gone);
    for guard in elsewhere {
        assert_eq!(guard.state(), HoldState::Held);
        guard.unlock().await.expect("held all the time");
    }
    for pairs in pairs {
        pairs.stop().await;
    }
}

/// How often a server was asked about the cluster.
fn looks(server: &Server) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]).text();
    let looks = |(command, stats): (String, CommandStats)| {
        let is_look = command.starts_with("cluster");
        is_look.then_some(stats.calls)
    };
    command_stats(&stats).into_iter().filter_map(looks).sum()
}

/// Nobody knows more in the meantime, so clients that keep asking would only load the healthy
/// nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(
    clippy::print_stderr,
    reason = "measured rates are shown with --nocapture"
)]
async fn a_master_that_is_down_does_not_make_the_others_answer_all_the_time() {
    let shape = Shape {
        replicas: 0,
        full_coverage: false,
        ..Shape::default()
    };
    let mut cluster = Cluster::start_with(shape);
    let client = connect(&cluster.url()).await;
    let name = cluster.name_in(2, "busy");
    let lock = client.lock(&name);
    take_and_release(&lock).await;
    cluster.kill(2);
    let waiting: Vec<_> = (0..4).map(|_| waiter(&client, &name)).collect();
    let (before, since) = (looks(cluster.node(0)), Instant::now());
    while since.elapsed() < Duration::from_secs(5) {
        drop(lock.try_lock_now(Lease::Renewed).await);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let looks = looks(cluster.node(0)) - before;
    eprintln!("a healthy master was asked {looks} times in five seconds");
    assert!((2..60).contains(&looks), "{looks}");
    cluster.restart(2);
    for waiting in waiting {
        goes_on(waiting).await;
    }
}

/// A known complaint: healthy masters answer CLUSTERDOWN, which callers take for permanent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_full_coverage_all_wait_and_all_go_on() {
    let mut cluster = Cluster::start_with(Shape {
        replicas: 0,
        ..Shape::default()
    });
    let client = connect(&cluster.url()).await;
    let kept = take(&client, &cluster.name_in(0, "kept"), outage() + LIMIT).await;
    let short = take(&client, &cluster.name_in(0, "short"), SHORT).await;
    let [healthy, waited] = [(1, "healthy"), (1, "waited")].map(|(s, p)| cluster.name_in(s, p));
    let pairs = Pairs::start(client.lock(cluster.name_in(0, "pair")), End::Dropped);

    cluster.kill(2);
    eventually("a healthy master refuses", async || {
        let reply = cluster.node(1).command(&["SET", &healthy, "1"]);
        drop(cluster.node(1).command(&["DEL", &healthy]));
        reply.text().starts_with("CLUSTERDOWN")
    })
    .await;
    let since = Instant::now();
    let waiting = waiter(&client, &waited);
    eventually("uncertain", async || short.state() != HoldState::Held).await;
    while since.elapsed() < outage() {
        is_refused(&client, &healthy).await;
        assert_ne!(kept.state(), HoldState::Lost, "its lease is long enough");
    }
    let ended = timeout(LIMIT, short.ended()).await.expect("lost");
    assert_eq!(ended, Ended::Lost(LossReason::Expired));
    assert!(!waiting.is_finished());

    cluster.restart(2);
    goes_on(waiting).await;
    let done = pairs.done();
    eventually("pairs go on", async || pairs.done() > done + 10).await;
    pairs.stop().await;
    until_certain(&kept).await;
    kept.unlock().await.expect("held all the time");
}

/// A known complaint: one bad node blocks the healthy ones, especially when a slot moves between
/// those.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_moves_while_another_shard_stands_still() {
    let shape = Shape {
        replicas: 0,
        full_coverage: false,
        ..Shape::default()
    };
    let cluster = Cluster::start_with(shape);
    let client = connect(&cluster.url()).await;
    let moving = cluster.name_in(0, "moving");
    let name = |part: &str| format!("{{{moving}}}:{part}");
    let mut holds = Vec::new();
    for number in 0..20 {
        holds.push(take(&client, &name(&number.to_string()), SHORT).await);
        holds.push(take(&client, &cluster.name_in(1, &number.to_string()), SHORT).await);
    }
    let locks = [
        name("pair"),
        cluster.name_in(0, "pair"),
        cluster.name_in(1, "pair"),
    ];
    let pairs = locks.map(|name| Pairs::start(client.lock(name), End::Unlocked));
    eventually("pairs are done", async || {
        pairs.iter().all(|pairs| pairs.done() > 10)
    })
    .await;
    cluster.pause(2);
    // A waiter tries to reach it all the time.
    let stuck = waiter(&client, &cluster.name_in(2, "stuck"));
    for owner in [1, 0, 1] {
        cluster.migrate(keyslot(&moving), owner);
        let before = pairs.each_ref().map(Pairs::done);
        let renewed = client.stats().renewed;
        eventually("pairs go on", async || {
            pairs
                .iter()
                .zip(before)
                .all(|(pairs, before)| pairs.done() > before + 10)
        })
        .await;
        eventually("all renewed", async || {
            client.stats().renewed > renewed + 40
        })
        .await;
        assert!(
            holds.iter().all(|guard| guard.state() == HoldState::Held),
            "none has noticed"
        );
    }
    assert!(!stuck.is_finished());
    cluster.resume(2);
    goes_on(stuck).await;
    for guard in holds {
        guard.unlock().await.expect("held");
    }
    for pairs in pairs {
        pairs.stop().await;
    }
}

/// Asserts that a hold is renewed within what is left of its lease. `before` is how many renewals
/// there were when the server that had it stopped. The first one after that may have come already,
/// and the next comes much later.
async fn is_renewed(client: &Client, guard: &LockGuard, before: u64) {
    let since = Instant::now();
    eventually("renewed", async || {
        let took = since.elapsed();
        assert_ne!(
            guard.state(),
            HoldState::Lost,
            "after {took:?}: {:?}",
            client.stats()
        );
        client.stats().renewed > before
    })
    .await;
    until_certain(guard).await;
}

/// A known complaint: "MOVED redirection loop detected" for renewals, after masters were down and
/// came up with swapped roles, twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewals_go_on_when_roles_are_swapped_and_swapped_back() {
    let mut cluster = Cluster::start();
    let client = connect(&cluster.url()).await;
    let name = cluster.name_in(0, "n");
    let guard = take(&client, &name, RENEWED).await;
    let first = cluster.master(0);
    for _ in 0..2 {
        cluster.until_in_step();
        let old = cluster.master(0);
        cluster.kill(old);
        let before = client.stats().renewed;
        cluster.until_replaced(0, old);
        cluster.restart(old);
        cluster.until_agreed();
        is_renewed(&client, &guard, before).await;
    }
    assert_eq!(cluster.master(0), first, "swapped back");
    guard.unlock().await.expect("held all the time");
}

/// The same with sentinels.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewals_go_on_when_a_former_primary_is_the_primary_again() {
    let sentinels = Sentinels::start_with(&Watch {
        replicas: 1,
        down_after: Duration::from_millis(500),
        ..Watch::default()
    });
    let client = connect(&sentinels.url()).await;
    let guard = take(&client, "n", RENEWED).await;
    for _ in 0..2 {
        sentinels.until_in_step();
        // Pause the sentinels, which keep their state: a busy sentinel may choose a new master too
        // early.
        let old = sentinels.current_master();
        sentinels.pause(old);
        let before = client.stats().renewed;
        sentinels.until_replaced(old);
        is_renewed(&client, &guard, before).await;
        sentinels.resume(old);
    }
    guard.unlock().await.expect("held all the time");
}
