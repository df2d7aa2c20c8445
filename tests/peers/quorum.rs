//! A quorum of string locks, shared with redsync on three servers and with node-redlock on five.

use leasehold::{Client, Lease, Lock, LossReason};
use leasehold_testbed::{Reply, Server, assert_lost, crowd, eventually, ms, soon, take_turn};

use crate::process::{Library, Process};
use crate::{KEY, LONG, ONCE, asked, builder, take};

with_each! {
    [
        each_excludes_the_other,
        each_waits_for_the_other,
        each_keeps_to_extensions_of_the_other,
        each_is_freed_by_its_expiry,
        a_late_call_affects_nobody,
        without_a_minority_each_excludes_the_other,
        in_a_crowd_nobody_meets_anybody,
    ]
    redsync_on_three(Library::Redsync, 3)
    node_redlock_on_five(Library::NodeRedlock, 5)
}

struct Both {
    servers: Vec<Server>,
    peer: Process,
    clients: Vec<Client>,
    lock: Lock,
}

/// One key on all servers, a lock of the peer at it, called `it`, and a lock of ours.
async fn both(library: Library, servers: Vec<Server>, lease_ms: u32) -> Both {
    let urls: Vec<_> = servers.iter().map(Server::url).collect();
    let peer = Process::start(library, &urls);
    peer.make(KEY, lease_ms).await;
    let mut clients = Vec::new();
    for url in &urls {
        clients.push(builder(url).connect_in_background().await.unwrap());
    }
    let lock = quorum(&clients);
    Both {
        servers,
        peer,
        clients,
        lock,
    }
}

fn start(number: usize) -> Vec<Server> {
    (0..number).map(|_| Server::start()).collect()
}

/// Each acquisition is its own owner.
fn quorum(clients: &[Client]) -> Lock {
    Lock::quorum(clients.iter().map(|client| client.string_lock(KEY)))
}

impl Both {
    fn majority(&self) -> usize {
        self.servers.len() / 2 + 1
    }

    /// The number of servers on which the key has this value.
    fn holding(&self, owner: &str) -> usize {
        let value = |server: &&Server| server.command(&["GET", KEY]);
        let of_owner = |reply: &Reply| *reply != Reply::Nil && reply.text() == owner;
        self.servers
            .iter()
            .filter(|server| of_owner(&value(server)))
            .count()
    }

    /// The number of servers on which at least this much of a lease is left.
    fn lasting(&self, least_ms: i64) -> usize {
        let left = |server: &&Server| server.command(&["PTTL", KEY]).int();
        self.servers
            .iter()
            .filter(|server| left(server) > least_ms)
            .count()
    }

    async fn refused(&self) {
        let refused = self.lock.try_lock(ONCE, Lease::Renewed).await.unwrap_err();
        assert!(refused.is_timeout(), "{refused}");
    }

    /// Waits until no release is pending for any server that is up.
    async fn settled(&self) {
        let owed = || {
            self.clients
                .iter()
                .map(|client| client.stats().releases_pending)
                .sum::<u64>()
        };
        eventually("settled", async || owed() == 0).await;
    }
}

async fn each_excludes_the_other(library: Library, number: usize) {
    let both = both(library, start(number), LONG).await;
    assert!(both.peer.is("try it").await);
    let owner = both.peer.tell("owner it").await;
    assert!(both.holding(&owner) >= both.majority());
    both.refused().await;
    both.settled().await;
    assert!(
        both.holding(&owner) >= both.majority(),
        "ours gave back ours only"
    );
    assert!(both.lock.is_locked().await.unwrap());
    assert!(both.peer.is("release it").await);

    let guard = soon("free", both.lock.lock()).await.unwrap();
    assert!(!both.peer.is("try it").await);
    guard.check().unwrap();
    assert!(
        both.lock.is_locked().await.unwrap(),
        "the peer gave back its own only"
    );
    guard.unlock().await.unwrap();
    both.settled().await;
    assert_eq!(both.lasting(-2), 0);
    assert!(both.peer.is("try it").await);
}

