//! One owner takes the same lock again.

use futures::FutureExt;
use leasehold::{Ended, Error, HoldState, Lease, LossReason, Owner};
use leasehold_testbed::{Bed, eventually, holds, ms, timed, waiting};
use tokio::time::sleep;

pub(crate) async fn the_same_value_re_enters(bed: Bed) {
    let (client, rival) = (bed.client().await, bed.client().await);
    let lock = client.lock("x").owned_by(&Owner::new());
    let outer = lock.lock().await.unwrap();
    let inner = lock.try_lock_now(Lease::Renewed).await.unwrap();
    assert_eq!(holds(&lock).await.unwrap(), 2);
    assert_eq!((outer.hold_count(), inner.hold_count()), (2, 2));
    assert_eq!(bed.count("x", outer.owner()), 2);
    inner.unlock().await.unwrap();
    assert_eq!(holds(&lock).await.unwrap(), 1);
    bed.in_vain(async || rival.lock("x").try_lock_now(Lease::Renewed).await)
        .await;
    outer.unlock().await.unwrap();
    assert_eq!(holds(&lock).await.unwrap(), 0);
    assert!(!bed.exists("x"));
}

pub(crate) async fn an_owner_re_enters_by_name(bed: Bed) {
    let client = bed.client().await;
    let owner = Owner::new();
    let outer = client.lock("x").owned_by(&owner).lock().await.unwrap();
    let deeper = client.lock("x").owned_by(&owner);
    let inner = deeper.try_lock_now(Lease::Renewed).await.unwrap();
    assert_eq!(inner.owner(), outer.owner());
    let stranger = client.lock("x").owned_by(&Owner::new());
    bed.in_vain(async || stranger.try_lock_now(Lease::Fixed(ms(1000))).await)
        .await;
    drop((outer, inner));
    bed.until_gone("x").await;
}

pub(crate) async fn futures_of_one_owner_share_a_hold(bed: Bed) {
    let (client, rival) = (bed.client().await, bed.client().await);
    let owner = Owner::new();
    let lock = client.lock("x").owned_by(&owner);
    let held = rival.lock("x").lock().await.unwrap();
    let all = async { tokio::join!(lock.lock(), lock.lock(), lock.lock()) };
    let release = async {
        waiting(&client, 3).await;
        held.unlock().await.unwrap();
    };
    let ((guards, ()), _) = timed("all granted", async { tokio::join!(all, release) }).await;
    let guards = [guards.0.unwrap(), guards.1.unwrap(), guards.2.unwrap()];
    assert_eq!(guards[0].hold_count(), 3);
    assert!(
        guards
            .iter()
            .all(|guard| guard.owner() == guards[0].owner())
    );
    drop(guards);
    bed.until_gone("x").await;
}

pub(crate) async fn futures_of_one_owner_share_the_next_hold(bed: Bed) {
    for lease in [Lease::Renewed, Lease::Fixed(ms(20_000))] {
        let client = bed.client_with_long_streaks().await;
        let owner = Owner::new();
        let mut locks: Vec<_> = (0..3).map(|_| client.lock("x").owned_by(&owner)).collect();
        let held = client.lock("x").try_lock_now(lease).await.unwrap();
        let mut takings: Vec<_> = locks
            .iter_mut()
            .map(|lock| Box::pin(lock.try_lock(ms(8000), lease)))
            .collect();
        for taking in &mut takings {
            assert!(taking.as_mut().now_or_never().is_none());
        }
        held.unlock().await.unwrap();
        // The signalled waiters look before the one to which the hold was handed over.
        let all = futures::future::join_all(takings.into_iter().rev());
        let guards = timed("all granted", all).await.0;
        let guards: Vec<_> = guards.into_iter().map(Result::unwrap).collect();
        assert!(guards.iter().all(|guard| guard.hold_count() == 3));
        assert_eq!(
            client.stats().handed_over,
            u64::from(lease == Lease::Renewed)
        );
        drop(guards);
        bed.until_gone("x").await;
    }
}

