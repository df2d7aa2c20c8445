//! The semaphore: one number of permits for both sides.

use std::time::Duration;

use leasehold::{Client, HoldState};
use leasehold_testbed::{connected, lost};

use crate::crowd::{LIMIT, THREADS, contend};
use crate::harness::{Harness, NOW, SHORT, all_joined, assert_timed_out, builder, joined, soon};
use crate::redisson::Redisson;

const A_MOMENT: Duration = Duration::from_millis(50);
/// Redisson throws if it cannot subscribe within the wait, as on a busy machine.
const WAIT: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn semaphore_contenders_never_hold_more_than_exist() {
    let mut harness = Harness::with(None, |ours| ours).await;
    let semaphore = harness.client.semaphore("slots");
    assert!(semaphore.try_set_permits(LIMIT).await.expect("set"));
    let java = &harness.java;
    let threads = java.contend("contendsem", THREADS, "slots", Some(LIMIT));
    let acquire = async || semaphore.acquire(1).await.expect("acquire");
    contend(&mut harness, threads, acquire, async |permit| {
        permit.release().await.expect("release");
    })
    .await;
    assert_eq!(
        semaphore.available().await.expect("available"),
        i64::from(LIMIT)
    );
}

/// One release of several permits wakes that many waiters of the other side.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn semaphore_waiters_wake_when_the_other_side_releases() {
    let mut harness = Harness::start().await;
    let semaphore = harness.client.semaphore("slots");
    assert!(semaphore.try_set_permits(1).await.expect("set"));
    let only = semaphore.acquire(1).await.expect("acquire");
    let waiting = harness
        .waiting(|harness| harness.java.semaphore_acquire("a", "slots", 1))
        .await;
    only.release().await.expect("release");
    joined("java wakes on a release of a permit in rust", waiting).await;

    let wait = |client: &Client| {
        let semaphore = client.semaphore("slots");
        async move { semaphore.acquire(1).await.expect("acquire") }
    };
    let waiting = harness.tasks_wait(3, wait).await;
    harness.java.semaphore_release("slots", 3).await;
    let permits = all_joined("rust wakes on a release(3) in java", waiting).await;
    assert_eq!(semaphore.available().await.expect("available"), 0);

    let wait = |java: &Redisson, thread: &str| java.semaphore_acquire(thread, "slots", 1);
    let waiting = harness.threads_wait(&["a", "b", "c"], wait).await;
    semaphore.add_permits(3).await.expect("release");
    all_joined("java wakes on a release(3) in rust", waiting).await;
    let waiting = harness
        .waiting(|harness| harness.java.semaphore_acquire("a", "slots", 3))
        .await;
    drop(permits);
    joined("java wakes when as many as it wants were dropped", waiting).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn semaphore_permits_are_seen_by_the_other_side() {
    let mut harness = Harness::start().await;
    let semaphore = harness.client.semaphore("slots");
    assert!(harness.java.semaphore_set("slots", 5).await);
    assert!(!semaphore.try_set_permits(9).await.expect("set before"));
    let permit = semaphore.acquire(2).await.expect("acquire");
    harness.java.semaphore_acquire("a", "slots", 2).await;
    assert_eq!(harness.java.semaphore_available("slots").await, 1);
    assert_eq!(semaphore.available().await.expect("available"), 1);
    assert_eq!(harness.observer.ask("GET slots").await, ["1"]);
    assert_eq!(harness.observer.integer("PTTL slots").await, -1);
    assert!(
        !harness
            .java
            .semaphore_try_acquire("a", "slots", 2, WAIT)
            .await
    );
    assert_timed_out(semaphore.try_acquire(2, A_MOMENT).await);
    permit.release().await.expect("release");
    assert_eq!(harness.java.semaphore_available("slots").await, 3);
    semaphore.add_permits(-5).await.expect("add");
    assert_eq!(harness.java.semaphore_available("slots").await, -2);
    harness.java.semaphore_add("slots", 6).await;
    assert_eq!(semaphore.drain().await.expect("drain"), 4);
    assert_eq!(harness.java.semaphore_drain("slots").await, 0);

    // Permits that we keep for good come back when somebody releases permits.
    harness.java.semaphore_add("slots", 1).await;
    semaphore.acquire(1).await.expect("acquire").forget();
    harness
        .observer
        .wait_until("EXISTS leasehold_semaphore:{slots}", 0)
        .await;
    harness.java.semaphore_release("slots", 1).await;
    assert_eq!(semaphore.available().await.expect("available"), 1);
}

/// Redisson stores no holds, so permits of a dead JVM stay taken. Those of a dead client of ours
/// come back to both sides, if another client of ours is left to ask.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn semaphore_permits_of_a_dead_client_become_free() {
    let mut harness = Harness::with_short_leases().await;
    let semaphore = harness.client.semaphore("slots");
    assert!(semaphore.try_set_permits(2).await.expect("set"));
    let line = harness.server.line();
    let dying = connected(builder(line.url()).lease(SHORT)).await;
    let dead = dying.semaphore("slots").acquire(2).await.expect("acquire");
    let theirs = harness
        .waiting(|harness| harness.java.semaphore_acquire("a", "slots", 1))
        .await;
    line.refuse();
    line.cut();
    let guard = dead.guard().expect("a hold");
    soon("the dead one knows", lost(guard)).await;
    assert_eq!(guard.state(), HoldState::Lost);
    let ours = soon("rust gets what came back", semaphore.acquire(1))
        .await
        .expect("acquire");
    joined("java gets what came back", theirs).await;
    assert_eq!(semaphore.available().await.expect("available"), 0);

    harness.java.kill();
    assert_timed_out(semaphore.try_acquire(1, 2 * SHORT).await);
    ours.release().await.expect("renewed");
    assert_eq!(
        semaphore.try_acquire(1, NOW).await.expect("ours").permits(),
        1
    );
}

/// A limit changes the number by the difference, so the permits of Java stay counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_counts_the_permits_of_the_other_side() {
    let mut harness = Harness::start().await;
    let limited = |limit| harness.client.semaphore("slots").with_limit(limit);
    let [two, four] = [2, 4].map(limited);
    let ours = two.acquire(1).await.expect("acquire");
    assert!(!harness.java.semaphore_set("slots", 9).await, "it exists");
    harness.java.semaphore_acquire("a", "slots", 1).await;
    assert_timed_out(two.try_acquire(1, A_MOMENT).await);

    // A higher limit wakes Java.
    let waiting = harness
        .waiting(|harness| harness.java.semaphore_acquire("b", "slots", 1))
        .await;
    let third = four.acquire(1).await.expect("acquire");
    joined("java wakes on a higher limit", waiting).await;
    assert_eq!(harness.java.semaphore_available("slots").await, 0);
    assert_timed_out(four.try_acquire(1, A_MOMENT).await);

    // Under the lower limit two more are out than there are.
    assert_timed_out(two.try_acquire(1, A_MOMENT).await);
    assert_eq!(harness.java.semaphore_available("slots").await, -2);
    harness.java.semaphore_release("slots", 2).await;
    ours.release().await.expect("release");
    third.release().await.expect("release");
    assert_eq!(harness.java.semaphore_available("slots").await, 2);
}
