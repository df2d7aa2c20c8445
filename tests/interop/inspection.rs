//! Each side sees what the other one holds, and cannot release it.

use std::time::Duration;

use leasehold::Lease;
use leasehold::inspect::Connection;
use leasehold_testbed::{Borrowed, Server, connected, eventually, holds};

use crate::harness::builder;
use crate::observer::Observer;
use crate::redisson::Redisson;

const LOCK: &str = "lock:seen";
/// What is left of a lease of 30 s that was taken, or renewed, a moment ago.
const NEARLY_WHOLE: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(15)..=Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redisson_sees_our_hold() {
    let server = Borrowed::take();
    let java = Redisson::start(&server.url(), None).await;
    let client = builder(&server.url()).connect().await.expect("connect");
    let lock = client.lock("seen");

    let guard = lock.lock().await.expect("lock");
    assert!(java.is_locked(LOCK).await);
    let left = Duration::from_millis(java.ttl(LOCK).await.try_into().expect("expired"));
    assert!(NEARLY_WHOLE.contains(&left), "{left:?}");
    assert!(!java.is_held("a", LOCK).await);
    assert_eq!(java.hold_count("a", LOCK).await, 0);
    assert!(!java.try_lock("a", LOCK, Duration::ZERO, None).await);
    let refused = java.unlock("a", LOCK).await.expect_err("it is not theirs");
    assert!(
        refused.0.starts_with("IllegalMonitorStateException"),
        "{refused:?}"
    );
    assert!(lock.is_locked().await.unwrap());

    guard.unlock().await.expect("unlock");
    assert!(!java.is_locked(LOCK).await);
    assert_eq!(java.ttl(LOCK).await, -2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn we_see_the_hold_of_redisson() {
    let server = Borrowed::take();
    let java = Redisson::start(&server.url(), None).await;
    let client = builder(&server.url()).connect().await.expect("connect");
    let lock = client.lock("seen");
    assert!(!lock.is_locked().await.expect("is_locked"));
    assert_eq!(lock.remaining_lease().await.expect("remaining_lease"), None);

    java.lock("a", LOCK, None).await;
    java.lock("a", LOCK, None).await;
    assert!(lock.is_locked().await.expect("is_locked"));
    assert_eq!(holds(&lock).await.expect("asked"), 2);
    let left = lock
        .remaining_lease()
        .await
        .expect("remaining_lease")
        .expect("held");
    assert!(NEARLY_WHOLE.contains(&left), "{left:?}");
    let holder = lock.holder().await.expect("holder").expect("held");
    assert_eq!(holder.owner, java.owner("a").await);
    assert_eq!(holder.holds, 2);
    let refused = lock
        .try_lock(Duration::ZERO, Lease::Fixed(Duration::from_secs(5)))
        .await;
    assert!(refused.expect_err("it is not ours").is_timeout());

    java.unlock("a", LOCK).await.expect("unlock");
    java.unlock("a", LOCK).await.expect("unlock");
    assert!(lock.holder().await.expect("holder").is_none());
}

/// Our owner is a client id of 36 characters and a number, like Redisson's, so nobody can tell from
/// the hash who wrote it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_hash_has_the_form_of_redissons() {
    let server = Borrowed::take();
    let java = Redisson::start(&server.url(), None).await;
    let client = builder(&server.url()).connect().await.expect("connect");
    let mut observer = Observer::of(&server.url());

    java.lock("a", "lock:theirs", None).await;
    let lock = client.lock("ours");
    let outer = lock.lock().await.expect("lock");
    // After the count, ours has room for waiters that a release may give the lock to.
    for (name, count) in [("theirs", "1"), ("ours", "1;0;")] {
        let hash = observer.ask(&format!("HGETALL {name}")).await;
        let (id, number) = hash[0].split_once(':').expect("id:number");
        assert!(id.len() == 36 && id.split('-').count() == 5, "{hash:?}");
        assert!(number.parse::<i64>().is_ok(), "{hash:?}");
        assert_eq!(hash[1], count);
        assert_eq!(hash.len(), 2);
    }
    let _inner = outer.reenter().await.expect("lock");
    assert_eq!(observer.ask("HVALS ours").await, ["2;0;"]);
}

/// `CLIENT LIST` does not lead from a Redisson holder to its connections: they have neither its id
/// nor a name, unless `clientName` sets one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_tell_our_owners_and_not_redissons() {
    let server = Server::start();
    let java = Redisson::start(&server.url(), None).await;
    let client = connected(builder(&server.url()).name("billing@pod-7")).await;
    java.lock("a", LOCK, None).await;

    let connections = client.connections().await.expect("connections");
    let is_ours = |connection: &&Connection| connection.client == Some(client.id());
    let ours = connections.iter().filter(is_ours).collect::<Vec<_>>();
    assert_eq!(ours.len(), 3, "{connections:?}");
    for connection in ours {
        assert_eq!(connection.name.as_deref(), Some("billing@pod-7"));
        assert!(
            connection.address.starts_with("127.0.0.1:"),
            "{connection:?}"
        );
    }
    let owner = java.owner("a").await;
    let id = owner.split(':').next().expect("an id");
    let others = connections.iter().filter(|connection| !is_ours(connection));
    let others: Vec<_> = others.collect();
    assert!(!others.is_empty());
    for connection in others {
        assert_eq!((&connection.client, &connection.name), (&None, &None));
        assert!(!format!("{connection:?}").contains(id), "{connection:?}");
    }
    java.unlock("a", LOCK).await.expect("unlock");
}

/// A waiting Redisson thread counts as one listening client, and the place of another one is
/// listed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_of_redisson_are_listed() {
    let server = Borrowed::take();
    let java = Redisson::start(&server.url(), None).await;
    let client = builder(&server.url()).connect().await.expect("connect");
    let (lock, fair) = (client.lock("seen"), client.fair_lock("in-line"));
    let guards = [
        lock.lock().await.expect("lock"),
        fair.lock().await.expect("lock"),
    ];

    let waiting = java.lock("a", LOCK, None);
    let listening = async || lock.waiters().await.expect("waiters").listening == Some(1);
    eventually("listening", listening).await;
    let queued = java.lock("b", "fair:in-line", None);
    let owner = java.owner("b");
    eventually("in the queue", async || {
        fair.waiters().await.expect("waiters").queue.len() == 1
    })
    .await;
    let queue = fair.waiters().await.expect("waiters").queue;
    for guard in guards {
        guard.unlock().await.expect("unlock");
    }
    waiting.await;
    queued.await;
    assert_eq!(queue, [owner.await]);
}
