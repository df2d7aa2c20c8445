//! Tests for every kind of lock with one holder.

use leasehold::{Client, Error, HoldState, Lease, Lock};
use leasehold_testbed::{SOON, count_of, lost};
use tokio::time::{Instant, timeout};

use crate::harness::{Harness, NEARLY_WHOLE, NOW, SHORT, TWO_LEASES, joined, soon};

/// One kind of lock as both libraries have it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PairedKind {
    /// The driver's name for the kind, such as `fair`.
    pub(crate) theirs: &'static str,
    pub(crate) ours: fn(&Client, &str) -> Lock,
    pub(crate) reentrant: bool,
    /// The keys that exist while somebody holds the lock `seen` and nobody waits.
    pub(crate) keys: &'static [&'static str],
}

const ROUNDS: usize = 3;

/// A waiter gets the lock when the other side releases it, long before the lease would have ended.
pub(crate) async fn waiters_wake(kind: PairedKind) {
    let mut harness = Harness::start().await;
    let theirs = format!("{}:wake", kind.theirs);
    for _ in 0..ROUNDS {
        harness.java.lock("a", &theirs, None).await;
        let waiting = harness
            .waiting(|harness| {
                let lock = (kind.ours)(&harness.client, "wake");
                async move { lock.lock().await }
            })
            .await;
        harness.java.unlock("a", &theirs).await.expect("unlock");
        let guard = joined("rust wakes on a release in java", waiting)
            .await
            .expect("lock");

        let waiting = harness
            .waiting(|harness| harness.java.lock("a", &theirs, None))
            .await;
        guard.unlock().await.expect("unlock");
        joined("java wakes on a release in rust", waiting).await;
        harness.java.unlock("a", &theirs).await.expect("unlock");
    }
    let dropped = (kind.ours)(&harness.client, "wake")
        .lock()
        .await
        .expect("lock");
    let waiting = harness
        .waiting(|harness| harness.java.lock("a", &theirs, None))
        .await;
    drop(dropped);
    joined("java wakes on a drop in rust", waiting).await;
}

/// Each side sees the holds of the other and cannot release them.
pub(crate) async fn each_sees_the_other(kind: PairedKind) {
    let mut harness = Harness::start().await;
    let theirs = format!("{}:seen", kind.theirs);
    let lock = (kind.ours)(&harness.client, "seen");
    let holds = if kind.reentrant { 2 } else { 1 };

    let guard = lock.lock().await.expect("lock");
    assert_eq!(kinds_of_keys(&mut harness).await, kind.keys);
    let inner = guard.reenter().await;
    assert_eq!(
        matches!(&inner, Err(Error::AlreadyHeld { .. })),
        !kind.reentrant,
        "{inner:?}"
    );
    assert!(harness.java.is_locked(&theirs).await);
    let left = harness.java.ttl(&theirs).await.try_into().expect("expired");
    assert!(
        NEARLY_WHOLE.contains(&std::time::Duration::from_millis(left)),
        "{left} ms"
    );
    assert!(!harness.java.is_held("a", &theirs).await);
    assert_eq!(harness.java.hold_count("a", &theirs).await, 0);
    assert!(!harness.java.try_lock("a", &theirs, NOW, None).await);
    let refused = harness
        .java
        .unlock("a", &theirs)
        .await
        .expect_err("it is not theirs");
    assert!(
        refused.0.starts_with("IllegalMonitorStateException"),
        "{refused:?}"
    );
    // A plain lock has room for waiters after its count.
    let values = harness.observer.ask("HVALS seen").await;
    let counts: Vec<_> = values
        .iter()
        .map(|value| count_of(value).map(u64::from))
        .collect();
    assert_eq!(counts, [Some(holds)]);
    drop(inner);
    guard.unlock().await.expect("unlock");
    harness.observer.wait_until("EXISTS seen", 0).await;
    assert!(!harness.java.is_locked(&theirs).await);

    harness.java.lock("a", &theirs, None).await;
    let again = harness.java.lock_or_throw("a", &theirs).await;
    assert_eq!(again.is_ok(), kind.reentrant, "{again:?}");
    harness.java_has_cleaned_up().await;
    assert_eq!(kinds_of_keys(&mut harness).await, kind.keys);
    assert!(lock.is_locked().await.expect("is_locked"));
    let left = lock
        .remaining_lease()
        .await
        .expect("remaining_lease")
        .expect("held");
    assert!(NEARLY_WHOLE.contains(&left), "{left:?}");
    let holder = lock.holder().await.expect("holder").expect("held");
    assert_eq!(holder.owner, harness.java.owner("a").await);
    assert_eq!(holder.holds, holds);
    let refused = lock
        .try_lock(NOW, Lease::Fixed(SHORT))
        .await
        .expect_err("it is not ours");
    assert!(refused.is_timeout(), "{refused}");
    for _ in 0..holds {
        assert!(
            lock.is_locked().await.expect("is_locked"),
            "the outer hold stands"
        );
        harness.java.unlock("a", &theirs).await.expect("unlock");
    }
    assert!(!lock.is_locked().await.expect("is_locked"));
    assert!(lock.holder().await.expect("holder").is_none());
}

