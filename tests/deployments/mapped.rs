//! Servers that announce addresses which their clients cannot reach, and a tunnel to each of them.

use std::net::SocketAddr;
use std::time::Duration;

use leasehold::settings::AddressMap;
use leasehold::{Client, ClientBuilder, HoldState, LockGuard};
use leasehold_testbed::{Cluster, LIMIT, Proxy, Reply, Server, eventually, until_certain};

use crate::names::passes_on;

/// Many renewals within a test, and longer than it takes to replace a master that is dead.
const LEASE: Duration = Duration::from_secs(10);

/// A tunnel to each server, and the map of what they announce.
struct Tunnels {
    tunnels: Vec<Proxy>,
    map: AddressMap,
}

impl Tunnels {
    fn to(servers: &[&Server], announced: impl Fn(usize, SocketAddr) -> String) -> Self {
        let tunnels: Vec<_> = servers
            .iter()
            .map(|server| Proxy::start(server.address()))
            .collect();
        let entries = servers.iter().zip(&tunnels).enumerate();
        let entries = entries.map(|(number, (server, tunnel))| {
            let reached = tunnel.address().to_string();
            (announced(number, server.address()), reached)
        });
        let map = AddressMap::table(entries);
        Tunnels { tunnels, map }
    }

    fn address(&self, number: usize) -> String {
        self.tunnels[number].address().to_string()
    }

    async fn connect(&self, url: &str) -> Client {
        let builder = Client::builder(url).lease(LEASE).connect_timeout(LIMIT);
        let builder: ClientBuilder = builder.address_map(self.map.clone());
        builder.connect().await.expect("connects")
    }

    /// If a connection did not lead through a tunnel, it would survive that.
    async fn carry_everything(&self, client: &Client, servers: &[&Server]) {
        let id = client.id();
        let is_empty = |server: &&Server| !server.is_up() || server.clients(&id).is_empty();
        self.tunnels.iter().for_each(Proxy::refuse);
        eventually("nothing is left of the client", async || {
            self.tunnels.iter().for_each(Proxy::cut);
            servers.iter().all(is_empty)
        })
        .await;
        self.tunnels.iter().for_each(Proxy::pass);
    }
}

/// A wait, and a renewal after it.
async fn is_passed_on_and_renewed(guard: LockGuard, from: &Client, to: &Client) -> LockGuard {
    let guard = passes_on(guard, to).await;
    let renewed = to.stats().renewed;
    // After a reconnect, only a renewal that was sent since makes the hold certain.
    eventually("renewed, and certain", async || {
        to.stats().renewed > renewed && guard.state() == HoldState::Held
    })
    .await;
    assert!(from.stats().lost == 0 && to.stats().lost == 0);
    guard
}

/// The name that a node announces. Nobody can resolve it.
fn name(number: usize) -> String {
    format!("node-{number}.invalid")
}

/// Whether the nodes announce their names. Redis 6.2 cannot.
async fn are_announced(cluster: &Cluster) -> bool {
    let ok = Reply::Status("OK".into());
    let sets =
        |node: &Server, what, value: &str| node.command(&["CONFIG", "SET", what, value]) == ok;
    let nodes = cluster.nodes().iter().enumerate();
    let are_set = { nodes }.all(|(number, node)| {
        sets(node, "cluster-announce-hostname", &name(number))
            && sets(node, "cluster-preferred-endpoint-type", "hostname")
    });
    let is_known = |reply: &Reply| {
        let host = |range: &Reply| range.array()[2].array()[0].text();
        reply
            .array()
            .iter()
            .all(|range| host(range).ends_with(".invalid"))
    };
    eventually("all tell all names", async || {
        let slots = |node: &Server| node.command(&["CLUSTER", "SLOTS"]);
        !are_set || cluster.nodes().iter().all(|node| is_known(&slots(node)))
    })
    .await;
    are_set
}

/// A known complaint: a cluster in containers or behind tunnels cannot be used, or only until a
/// slot moves or a node fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_whose_nodes_announce_names_that_nobody_knows() {
    let mut cluster = Cluster::start();
    if !are_announced(&cluster).await {
        return;
    }
    let nodes: Vec<_> = cluster.nodes().iter().collect();
    let tunnels = Tunnels::to(&nodes, |number, at| {
        format!("{}:{}", name(number), at.port())
    });
    let url = format!("redis-cluster://{}", tunnels.address(0));
    let [client, other] = [tunnels.connect(&url).await, tunnels.connect(&url).await];
    let held = cluster.name_in(0, "held");
    let guard = client.lock(&held).lock().await.expect("free");
    let guard = is_passed_on_and_renewed(guard, &client, &other).await;

    // Its slot moves.
    let slot = cluster.command(&["CLUSTER", "KEYSLOT", &held]).int();
    let slot = u16::try_from(slot).expect("a slot");
    cluster.migrate(slot, cluster.master(1));
    let guard = is_passed_on_and_renewed(guard, &other, &client).await;

    // Its node fails over, and the master of another shard is killed.
    cluster.until_in_step();
    cluster.failover(1);
    let guard = is_passed_on_and_renewed(guard, &client, &other).await;
    cluster.until_in_step();
    let old = cluster.master(1);
    cluster.kill(old);
    cluster.until_replaced(1, old);
    until_certain(&guard).await;
    let guard = is_passed_on_and_renewed(guard, &other, &client).await;

    let nodes: Vec<_> = cluster.nodes().iter().collect();
    tunnels.carry_everything(&client, &nodes).await;
    until_certain(&guard).await;
    guard.unlock().await.expect("held all the time");
    cluster.restart(old);
    cluster.until_agreed();
}
