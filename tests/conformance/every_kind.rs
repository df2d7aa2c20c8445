//! What all kinds of locks have in common.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use futures::future::join_all;
use leasehold::{Ended, Error, Lease, Lock, LossReason};
use leasehold_testbed::{
    Bed, KINDS, assert_free, assert_lost, eventually, holds, ms, timed, until_certain,
};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use crate::for_each_kind::{are_there, for_each_exclusive_kind, for_each_kind, wait};
use crate::semaphores::in_vain;

pub(crate) async fn every_client_sees_a_held_lock(bed: Bed) {
    let (client, elsewhere) = (&bed.client().await, &bed.client().await);
    for_each_kind(async |kind| {
        let lock = kind.lock(client, kind.name);
        let others = [
            kind.lock(client, kind.name),
            kind.lock(elsewhere, kind.name),
        ];
        for _ in 0..2 {
            for other in &others {
                assert!(!other.is_locked().await.unwrap());
            }
            assert!(!lock.is_locked().await.unwrap());
            let guard = lock.lock().await.unwrap();
            assert!(lock.is_locked().await.unwrap());
            assert_eq!(holds(&lock).await.unwrap(), 1);
            for other in &others {
                assert!(other.is_locked().await.unwrap());
            }
            guard.unlock().await.unwrap();
            assert!(!are_there(&bed, kind, kind.name).await);
        }
    })
    .await;
}

pub(crate) async fn nested_holds_are_counted(bed: Bed) {
    let (client, elsewhere) = (&bed.client().await, &bed.client().await);
    for_each_kind(async |kind| {
        if !kind.reentrant {
            return;
        }
        let lock = kind.lock(client, kind.name);
        let rival = kind.lock(elsewhere, kind.name);
        let outer = lock.try_lock_now(Lease::Renewed).await.unwrap();
        let inner = outer.reenter().await.unwrap();
        // Each read is a separate hold.
        let nested = if kind.exclusive { 2 } else { 1 };
        assert_eq!((outer.hold_count(), inner.hold_count()), (nested, nested));
        let seen = if kind.counted && kind.exclusive { 2 } else { 1 };
        assert_eq!(holds(&lock).await.unwrap(), seen);
        inner.unlock().await.unwrap();
        assert_eq!((outer.hold_count(), holds(&lock).await.unwrap()), (1, 1));
        if kind.exclusive {
            bed.in_vain(async || rival.try_lock_now(Lease::Renewed).await)
                .await;
        }
        outer.unlock().await.unwrap();
        assert_eq!(holds(&lock).await.unwrap(), 0);
        assert_free(&rival).await;
    })
    .await;
}

pub(crate) async fn a_second_time_may_be_an_error(bed: Bed) {
    let (client, elsewhere) = (&bed.client().await, &bed.client().await);
    for_each_kind(async |kind| {
        let lock = kind.lock(client, kind.name).non_reentrant();
        let second = kind.lock(client, kind.name).non_reentrant();
        let guard = lock.lock().await.unwrap();
        for lock in [&lock, &second] {
            let again = lock.acquire().within(&guard).into_future();
            let again = timed("at once", again).await.0.unwrap_err();
            assert!(matches!(again, Error::AlreadyHeld { .. }), "{again}");
            let inside = guard.run(lock.try_lock(ms(5000), Lease::Fixed(ms(1000))));
            let again = inside.await.unwrap().unwrap_err();
            assert!(matches!(again, Error::AlreadyHeld { .. }), "{again}");
        }
        assert_eq!((guard.hold_count(), holds(&lock).await.unwrap()), (1, 1));
        // To another owner it is an ordinary lock: the next waiter waits and gets it.
        let next = kind.lock(elsewhere, kind.name);
        let release = async {
            guard.check().unwrap();
            guard.unlock().await.unwrap();
        };
        let (next, ()) = tokio::join!(timed("granted", next.lock()), release);
        next.0.unwrap().unlock().await.unwrap();
        lock.lock().await.unwrap().unlock().await.unwrap();
    })
    .await;
}

pub(crate) async fn a_wait_that_is_over_ends(bed: Bed) {
    let (client, elsewhere) = (&bed.client().await, &bed.client().await);
    for_each_exclusive_kind(async |kind| {
        let guard = kind.lock(client, kind.name).lock().await.unwrap();
        let lock = kind.lock(elsewhere, kind.name);
        for wait in [ms(300), ms(50)] {
            let waited = Mutex::new(Duration::ZERO);
            in_vain(async || {
                let start = Instant::now();
                let taken = lock.try_lock(wait, Lease::Renewed).await;
                *waited.lock() = start.elapsed();
                taken
            })
            .await;
            let waited = waited.into_inner();
            assert!(
                waited >= wait && waited < wait + bed.late(50),
                "{waited:?} for {wait:?}"
            );
        }
        guard.check().unwrap();
        guard.unlock().await.unwrap();
        // The waiter that gave up is not in the way.
        assert_free(&lock).await;
    })
    .await;
}

