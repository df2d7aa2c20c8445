//! A cluster whose nodes fail or whose slots move, from the point of view of clients that are not
//! affected and of their waiters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use leasehold::settings::{Credentials, ShardedPubSub};
use leasehold::{Client, ClientBuilder, HoldState, Lease, Lock};
use leasehold_testbed::{Cluster, LIMIT, Reply, Shape, command_stats, eventually, keyslot};
use tokio::time::sleep;

use crate::contenders::{held_and_waited_for, release_wakes_all};

/// So rare that a poll cannot make up for a lost message.
const NO_POLL: Duration = Duration::from_secs(60);

/// So long that the end of the lease cannot wake a waiter either.
const LONG: Duration = Duration::from_secs(300);

fn builder(cluster: &Cluster) -> ClientBuilder {
    Client::builder(&cluster.url()).connect_timeout(LIMIT)
}

async fn connect(builder: ClientBuilder) -> Client {
    builder.connect().await.expect("connects")
}

fn masters_only() -> Cluster {
    Cluster::start_with(Shape {
        replicas: 0,
        full_coverage: false,
        ..Shape::default()
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(
    clippy::print_stderr,
    reason = "measured rates are shown with --nocapture"
)]
async fn a_shard_that_stands_still_costs_the_others_nothing() {
    let cluster = masters_only();
    let lease = Duration::from_secs(6);
    let client = connect(builder(&cluster).lease(lease)).await;
    let healthy = |number: usize| cluster.name_in(number % 2, &format!("held{number}"));
    let mut guards = Vec::new();
    for number in 0..100 {
        guards.push(client.lock(healthy(number)).lock().await.expect("free"));
    }
    let pairs = Arc::<AtomicU64>::default();
    let stop = Arc::<AtomicBool>::default();
    let working = [0, 1].map(|shard| {
        let lock = client.lock(cluster.name_in(shard, "work"));
        let (pairs, stop) = (pairs.clone(), stop.clone());
        tokio::spawn(async move {
            while !stop.load(SeqCst) {
                let guard = lock
                    .try_lock(LIMIT, Lease::Renewed)
                    .await
                    .expect("of a healthy shard");
                guard.unlock().await.expect("held");
                pairs.fetch_add(1, SeqCst);
            }
        })
    });
    let span = Duration::from_secs(2);
    let rate = async || {
        let (before, since) = (pairs.load(SeqCst), Instant::now());
        sleep(span).await;
        let pairs = u32::try_from(pairs.load(SeqCst) - before).expect("some thousands");
        f64::from(pairs) / since.elapsed().as_secs_f64()
    };
    let whole = rate().await;
    cluster.pause(2);
    // A waiter is queued there, and woken in time.
    let lock = client.lock(cluster.name_in(2, "n"));
    let since = Instant::now();
    let refused = lock
        .try_lock(span, Lease::Renewed)
        .await
        .expect_err("nobody answers");
    assert!(
        refused.is_retryable() && since.elapsed() >= span,
        "{refused:?}"
    );
    // Something that makes other clients stop: a slot that moves between the healthy shards.
    let slot = keyslot(&healthy(0));
    let moving = cluster.begin_migration(slot, 1);
    while moving.move_keys(10) > 0 {}
    drop(moving);
    let without = rate().await;
    eprintln!("pairs a second with three masters {whole:.0}, with one of them frozen {without:.0}");
    let renewed = client.stats().renewed;
    eventually("all renewed twice", async || {
        client.stats().renewed >= renewed + 2 * 98
    })
    .await;
    assert!(
        guards
            .iter()
            .skip(1)
            .all(|guard| guard.state() == HoldState::Held)
    );
    cluster.resume(2);
    let guard = lock
        .try_lock(LIMIT, Lease::Renewed)
        .await
        .expect("it answers again");
    guard.unlock().await.expect("held");
    stop.store(true, SeqCst);
    for task in working {
        task.await.expect("no error");
    }
}

/// Waiters that depend on the message of the release.
async fn woken(sharded: ShardedPubSub, change: impl AsyncFnOnce(&Cluster, u16)) {
    let cluster = masters_only();
    let make = || {
        connect(
            builder(&cluster)
                .lease(LONG)
                .safety_poll(NO_POLL)
                .sharded_pubsub(sharded),
        )
    };
    let (holder, waiter) = (make().await, make().await);
    let names: Vec<_> = (0..100).map(|number| format!("{{x}}:{number}")).collect();
    let (held, waiting) = held_and_waited_for([&holder, &waiter], &names).await;
    eventually("all listen", async || waiter.stats().subscriptions == 100).await;
    change(&cluster, keyslot("{x}")).await;
    release_wakes_all(held, waiting).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_follow_a_slot_that_moves() {
    for sharded in [ShardedPubSub::On, ShardedPubSub::Off] {
        woken(sharded, async |cluster, slot| {
            let to = (cluster.owner(slot) + 1) % 3;
            cluster.migrate(slot, to);
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_of_a_lost_connection_come_back() {
    woken(ShardedPubSub::Auto, async |cluster, slot| {
        let owner = cluster.node(cluster.owner(slot));
        owner.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        let channels = || owner.command(&["PUBSUB", "SHARDCHANNELS"]).array().len();
        eventually("all are subscribed again", async || channels() == 100).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_locks_reach_all_masters() {
    let cluster = masters_only();
    let client = connect(builder(&cluster)).await;
    let names = [0, 1, 2].map(|shard| cluster.name_in(shard, "orders"));
    let several = Lock::multi(names.each_ref().map(|name| client.lock(name)));
    let guard = several.lock().await.expect("free");
    for name in &names {
        assert!(client.lock(name).is_locked().await.expect("an answer"));
    }
    guard.unlock().await.expect("held");
    for name in &names {
        assert!(!client.lock(name).is_locked().await.expect("an answer"));
    }
    client.ping().await.expect("an answer");
}

/// The node would refuse it again, so it is not asked for until somebody subscribes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_that_a_node_refuses_is_not_asked_for_again_and_again() {
    let cluster = masters_only();
    let all = |words: &[&str]| [0, 1, 2].map(|node| cluster.node(node).command(words));
    let refusals = || -> u64 {
        let stats = all(&["INFO", "commandstats"]);
        let subscribe = |stats: &Reply| command_stats(&stats.text()).remove("subscribe");
        let of_nodes = stats.iter().filter_map(subscribe);
        of_nodes.map(|stats| stats.rejected).sum()
    };
    all(&["ACL", "SETUSER", "ann", "on", ">pw", "~*", "&*", "+@all"]);
    let login = || async { Ok(Credentials::new("ann", "pw")) };
    let client = connect(builder(&cluster).credentials(login)).await;
    let guard = client.lock("x").lock().await.expect("free");
    eventually("it listens on its channels", async || {
        let channels = all(&["PUBSUB", "CHANNELS", "leasehold_client:*"]);
        channels
            .iter()
            .map(|some| some.array().len())
            .sum::<usize>()
            == 2
    })
    .await;

    all(&["ACL", "SETUSER", "ann", "resetchannels", "&redisson_*"]);
    all(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    eventually("it is refused", async || refusals() > 0).await;
    sleep(Duration::from_secs(3)).await;
    assert!(refusals() <= 8, "{} times", refusals());
    guard.unlock().await.expect("held");
}
