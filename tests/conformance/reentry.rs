//! One owner takes the same lock again.

use leasehold::{Error, HoldState};
use leasehold_testbed::{Bed, holds, timed, waiting};

pub(crate) async fn an_outer_guard_may_go_first(bed: Bed) {
    let client = bed.client().await;
    let lock = client.lock("x");
    let outer = lock.lock().await.unwrap();
    let inner = outer.reenter().await.unwrap();
    outer.unlock().await.unwrap();
    assert_eq!(inner.state(), HoldState::Held);
    assert_eq!(bed.count("x", inner.owner()), 1);
    inner.unlock().await.unwrap();
    assert!(!bed.exists("x"));
}

pub(crate) async fn a_lock_that_is_held_can_be_made_non_reentrant(bed: Bed) {
    let client = bed.client().await;
    let lock = client.lock("x");
    let guard = lock.lock().await.unwrap();
    let lock = lock.non_reentrant();
    let refused = lock.acquire().within(&guard).await.unwrap_err();
    assert!(matches!(refused, Error::AlreadyHeld { .. }), "{refused}");
    guard.unlock().await.unwrap();
    lock.lock().await.unwrap().unlock().await.unwrap();
}

pub(crate) async fn a_dropped_inner_guard_is_not_counted_for_the_next_owner(bed: Bed) {
    let client = bed.client_with_long_streaks().await;
    let lock = client.lock("x");
    let outer = lock.lock().await.unwrap();
    let inner = outer.reenter().await.unwrap();
    let next = client.lock("x");
    let taking = tokio::spawn(async move {
        let guard = next.lock().await.unwrap();
        (next, guard)
    });
    waiting(&client, 1).await;
    // Both guards go before the count could be lowered.
    drop(inner);
    drop(outer);
    let (next, guard) = timed("granted", taking).await.0.unwrap();
    assert_eq!((guard.hold_count(), holds(&next).await.unwrap()), (1, 1));
    guard.unlock().await.unwrap();
    bed.until_gone("x").await;
}
