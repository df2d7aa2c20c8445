//! A quorum of plain locks and Redisson's red lock of the same name, on three independent servers.
//!
//! Redisson asks one server after the other and waits at each for its part of the time. Our lock
//! asks all at once, gives back what is no majority and asks again. A majority is enough for both,
//! so either may be held on two servers only.

use std::time::Duration;

use leasehold::{ClientBuilder, HoldState, Lease, Lock, LockGuard};
use leasehold_testbed::{Nodes, RED as NAME, Reply, Servers, eventually, holds, lost};

use crate::contention::{Contest, TASKS};
use crate::harness::{NOW, SHORT, TWO_LEASES, assert_nearly_whole, assert_timed_out, joined, soon};
use crate::redisson::Redisson;

const SERVERS: usize = 3;
const RED: &str = "red:red";
/// So long that the part of it which a thread waits at each server is longer than `soon`. So only a
/// message can wake the thread in time.
const LONG_WAIT: Duration = Duration::from_secs(45);
/// Nobody may wait longer than this. A thread at a server that another owner holds moves to the
/// next one after a second and a half, and starts over after three such waits.
const LONGEST_WAIT: Duration = Duration::from_secs(20);
/// Without rests, the threads hand the lock to each other by their messages, and our tasks never
/// get it.
const REST: Duration = Duration::from_millis(100);

struct Several {
    servers: Servers,
    java: Redisson,
    nodes: Nodes,
}

impl Several {
    async fn start() -> Several {
        Several::with(None, |ours| ours).await
    }

    async fn with(
        watchdog: Option<Duration>,
        ours: impl Fn(ClientBuilder) -> ClientBuilder,
    ) -> Several {
        let servers = Servers::start(SERVERS);
        Several {
            java: Redisson::start(&servers.urls().join(";"), watchdog).await,
            nodes: servers.clients_with(ours).await,
            servers,
        }
    }

    /// Each acquisition is an owner of its own.
    fn lock(&self) -> Lock {
        self.nodes.quorum(|client| client.lock(NAME))
    }

    async fn held_by_all(&self, lock: &Lock) -> LockGuard {
        let nodes = &self.nodes;
        nodes.held_by_all(&self.servers, lock, Lease::Renewed).await
    }

    async fn settled(&self) {
        self.nodes.settled().await;
    }

    /// The number of servers that are up and on which the lock is held.
    fn holding(&self) -> usize {
        self.servers.holding(NAME)
    }

    /// The holders on this server, with their counts.
    fn fields(&self, server: usize) -> Vec<String> {
        let fields = self.servers.0[server].command(&["HGETALL", NAME]);
        fields.array().iter().map(Reply::text).collect()
    }

    fn delete_on(&self, servers: &[usize]) {
        for &server in servers {
            assert_eq!(self.servers.0[server].command(&["DEL", NAME]).int(), 1);
        }
    }

    async fn refused(&self) {
        assert_timed_out(self.lock().try_lock(NOW, Lease::Renewed).await);
        self.settled().await;
    }

    /// A thread that asks once.
    async fn java_enters(&self, thread: &str) -> bool {
        self.java.try_lock(thread, RED, NOW, None).await
    }