pub(crate) async fn a_forced_release_frees(bed: Bed) {
    let client = &bed.client_with_lease(bed.lease(300)).await;
    let elsewhere = &bed.client().await;
    for_each_kind(async |kind| {
        let lock = kind.lock(client, kind.name);
        let other = kind.lock(elsewhere, kind.name);
        assert!(
            !other.force_unlock("a test").await.unwrap(),
            "nobody holds it"
        );
        let guard = lock.lock().await.unwrap();
        assert!(other.force_unlock("a test").await.unwrap());
        assert!(!other.is_locked().await.unwrap());
        // By the message, or by the next renewal.
        let reason = match timed("lost", guard.ended()).await.0 {
            Ended::Lost(reason @ (LossReason::Gone | LossReason::Forced(_))) => reason,
            other => panic!("{other:?}"),
        };
        let late = guard.unlock().await.unwrap_err();
        assert_lost(&late, reason);
        lock.lock().await.unwrap().unlock().await.unwrap();
    })
    .await;
}

pub(crate) async fn the_remaining_lease_is_reported(bed: Bed) {
    let (client, elsewhere) = (&bed.client().await, &bed.client().await);
    for_each_kind(async |kind| {
        let lock = kind.lock(client, kind.name);
        let other = kind.lock(elsewhere, kind.name);
        let hour = ms(3_600_000);
        for (lease, expected) in [(Lease::Fixed(hour), hour), (Lease::Renewed, ms(30_000))] {
            let guard = lock.try_lock_now(lease).await.unwrap();
            for lock in [&lock, &other] {
                let left = lock.remaining_lease().await.unwrap().unwrap();
                assert!(left + ms(5000) > expected && left <= expected, "{left:?}");
            }
            let keys = kind.keys(kind.name);
            let left = || {
                keys.iter()
                    .map(|key| bed.left(key))
                    .filter(|left| *left != -2)
            };
            assert!(left().count() >= kind.need());
            for left in left() {
                assert!(left > 0 && ms(left.unsigned_abs()) <= expected, "{left}");
            }
            guard.unlock().await.unwrap();
            assert_eq!(lock.remaining_lease().await.unwrap(), None);
        }
    })
    .await;
}

pub(crate) async fn inner_releases_leave_the_lease_alone(bed: Bed) {
    let client = &bed.client().await;
    for_each_kind(async |kind| {
        if !kind.reentrant {
            return;
        }
        let lock = kind.lock(client, kind.name);
        let outer = lock.try_lock_now(Lease::Fixed(ms(20_000))).await.unwrap();
        // A shorter or equal lease changes nothing.
        let inside = async |lease| {
            let inner = lock.acquire().lease(Lease::Fixed(ms(lease)));
            inner.within(&outer).await.unwrap()
        };
        let (second, third) = (inside(9000).await, inside(20_000).await);
        let check = async |lock: &Lock| {
            let left = lock.remaining_lease().await.unwrap().unwrap();
            assert!(left > ms(15_000) && left <= ms(20_000), "{left:?}");
        };
        check(&lock).await;
        third.unlock().await.unwrap();
        check(&lock).await;
        second.unlock().await.unwrap();
        check(&lock).await;
        outer.unlock().await.unwrap();
        assert!(!are_there(&bed, kind, kind.name).await);
    })
    .await;
}

pub(crate) async fn contenders_of_one_client_all_get_it(bed: Bed) {
    let client = &bed.client().await;
    for_each_kind(async |kind| {
        let inside = &AtomicU64::new(0);
        let contenders = (0..15).map(|_| async move {
            let guard = kind.lock(client, kind.name).lock().await.unwrap();
            let others = inside.fetch_add(1, SeqCst);
            assert!(others == 0 || !kind.exclusive, "two inside");
            tokio::task::yield_now().await;
            inside.fetch_sub(1, SeqCst);
            guard.unlock().await.unwrap();
        });
        timed("all get it", join_all(contenders)).await;
        assert!(!are_there(&bed, kind, kind.name).await);
    })
    .await;
}

pub(crate) async fn contenders_of_many_clients_all_get_it(bed: Bed) {
    let mut clients = Vec::new();
    for _ in 0..6 {
        clients.push(bed.client().await);
    }
    let clients = &clients;
    for_each_kind(async |kind| {
        let inside = &Arc::new(AtomicU64::new(0));
        let contenders = clients.iter().map(|client| async move {
            for _ in 0..5 {
                let guard = kind.lock(client, kind.name).lock().await.unwrap();
                let others = inside.fetch_add(1, SeqCst);
                assert!(others == 0 || !kind.exclusive, "two inside");
                sleep(ms(1)).await;
                inside.fetch_sub(1, SeqCst);
                guard.unlock().await.unwrap();
            }
        });
        join_all(contenders).await;
        assert!(!are_there(&bed, kind, kind.name).await);
    })
    .await;
}

