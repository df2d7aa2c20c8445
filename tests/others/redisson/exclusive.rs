//! Tests for every kind of lock with one holder.

use leasehold::{Client, Error, HoldState, Lease, Lock, LockGuard, LossReason};
use leasehold_testbed::{SOON, connected, count_of, lost};
use tokio::time::{Instant, timeout};

use crate::contention::contend;
use crate::harness::{
    Harness, NOW, SHORT, TWO_LEASES, assert_nearly_whole, assert_timed_out, builder, joined, soon,
};

/// One kind of lock as both libraries have it.
#[derive(Clone, Copy)]
struct PairedKind {
    /// The driver's name for the kind, such as `fair`.
    theirs: &'static str,
    ours: fn(&Client, &str) -> Lock,
    reentrant: bool,
    /// The keys that exist while somebody holds the lock `seen` and nobody waits.
    keys: &'static [&'static str],
}

const fn kind(theirs: &'static str, ours: fn(&Client, &str) -> Lock) -> PairedKind {
    PairedKind {
        theirs,
        ours,
        reentrant: true,
        keys: &["hash seen"],
    }
}

/// The tests of each kind, as a module: its contenders have so many rounds.
macro_rules! each_kind {
    ($($module:ident: $rounds:literal, $kind:expr;)*) => {$(
        mod $module {
            use super::*;

            const KIND: PairedKind = $kind;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn contenders_exclude_each_other_and_all_make_progress() {
                contend(KIND.theirs, KIND.ours, "orders:42", $rounds).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn waiters_wake_when_the_other_side_releases() {
                Box::pin(waiters_wake(KIND)).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn holds_are_seen_by_the_other_side() {
                Box::pin(each_sees_the_other(KIND)).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn holders_notice_a_forced_release() {
                a_forced_release_is_noticed(KIND).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn leases_end_for_the_other_side() {
                leases_end(KIND).await;
            }
        }
    )*};
}

each_kind! {
    plain: 1000, kind("lock", |client, name| client.lock(name));
    fair: 250, kind("fair", |client, name| client.fair_lock(name));
    fenced: 250, PairedKind {
        keys: &["hash seen", "string redisson_lock_token:{seen}"],
        ..kind("fenced", |client, name| client.fenced_lock(name).into())
    };
    // The side that has the lock does many rounds before the other side asks again.
    spin: 5000, kind("spin", |client, name| client.spin_lock(name));
    non_reentrant: 250, PairedKind {
        reentrant: false,
        ..kind("nonreentrant", |client, name| client.lock(name).non_reentrant())
    };
    non_reentrant_fair: 250, PairedKind {
        reentrant: false,
        ..kind("nonreentrantfair", |client, name| client.fair_lock(name).non_reentrant())
    };
}

/// A waiter gets the lock when the other side releases it, long before the lease would have ended.
async fn waiters_wake(kind: PairedKind) {
    let (harness, theirs) = (&mut Harness::start().await, format!("{}:wake", kind.theirs));
    let theirs = theirs.as_str();
    for _ in 0..3 {
        harness.java.lock("a", theirs, None).await;
        let guard = a_task_wakes(harness, kind, "a release", async |harness: &Harness| {
            harness.java.unlock("a", theirs).await.expect("unlock");
        });
        let guard = guard.await;
        let freed = async || guard.unlock().await.expect("unlock");
        a_thread_wakes(harness, ["a", theirs], "a release", freed).await;
        harness.java.unlock("a", theirs).await.expect("unlock");
    }
    harness.java.lock("a", theirs, None).await;
    let forced = async |harness: &Harness| assert!(harness.java.force_unlock(theirs).await);
    let guard = a_task_wakes(harness, kind, "a forced release", forced).await;
    a_thread_wakes(harness, ["b", theirs], "a drop", async || drop(guard)).await;
    let lock = (kind.ours)(&harness.client, "wake");
    let forced = async || assert!(lock.force_unlock("a test").await.expect("force_unlock"));
    a_thread_wakes(harness, ["c", theirs], "a forced release", forced).await;
    harness.java.unlock("c", theirs).await.expect("unlock");

    let closing = connected(builder(&harness.server.url())).await;
    let lock = (kind.ours)(&closing, "wake");
    let _guard = lock.lock().await.expect("lock");
    let freed = async || closing.shutdown(SOON).await.expect("shutdown");
    a_thread_wakes(harness, ["a", theirs], "a shutdown", freed).await;
}

/// Lets a task wait, frees the lock in Java, and returns the guard of the task.
async fn a_task_wakes(
    harness: &mut Harness,
    kind: PairedKind,
    how: &str,
    frees: impl AsyncFnOnce(&Harness),
) -> LockGuard {
    let lock = (kind.ours)(&harness.client, "wake");
    let waiting = harness.waiting(|_| async move { lock.lock().await }).await;
    frees(harness).await;
    let what = format!("rust wakes on {how} in java");
    joined(&what, waiting).await.expect("lock")
}

/// Lets a thread wait, and frees the lock in Rust. The thread has the lock then.
async fn a_thread_wakes(
    harness: &mut Harness,
    [thread, theirs]: [&str; 2],
    how: &str,
    frees: impl AsyncFnOnce(),
) {
    let waiting = harness.waiting(|harness| harness.java.lock(thread, theirs, None));
    let waiting = waiting.await;
    frees().await;
    joined(&format!("java wakes on {how} in rust"), waiting).await;
}

/// Each side sees the holds of the other and cannot release them.
async fn each_sees_the_other(kind: PairedKind) {
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
    harness.java.assert_nearly_whole(&theirs).await;
    assert!(!harness.java.is_held("a", &theirs).await);
    assert_eq!(harness.java.hold_count("a", &theirs).await, 0);
    assert!(!harness.java.try_lock("a", &theirs, NOW, None).await);
    harness.java.assert_not_held("a", &theirs).await;
    // A plain lock has room for waiters after its count.
    let values = harness.observer.ask("HVALS seen").await;
    let counts: Vec<_> = values
        .iter()
        .map(|value| count_of(value).map(u64::from))
        .collect();
    assert_eq!(counts, [Some(holds)]);
    if let Ok(inner) = inner {
        inner.unlock().await.expect("unlock");
        assert!(harness.java.is_locked(&theirs).await, "the outer one");
    }
    guard.unlock().await.expect("unlock");
    harness.observer.wait_until("EXISTS seen", 0).await;
    assert!(!harness.java.is_locked(&theirs).await);

    harness.java.lock("a", &theirs, None).await;
    let again = harness.java.lock_or_throw("a", &theirs).await;
    assert_eq!(again.is_ok(), kind.reentrant, "{again:?}");
    harness.java_has_cleaned_up().await;
    assert_eq!(kinds_of_keys(&mut harness).await, kind.keys);
    assert!(lock.is_locked().await.expect("is_locked"));
    assert_nearly_whole(&lock).await;
    let holder = lock.holder().await.expect("holder").expect("held");
    assert_eq!(holder.owner, harness.java.owner("a").await);
    assert_eq!(holder.holds, holds);
    assert_timed_out(lock.try_lock(NOW, Lease::Fixed(SHORT)).await);
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

/// The holder of a lock that the other side forces open notices.
async fn a_forced_release_is_noticed(kind: PairedKind) {
    let harness = Harness::with_short_leases().await;
    let theirs = format!("{}:forced", kind.theirs);
    let lock = (kind.ours)(&harness.client, "forced");

    let guard = lock.lock().await.expect("lock");
    assert!(harness.java.force_unlock(&theirs).await);
    assert!(harness.java.try_lock("a", &theirs, NOW, None).await);
    let reason = soon("rust notices at its next renewal", lost(&guard)).await;
    // Not by the end of the lease, which would also have been a loss.
    assert_eq!((reason, guard.state()), (LossReason::Gone, HoldState::Lost));
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
    harness.java.assert_not_held("a", &theirs).await;
    guard.unlock().await.expect("the next holder is not harmed");
}

/// A renewed lease keeps the lock from the other side. A lease that is not renewed ends, and the
/// other side gets the lock.
async fn leases_end(kind: PairedKind) {
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

    assert_timed_out(lock.try_lock(TWO_LEASES, Lease::Renewed).await);
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
