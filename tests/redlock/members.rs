//! Who may take the lock: what Redisson's tests of its `RedLock` define, and the two ways to be
//! refused.

use std::time::Duration;

use leasehold::{Error, Lease, Lock, LockGuard};
use leasehold_testbed::{eventually, ms, soon, take_and_release};

use crate::testbed::{LONG, NAME, Servers};

const ONCE: Duration = Duration::ZERO;

/// Three locks with one name each on three servers. Another owner holds some of them.
async fn with_held(held: &[usize]) -> (Servers, Lock, Vec<LockGuard>) {
    let servers = Servers::start(3);
    let (ours, theirs) = (servers.clients().await, servers.clients().await);
    let mut guards = Vec::new();
    for &at in held {
        guards.push(theirs.0[at].string_lock(NAME).lock().await.unwrap());
    }
    (servers, ours.lock(), guards)
}

#[tokio::test]
async fn a_majority_held_by_another_is_a_timeout() {
    let (servers, lock, guards) = with_held(&[0, 2]).await;
    for wait in [ONCE, ms(300)] {
        let error = lock.try_lock(wait, LONG).await.unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
        assert!(error.to_string().contains(NAME), "{error}");
    }
    assert!(lock.is_locked().await.unwrap());
    eventually("the third one is given back", async || {
        servers.holding(NAME) == 2
    })
    .await;
    for guard in guards {
        guard.unlock().await.unwrap();
    }
    take_and_release(&lock).await;
}

#[tokio::test]
async fn too_few_answers_are_no_quorum() {
    let mut servers = Servers::start(5);
    let nodes = servers.clients().await;
    servers.kill(0..3);
    let lock = nodes.lock();
    // A living server may be too slow now and then.
    soon("two answer", async {
        loop {
            let error = lock.try_lock(ms(200), LONG).await.unwrap_err();
            assert!(error.is_retryable() && !error.may_be_held());
            let Error::Quorum {
                needed: 3,
                obtained: 0..=2,
                nodes: 5,
                ..
            } = error
            else {
                panic!("{error}")
            };
            if let Error::Quorum { obtained: 2, .. } = error {
                break;
            }
        }
    })
    .await;
    let alive = Servers(servers.0.split_off(3));
    eventually("what was taken is given back", async || {
        alive.holding(NAME) == 0
    })
    .await;
}

#[tokio::test]
async fn an_error_without_a_quorum_names_the_server_that_is_down() {
    let mut servers = Servers::start(2);
    let nodes = servers.clients().await;
    let dead = servers.0[1].address().to_string();
    servers.kill(1..2);
    let lock = nodes.lock();
    soon("one answers", async {
        loop {
            let error = lock.try_lock(ms(200), LONG).await.unwrap_err();
            let Error::Quorum {
                obtained, causes, ..
            } = &error
            else {
                panic!("{error}")
            };
            assert_eq!(causes.len(), 2 - obtained, "{error}");
            let last = causes.last().expect("one is dead").to_string();
            assert!(last.contains(&dead), "{last}");
            assert!(error.to_string().contains(&last), "{error}");
            // The living server may be too slow now and then, and the other one is not known to be
            // dead at once.
            if *obtained == 1 && last.contains("not connected") {
                break;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_server_that_refuses_for_good_ends_the_wait() {
    let servers = Servers::start(3);
    for server in &servers.0 {
        server.command(&["LPUSH", NAME, "not a lock"]);
    }
    let error = soon("refused", servers.clients().await.lock().lock())
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Protocol { .. }), "{error}");
}

#[tokio::test]
async fn a_quorum_lock_is_reentrant_and_inspected_by_majority() {
    let servers = Servers::start(3);
    let (nodes, rivals) = (servers.clients().await, servers.clients().await);
    let (lock, rival) = (nodes.lock(), rivals.lock());
    assert!(!lock.is_locked().await.unwrap());
    let outer = lock.try_lock(ONCE, Lease::Renewed).await.unwrap();
    let inner = outer.reenter().await.unwrap();
    inner.unlock().await.unwrap();
    outer.check().unwrap();
    assert!(rival.is_locked().await.unwrap());
    assert!(lock.remaining_lease().await.unwrap() > Some(ms(20_000)));
    outer.unlock().await.unwrap();
    assert!(!rival.is_locked().await.unwrap());
}