pub(crate) async fn a_waiter_gets_what_is_released_in_time(bed: Bed) {
    for_each_exclusive_kind(async |kind| {
        // So that neither a poll nor the end of a lease can let the waiter in.
        let (client, elsewhere) = (bed.client().await, bed.client_without_polls().await);
        let guard = kind.lock(&client, kind.name).lock().await.unwrap();
        let next = kind.lock(&elsewhere, kind.name);
        let next =
            tokio::spawn(async move { next.try_lock(ms(60_000), Lease::Fixed(ms(30_000))).await });
        wait(&elsewhere, kind, 1).await;
        let settled = async || {
            let stats = elsewhere.stats();
            stats.subscriptions > 0 && stats.calls > 1 || stats.listeners == 0 && stats.calls > 4
        };
        eventually("listening or polling", settled).await;
        assert!(!next.is_finished(), "it is held");
        let listens = elsewhere.stats().listeners > 0;
        guard.unlock().await.unwrap();
        let (next, took) = timed("in time", next).await;
        assert!(took < bed.late(kind.late_ms().max(200)), "{took:?}");
        next.unwrap().unwrap().unlock().await.unwrap();
        // A heartbeat notices the release too, but the message still comes.
        eventually("by the message", async || {
            !listens || elsewhere.stats().wakes > 0
        })
        .await;
    })
    .await;
}

pub(crate) async fn a_renewed_lease_lasts(bed: Bed) {
    let lease = bed.lease(300);
    let (client, elsewhere) = (&bed.client_with_lease(lease).await, &bed.client().await);
    for_each_kind(async |kind| {
        let guard = kind.lock(client, kind.name).lock().await.unwrap();
        let rival = kind.lock(elsewhere, kind.name);
        if kind.exclusive {
            bed.in_vain(async || rival.try_lock(lease * 4, Lease::Renewed).await)
                .await;
        } else {
            sleep(lease * 4).await;
        }
        until_certain(&guard).await;
        assert!(are_there(&bed, kind, kind.name).await);
        guard.unlock().await.unwrap();
        assert!(!are_there(&bed, kind, kind.name).await);
    })
    .await;
}

pub(crate) async fn renewal_outlives_a_nested_cycle(bed: Bed) {
    let lease = bed.lease(300);
    let client = &bed.client_with_lease(lease).await;
    for_each_kind(async |kind| {
        if !kind.reentrant {
            return;
        }
        let lock = kind.lock(client, kind.name);
        let outer = lock.lock().await.unwrap();
        outer.reenter().await.unwrap().unlock().await.unwrap();
        outer.unlock().await.unwrap();
        let guard = kind.lock(client, kind.name).lock().await.unwrap();
        sleep(lease * 4).await;
        until_certain(&guard).await;
        assert!(are_there(&bed, kind, kind.name).await);
        guard.unlock().await.unwrap();
    })
    .await;
}

pub(crate) async fn a_tag_keeps_all_keys_together(bed: Bed) {
    let (client, elsewhere) = (bed.client().await, bed.client().await);
    for kind in &KINDS {
        let name = format!("{{shop}}:{}", kind.name);
        let lock = kind.lock(&client, &name);
        for _ in 0..10 {
            let guard = lock.lock().await.unwrap();
            assert!(lock.is_locked().await.unwrap());
            let other = kind.lock(&elsewhere, &name);
            if kind.exclusive {
                let waiter =
                    tokio::spawn(
                        async move { other.try_lock(ms(10), Lease::Fixed(ms(1000))).await },
                    );
                // On a busy machine, a reply may take longer than this short wait.
                let refused = waiter.await.unwrap().unwrap_err();
                let too_few = matches!(refused, Error::Quorum { .. });
                assert!(
                    refused.is_timeout() || refused.may_be_held() || too_few,
                    "{refused}"
                );
            }
            let tagged = |key: &String| key.contains("{shop}:") && key.matches('{').count() == 1;
            assert!(bed.list(&["KEYS", "*"]).iter().all(tagged), "{}", kind.name);
            let mut channels = bed.channels();
            channels.retain(|channel| !channel.starts_with("leasehold_client:"));
            assert!(channels.iter().all(tagged), "{}", kind.name);
            guard.unlock().await.unwrap();
        }
        // The release may have given it to the waiter, whose undo is on its way.
        eventually("free", async || !lock.is_locked().await.unwrap()).await;
    }
}
