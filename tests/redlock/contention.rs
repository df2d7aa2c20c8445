//! Many contenders at once: each gets the lock and none beside another, as counted on a server that
//! takes no part.

use std::time::Duration;

use futures::future::join_all;
use leasehold::{Lease, Lock};
use leasehold_testbed::{Connection, Server, ms, soon};
use tokio::time::sleep;

use crate::testbed::{NAME, Nodes, Servers};

/// Enters this many times, and counts who is inside and the number of entries.
async fn enter(lock: Lock, mut outside: Connection, rounds: u32, lease: Lease) {
    for _ in 0..rounds {
        let entering = async {
            loop {
                match lock.try_lock(ms(4000), lease).await {
                    Ok(guard) => break guard,
                    Err(error) => assert!(error.is_retryable(), "{error}"),
                }
            }
        };
        let guard = soon("granted", entering).await;
        assert_eq!(
            outside.command(&["INCR", "inside"]).unwrap().int(),
            1,
            "two inside"
        );
        // A step that a second task inside would destroy.
        let before = outside.command(&["GET", "entered"]).unwrap();
        let before = if before == leasehold_testbed::Reply::Nil {
            0
        } else {
            before.int()
        };
        sleep(ms(1)).await;
        guard.check().unwrap();
        let after = (before + 1).to_string();
        outside.command(&["SET", "entered", &after]).unwrap();
        outside.command(&["DECR", "inside"]).unwrap();
        guard.unlock().await.unwrap();
    }
}

async fn all_enter(locks: Vec<Lock>, rounds: u32, lease: Lease) {
    let (outside, expected) = (Server::start(), locks.len() * rounds as usize);
    let tasks: Vec<_> = locks
        .into_iter()
        .map(|lock| tokio::spawn(enter(lock, outside.connection(), rounds, lease)))
        .collect();
    for done in join_all(tasks).await {
        done.unwrap();
    }
    let entered = outside.command(&["GET", "entered"]).int();
    assert_eq!(usize::try_from(entered).unwrap(), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_tasks_of_three_clients_on_five_servers() {
    let servers = Servers::start(5);
    let mut clients: Vec<Nodes> = Vec::new();
    for _ in 0..3 {
        clients.push(servers.clients().await);
    }
    let locks = (0..10).map(|task| clients[task % 3].lock()).collect();
    all_enter(locks, 2, Lease::Renewed).await;
    for nodes in &clients {
        nodes.settled().await;
    }
    assert_eq!(servers.holding(NAME), 0);
}

/// From Redisson's tests: seven locks on two servers, ten owners.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_owners_of_seven_locks_on_two_servers() {
    let servers = Servers::start(2);
    let nodes = servers.clients().await;
    for lease in [
        Lease::Fixed(Duration::from_secs(10)),
        Lease::Fixed(Duration::from_secs(60)),
    ] {
        let seven = || (0..7).map(|number| nodes.0[number % 2].lock(format!("member:{number}")));
        let locks = (0..10).map(|_| Lock::quorum(seven())).collect();
        all_enter(locks, 1, lease).await;
    }
}
