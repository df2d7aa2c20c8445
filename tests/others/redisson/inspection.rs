//! What each side sees of the other one, beyond the holds of each kind.

use leasehold_admin::{Admin, Connection};
use leasehold_testbed::{Server, connected, eventually, patient};

use crate::harness::Harness;
use crate::redisson::Redisson;

const LOCK: &str = "lock:seen";

/// Our owner is a client id of 36 characters and a number, like Redisson's, so nobody can tell from
/// the hash who wrote it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_hash_has_the_form_of_redissons() {
    let mut harness = Harness::start().await;
    let (java, client) = (&harness.java, &harness.client);
    java.lock("a", "lock:theirs", None).await;
    let lock = client.lock("ours");
    let outer = lock.lock().await.expect("lock");
    // After the count, ours has room for waiters that a release may give the lock to.
    for (name, count) in [("theirs", "1"), ("ours", "1;0;")] {
        let hash = harness.observer.ask(&format!("HGETALL {name}")).await;
        let (id, number) = hash[0].split_once(':').expect("id:number");
        assert!(id.len() == 36 && id.split('-').count() == 5, "{hash:?}");
        assert!(number.parse::<i64>().is_ok(), "{hash:?}");
        assert_eq!(hash[1], count);
        assert_eq!(hash.len(), 2);
    }
    let _inner = outer.reenter().await.expect("lock");
    assert_eq!(harness.observer.ask("HVALS ours").await, ["2;0;"]);
}

/// `CLIENT LIST` does not lead from a Redisson holder to its connections: they have neither its id
/// nor a name, unless `clientName` sets one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_tell_our_owners_and_not_redissons() {
    let server = Server::start();
    let java = Redisson::start(&server.url(), None).await;
    let client = connected(patient(&server.url()).name("billing@pod-7")).await;
    java.lock("a", LOCK, None).await;

    let connections = Admin::new(&client)
        .connections()
        .await
        .expect("connections");
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
    let harness = Harness::start().await;
    let (java, client) = (&harness.java, &harness.client);
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
