//! One key shared with another library, on one server or as a quorum of several, in both
//! directions.

use leasehold::{Client, Lease, Lock, LockGuard, LossReason};
use leasehold_testbed::{
    Nodes, Outside, Reply, Server, Servers, assert_lost, crowd, eventually, ms, no_expiry, soon,
    take_turn,
};

use crate::process::{Library, Process};
use crate::{KEY, LONG, ONCE};

pub(crate) struct Both {
    pub(crate) servers: Servers,
    pub(crate) peer: Process,
    nodes: Nodes,
    pub(crate) lock: Lock,
}

/// One key on all servers, a lock of the peer at it, called `it`, and a lock of ours.
pub(crate) async fn both(library: Library, number: usize, lease_ms: u32) -> Both {
    both_on(library, Servers::start(number), lease_ms).await
}

pub(crate) async fn both_on(library: Library, servers: Servers, lease_ms: u32) -> Both {
    let peer = Process::start(library, &servers.urls());
    peer.make(KEY, lease_ms).await;
    let nodes = servers.clients().await;
    let lock = lock(&nodes);
    Both {
        servers,
        peer,
        nodes,
        lock,
    }
}

/// Each acquisition is its own owner.
fn lock(nodes: &Nodes) -> Lock {
    match &nodes.0[..] {
        [one] => one.string_lock(KEY),
        _ => nodes.quorum(|client| client.string_lock(KEY)),
    }
}

impl Both {
    /// The only server, or the first.
    pub(crate) fn server(&self) -> &Server {
        &self.servers.0[0]
    }

    /// Of the same server.
    pub(crate) fn client(&self) -> &Client {
        &self.nodes.0[0]
    }

    /// On how many servers that are up a question has such an answer.
    fn count(&self, question: &str, is: impl Fn(&Reply) -> bool) -> usize {
        let up = self.servers.0.iter().filter(|server| server.is_up());
        up.filter(|server| is(&server.command(&[question, KEY])))
            .count()
    }

    /// Checks that a majority has a key that lasts for longer than this.
    fn assert_lasts(&self, least_ms: i64) {
        let lasting = self.count("PTTL", |left| left.int() > least_ms);
        assert!(lasting > self.servers.0.len() / 2, "{lasting}");
    }

    /// Checks that the peer has the lock, once nothing of ours is under way.
    pub(crate) async fn assert_theirs(&self) {
        self.nodes.settled().await;
        let owner = self.peer.tell("owner it").await;
        let holding = self.count("GET", |value| *value != Reply::Nil && value.text() == owner);
        assert!(holding > self.servers.0.len() / 2, "{holding}");
    }

    /// Checks that this guard has the lock.
    async fn assert_ours(&self, guard: &LockGuard) {
        guard.check().unwrap();
        assert!(self.lock.is_locked().await.unwrap());
        if self.servers.0.len() == 1 {
            let value = self.server().command(&["GET", KEY]);
            assert_eq!(value.text(), guard.owner());
        }
    }

    /// Takes a lock that is free, but for what a minority of several servers still has to give
    /// back.
    async fn take(&self, lease: Lease) -> LockGuard {
        let one = self.servers.0.len() == 1;
        let wait = if one { ONCE } else { ms(5000) };
        self.lock.try_lock(wait, lease).await.unwrap()
    }

    pub(crate) async fn assert_refused(&self) {
        let refused = self.lock.try_lock(ONCE, Lease::Renewed).await.unwrap_err();
        assert_eq!(no_expiry(&refused), Some(false), "{refused}");
    }
}

/// How often the peers have asked. All peers set the key or check whether it exists.
fn asked(server: &Server) -> u64 {
    let mut outside = Outside::of(server);
    outside.calls("set") + outside.calls("exists")
}

pub(crate) async fn each_excludes_the_other(library: Library, number: usize) {
    let both = both(library, number, LONG).await;
    assert!(both.peer.is("try it").await);
    both.assert_refused().await;
    both.assert_theirs().await;
    assert!(both.lock.is_locked().await.unwrap());
    assert!(both.peer.is("release it").await);

    let guard = both.take(Lease::Renewed).await;
    assert!(!both.peer.is("try it").await);
    both.assert_ours(&guard).await;
    guard.unlock().await.unwrap();
    both.nodes.settled().await;
    assert!(both.peer.is("try it").await);
}

