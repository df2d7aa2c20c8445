//! Many contenders at once: each gets the lock and none beside another, as counted on a server that
//! takes no part.

use std::time::Duration;

use leasehold::{Lease, Lock};
use leasehold_testbed::{Server, crowd, ms};

use crate::testbed::{NAME, Nodes, Servers};

async fn all_enter(locks: Vec<Lock>, rounds: usize, lease: Lease) {
    let (outside, expected) = (Server::start(), locks.len() * rounds);
    let take = move |lock: Lock| async move {
        loop {
            match lock.try_lock(ms(4000), lease).await {
                Ok(guard) => return guard,
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
        }
    };
    crowd::enter_all(locks, &outside, rounds, take).await;
    assert_eq!(usize::try_from(crowd::entered(&outside)).unwrap(), expected);
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