async fn each_waits_for_the_other(library: Library, number: usize) {
    let both = both(library, start(number), LONG).await;
    let guard = both.lock.lock().await.unwrap();
    let before = asked(&both.servers[0]);
    let waits = both.peer.ask("lock it");
    eventually("asked again", async || asked(&both.servers[0]) > before + 1).await;
    guard.unlock().await.unwrap();
    assert_eq!(waits.await.unwrap(), "locked");

    let lock = quorum(&both.clients);
    let waits = tokio::spawn(async move { lock.lock().await });
    // The peer has a majority, which need not include the first server.
    let refused = || {
        both.clients
            .iter()
            .any(|client| client.stats().timed_out > 0)
    };
    eventually("refused", async || refused()).await;
    assert!(both.peer.is("release it").await);
    take_turn("granted", waits).await;
}

async fn each_keeps_to_extensions_of_the_other(library: Library, number: usize) {
    let both = both(library, start(number), 20_000).await;
    assert!(both.peer.is("try it").await);
    assert!(both.peer.is("extend it 60000").await);
    assert!(both.lasting(20_000) >= both.majority());
    assert!(both.lock.remaining_lease().await.unwrap() > Some(ms(20_000)));
    both.refused().await;
    assert!(both.peer.is("release it").await);

    let guard = soon(
        "free",
        both.lock.try_lock(ms(5000), Lease::Fixed(ms(20_000))),
    )
    .await
    .unwrap();
    guard.extend(ms(60_000)).await.unwrap();
    assert!(both.lasting(20_000) >= both.majority());
    assert!(!both.peer.is("try it").await);
    guard.unlock().await.unwrap();
}

async fn each_is_freed_by_its_expiry(library: Library, number: usize) {
    let both = both(library, start(number), 1000).await;
    assert!(both.peer.is("try it").await);
    let guard = soon("the peer's lease ends", both.lock.lock())
        .await
        .unwrap();
    assert!(!both.peer.is("release it").await);
    guard.check().unwrap();
    assert!(both.lock.is_locked().await.unwrap());
    guard.unlock().await.unwrap();

    let guard = both
        .lock
        .try_lock(ms(5000), Lease::Fixed(ms(1000)))
        .await
        .unwrap();
    both.peer.make(KEY, LONG).await;
    assert_eq!(both.peer.tell("lock it").await, "locked");
    assert_lost(&guard.check().unwrap_err(), LossReason::Expired);
    drop(guard);
    both.settled().await;
    let owner = both.peer.tell("owner it").await;
    assert!(both.holding(&owner) >= both.majority());
}

async fn a_late_call_affects_nobody(library: Library, number: usize) {
    let both = both(library, start(number), LONG).await;
    assert!(both.peer.is("try it").await);
    assert!(both.lock.force_unlock("a test").await.unwrap());
    let guard = soon("free", both.lock.lock()).await.unwrap();
    assert!(!both.peer.is("extend it 50000").await);
    assert!(!both.peer.is("release it").await);
    guard.check().unwrap();
    assert!(both.lock.is_locked().await.unwrap());

    for server in &both.servers {
        server.command(&["DEL", KEY]);
    }
    assert!(both.peer.is("try it").await);
    assert!(guard.unlock().await.is_err());
    both.settled().await;
    let owner = both.peer.tell("owner it").await;
    assert!(both.holding(&owner) >= both.majority());
    assert!(both.peer.is("release it").await);
}

/// As many servers are down as a majority can spare.
async fn without_a_minority_each_excludes_the_other(library: Library, number: usize) {
    let mut servers = start(number);
    servers[..number / 2].iter_mut().for_each(Server::kill);
    let both = both(library, servers, LONG).await;
    assert!(both.peer.is("try it").await);
    both.refused().await;
    assert!(both.peer.is("release it").await);
    let guard = soon("free", both.lock.lock()).await.unwrap();
    assert!(!both.peer.is("try it").await);
    guard.check().unwrap();
    guard.unlock().await.unwrap();
    assert_eq!(both.peer.tell("lock it").await, "locked");
}

async fn in_a_crowd_nobody_meets_anybody(library: Library, number: usize) {
    let both = both(library, start(number), LONG).await;
    let theirs = both.peer.contend(2, 8, KEY);
    let locks = (0..2).map(|_| quorum(&both.clients));
    crowd::enter_all(locks, &both.servers[0], 8, take).await;
    assert_eq!(theirs.await.unwrap(), "0", "the peer met somebody");
    assert_eq!(crowd::entered(&both.servers[0]), 2 * 8 + 2 * 8);
    both.settled().await;
    eventually("all released", async || both.lasting(-2) == 0).await;
}