pub(crate) async fn each_waits_for_the_other(library: Library, number: usize) {
    let both = both(library, number, LONG).await;
    let guard = both.lock.lock().await.unwrap();
    let before = asked(both.server());
    let waits = both.peer.tell("lock it");
    eventually("asked again", async || asked(both.server()) > before + 1).await;
    guard.unlock().await.unwrap();
    assert_eq!(waits.await, "locked");

    let lock = both.lock.clone();
    let waits = tokio::spawn(async move { lock.lock().await });
    // The peer has a majority, which need not include the first server.
    let waiting = || {
        let mut stats = both.nodes.0.iter().map(Client::stats);
        stats.any(|stats| stats.waiting > 0 || stats.timed_out > 0)
    };
    eventually("it waits", async || waiting()).await;
    assert!(both.peer.is("release it").await);
    take_turn("granted", waits).await;
}

pub(crate) async fn each_keeps_to_extensions_of_the_other(library: Library, number: usize) {
    let both = both(library, number, 20_000).await;
    assert!(both.peer.is("try it").await);
    assert!(both.peer.is("extend it 60000").await);
    both.assert_lasts(20_000);
    assert!(both.lock.remaining_lease().await.unwrap() > Some(ms(20_000)));
    // The peer's lease may also become shorter.
    assert!(both.peer.is("extend it 10000").await);
    assert!(both.lock.remaining_lease().await.unwrap() <= Some(ms(10_000)));
    both.assert_refused().await;
    both.assert_theirs().await;
    assert!(both.peer.is("release it").await);

    let guard = both.take(Lease::Fixed(ms(20_000))).await;
    guard.extend(ms(60_000)).await.unwrap();
    both.assert_lasts(20_000);
    assert!(!both.peer.is("try it").await);
    both.assert_lasts(20_000);
    guard.unlock().await.unwrap();
}

pub(crate) async fn each_is_freed_by_its_expiry(library: Library, number: usize) {
    let both = both(library, number, 1000).await;
    assert!(both.peer.is("try it").await);
    let guard = soon("the peer's lease ends", both.lock.lock()).await;
    let guard = guard.unwrap();
    assert!(!both.peer.is("release it").await);
    assert!(!both.peer.is("extend it 60000").await);
    both.assert_ours(&guard).await;
    guard.unlock().await.unwrap();

    let guard = both.take(Lease::Fixed(ms(1000))).await;
    both.peer.make(KEY, LONG).await;
    assert_eq!(both.peer.tell("lock it").await, "locked");
    assert_lost(&guard.check().unwrap_err(), LossReason::Expired);
    assert!(guard.unlock().await.is_err());
    both.assert_theirs().await;
}

pub(crate) async fn a_late_call_affects_nobody(library: Library, number: usize) {
    let both = both(library, number, LONG).await;
    assert!(both.peer.is("try it").await);
    assert!(both.lock.force_unlock("a test").await.unwrap());
    let guard = both.take(Lease::Renewed).await;
    assert!(!both.peer.is("extend it 1").await);
    assert!(!both.peer.is("release it").await);
    both.assert_ours(&guard).await;

    // An operator deletes the key, and this client does not know yet.
    both.count("DEL", |_| true);
    assert!(both.peer.is("try it").await);
    let gone = guard.extend(ms(60_000)).await.unwrap_err();
    assert_lost(&gone, LossReason::Gone);
    let gone = guard.unlock().await.unwrap_err();
    assert_lost(&gone, LossReason::Gone);
    both.assert_theirs().await;
    assert!(both.peer.is("release it").await);
}

pub(crate) async fn in_a_crowd_nobody_meets_anybody(library: Library, number: usize) {
    let both = both(library, number, LONG).await;
    let (tasks, rounds) = if number == 1 { (3, 15) } else { (2, 8) };
    let theirs = both.peer.contend(tasks, rounds, KEY);
    let locks = (0..tasks).map(|_| lock(&both.nodes));
    let take = async |lock: Lock| lock.lock().await.unwrap();
    crowd::enter_all(locks, both.server(), rounds, take).await;
    assert_eq!(theirs.await, 0, "the peer met somebody");
    let entered = usize::try_from(crowd::entered(both.server())).unwrap();
    assert_eq!(entered, 2 * tasks * rounds);
    both.nodes.settled().await;
    let left = || both.count("EXISTS", |there| there.int() == 1);
    eventually("all released", async || left() == 0).await;
}
