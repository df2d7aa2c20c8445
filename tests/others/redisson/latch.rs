//! The count-down latch. Both sides count down, and both sides wait.

use std::time::Duration;

use leasehold::Client;
use leasehold_testbed::eventually;
use tokio::task::JoinHandle;

use crate::harness::{Harness, NOW, assert_timed_out, joined};

const A_MOMENT: Duration = Duration::from_millis(50);
/// Redisson throws if it cannot subscribe within the wait, as on a busy machine.
const WAIT: Duration = Duration::from_secs(1);

/// Starts two threads and two tasks that wait, and returns when all have subscribed. The threads
/// come first, because their requests are counted, and tasks send the same command.
async fn all_wait(harness: &mut Harness) -> Vec<JoinHandle<bool>> {
    let mut waiting = Vec::new();
    for thread in ["a", "b"] {
        let wait = harness.waiting_by(&["get"], |harness| {
            harness.java.latch_wait(thread, "start", None)
        });
        waiting.push(wait.await);
    }
    let ours = |client: &Client| {
        let latch = client.count_down_latch("start");
        async move { latch.wait(Duration::MAX).await.is_ok() }
    };
    for number in 1..=2 {
        waiting.push(tokio::spawn(ours(&harness.client)));
        harness.until_waiting(number).await;
    }
    // Each side subscribes over one connection.
    let channel = "redisson_countdownlatch__channel__{start}";
    eventually("both sides listen", async || {
        harness.observer.listeners(channel).await == 2
    })
    .await;
    waiting
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn latch_waiters_of_both_sides_return_at_zero() {
    let mut harness = Harness::start().await;
    let latch = harness.client.count_down_latch("start");
    for last_is_theirs in [true, false] {
        assert!(latch.try_set_count(2).await.expect("set"));
        let waiting = all_wait(&mut harness).await;
        if last_is_theirs {
            assert_eq!(latch.count_down().await.expect("count down"), 1);
            harness.java.latch_count_down("start").await;
        } else {
            harness.java.latch_count_down("start").await;
            assert_eq!(latch.count_down().await.expect("count down"), 0);
        }
        for (number, waiting) in waiting.into_iter().enumerate() {
            assert!(joined(&format!("waiter {number} goes"), waiting).await);
        }
        assert_eq!(harness.java.latch_count("start").await, 0);
        harness.until_waiting(0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn latch_counts_are_seen_by_the_other_side() {
    let mut harness = Harness::start().await;
    let latch = harness.client.count_down_latch("start");
    assert!(latch.try_set_count(2).await.expect("set"));
    assert!(!harness.java.latch_set("start", 9).await);
    assert_eq!(harness.java.latch_count("start").await, 2);
    assert!(!harness.java.latch_wait("a", "start", Some(WAIT)).await);
    assert_eq!(harness.observer.ask("GET start").await, ["2"]);
    harness.java.latch_count_down("start").await;
    assert_eq!(latch.count().await.expect("count"), 1);
    harness.java.latch_count_down("start").await;
    harness.java.latch_count_down("start").await;
    assert_eq!(latch.count().await.expect("count"), 0);
    assert_eq!(latch.count_down().await.expect("never below zero"), 0);
    latch.wait(NOW).await.expect("open");

    assert!(harness.java.latch_set("start", 3).await);
    assert!(!latch.try_set_count(1).await.expect("set before"));
    assert_eq!(latch.count().await.expect("count"), 3);
    assert_timed_out(latch.wait(A_MOMENT).await);
    assert_eq!(harness.observer.integer("PTTL start").await, -1);
}

/// Both sides count down at the same time. No count is lost, and exactly one call reaches zero.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn latch_counts_of_both_sides_add_up() {
    let mut harness = Harness::start().await;
    let each = 50;
    assert!(harness.java.latch_set("start", 2 * each + 1).await);
    let waiting = all_wait(&mut harness).await;
    let theirs: Vec<_> = (0..each)
        .map(|_| harness.java.latch_count_down("start"))
        .collect();
    let ours: Vec<_> = (0..each)
        .map(|_| {
            let latch = harness.client.count_down_latch("start");
            tokio::spawn(async move { latch.count_down().await })
        })
        .collect();
    for theirs in theirs {
        theirs.await;
    }
    for ours in ours {
        ours.await.expect("no panic").expect("count down");
    }
    assert_eq!(harness.java.latch_count("start").await, 1);
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
    harness.java.latch_count_down("start").await;
    for waiting in waiting {
        assert!(joined("a waiter goes", waiting).await);
    }
}

/// After Redisson's `delete`, its own waiters keep waiting, and ours return. After our `delete`,
/// all return.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn latch_waiters_return_when_it_is_deleted() {
    let mut harness = Harness::start().await;
    let latch = harness.client.count_down_latch("start");
    assert!(latch.try_set_count(2).await.expect("set"));
    let waiting = all_wait(&mut harness).await;
    assert!(latch.delete().await.expect("delete"));
    for waiting in waiting {
        assert!(joined("a waiter goes", waiting).await);
    }

    assert!(latch.try_set_count(2).await.expect("set"));
    let waiting = harness
        .waiting(|harness| {
            let latch = harness.client.count_down_latch("start");
            async move { latch.wait(Duration::MAX).await }
        })
        .await;
    assert!(harness.java.latch_delete("start").await);
    joined("rust goes", waiting).await.expect("open");
}