pub(crate) async fn a_nested_lease_never_shortens_the_outer(bed: Bed) {
    let client = bed.client().await;
    let lock = client.lock("x").owned_by(&Owner::new());
    let outer = lock.try_lock_now(Lease::Fixed(ms(20_000))).await.unwrap();
    let deadline = outer.deadline();
    let inner = lock.try_lock_now(Lease::Fixed(ms(1000))).await.unwrap();
    assert!(bed.left("x") > 10_000, "{}", bed.left("x"));
    assert!(inner.deadline() >= deadline);
    inner.unlock().await.unwrap();
    assert!(bed.left("x") > 10_000, "{}", bed.left("x"));
    let inner = lock.lock().await.unwrap();
    assert!(
        outer.deadline() > deadline,
        "the renewed lease of 30 s is longer"
    );
    inner.unlock().await.unwrap();
    assert_eq!(outer.state(), HoldState::Held);
}

pub(crate) async fn an_inner_release_leaves_the_lease_alone(bed: Bed) {
    let client = bed.client().await;
    let lock = client.lock("x").owned_by(&Owner::new());
    let lease = Lease::Fixed(ms(60_000));
    let outer = lock.try_lock_now(lease).await.unwrap();
    let second = lock.try_lock_now(lease).await.unwrap();
    let third = lock.try_lock_now(lease).await.unwrap();
    third.unlock().await.unwrap();
    second.unlock().await.unwrap();
    let left = bed.left("x");
    assert!((50_000..=60_000).contains(&left), "{left}");
    outer.unlock().await.unwrap();
}

pub(crate) async fn a_longer_inner_lease_counts(bed: Bed) {
    let client = bed.client().await;
    let lock = client.lock("x").owned_by(&Owner::new());
    let outer = lock.try_lock_now(Lease::Fixed(ms(5000))).await.unwrap();
    let before = outer.deadline();
    let inner = lock.try_lock_now(Lease::Fixed(ms(15_000))).await.unwrap();
    assert!(
        outer.deadline() > before + ms(7000),
        "one hold, one deadline"
    );
    drop(inner);
    eventually("the count falls", async || holds(&lock).await.unwrap() == 1).await;
    assert!(bed.left("x") > 7000);
    drop(outer);
    bed.until_gone("x").await;
}

pub(crate) async fn an_outer_guard_may_go_first(bed: Bed) {
    let client = bed.client().await;
    let lock = client.lock("x").owned_by(&Owner::new());
    let outer = lock.lock().await.unwrap();
    let inner = lock.lock().await.unwrap();
    outer.unlock().await.unwrap();
    assert_eq!(inner.state(), HoldState::Held);
    assert_eq!(bed.count("x", inner.owner()), 1);
    inner.unlock().await.unwrap();
    assert!(!bed.exists("x"));
}

pub(crate) async fn a_lost_hold_is_not_re_entered(bed: Bed) {
    let client = bed.client().await;
    let lock = client.lock("x").owned_by(&Owner::new());
    let outer = lock.lock().await.unwrap();
    bed.command(&["DEL", "x"]);
    let fresh = lock.try_lock(ms(2000), Lease::Renewed).await.unwrap();
    assert_eq!(outer.state(), HoldState::Lost);
    assert_eq!(
        timed("lost", outer.ended()).await.0,
        Ended::Lost(LossReason::Gone)
    );
    assert_ne!(fresh.owner(), outer.owner());
    drop(outer);
    sleep(ms(20)).await;
    assert_eq!(
        bed.count("x", fresh.owner()),
        1,
        "the old guard frees nothing"
    );
    fresh.unlock().await.unwrap();
}

