//! Multi locks of both sides, and plain locks that share names with them.

use std::time::Duration;

use leasehold::settings::LocalHandover;
use leasehold::{HoldState, Lease, Lock};
use leasehold_testbed::{lost, take_and_release};

use crate::contention::contend;
use crate::harness::{Harness, NOW, SHORT, assert_nearly_whole, assert_timed_out, joined, soon};

const MEMBERS: [&str; 3] = ["a", "b", "c"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn multi_contenders_exclude_each_other_and_all_make_progress() {
    contend(
        "multi",
        |client, name| Lock::multi(name.split('+').map(|name| client.lock(name))),
        "a+b+c",
        100,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn multi_waiters_wake_when_the_other_side_releases() {
    let mut harness = Harness::start().await;
    let ours = Lock::multi(MEMBERS.map(|name| harness.client.lock(name)));
    harness.java.lock("a", "multi:b+c", None).await;
    assert_timed_out(ours.try_lock(NOW, Lease::Renewed).await);
    assert!(
        !harness.java.is_locked("lock:a").await,
        "what was taken is given back"
    );
    let waiting = harness
        .waiting(|harness| {
            let lock = Lock::multi(MEMBERS.map(|name| harness.client.lock(name)));
            async move { lock.lock().await }
        })
        .await;
    harness.java.unlock("a", "multi:b+c").await.expect("unlock");
    let guard = joined("rust wakes on a release in java", waiting)
        .await
        .expect("lock");

    // The same with plain locks of the single names.
    let single = harness
        .waiting(|harness| harness.java.lock("a", "lock:b", None))
        .await;
    let several = harness
        .waiting(|harness| harness.java.lock("b", "multi:a+c", None))
        .await;
    guard.unlock().await.expect("unlock");
    joined("java wakes on a release of several in rust", single).await;
    joined("java wakes with several", several).await;
    harness.java.unlock("a", "lock:b").await.expect("unlock");
    harness.java.unlock("b", "multi:a+c").await.expect("unlock");
    take_and_release(&ours).await;
}

/// Our side takes the names in sorted order, Redisson in the given order. So each side can hold the
/// name that the other one waits for, until one of them releases what it has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn multi_locks_in_opposite_order_do_not_deadlock() {
    let always = LocalHandover::Streak {
        count: 256,
        time: Duration::from_secs(60),
    };
    let mut harness = Harness::with(None, |ours| ours.local_handover(always)).await;
    let door = harness.client.lock("a").lock().await.expect("lock");
    let theirs = harness
        .waiting(|harness| harness.java.lock("a", "multi:b+a", None))
        .await;
    harness.observer.wait_until("EXISTS b", 1).await;
    let lock = Lock::multi(["a", "b"].map(|name| harness.client.lock(name)));
    let ours = tokio::spawn(async move { lock.lock().await.expect("lock").unlock().await });
    // It waits for one, which this client holds, and holds nothing.
    harness.until("it waits", |stats| stats.waiting == 1).await;
    // Handed over to our other waiter, so each side now has one of the two.
    door.unlock().await.expect("unlock");
    harness
        .until("it is handed over", |stats| stats.handed_over == 1)
        .await;
    joined("java has had both", theirs).await;
    assert!(!ours.is_finished(), "it has given way");
    harness.java.unlock("a", "multi:b+a").await.expect("unlock");
    joined("rust has had both", ours).await.expect("unlock");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn multi_holds_are_seen_by_the_other_side() {
    let mut harness = Harness::start().await;
    let ours = Lock::multi(MEMBERS.map(|name| harness.client.lock(name)));
    let guard = ours.lock().await.expect("lock");
    let inner = guard.reenter().await.expect("re-entered");
    for member in MEMBERS {
        let lock = format!("lock:{member}");
        assert!(harness.java.is_locked(&lock).await, "{lock}");
        harness.java.assert_nearly_whole(&lock).await;
        assert!(!harness.java.is_held("a", &lock).await, "{lock}");
        assert_eq!(
            harness.observer.ask(&format!("HVALS {member}")).await,
            ["2;0;"]
        );
    }
    assert!(!harness.java.try_lock("a", "multi:x+c", NOW, None).await);
    assert!(!harness.java.is_locked("lock:x").await);
    inner.unlock().await.expect("unlock");
    guard.unlock().await.expect("unlock");

    harness.java.lock("a", "multi:a+b+c", None).await;
    assert!(ours.is_locked().await.expect("is_locked"));
    assert_nearly_whole(&ours).await;
    let holder = ours.holder().await.expect("holder").expect("held");
    assert_eq!(holder.owner, harness.java.owner("a").await);
    harness
        .java
        .unlock("a", "multi:a+b+c")
        .await
        .expect("unlock");
    assert!(!ours.is_locked().await.expect("is_locked"));
    harness.java_has_cleaned_up().await;
    assert!(harness.observer.ask("KEYS *").await.is_empty());
}

/// If one member is forced open, the whole lock is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn multi_holders_notice_a_forced_release_of_one_member() {
    let harness = Harness::with_short_leases().await;
    let ours = Lock::multi(MEMBERS.map(|name| harness.client.lock(name)));
    let guard = ours.lock().await.expect("lock");
    assert!(harness.java.force_unlock("lock:b").await);
    soon("rust notices at its next renewal", lost(&guard)).await;
    assert_eq!(guard.state(), HoldState::Lost);
    drop(guard);
    soon(
        "java takes what was left",
        harness.java.lock("a", "multi:a+b+c", None),
    )
    .await;

    assert!(
        harness
            .client
            .lock("b")
            .force_unlock("a test")
            .await
            .expect("force_unlock")
    );
    assert!(!harness.java.is_held("a", "multi:a+b+c").await);
    harness
        .java
        .unlock("a", "multi:a+b+c")
        .await
        .expect_err("b is lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn multi_leases_end_for_the_other_side() {
    let mut harness = Harness::with_short_leases().await;
    let ours = Lock::multi(MEMBERS.map(|name| harness.client.lock(name)));
    let guard = ours.try_lock(NOW, Lease::Fixed(SHORT)).await.expect("free");
    soon(
        "java takes our fixed lease",
        harness.java.lock("a", "multi:b+c", None),
    )
    .await;
    assert_eq!(guard.state(), HoldState::Lost);
    harness.java.kill();
    let guard = soon("rust takes the locks of a killed JVM", ours.lock())
        .await
        .expect("lock");
    guard.unlock().await.expect("unlock");
}
