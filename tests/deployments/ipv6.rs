//! Servers that are reached by IPv6. A machine without `::1` leaves these tests out.

use std::io::{self, Write as _};
use std::net::{Ipv6Addr, TcpListener};

use leasehold::{Client, Lease};
use leasehold_testbed::{LIMIT, SLOTS, Server, eventually};

/// Also by IPv4, where the test bed itself asks.
const BOTH: [&str; 3] = ["--bind", "127.0.0.1", "::1"];

fn is_missing() -> bool {
    let is_missing = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err();
    if is_missing {
        // Not by `eprintln!`, whose output is kept from who runs the tests.
        let told = "skipped: no ::1, tests of IPv6 are left out\n";
        io::stderr().write_all(told.as_bytes()).expect("stderr");
    }
    is_missing
}

/// A lock is taken, waited for, and released by connections to `::1`.
async fn serves(server: &Server, url: &str) {
    let [client, other] = [0, 1].map(|_| Client::builder(url).connect_timeout(LIMIT).connect());
    let (client, other) = (
        client.await.expect("connects"),
        other.await.expect("connects"),
    );
    let guard = client.lock("n").lock().await.expect("granted");
    let held = other.lock("n").try_lock_now(Lease::Renewed).await;
    assert!(held.is_err_and(|error| error.is_timeout()));
    let lock = other.lock("n");
    let (second, released) = tokio::join!(lock.lock(), guard.unlock());
    released.expect("released");
    second.expect("granted").unlock().await.expect("released");
    for client in [client, other] {
        let addresses = server.clients(&client.id());
        let is_ipv6 = |line: &String| line.contains(" addr=[::1]:");
        assert!(
            addresses.len() >= 3 && addresses.iter().all(is_ipv6),
            "{addresses:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_reached_by_its_address_in_brackets() {
    if is_missing() {
        return;
    }
    let server = Server::start_with(&BOTH);
    Box::pin(serves(&server, &format!("redis://[::1]:{}", server.port()))).await;
}

/// The URL has another address than the one that the node announces.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_announces_its_address_without_brackets_is_reached() {
    if is_missing() {
        return;
    }
    let announced = ["--cluster-announce-ip", "::1"];
    let node = Server::start_node(&[&BOTH[..], &announced].concat());
    let slots: Vec<_> = (0..SLOTS).map(|slot| slot.to_string()).collect();
    let slots = slots.iter().map(String::as_str);
    let words: Vec<_> = ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots).collect();
    node.command(&words);
    eventually("the cluster is up", async || {
        let info = node.command(&["CLUSTER", "INFO"]).text();
        info.contains("cluster_state:ok")
    })
    .await;
    Box::pin(serves(
        &node,
        &format!("redis-cluster://127.0.0.1:{}", node.port()),
    ))
    .await;
}