/// A lock that the other side forces open lets a waiter in, and its holder notices.
pub(crate) async fn a_forced_release_is_noticed(kind: PairedKind) {
    let harness = Harness::with_short_leases().await;
    let theirs = format!("{}:forced", kind.theirs);
    let lock = (kind.ours)(&harness.client, "forced");

    let guard = lock.lock().await.expect("lock");
    assert!(harness.java.force_unlock(&theirs).await);
    assert!(harness.java.try_lock("a", &theirs, NOW, None).await);
    soon("rust notices at its next renewal", lost(&guard)).await;
    assert_eq!(guard.state(), HoldState::Lost);
    guard
        .unlock()
        .await
        .expect_err("there is nothing to unlock");
    assert!(
        harness.java.is_held("a", &theirs).await,
        "the next holder is not harmed"
    );

    assert!(lock.force_unlock("a test").await.expect("force_unlock"));
    let guard = lock.try_lock(NOW, Lease::Renewed).await.expect("free");
    let refused = harness
        .java
        .unlock("a", &theirs)
        .await
        .expect_err("a lost the lock");
    assert!(
        refused.0.starts_with("IllegalMonitorStateException"),
        "{refused:?}"
    );
    guard.unlock().await.expect("the next holder is not harmed");
}

/// A renewed lease keeps the lock from the other side. A lease that is not renewed ends, and the
/// other side gets the lock.
pub(crate) async fn leases_end(kind: PairedKind) {
    let mut harness = Harness::with_short_leases().await;
    let theirs = format!("{}:leased", kind.theirs);
    let lock = (kind.ours)(&harness.client, "leased");

    let taken = Instant::now();
    let guard = lock.try_lock(NOW, Lease::Fixed(SHORT)).await.expect("free");
    soon(
        "java takes our fixed lease",
        harness.java.lock("a", &theirs, None),
    )
    .await;
    assert!(taken.elapsed() >= SHORT);
    // Our deadline is before the server's, so it has passed by now.
    assert_eq!(guard.state(), HoldState::Lost);
    guard
        .unlock()
        .await
        .expect_err("there is nothing to unlock");

    let refused = lock
        .try_lock(TWO_LEASES, Lease::Renewed)
        .await
        .expect_err("it is renewed");
    assert!(refused.is_timeout(), "{refused}");
    harness.java.unlock("a", &theirs).await.expect("renewed");

    let taken = Instant::now();
    harness.java.lock("a", &theirs, Some(SHORT)).await;
    let guard = soon("rust takes a fixed lease of java", lock.lock())
        .await
        .expect("lock");
    assert!(taken.elapsed() >= SHORT);

    assert!(
        !harness.java.try_lock("a", &theirs, TWO_LEASES, None).await,
        "it is renewed"
    );
    guard.unlock().await.expect("renewed");

    harness.java.lock("a", &theirs, None).await;
    harness.java.kill();
    let guard = timeout(SOON, lock.lock())
        .await
        .expect("a killed JVM's lease ends");
    guard.expect("lock").unlock().await.expect("unlock");
}

/// All keys with their types.
async fn kinds_of_keys(harness: &mut Harness) -> Vec<String> {
    let keys = harness.observer.ask("KEYS *").await;
    let mut seen = Vec::new();
    for key in keys {
        let kind = harness.observer.ask(&format!("TYPE {key}")).await.remove(0);
        seen.push(format!("{kind} {key}"));
    }
    seen.sort();
    seen
}