    /// Redisson's red lock reports neither a hold that was gone nor a server that did not answer.
    async fn java_leaves(&self, thread: &str) {
        self.java
            .unlock(thread, RED)
            .await
            .expect("unlock never throws");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn red_contenders_exclude_each_other_and_all_make_progress() {
    let several = Several::start().await;
    let locks = (0..TASKS).map(|_| several.lock()).collect();
    let contest = Contest {
        theirs: RED,
        rounds: 30,
        work: NOW,
        rest: REST,
        least_switches: 5,
    };
    let longest_wait = contest
        .run(&several.java, locks, &several.servers.0[0].url())
        .await;
    assert!(longest_wait < LONGEST_WAIT, "somebody starved");
    several.settled().await;
    assert_eq!(several.holding(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn red_waiters_get_in_when_the_other_side_releases() {
    let several = Several::start().await;
    let lock = several.lock();
    let guard = several.held_by_all(&lock).await;
    let waiting = tokio::spawn(several.java.try_lock("a", RED, LONG_WAIT, None));
    several.java.until_parked("a").await;
    guard.unlock().await.expect("unlock");
    assert!(joined("java wakes on a release in rust", waiting).await);

    let refusals = || several.nodes.0[0].stats().timed_out;
    let before = refusals();
    let waiting = tokio::spawn(async move { lock.lock().await });
    eventually("rust asks again and again", async || {
        refusals() > before + 1
    })
    .await;
    several.java_leaves("a").await;
    let guard = joined("rust gets in after a release in java", waiting)
        .await
        .expect("lock");
    guard.check().expect("held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn red_holds_are_seen_by_the_other_side() {
    let several = Several::start().await;
    let lock = several.lock();
    let guard = several.held_by_all(&lock).await;
    let inner = guard.reenter().await.expect("re-entered");
    for server in 0..SERVERS {
        let member = format!("at:{server}:lock:{NAME}");
        assert!(several.java.is_locked(&member).await, "{member}");
        several.java.assert_nearly_whole(&member).await;
        assert_eq!(several.fields(server).len(), 2, "one holder, and how often");
    }
    several.settled().await;
    let twice = |server: &usize| several.fields(*server)[1..] == ["2;0;"];
    assert!(
        (0..SERVERS).filter(twice).count() >= 2,
        "a majority is enough for the inner one"
    );
    assert!(!several.java.is_held("a", RED).await);
    assert!(!several.java_enters("a").await);
    several.java_leaves("a").await;
    inner.unlock().await.expect("unlock");
    several.settled().await;
    assert_eq!(holds(&lock).await.expect("asked"), 1);
    guard.unlock().await.expect("unlock");
    eventually("all released", async || several.holding() == 0).await;

    several.java.lock("a", RED, None).await;
    assert!(several.java_enters("a").await, "re-entered");
    assert!(several.java.is_held("a", RED).await);
    for server in 0..SERVERS {
        let owner = several.java.owner_on(server, "a").await;
        assert_eq!(several.fields(server), [owner, "2".to_owned()]);
    }
    assert!(lock.is_locked().await.expect("is_locked"));
    assert_nearly_whole(&lock).await;
    let holder = lock.holder().await.expect("holder").expect("held");
    assert_eq!(
        (holder.owner, holder.holds),
        (several.java.owner_on(0, "a").await, 2)
    );
    several.java_leaves("a").await;
    several.refused().await;
    assert!(
        (0..SERVERS).all(|server| several.fields(server)[1..] == ["1"]),
        "ours took nothing"
    );
    several.java_leaves("a").await;
    assert!(!lock.is_locked().await.expect("is_locked"));
    assert_eq!(several.holding(), 0);
}

/// A third owner holds one server, and leaves while the others are taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn red_majorities_exclude_each_other() {
    let several = Several::start().await;
    for server in 0..SERVERS {
        let lock = several.nodes.0[server].lock(NAME);
        let stranger = lock.lock().await.expect("lock");
        assert!(several.java_enters("a").await, "a majority is enough");
        // It was granted nevertheless: Redisson's `isHeld` requires every member.
        assert!(!several.java.is_held("a", RED).await);
        several.refused().await;
        stranger.unlock().await.expect("unlock");
        several.refused().await;
        assert_eq!(
            several.holding(),
            2,
            "one server is not enough, and was given back"
        );
        several.java_leaves("a").await;

        let stranger = lock.lock().await.expect("lock");
        let guard = several.lock().lock().await.expect("a majority is enough");
        assert!(!several.java_enters("a").await);
        stranger.unlock().await.expect("unlock");
        assert!(!several.java_enters("a").await);
        assert_eq!(
            several.holding(),
            2,
            "one server is not enough, and was given back"
        );
        guard.check().expect("held");
        guard.unlock().await.expect("unlock");
        eventually("all released", async || several.holding() == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn red_holders_notice_that_a_majority_lost_their_lock() {
    let several = Several::with(None, |ours| ours.lease(SHORT)).await;
    let lock = several.lock();
    let guard = several.held_by_all(&lock).await;
    several.delete_on(&[0]);
    assert!(!several.java_enters("a").await, "two are left");
    guard.check().expect("held");
    several.delete_on(&[1]);
    soon("java takes what is left", several.java.lock("a", RED, None)).await;
    soon("rust notices at its next renewal", lost(&guard)).await;
    assert_eq!(guard.state(), HoldState::Lost);
    guard.unlock().await.expect_err("it is lost");
    several.settled().await;
    assert_eq!(several.holding(), 2, "ours gave back ours only");
    several.refused().await;
    several.java_leaves("a").await;

    several.java.lock("a", RED, None).await;
    several.delete_on(&[0, 2]);
    let guard = soon("rust takes what is left", lock.lock())
        .await
        .expect("lock");
    // Redisson reports a loss only when asked, by this method.
    assert!(!several.java.is_held("a", RED).await);
    several.java_leaves("a").await;
    guard.check().expect("held");
    assert!(
        lock.is_locked().await.unwrap(),
        "java gave back its own only"
    );
    guard.unlock().await.expect("unlock");

    several.java.lock("a", RED, None).await;
    assert!(lock.force_unlock("a test").await.expect("force_unlock"));
    assert_eq!(several.holding(), 0);
    assert!(!several.java.is_held("a", RED).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn red_leases_end_for_the_other_side() {
    let mut several = Several::with(Some(SHORT), |ours| ours.lease(SHORT)).await;
    let lock = several.lock();
    let guard = lock.lock().await.expect("lock");
    assert!(
        !several.java.try_lock("a", RED, TWO_LEASES, None).await,
        "it is renewed"
    );
    guard.check().expect("held");
    guard.unlock().await.expect("unlock");
    several.java.lock("a", RED, None).await;
    assert_timed_out(lock.try_lock(TWO_LEASES, Lease::Renewed).await);
    several.java_leaves("a").await;

    let guard = lock
        .try_lock(SHORT, Lease::Fixed(SHORT))
        .await
        .expect("free");
    soon(
        "java takes our fixed lease",
        several.java.lock("a", RED, None),
    )
    .await;
    assert_eq!(guard.state(), HoldState::Lost);
    several.java_leaves("a").await;
    several.java.lock("a", RED, Some(SHORT)).await;
    assert!(lock.remaining_lease().await.expect("remaining_lease") <= Some(SHORT));
    let guard = soon("rust takes their fixed lease", lock.lock())
        .await
        .expect("lock");
    guard.unlock().await.expect("unlock");
    several.java.lock("b", RED, None).await;
    several.java.kill();
    let guard = soon("rust takes the lock of a killed JVM", lock.lock())
        .await
        .expect("lock");
    guard.unlock().await.expect("unlock");
}

/// With its defaults, Redisson retries a dead server for five to ten seconds before it asks the
/// next one.
async fn without_one_server(dead: usize) {
    let mut several = Several::start().await;
    several.servers.0[dead].kill();
    assert!(several.java_enters("a").await);
    let lock = several.lock();
    assert_timed_out(lock.try_lock(NOW, Lease::Renewed).await);
    assert!(lock.is_locked().await.expect("is_locked"));
    assert_eq!(several.holding(), 2);
    let left = several.java.unlock("a", RED);
    let guard = lock
        .try_lock(LONG_WAIT, Lease::Renewed)
        .await
        .expect("rust gets in");
    left.await.expect("unlock never throws");
    assert!(!several.java_enters("a").await);
    guard.check().expect("held");
    guard.unlock().await.expect("unlock");
    eventually("all released", async || several.holding() == 0).await;
    // Redisson spends the whole wait on the dead server. If it has not got the other servers
    // before, it gives up, although they are free.
    let a_second = Duration::from_secs(1);
    assert_eq!(
        several.java.try_lock("b", RED, a_second, None).await,
        dead == SERVERS - 1
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn red_holders_exclude_each_other_without_the_first_server() {
    without_one_server(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn red_holders_exclude_each_other_without_the_last_server() {
    without_one_server(SERVERS - 1).await;
}

/// Redisson does not check how much of a fixed lease is left when it has asked all servers, and
/// sets the lease once more on every key, whoever holds it by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_red_lock_of_java_may_have_ended_when_it_is_granted() {
    let mut several = Several::start().await;
    several.servers.0[SERVERS - 1].kill();
    let theirs = several.java.try_lock("a", RED, NOW, Some(SHORT));
    eventually("java has the others", async || several.holding() == 2).await;
    let lock = several.lock();
    let guard = soon("rust takes what has ended", lock.lock())
        .await
        .expect("lock");
    assert!(theirs.await, "java believes that it has it");
    guard.check().expect("held");
    let left = lock.remaining_lease().await.expect("remaining_lease");
    assert!(left <= Some(SHORT), "java has cut our lease: {left:?}");
}
