//! A node whose address the others have lost: it forgot its identity and came back as a stranger.

use std::fs;
use std::time::Duration;

use leasehold::{Client, Lease, Lock};
use leasehold_testbed::{Cluster, LIMIT, Shape, eventually};

async fn is_served(lock: &Lock) -> bool {
    match lock
        .try_lock(Duration::from_millis(200), Lease::Renewed)
        .await
    {
        Ok(guard) => guard.unlock().await.is_ok(),
        Err(_) => false,
    }
}

/// No majority of masters is left to elect a replica, so it takes over by order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_is_followed_while_another_node_has_no_address() {
    let shape = Shape {
        full_coverage: false,
        ..Shape::default()
    };
    let mut cluster = Cluster::start_with(shape);
    let url = cluster.url();
    let builder = || Client::builder(&url).connect_timeout(LIMIT);
    let client = builder().connect().await.expect("connects");
    let [lock, elsewhere] = [0, 1].map(|shard| client.lock(cluster.name_in(shard, "n")));
    assert!(is_served(&lock).await && is_served(&elsewhere).await);

    let (former, replica, lost) = (cluster.master(0), cluster.replica_of(0), cluster.master(2));
    // So that nobody else takes the slots of the lost node.
    let heir = cluster.replica_of(2);
    cluster.kill(heir);
    cluster.kill(lost);
    fs::remove_file(cluster.node(lost).folder().join("nodes.conf")).expect("it has one");
    cluster.restart(lost);
    eventually("its address is lost", async || {
        let nodes = cluster.node(1).command(&["CLUSTER", "NODES"]).text();
        nodes
            .lines()
            .any(|line| line.contains("noaddr") && line.contains("master"))
    })
    .await;
    cluster.kill(former);
    eventually("the replica takes over", async || {
        drop(
            cluster
                .node(replica)
                .command(&["CLUSTER", "FAILOVER", "TAKEOVER"]),
        );
        cluster.node(replica).command(&["ROLE"]).array()[0].text() == "master"
    })
    .await;
    eventually("the failover is followed", async || is_served(&lock).await).await;
    let client = builder().connect().await.expect("a new client connects");
    for shard in [0, 1] {
        let lock = client.lock(cluster.name_in(shard, "new"));
        eventually("the shard is served", async || is_served(&lock).await).await;
    }
}
