//! TLS to every server of a deployment, including servers that only the deployment announces.

use std::time::Duration;

use leasehold::settings::TlsOptions;
use leasehold::{Client, ClientBuilder, Lease};
use leasehold_testbed::{
    Certificate, Cluster, LIMIT, MASTER, Server, Shape, connected, eventually, keyslot,
};
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(300);

fn builder(certificate: &Certificate, url: &str) -> ClientBuilder {
    let trusted = TlsOptions::new().ca_file(certificate.folder.join("ca.pem"));
    Client::builder(url)
        .tls(trusted)
        .lease(LONG)
        .connect_timeout(LIMIT)
}

/// The local ports of the connections by which a server was reached.
fn ports_of(server: &Server, client: &Client) -> Vec<String> {
    let own = server.clients(&client.id());
    let port = |line: &String| {
        let address = line.split(' ').find_map(|word| word.strip_prefix("laddr="));
        address
            .and_then(|address| address.rsplit(':').next())
            .unwrap_or_default()
            .to_owned()
    };
    own.iter().map(port).collect()
}

fn is_secured(server: &Server, client: &Client) -> bool {
    let ports = ports_of(server, client);
    assert!(
        ports
            .iter()
            .all(|port| *port == server.tls_port().to_string()),
        "{ports:?}"
    );
    ports.len() == 3
}

/// Redirected and woken by messages without plain text, although all servers also have a plain
/// port.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_of_a_cluster_is_reached_by_tls() {
    let certificate = Certificate::new("cluster");
    let arguments = [
        certificate.arguments(),
        vec!["--tls-cluster".into(), "yes".into()],
    ]
    .concat();
    let cluster = Cluster::start_with(Shape {
        replicas: 0,
        arguments,
        ..Shape::default()
    });
    let seed = cluster.node(0);
    let url = format!("rediss-cluster://127.0.0.1:{}", seed.tls_port());
    let [client, other] = [builder(&certificate, &url), builder(&certificate, &url)];
    let client = client.connect().await.expect("connects");
    let other = other.connect().await.expect("connects");
    eventually("all nodes are connected", async || {
        cluster.nodes().iter().all(|node| is_secured(node, &client))
    })
    .await;
    for shard in 0..3 {
        let name = cluster.name_in(shard, "n");
        cluster.move_empty_slot(keyslot(&name), (shard + 1) % 3);
        let guard = client.lock(&name).lock().await.expect("free");
        let lock = other.lock(&name);
        let waiting = tokio::spawn(async move { lock.lock().await.expect("released") });
        eventually("queued", async || other.stats().listeners == 1).await;
        guard.unlock().await.expect("held");
        let woken = timeout(LIMIT, waiting)
            .await
            .expect("woken")
            .expect("no panic");
        woken.unlock().await.expect("held");
    }
    assert!(cluster.nodes().iter().all(|node| is_secured(node, &client)));
    // A client that does not trust the certificate gets an error.
    let stranger = Client::builder(&url)
        .connect_timeout(Duration::from_secs(2))
        .connect()
        .await;
    let refused = format!("{:?}", stranger.expect_err("nobody it trusts"));
    assert!(refused.contains("certificate"), "{refused}");
}

/// Sentinels, servers, and the server that replaces another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_and_both_primaries_are_reached_by_tls() {
    let certificate = Certificate::new("sentinel");
    let shown = [
        certificate.arguments(),
        vec!["--tls-replication".into(), "yes".into()],
    ]
    .concat();
    let mut shown: Vec<_> = shown.iter().map(String::as_str).collect();
    let sync = ["--repl-diskless-sync-delay", "0"];
    let primary = Server::start_with(&[&shown[..], &sync].concat());
    let port = primary.tls_port().to_string();
    let replica =
        Server::start_with(&[&shown[..], &sync, &["--replicaof", "127.0.0.1", &port]].concat());
    eventually("the replica is there", async || {
        let info = replica.command(&["INFO", "replication"]).text();
        info.contains("master_link_status:up")
    })
    .await;
    let configuration = format!("sentinel monitor {MASTER} 127.0.0.1 {port} 1\n");
    shown.extend(["--protected-mode", "no"]);
    let sentinel = Server::start_sentinel_with(&configuration, &shown);
    let url = format!(
        "rediss-sentinel://127.0.0.1:{}/{MASTER}",
        sentinel.tls_port()
    );
    let client = connected(builder(&certificate, &url)).await;
    eventually("the primary is connected", async || {
        is_secured(&primary, &client)
    })
    .await;
    let guard = client.lock("n").lock().await.expect("free");
    eventually("the replica has it", async || {
        replica.command(&["EXISTS", "n"]).int() == 1
    })
    .await;
    eventually("the sentinel takes the order", async || {
        sentinel.command(&["SENTINEL", "FAILOVER", MASTER]).text() == "OK"
    })
    .await;
    eventually("the other one is connected", async || {
        is_secured(&replica, &client)
    })
    .await;
    guard.unlock().await.expect("held all the time");
    let other = client
        .lock("n")
        .try_lock(LIMIT, Lease::Renewed)
        .await
        .expect("free");
    assert_eq!(replica.command(&["EXISTS", "n"]).int(), 1);
    other.unlock().await.expect("held");
    assert!(is_secured(&replica, &client));
}
