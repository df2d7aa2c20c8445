//! Servers that are known by names, and move to other ports behind those names.

use std::time::Duration;

use leasehold::{Client, Lease, LockGuard};
use leasehold_testbed::{
    Cluster, LIMIT, MASTER, Reply, Sentinels, Server, Watch, eventually, until_certain,
};
use tokio::time::timeout;

const NAME_OF_ALL: &str = "localhost";

const LONG: Duration = Duration::from_secs(300);

async fn connect(url: &str) -> Client {
    let builder = Client::builder(url).lease(LONG).connect_timeout(LIMIT);
    builder.connect().await.expect("connects")
}

fn hosts(servers: &[Server]) -> String {
    let hosts: Vec<_> = servers
        .iter()
        .map(|server| format!("{NAME_OF_ALL}:{}", server.port()))
        .collect();
    hosts.join(",")
}

/// A waiter queues, the holder releases, and the waiter gets the lock.
pub(crate) async fn passes_on(holder: LockGuard, client: &Client) -> LockGuard {
    let lock = client.lock(holder.name());
    let waiting = tokio::spawn(async move { lock.lock().await.expect("released") });
    eventually("queued", async || client.stats().listeners == 1).await;
    holder.unlock().await.expect("held");
    timeout(LIMIT, waiting)
        .await
        .expect("woken")
        .expect("no panic")
}

/// A known complaint: the successor of a primary, at another address behind the same name, is not
/// found, or not for as long as the program runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_and_servers_are_found_by_name() {
    let down_after = Duration::from_secs(1);
    let watch = Watch {
        host: NAME_OF_ALL,
        replicas: 1,
        down_after,
        ..Watch::default()
    };
    let mut sentinels = Sentinels::start_with(&watch);
    let named = sentinels
        .sentinel(0)
        .command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER]);
    assert_eq!(
        named.array()[0].text(),
        NAME_OF_ALL,
        "this is what clients are told"
    );
    let url = format!("redis-sentinel://{}/{MASTER}", hosts(sentinels.sentinels()));
    let [client, other] = [connect(&url).await, connect(&url).await];
    let guard = client.lock("n").lock().await.expect("free");
    let guard = passes_on(guard, &other).await;
    let guard = passes_on(guard, &client).await;
    sentinels.until_in_step();
    sentinels.kill(0);
    assert_eq!(
        sentinels.until_replaced(0),
        1,
        "at another port of the same name"
    );
    until_certain(&guard).await;
    let guard = passes_on(guard, &other).await;
    guard.unlock().await.expect("held all the time");
}

/// How nodes describe the addresses of masters to clients.
fn endpoints_are(node: &Server, sort: &str) -> bool {
    let slots = node.command(&["CLUSTER", "SLOTS"]);
    let expected = if sort == "hostname" {
        Reply::Bulk(NAME_OF_ALL.into())
    } else {
        Reply::Nil
    };
    slots
        .array()
        .iter()
        .all(|range| range.array()[2].array()[0] == expected)
}

/// The same for a cluster whose nodes announce names, or only ports.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_are_found_by_name_and_without_one() {
    let mut cluster = Cluster::start();
    for sort in ["hostname", "unknown-endpoint"] {
        // Redis 6.2 refuses that and announces addresses.
        let sets = |node: &Server, what, value| {
            node.command(&["CONFIG", "SET", what, value]) == Reply::Status("OK".into())
        };
        let is_told = cluster.nodes().iter().all(|node| {
            sets(node, "cluster-announce-hostname", NAME_OF_ALL)
                && sets(node, "cluster-preferred-endpoint-type", sort)
        });
        eventually("all tell it", async || {
            !is_told || cluster.nodes().iter().all(|node| endpoints_are(node, sort))
        })
        .await;
        let url = format!("redis-cluster://{}", hosts(cluster.nodes()));
        let [client, other] = [connect(&url).await, connect(&url).await];
        let name = cluster.name_in(0, sort);
        let guard = client.lock(&name).lock().await.expect("free");
        let guard = passes_on(guard, &other).await;
        let guard = passes_on(guard, &client).await;
        cluster.until_in_step();
        let old = cluster.master(0);
        if sort == "hostname" {
            cluster.kill(old);
            cluster.until_replaced(0, old);
        } else {
            cluster.failover(0);
        }
        until_certain(&guard).await;
        let guard = passes_on(guard, &other).await;
        guard.unlock().await.expect("held all the time");
        for shard in 0..3 {
            let lock = client.lock(cluster.name_in(shard, "any"));
            let guard = lock.try_lock(LIMIT, Lease::Renewed).await.expect("free");
            guard.unlock().await.expect("held");
        }
        if !cluster.node(old).is_up() {
            cluster.restart(old);
        }
        cluster.until_agreed();
    }
}