pub(crate) async fn a_cancelled_re_entry_keeps_the_outer_hold(bed: Bed) {
    let client = bed.client().await;
    let lock = client.lock("x").owned_by(&Owner::new());
    let outer = lock.lock().await.unwrap();
    for polls in 0..8 {
        let mut nested = Box::pin(lock.lock());
        let mut done = None;
        for _ in 0..polls {
            done = nested.as_mut().now_or_never();
            if done.is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop((done, nested));
        eventually("one hold is left", async || {
            let held = client.stats().releases_pending == 0;
            held && outer.hold_count() == 1 && holds(&lock).await.unwrap() == 1
        })
        .await;
    }
    assert_eq!(outer.state(), HoldState::Held);
    outer.unlock().await.unwrap();
    assert!(!bed.exists("x"));
}

pub(crate) async fn an_owner_of_one_client_is_nobody_to_another(bed: Bed) {
    let (client, elsewhere) = (bed.client().await, bed.client().await);
    let owner = Owner::new();
    let outer = client.lock("x").owned_by(&owner).lock().await.unwrap();
    // The other client may be connected to another server, so the hold here means nothing there.
    bed.in_vain(async || {
        elsewhere
            .lock("x")
            .owned_by(&owner)
            .try_lock_now(Lease::Renewed)
            .await
    })
    .await;
    outer.unlock().await.unwrap();
    let there = elsewhere.lock("x").owned_by(&owner);
    let guard = there.lock().await.unwrap();
    assert_eq!(holds(&there).await.unwrap(), 1);
    guard.unlock().await.unwrap();
}

pub(crate) async fn a_lock_that_is_held_can_be_made_non_reentrant(bed: Bed) {
    let client = bed.client().await;
    let lock = client.lock("x").owned_by(&Owner::new());
    let guard = lock.lock().await.unwrap();
    let lock = lock.non_reentrant();
    let refused = lock.lock().await.unwrap_err();
    assert!(matches!(refused, Error::AlreadyHeld { .. }), "{refused}");
    guard.unlock().await.unwrap();
    lock.lock().await.unwrap().unlock().await.unwrap();
}

pub(crate) async fn futures_of_one_owner_share_what_is_handed_over(bed: Bed) {
    let client = bed.client_with_long_streaks().await;
    for lease in [Lease::Renewed, Lease::Fixed(ms(30_000))] {
        let before = client.lock("x").lock().await.unwrap();
        let owner = Owner::new();
        let mut locks = [0, 1].map(|_| client.lock("x").owned_by(&owner));
        let [first, second] = &mut locks;
        let mut first = Box::pin(first.try_lock(ms(60_000), lease));
        let mut second = Box::pin(second.try_lock(ms(60_000), lease));
        // They arrive in this order, and learn in the opposite order that the first one has the
        // lock.
        assert!(first.as_mut().now_or_never().is_none());
        assert!(second.as_mut().now_or_never().is_none());
        before.unlock().await.unwrap();
        let (both, _) = timed("both", async { tokio::join!(second, first) }).await;
        let (second, first) = (both.0.unwrap(), both.1.unwrap());
        assert_eq!((first.hold_count(), first.owner()), (2, second.owner()));
        second.unlock().await.unwrap();
        first.unlock().await.unwrap();
        assert!(!bed.exists("x"));
    }
}

pub(crate) async fn a_dropped_inner_guard_is_not_counted_for_the_next_owner(bed: Bed) {
    let client = bed.client_with_long_streaks().await;
    let lock = client.lock("x").owned_by(&Owner::new());
    let outer = lock.lock().await.unwrap();
    let inner = lock.lock().await.unwrap();
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

/// An `Owner` forgets dead names when it has many. A name with waiters is not dead.
pub(crate) async fn an_owner_of_many_names_lets_its_waiters_in(bed: Bed) {
    let (client, rival) = (bed.client().await, bed.client().await);
    let owner = Owner::new();
    let before = rival.lock("x").lock().await.unwrap();
    let take = || {
        let lock = client.lock("x").owned_by(&owner);
        tokio::spawn(async move { lock.lock().await.unwrap() })
    };
    let (first, second) = (take(), take());
    waiting(&client, 2).await;
    let mut others = Vec::new();
    for number in 0..100 {
        let other = client.lock(format!("n{number}")).owned_by(&owner);
        others.push(other.lock().await.unwrap());
    }
    before.unlock().await.unwrap();
    let first = timed("the first", first).await.0.unwrap();
    let second = timed("the second, by the hold of the first", second)
        .await
        .0
        .unwrap();
    assert_eq!((first.hold_count(), second.owner()), (2, first.owner()));
}
