//! A host name that does not resolve for a while, and one that moves to another server.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use leasehold::{HoldState, Lease};
use leasehold_testbed::{Outside, Proxy, Server, eventually_within, ms, preload};

use crate::testbed::{LATE, Running, alone, beside, builder, child, note};

const LIMIT: Duration = Duration::from_secs(60);
const CHILD: &str = "resolver::process_that_knows_a_name";
const MOVING: &str = "resolver::process_whose_name_moves";

/// What `redis.test` resolves to in processes started with it.
struct Names {
    folder: PathBuf,
}

impl Names {
    fn new(test: &str) -> Self {
        let folder = format!("leasehold-resolver-{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir_all(&folder).expect("a folder");
        let names = Names { folder };
        let library = names.path("resolver.so");
        preload::compile(concat!(env!("CARGO_MANIFEST_DIR"), "/resolver.c"), &library);
        names
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    /// Gives the name an address, or none.
    fn point_to(&self, address: &str) {
        // In one step, because it may be read at the same time.
        fs::write(self.path("next"), address).expect("written");
        fs::rename(self.path("next"), self.path("address")).expect("renamed");
    }

    fn refused(&self) -> usize {
        fs::read(self.path("refused")).map_or(0, |refused| refused.len())
    }

    fn child(&self, role: &str, server: &Server) -> Running {
        let text = |path: &Path| path.display().to_string();
        child(
            role,
            &[
                (preload::VARIABLE, text(&self.path("resolver.so"))),
                ("RESOLVES_TO", text(&self.path("address"))),
                ("REFUSED", text(&self.path("refused"))),
                (
                    "LEASEHOLD_CHILD_URL",
                    format!("redis://redis.test:{}", server.port()),
                ),
            ],
        )
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// Other clients keep the failure and do not ask again.
#[test]
fn a_name_that_does_not_resolve_for_a_while_is_asked_for_again() {
    alone(LIMIT, async {
        let (server, names) = (Server::start(), Names::new("again"));
        let mut outside = Outside::of(&server);
        outside.command(&["HSET", "end", "somebody:1", "1"]);
        names.point_to("127.0.0.1");
        let process = names.child(CHILD, &server);
        eventually_within(LIMIT, "held", async || outside.exists("n")).await;
        names.point_to("");
        for kind in ["normal", "pubsub"] {
            outside.command(&["CLIENT", "KILL", "TYPE", kind]);
        }
        eventually_within(LIMIT, "refused", async || names.refused() >= 3).await;
        assert!(server.clients("name=leasehold:").is_empty());
        names.point_to("127.0.0.1");
        let known = Instant::now();
        eventually_within(LIMIT, "back", async || {
            server.clients("name=leasehold:").len() == 3
        })
        .await;
        note(&format!(
            "connected {:?} after the name was known again",
            known.elapsed()
        ));
        outside.command(&["DEL", "end"]);
        process.finish();
        assert_eq!(outside.keys(), 0);
    });
}

/// Two servers that have the same port at two addresses, and a name for the first one.
struct Moving {
    servers: [Server; 2],
    names: Names,
    _way: Proxy,
}

impl Moving {
    fn new(test: &str) -> Self {
        let servers = [Server::start(), Server::start()];
        let other = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), servers[0].port()));
        let way = Proxy::start_on(other, servers[1].address());
        let names = Names::new(test);
        names.point_to("127.0.0.1");
        Moving {
            servers,
            names,
            _way: way,
        }
    }

    /// Moves the name, and waits until all connections of the process have followed it.
    async fn moves(&self) {
        self.names.point_to("127.0.0.2");
        let since = Instant::now();
        eventually_within(LIMIT, "followed", async || self.connections() == [0, 3]).await;
        note(&format!(
            "the name was followed after {:?}",
            since.elapsed()
        ));
    }

    fn connections(&self) -> [usize; 2] {
        let of = |server: &Server| server.clients("name=leasehold:").len();
        self.servers.each_ref().map(of)
    }
}

/// A known complaint: after a failover of a managed service, a client stays with the former
/// primary, which goes on as a replica behind the same address.
#[test]
#[cfg(target_os = "linux")]
fn a_name_that_moves_to_the_new_primary_leads_all_connections_there() {
    alone(LIMIT, async {
        let moving = Moving::new("replica");
        let [old, new] = &moving.servers;
        let port = |server: &Server| server.port().to_string();
        new.command(&["REPLICAOF", "127.0.0.1", &port(old)]);
        old.command(&["HSET", "end", "somebody:1", "1"]);
        let process = moving.names.child(CHILD, old);
        let mut outside = Outside::of(new);
        eventually_within(LIMIT, "replicated", async || {
            outside.exists("n") && outside.exists("end")
        })
        .await;
        assert_eq!(moving.connections(), [3, 0]);
        new.command(&["REPLICAOF", "NO", "ONE"]);
        old.command(&["REPLICAOF", "127.0.0.1", &port(new)]);
        moving.moves().await;
        outside.command(&["DEL", "end"]);
        process.finish();
    });
}

/// The former server accepts every write, so nothing tells its clients to leave. New clients find
/// the other server.
#[test]
#[cfg(target_os = "linux")]
fn a_name_that_moves_while_the_former_server_goes_on_is_followed_with_all_connections() {
    alone(LIMIT, async {
        let moving = Moving::new("both");
        let [old, new] = &moving.servers;
        new.command(&["HSET", "end", "somebody:1", "1"]);
        let mut outside = Outside::of(old);
        let process = moving.names.child(MOVING, old);
        eventually_within(LIMIT, "held", async || outside.exists("n")).await;
        moving.moves().await;
        new.command(&["DEL", "end"]);
        process.finish();
    });
}

/// The process of the test above. As soon as another server grants the lock, the first guard says
/// that it is not held.
#[test]
#[ignore = "a child of another test"]
fn process_whose_name_moves() {
    let Ok(url) = std::env::var("LEASEHOLD_CHILD_URL") else {
        return;
    };
    beside(LIMIT, async move {
        let client = builder(&url).connect().await.expect("it resolves");
        let lock = client.lock("n");
        let first = lock.lock().await.expect("free");
        let second = loop {
            if let Ok(second) = lock.try_lock(ms(0), Lease::Renewed).await {
                assert_ne!(first.state(), HoldState::Held, "two holds");
                break second;
            }
            tokio::time::sleep(ms(1)).await;
        };
        eventually_within(LATE, "lost", async || first.state() == HoldState::Lost).await;
        assert_eq!(second.state(), HoldState::Held);
        second.unlock().await.expect("held");
        let end = client.lock("end").lock().await.expect("in the end");
        end.unlock().await.expect("held");
    });
}

/// The process of other tests above: it holds a lock until it gets another one.
#[test]
#[ignore = "a child of another test"]
fn process_that_knows_a_name() {
    let Ok(url) = std::env::var("LEASEHOLD_CHILD_URL") else {
        return;
    };
    beside(LIMIT, async move {
        let client = builder(&url).connect().await.expect("it resolves");
        let guard = client.lock("n").lock().await.expect("free");
        let end = client.lock("end").lock().await.expect("in the end");
        end.unlock().await.expect("held");
        guard.unlock().await.expect("held all the time");
    });
}
