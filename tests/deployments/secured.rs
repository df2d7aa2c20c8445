//! TLS to every server of a deployment, also to those of which it tells by itself.

use std::time::Duration;

use leasehold::{Client, ClientBuilder, Lease, TlsOptions};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tokio::time::timeout;

use crate::contenders::{LIMIT, until};
use crate::support::cluster::{Cluster, Shape};
use crate::support::sentinel::NAME;
use crate::support::server::Server;
use crate::support::slots::keyslot;

const LONG: Duration = Duration::from_secs(300);

/// One certificate for all servers, which is good for their address, and who signed it.
struct Certificate {
    authority: String,
    folder: std::path::PathBuf,
}

impl Certificate {
    fn new(test: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let authority = params.self_signed(&key).expect("signed").pem();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().expect("a key");
        let mut of = CertificateParams::new(["127.0.0.1".to_owned()]).expect("an address");
        of.distinguished_name.push(DnType::CommonName, "server");
        let signed = of.signed_by(&key, &issuer).expect("signed").pem();
        let name = format!("leasehold-secured-{}-{test}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        for (file, text) in
            [("ca.pem", &authority), ("cert.pem", &signed), ("key.pem", &key.serialize_pem())]
        {
            std::fs::write(folder.join(file), text).expect("a file");
        }
        Certificate { authority, folder }
    }

    /// With which a server shows it.
    fn arguments(&self) -> Vec<String> {
        let file = |name: &str| self.folder.join(name).to_string_lossy().into_owned();
        let files = [
            ("--tls-cert-file", "cert.pem"),
            ("--tls-key-file", "key.pem"),
            ("--tls-ca-cert-file", "ca.pem"),
        ];
        let files = files.into_iter().flat_map(|(word, name)| [word.to_owned(), file(name)]);
        files.chain(["--tls-auth-clients".to_owned(), "no".to_owned()]).collect()
    }

    fn builder(&self, url: &str) -> ClientBuilder {
        let trusted = TlsOptions::new().ca_pem(&self.authority);
        Client::builder(url).tls(trusted).lease(LONG).connect_timeout(LIMIT)
    }
}

impl Drop for Certificate {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// How a server was reached by these: the local ports of their connections.
fn ports_of(server: &Server, client: &Client) -> Vec<String> {
    let own = server.clients(&client.id());
    let port = |line: &String| {
        let address = line.split(' ').find_map(|word| word.strip_prefix("laddr="));
        address.and_then(|address| address.rsplit(':').next()).unwrap_or_default().to_owned()
    };
    own.iter().map(port).collect()
}

fn is_secured(server: &Server, client: &Client) -> bool {
    let ports = ports_of(server, client);
    assert!(ports.iter().all(|port| *port == server.tls_port().to_string()), "{ports:?}");
    ports.len() == 3
}

/// Redirected, woken by messages, and never in plain text, although all servers have a plain port, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_of_a_cluster_is_reached_by_tls() {
    let certificate = Certificate::new("cluster");
    let arguments = [certificate.arguments(), vec!["--tls-cluster".into(), "yes".into()]].concat();
    let cluster = Cluster::start_with(Shape { replicas: 0, arguments, ..Shape::default() });
    let seed = cluster.node(0);
    let url = format!("rediss-cluster://127.0.0.1:{}", seed.tls_port());
    let [client, other] = [certificate.builder(&url), certificate.builder(&url)];
    let client = client.connect().await.expect("connects");
    let other = other.connect().await.expect("connects");
    until("all nodes are connected", async || {
        cluster.nodes().iter().all(|node| is_secured(node, &client))
    })
    .await;
    for shard in 0..3 {
        let name = cluster.name_in(shard, "n");
        cluster.move_empty_slot(keyslot(&name), (shard + 1) % 3);
        let guard = client.lock(&name).lock().await.expect("free");
        let lock = other.lock(&name);
        let waiting = tokio::spawn(async move { lock.lock().await.expect("released") });
        until("it waits", async || other.stats().listeners == 1).await;
        guard.unlock().await.expect("held");
        let woken = timeout(LIMIT, waiting).await.expect("it is woken").expect("no panic");
        woken.unlock().await.expect("held");
    }
    assert!(cluster.nodes().iter().all(|node| is_secured(node, &client)));
    // Who does not trust that certificate is told.
    let stranger = Client::builder(&url).connect_timeout(Duration::from_secs(2)).connect().await;
    let refused = format!("{:?}", stranger.expect_err("nobody it trusts"));
    assert!(refused.contains("certificate"), "{refused}");
}

/// Sentinels and servers, and the server that another one is replaced by.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_and_both_primaries_are_reached_by_tls() {
    let certificate = Certificate::new("sentinel");
    let shown = [certificate.arguments(), vec!["--tls-replication".into(), "yes".into()]].concat();
    let mut shown: Vec<_> = shown.iter().map(String::as_str).collect();
    let sync = ["--repl-diskless-sync-delay", "0"];
    let primary = Server::start_with(&[&shown[..], &sync].concat());
    let port = primary.tls_port().to_string();
    let replica =
        Server::start_with(&[&shown[..], &sync, &["--replicaof", "127.0.0.1", &port]].concat());
    until("the replica is there", async || {
        let info = replica.command(&["INFO", "replication"]).text();
        info.contains("master_link_status:up")
    })
    .await;
    let configuration = format!("sentinel monitor {NAME} 127.0.0.1 {port} 1\n");
    shown.extend(["--protected-mode", "no"]);
    let sentinel = Server::start_sentinel_with(&configuration, &shown);
    let url = format!("rediss-sentinel://127.0.0.1:{}/{NAME}", sentinel.tls_port());
    let client = certificate.builder(&url).connect().await.expect("connects");
    until("the primary is connected", async || is_secured(&primary, &client)).await;
    let guard = client.lock("n").lock().await.expect("free");
    until("the replica has it", async || replica.command(&["EXISTS", "n"]).int() == 1).await;
    until("the sentinel takes the order", async || {
        sentinel.command(&["SENTINEL", "FAILOVER", NAME]).text() == "OK"
    })
    .await;
    until("the other one is connected", async || is_secured(&replica, &client)).await;
    guard.unlock().await.expect("held all the time");
    let other = client.lock("n").try_lock(LIMIT, Lease::Renewed).await.expect("free");
    assert_eq!(replica.command(&["EXISTS", "n"]).int(), 1);
    other.unlock().await.expect("held");
    assert!(is_secured(&replica, &client));
}
