//! Holders that are told at once when their holds are ended by force, wherever their keys are.

use std::time::Duration;

use leasehold::settings::ShardedPubSub;
use leasehold::{Client, ClientBuilder, Ended, Lease, LossReason};
use leasehold_testbed::{Cluster, LIMIT, Sentinels, Shape, eventually, timed};

use crate::silence::follows;

/// So long that only a message ends the hold in time.
const HOUR: Lease = Lease::Fixed(Duration::from_secs(3600));

async fn connect(builder: ClientBuilder) -> Client {
    let connected = builder.connect_timeout(LIMIT).connect().await;
    connected.expect("connects")
}

/// One client ends holds of the other. `heard` is the number of subscriptions of all channels of
/// clients.
async fn told([holder, other]: [&Client; 2], names: &[String], heard: impl Fn() -> usize + Sync) {
    let mut guards = Vec::new();
    for name in names {
        // After a failover, only when the grace is over.
        let taken = holder.lock(name).try_lock(LIMIT, HOUR).await;
        guards.push(taken.expect("it is free"));
    }
    eventually("it listens", async || heard() == 1).await;
    for guard in guards {
        let lock = other.lock(guard.name());
        let broken = lock.force_unlock_of(guard.owner(), "a test").await;
        assert!(broken.expect("permitted"), "{}", guard.name());
        let (ended, _) = timed("told", guard.ended()).await;
        let is_forced = matches!(ended, Ended::Lost(LossReason::Forced(_)));
        assert!(is_forced, "{}: {ended:?}", guard.name());
    }
}

/// The scripts run in the slots of the keys. The channel is in the slot of the client's id.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_of_any_shard_is_told() {
    let cluster = Cluster::start_with(Shape {
        replicas: 0,
        ..Shape::default()
    });
    let names: Vec<_> = (0..cluster.shards())
        .map(|shard| cluster.name_in(shard, "n"))
        .collect();
    for sharded in [ShardedPubSub::On, ShardedPubSub::Off, ShardedPubSub::Auto] {
        let client = || connect(Client::builder(&cluster.url()).sharded_pubsub(sharded));
        let (holder, other) = (client().await, client().await);
        let channel = format!("leasehold_client:{{{}}}", holder.id());
        let heard = || {
            let listed = |node: usize| {
                cluster
                    .node(node)
                    .command(&["PUBSUB", "CHANNELS", &channel])
            };
            let nodes = 0..cluster.shards();
            nodes.map(|node| listed(node).array().len()).sum()
        };
        told([&holder, &other], &names, heard).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_is_told_after_a_failover() {
    let sentinels = Sentinels::start();
    let client = || connect(Client::builder(&sentinels.url()));
    let (holder, other) = (client().await, client().await);
    let channel = format!("leasehold_client:{{{}}}", holder.id());
    let heard = || {
        let master = sentinels.server(sentinels.current_master());
        master
            .command(&["PUBSUB", "CHANNELS", &channel])
            .array()
            .len()
    };
    told([&holder, &other], &["before".to_owned()], heard).await;
    sentinels.until_in_step();
    let new = sentinels.failover();
    follows(&holder, sentinels.server(new)).await;
    follows(&other, sentinels.server(new)).await;
    told([&holder, &other], &["after".to_owned()], heard).await;
}
