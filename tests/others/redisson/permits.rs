//! The semaphore whose permits have ids and leases, shared by both sides.

use std::time::Duration;

use leasehold::{Client, Error, HoldState, Lease};
use leasehold_testbed::lost;

use crate::crowd::{LIMIT, THREADS, contend};
use crate::harness::{Harness, NOW, SHORT, TWO_LEASES, all_joined, assert_timed_out, soon};
use crate::redisson::Redisson;

const LONG: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permit_contenders_never_hold_more_than_exist() {
    let mut harness = Harness::with(None, |ours| ours).await;
    let semaphore = harness.client.permit_expirable_semaphore("seats");
    assert!(semaphore.try_set_permits(LIMIT).await.expect("set"));
    let java = &harness.java;
    let threads = java.contend("contendpermit", THREADS, "seats", Some(LIMIT));
    let acquire = async || {
        semaphore
            .acquire(1, Lease::Fixed(LONG))
            .await
            .expect("acquire")
    };
    contend(&mut harness, threads, acquire, async |permit| {
        permit.release().await.expect("release");
    })
    .await;
    assert_eq!(
        semaphore.available().await.expect("available"),
        i64::from(LIMIT)
    );
    assert_eq!(semaphore.acquired().await.expect("acquired"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permit_waiters_wake_when_the_other_side_releases() {
    let mut harness = Harness::start().await;
    let semaphore = harness.client.permit_expirable_semaphore("seats");
    assert!(semaphore.try_set_permits(2).await.expect("set"));
    let two = semaphore
        .try_acquire(2, NOW, Lease::Renewed)
        .await
        .expect("acquire");
    let wait = |java: &Redisson, thread: &str| java.permit_acquire(thread, "seats", None);
    let waiting = harness.threads_wait(&["a", "b"], wait).await;
    two.release().await.expect("release");
    let ids = all_joined("java wakes on a release of two in rust", waiting).await;
    let wait = |client: &Client| {
        let semaphore = client.permit_expirable_semaphore("seats");
        async move { semaphore.acquire(1, Lease::Fixed(LONG)).await }
    };
    let waiting = harness.tasks_wait(2, wait).await;
    for id in &ids {
        harness
            .java
            .permit_release("seats", id)
            .await
            .expect("held");
    }
    let permits = all_joined("rust wakes on a release in java", waiting).await;
    assert!(permits.iter().all(Result::is_ok), "{permits:?}");
    assert_eq!(semaphore.available().await.expect("available"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_are_seen_by_the_other_side() {
    let mut harness = Harness::start().await;
    let semaphore = harness.client.permit_expirable_semaphore("seats");
    assert!(semaphore.try_set_permits(4).await.expect("set"));
    assert!(!harness.java.permit_set("seats", 9).await);
    let ours = semaphore.acquire(1, Lease::Renewed).await.expect("acquire");
    let timeless = harness.java.permit_acquire("a", "seats", None).await;
    let leased = harness.java.permit_acquire("a", "seats", Some(LONG)).await;
    assert_eq!(harness.java.permit_available("seats").await, 1);
    assert_eq!(harness.java.permit_acquired("seats").await, 3);
    assert_eq!(harness.java.permit_total("seats").await, 4);
    assert_eq!(semaphore.available().await.expect("available"), 1);
    assert_eq!(semaphore.acquired().await.expect("acquired"), 3);
    assert_eq!(semaphore.permits().await.expect("permits"), 4);
    assert_eq!(harness.observer.ask("GET seats").await, ["1"]);
    assert_eq!(harness.observer.integer("ZCARD {seats}:timeout").await, 3);

    let left = async |id: &str| {
        semaphore
            .remaining_lease(id)
            .await
            .expect("remaining_lease")
    };
    assert_eq!(left(&timeless).await, Some(Duration::MAX));
    assert!(
        left(&leased)
            .await
            .is_some_and(|left| left > LONG / 2 && left <= LONG)
    );
    assert!(
        left(ours.id())
            .await
            .is_some_and(|left| left > LONG / 2 && left <= LONG)
    );
    assert!(
        semaphore
            .update_lease(&leased, 2 * LONG)
            .await
            .expect("update")
    );
    assert!(left(&leased).await.is_some_and(|left| left > LONG));

    assert_timed_out(semaphore.try_acquire(2, NOW, Lease::Fixed(LONG)).await);
    semaphore
        .release_all(&[&timeless, &leased])
        .await
        .expect("release");
    assert_eq!(left(&leased).await, None);
    assert_eq!(harness.java.permit_available("seats").await, 3);
    assert_eq!(semaphore.set_permits(1).await.expect("set"), 0);
    assert_eq!(harness.java.permit_available("seats").await, 0);
    assert_eq!(harness.java.permit_total("seats").await, 1);
}

/// Anybody who knows the id may release the permit, and its holder notices.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permit_holders_notice_a_release_by_the_other_side() {
    let harness = Harness::with_short_leases().await;
    let semaphore = harness.client.permit_expirable_semaphore("seats");
    assert!(harness.java.permit_set("seats", 1).await);
    let ours = semaphore.acquire(1, Lease::Renewed).await.expect("acquire");
    harness
        .java
        .permit_release("seats", ours.id())
        .await
        .expect("held");
    let theirs = harness.java.permit_acquire("a", "seats", Some(LONG)).await;
    soon("rust notices at its next renewal", lost(&ours)).await;
    assert_eq!(ours.state(), HoldState::Lost);
    ours.release()
        .await
        .expect_err("there is nothing to release");

    semaphore.release(&theirs).await.expect("held");
    assert!(!harness.java.permit_try_release("seats", &theirs).await);
    harness
        .java
        .permit_release("seats", &theirs)
        .await
        .expect_err("it is not held any more");
    assert_eq!(
        harness.java.permit_available("seats").await,
        1,
        "it came back once"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_whose_lease_ended_are_free_for_the_other_side() {
    let mut harness = Harness::with_short_leases().await;
    let semaphore = harness.client.permit_expirable_semaphore("seats");
    assert!(semaphore.try_set_permits(1).await.expect("set"));

    let expired = harness.java.permit_acquire("a", "seats", Some(SHORT)).await;
    let ours = soon(
        "rust gets java's",
        semaphore.acquire(1, Lease::Fixed(SHORT)),
    )
    .await
    .expect("acquire");
    assert!(!harness.java.permit_try_release("seats", &expired).await);

    let theirs = soon(
        "java gets rust's",
        harness.java.permit_acquire("a", "seats", Some(SHORT)),
    )
    .await;
    assert_eq!(ours.state(), HoldState::Lost);
    let gone = semaphore
        .release(ours.id())
        .await
        .expect_err("it is not held any more");
    assert!(matches!(gone, Error::NotOwner { .. }), "{gone}");
    semaphore.release(&theirs).await.expect("held");

    let renewed = semaphore.acquire(1, Lease::Renewed).await.expect("acquire");
    let refused = harness
        .java
        .permit_try_acquire("a", "seats", TWO_LEASES, None)
        .await;
    assert_eq!(refused, "null", "it is renewed");
    renewed.release().await.expect("renewed");

    harness.java.permit_acquire("a", "seats", Some(SHORT)).await;
    harness.java.kill();
    let ours = soon(
        "rust gets a killed JVM's",
        semaphore.acquire(1, Lease::Fixed(SHORT)),
    )
    .await
    .expect("acquire");
    ours.release().await.expect("release");
}
