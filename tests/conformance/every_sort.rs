//! What every sort of lock does alike, whatever else sets it apart.
#![expect(clippy::future_not_send, reason = "all of a test is polled in one task")]

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use leasehold::{Error, HoldState, Lease, LossReason};
use tokio::time::{Instant, sleep};

use crate::sorts::{SORTS, Sort};
use crate::world::{World, eventually, ms, soon, waiting};

/// Tests all sorts at once, and says which one failed.
async fn each(test: impl AsyncFn(&Sort)) {
    let tests = SORTS.iter().map(|sort| async {
        let outcome = AssertUnwindSafe(test(sort)).catch_unwind().await;
        assert!(outcome.is_ok(), "the sort that failed: {}", sort.name);
    });
    join_all(tests).await;
}

/// As [`each`], without those that several owners hold at once.
async fn each_exclusive(test: impl AsyncFn(&Sort)) {
    each(async |sort| {
        if sort.exclusive {
            test(sort).await;
        }
    })
    .await;
}

fn are_there(world: &World, sort: &Sort, name: &str) -> bool {
    let keys = sort.keys(name);
    let there = keys.iter().filter(|key| world.exists(key)).count();
    assert!(there == 0 || there == keys.len(), "all or none");
    there > 0
}

pub(crate) async fn it_is_seen_from_everywhere(world: World) {
    let (client, elsewhere) = (&world.client().await, &world.client().await);
    each(async |sort| {
        let mut lock = sort.lock(client, sort.name);
        let others = [sort.lock(client, sort.name), sort.lock(elsewhere, sort.name)];
        for _ in 0..2 {
            for other in &others {
                assert!(!other.is_locked().await.unwrap());
            }
            assert!(!lock.is_locked().await.unwrap() && !lock.is_held().await.unwrap());
            assert_eq!(lock.hold_count().await.unwrap(), 0);
            let guard = lock.lock().await.unwrap();
            assert!(lock.is_locked().await.unwrap() && lock.is_held().await.unwrap());
            assert_eq!(lock.hold_count().await.unwrap(), 1);
            for other in &others {
                assert!(other.is_locked().await.unwrap());
                assert!(!other.is_held().await.unwrap());
                assert_eq!(other.hold_count().await.unwrap(), 0);
            }
            guard.unlock().await.unwrap();
            assert!(!are_there(&world, sort, sort.name));
        }
    })
    .await;
}

pub(crate) async fn nested_holds_are_counted(world: World) {
    let (client, elsewhere) = (&world.client().await, &world.client().await);
    each(async |sort| {
        if !sort.reentrant {
            return;
        }
        let mut lock = sort.lock(client, sort.name);
        let mut rival = sort.lock(elsewhere, sort.name);
        let outer = lock.try_lock(Duration::ZERO, Lease::Renewed).await.unwrap();
        let inner = lock.try_lock(Duration::ZERO, Lease::Renewed).await.unwrap();
        // Each read is a hold of its own.
        let nested = if sort.exclusive { 2 } else { 1 };
        assert_eq!((outer.hold_count(), inner.hold_count()), (nested, nested));
        let seen = if sort.counted { 2 } else { 1 };
        assert_eq!(lock.hold_count().await.unwrap(), seen);
        inner.unlock().await.unwrap();
        assert_eq!((outer.hold_count(), lock.hold_count().await.unwrap()), (1, 1));
        assert!(lock.is_held().await.unwrap());
        if sort.exclusive {
            let refused = rival.try_lock(Duration::ZERO, Lease::Renewed).await;
            assert!(refused.unwrap_err().is_timeout());
        }
        outer.unlock().await.unwrap();
        assert_eq!(lock.hold_count().await.unwrap(), 0);
        rival.try_lock(Duration::ZERO, Lease::Renewed).await.unwrap().unlock().await.unwrap();
    })
    .await;
}

pub(crate) async fn a_second_time_may_be_an_error(world: World) {
    let (client, elsewhere) = (&world.client().await, &world.client().await);
    each(async |sort| {
        let owner = leasehold::Owner::new();
        let of = |lock: leasehold::Lock| lock.owned_by(&owner).non_reentrant();
        let mut lock = of(sort.lock(client, sort.name));
        let mut second = of(sort.lock(client, sort.name));
        let guard = lock.lock().await.unwrap();
        for lock in [&mut lock, &mut second] {
            let again = soon("at once", lock.lock()).await.0.unwrap_err();
            assert!(matches!(again, Error::AlreadyHeld { .. }), "{again}");
            let again = lock.try_lock(ms(5000), ms(1000)).await.unwrap_err();
            assert!(matches!(again, Error::AlreadyHeld { .. }), "{again}");
        }
        assert_eq!((guard.hold_count(), lock.hold_count().await.unwrap()), (1, 1));
        // For anybody else it is a lock like others: the next one waits and gets it.
        let mut next = sort.lock(elsewhere, sort.name);
        let release = async {
            guard.check().unwrap();
            guard.unlock().await.unwrap();
        };
        let (next, ()) = tokio::join!(soon("the next", next.lock()), release);
        next.0.unwrap().unlock().await.unwrap();
        lock.lock().await.unwrap().unlock().await.unwrap();
    })
    .await;
}

pub(crate) async fn a_wait_that_is_over_ends(world: World) {
    let (client, elsewhere) = (&world.client().await, &world.client().await);
    each_exclusive(async |sort| {
        let guard = sort.lock(client, sort.name).lock().await.unwrap();
        let mut lock = sort.lock(elsewhere, sort.name);
        for wait in [ms(300), ms(50)] {
            let start = Instant::now();
            let error = lock.try_lock(wait, Lease::Renewed).await.unwrap_err();
            let waited = start.elapsed();
            assert!(error.is_timeout(), "{error}");
            assert!(waited >= wait && waited < wait + world.late(50), "{waited:?} for {wait:?}");
        }
        guard.check().unwrap();
        guard.unlock().await.unwrap();
        // What gave up is not in the way.
        lock.try_lock(Duration::ZERO, Lease::Renewed).await.unwrap().unlock().await.unwrap();
    })
    .await;
}

pub(crate) async fn a_forced_release_frees(world: World) {
    let client = &world.client_with_lease(world.span(300)).await;
    let elsewhere = &world.client().await;
    each(async |sort| {
        let mut lock = sort.lock(client, sort.name);
        let other = sort.lock(elsewhere, sort.name);
        assert!(!other.force_unlock().await.unwrap(), "nobody holds it");
        let guard = lock.lock().await.unwrap();
        assert!(other.force_unlock().await.unwrap());
        assert!(!other.is_locked().await.unwrap() && !lock.is_held().await.unwrap());
        assert_eq!(soon("the holder is told", guard.lost()).await.0, LossReason::Gone);
        let late = guard.unlock().await.unwrap_err();
        assert!(matches!(late, Error::Lost { reason: LossReason::Gone, .. }), "{late}");
        lock.lock().await.unwrap().unlock().await.unwrap();
    })
    .await;
}

pub(crate) async fn a_fixed_lease_ends_for_a_waiter(world: World) {
    let (client, elsewhere) = (&world.client().await, &world.client().await);
    let lease = world.span(300);
    each_exclusive(async |sort| {
        let start = Instant::now();
        let guard = sort.lock(client, sort.name).try_lock(Duration::ZERO, lease).await.unwrap();
        let mut next = sort.lock(elsewhere, sort.name);
        let (next, _) = soon("at the end of the lease", next.lock()).await;
        let (next, took) = (next.unwrap(), start.elapsed());
        assert_eq!(guard.state(), HoldState::Lost, "the guard knows first");
        // A waiter that asks again is late by one pause of up to 128 ms.
        let late = lease + world.span(150);
        assert!(took + ms(1) >= lease && took < late, "{took:?}");
        let error = guard.unlock().await.unwrap_err();
        assert!(matches!(error, Error::Lost { reason: LossReason::Expired, .. }), "{error}");
        next.check().unwrap();
        assert!(sort.lock(client, sort.name).is_locked().await.unwrap(), "it is the next one's");
        next.unlock().await.unwrap();
    })
    .await;
}

pub(crate) async fn a_dead_holder_costs_one_lease(world: World) {
    let lease = world.span(300);
    let (client, elsewhere) = (&world.client_with_lease(lease).await, &world.client().await);
    each(async |sort| {
        let start = Instant::now();
        // As a process leaves it that died.
        sort.lock(client, sort.name).lock().await.unwrap().forget();
        assert!(sort.lock(elsewhere, sort.name).is_locked().await.unwrap());
        if sort.exclusive {
            let next = soon("after a lease", sort.lock(elsewhere, sort.name).lock()).await;
            let took = start.elapsed();
            assert!(took + ms(1) >= lease && took < lease + world.span(150), "{took:?}");
            next.0.unwrap().unlock().await.unwrap();
        }
        eventually("free", async || !are_there(&world, sort, sort.name)).await;
    })
    .await;
}

pub(crate) async fn the_rest_of_a_lease_is_told(world: World) {
    let (client, elsewhere) = (&world.client().await, &world.client().await);
    each(async |sort| {
        let mut lock = sort.lock(client, sort.name);
        let other = sort.lock(elsewhere, sort.name);
        let hour = ms(3_600_000);
        for (lease, expected) in [(Lease::Fixed(hour), hour), (Lease::Renewed, ms(30_000))] {
            let guard = lock.try_lock(Duration::ZERO, lease).await.unwrap();
            for lock in [&lock, &other] {
                let left = lock.remaining_lease().await.unwrap().unwrap();
                assert!(left + ms(5000) > expected && left <= expected, "{left:?}");
            }
            for key in sort.keys(sort.name) {
                let left = world.left(&key);
                assert!(left > 0 && ms(left.unsigned_abs()) <= expected, "{key}: {left}");
            }
            guard.unlock().await.unwrap();
            assert_eq!(lock.remaining_lease().await.unwrap(), None);
        }
    })
    .await;
}

pub(crate) async fn inner_releases_leave_the_lease_alone(world: World) {
    let client = &world.client().await;
    each(async |sort| {
        if !sort.reentrant {
            return;
        }
        let mut lock = sort.lock(client, sort.name);
        let outer = lock.try_lock(Duration::ZERO, ms(20_000)).await.unwrap();
        // Neither a shorter lease nor one of the same length adds to it or takes from it.
        let second = lock.try_lock(Duration::ZERO, ms(1000)).await.unwrap();
        let third = lock.try_lock(Duration::ZERO, ms(20_000)).await.unwrap();
        let check = async |lock: &leasehold::Lock| {
            let left = lock.remaining_lease().await.unwrap().unwrap();
            assert!(left > ms(15_000) && left <= ms(20_000), "{left:?}");
        };
        check(&lock).await;
        third.unlock().await.unwrap();
        check(&lock).await;
        second.unlock().await.unwrap();
        check(&lock).await;
        outer.unlock().await.unwrap();
        assert!(!are_there(&world, sort, sort.name));
    })
    .await;
}

pub(crate) async fn what_another_holds_is_not_released(world: World) {
    let (client, elsewhere) = (&world.client().await, &world.client().await);
    each(async |sort| {
        let mut other = sort.lock(elsewhere, sort.name);
        let refused = other.restore("somebody:1").await.unwrap_err();
        if sort.name == "multi" {
            assert!(matches!(refused, Error::Config(_)), "{refused}");
            return;
        }
        assert!(matches!(refused, Error::NotOwner { .. }), "{refused}");
        let guard = sort.lock(client, sort.name).lock().await.unwrap();
        let refused = other.restore("somebody:1").await.unwrap_err();
        assert!(matches!(refused, Error::NotOwner { .. }), "{refused}");
        guard.check().unwrap();
        assert!(other.is_locked().await.unwrap());
        guard.unlock().await.unwrap();
    })
    .await;
}

pub(crate) async fn contenders_of_one_client_all_get_it(world: World) {
    let client = &world.client().await;
    each(async |sort| {
        let inside = &AtomicU64::new(0);
        let contenders = (0..15).map(|_| async move {
            let guard = sort.lock(client, sort.name).lock().await.unwrap();
            let others = inside.fetch_add(1, SeqCst);
            assert!(others == 0 || !sort.exclusive, "two inside");
            tokio::task::yield_now().await;
            inside.fetch_sub(1, SeqCst);
            guard.unlock().await.unwrap();
        });
        soon("all get it", join_all(contenders)).await;
        assert!(!are_there(&world, sort, sort.name));
    })
    .await;
}

pub(crate) async fn contenders_of_many_clients_all_get_it(world: World) {
    let mut clients = Vec::new();
    for _ in 0..6 {
        clients.push(world.client().await);
    }
    let clients = &clients;
    each(async |sort| {
        let inside = &Arc::new(AtomicU64::new(0));
        let contenders = clients.iter().map(|client| async move {
            for _ in 0..5 {
                let guard = sort.lock(client, sort.name).lock().await.unwrap();
                let others = inside.fetch_add(1, SeqCst);
                assert!(others == 0 || !sort.exclusive, "two inside");
                sleep(ms(1)).await;
                inside.fetch_sub(1, SeqCst);
                guard.unlock().await.unwrap();
            }
        });
        join_all(contenders).await;
        assert!(!are_there(&world, sort, sort.name));
    })
    .await;
}

pub(crate) async fn a_waiter_gets_what_is_released_in_time(world: World) {
    each_exclusive(async |sort| {
        let (client, elsewhere) = (world.client().await, world.client().await);
        let guard = sort.lock(&client, sort.name).lock().await.unwrap();
        let mut next = sort.lock(&elsewhere, sort.name);
        let next = tokio::spawn(async move { next.try_lock(ms(9000), ms(30_000)).await });
        waiting(&elsewhere, 1).await;
        assert!(!next.is_finished(), "it is held");
        guard.unlock().await.unwrap();
        let (next, took) = soon("in time", next).await;
        assert!(took < world.late(200), "{took:?}");
        next.unwrap().unwrap().unlock().await.unwrap();
    })
    .await;
}

pub(crate) async fn a_renewed_lease_lasts(world: World) {
    let lease = world.span(300);
    let (client, elsewhere) = (&world.client_with_lease(lease).await, &world.client().await);
    each(async |sort| {
        let guard = sort.lock(client, sort.name).lock().await.unwrap();
        let mut rival = sort.lock(elsewhere, sort.name);
        if sort.exclusive {
            let refused = rival.try_lock(lease * 4, Lease::Renewed).await;
            assert!(refused.unwrap_err().is_timeout());
        } else {
            sleep(lease * 4).await;
        }
        assert_eq!(guard.state(), HoldState::Held);
        assert!(are_there(&world, sort, sort.name));
        guard.unlock().await.unwrap();
        assert!(!are_there(&world, sort, sort.name));
    })
    .await;
}

pub(crate) async fn what_is_lost_is_told_and_what_follows_is_renewed(world: World) {
    let lease = world.span(300);
    let client = &world.client_with_lease(lease).await;
    each(async |sort| {
        let mut lock = sort.lock(client, sort.name);
        let mut guards = vec![lock.lock().await.unwrap()];
        if sort.reentrant {
            guards.push(lock.lock().await.unwrap());
        }
        for key in sort.keys(sort.name) {
            world.command(&["DEL", &key]);
        }
        for guard in guards {
            assert_eq!(soon("told", guard.lost()).await.0, LossReason::Gone);
            assert!(matches!(guard.unlock().await, Err(Error::Lost { .. })));
        }
        let guard = lock.lock().await.unwrap();
        sleep(lease * 3).await;
        assert_eq!(guard.state(), HoldState::Held);
        assert!(are_there(&world, sort, sort.name));
        guard.unlock().await.unwrap();
    })
    .await;
}

pub(crate) async fn renewal_outlives_a_nested_cycle(world: World) {
    let lease = world.span(150);
    let client = &world.client_with_lease(lease).await;
    each(async |sort| {
        if !sort.reentrant {
            return;
        }
        let mut lock = sort.lock(client, sort.name);
        let outer = lock.lock().await.unwrap();
        lock.lock().await.unwrap().unlock().await.unwrap();
        outer.unlock().await.unwrap();
        let guard = sort.lock(client, sort.name).lock().await.unwrap();
        sleep(lease * 10).await;
        assert_eq!(guard.state(), HoldState::Held);
        assert!(are_there(&world, sort, sort.name));
        guard.unlock().await.unwrap();
    })
    .await;
}

pub(crate) async fn a_dropped_acquisition_leaves_nothing(world: World) {
    each(async |sort| {
        let (client, elsewhere) = (world.client().await, world.client().await);
        let settled = async || {
            let stats = client.stats();
            (stats.waiting, stats.listeners, stats.releases_pending, stats.holds) == (0, 0, 0, 0)
        };
        for held in [false, true] {
            if held && !sort.exclusive {
                continue;
            }
            let mut holder = sort.lock(&elsewhere, sort.name);
            let guard = if held { Some(holder.lock().await.unwrap()) } else { None };
            for polls in 0..24 {
                let mut lock = sort.lock(&client, sort.name);
                let mut acquisition = Box::pin(lock.lock());
                for _ in 0..polls {
                    if acquisition.as_mut().now_or_never().is_some() {
                        assert!(!held, "it is held");
                        break;
                    }
                    tokio::task::yield_now().await;
                }
                drop(acquisition);
                eventually("settled", settled).await;
                assert_eq!(are_there(&world, sort, sort.name), held, "after {polls} polls");
                if let Some(guard) = &guard {
                    guard.check().unwrap();
                }
            }
            if let Some(guard) = guard {
                guard.unlock().await.unwrap();
            }
            assert!(!are_there(&world, sort, sort.name));
        }
    })
    .await;
    // No place in a queue, no lease of a reader; the counter of tokens is meant to stay.
    let left = world.list(&["KEYS", "*"]);
    assert_eq!(left, ["redisson_lock_token:{fenced}"]);
}

pub(crate) async fn a_shutdown_ends_acquisitions_on_their_way(world: World) {
    for sort in &SORTS {
        for steps in 0..6 {
            let client = world.client().await;
            let mut lock = sort.lock(&client, sort.name);
            let taking = tokio::spawn(async move { lock.lock().await });
            for _ in 0..steps {
                tokio::task::yield_now().await;
            }
            client.shutdown(ms(5000)).await.unwrap();
            assert!(!are_there(&world, sort, sort.name), "{}, after {steps} steps", sort.name);
            match soon("told", taking).await.0.unwrap() {
                Err(error) => assert!(matches!(error, Error::Closed), "{error}"),
                Ok(guard) => assert_eq!(soon("told", guard.lost()).await.0, LossReason::Closed),
            }
        }
    }
}

pub(crate) async fn a_shutdown_ends_hand_overs_on_their_way(world: World) {
    for sort in SORTS.iter().filter(|sort| sort.exclusive) {
        let client = world.client_with_long_streaks().await;
        let mut lock = sort.lock(&client, sort.name);
        let guard = lock.try_lock(Duration::ZERO, ms(60_000)).await.unwrap();
        let mut next = sort.lock(&client, sort.name);
        let next = tokio::spawn(async move { next.try_lock(ms(9000), ms(60_000)).await });
        waiting(&client, 1).await;
        drop(guard);
        client.shutdown(ms(5000)).await.unwrap();
        assert!(!are_there(&world, sort, sort.name), "{}", sort.name);
        assert!(matches!(soon("told", next).await.0.unwrap(), Err(Error::Closed)));
    }
}

pub(crate) async fn futures_of_one_owner_share_what_they_wait_for(world: World) {
    each_exclusive(async |sort| {
        let (client, elsewhere) = (world.client().await, world.client().await);
        let rival = sort.lock(&elsewhere, sort.name).lock().await.unwrap();
        let owner = leasehold::Owner::new();
        let takings: Vec<_> = (0..3)
            .map(|_| {
                let mut lock = sort.lock(&client, sort.name).owned_by(&owner);
                tokio::spawn(async move { lock.lock().await })
            })
            .collect();
        eventually("they wait", async || client.stats().waiting >= 3).await;
        rival.unlock().await.unwrap();
        let mut guards = Vec::new();
        for taking in takings {
            match soon("together", taking).await.0.unwrap() {
                Ok(guard) => guards.push(guard),
                Err(error) => assert!(matches!(error, Error::AlreadyHeld { .. }), "{error}"),
            }
        }
        let expected = if sort.reentrant { 3 } else { 1 };
        assert_eq!(guards.len(), expected);
        assert!(guards.iter().all(|guard| guard.hold_count() as usize == expected));
        drop(guards);
        eventually("free", async || {
            client.stats().releases_pending == 0 && !are_there(&world, sort, sort.name)
        })
        .await;
        // No place in a queue is left by those that came in by the way.
        let next = sort.lock(&elsewhere, sort.name).try_lock(Duration::ZERO, ms(5000)).await;
        next.unwrap().unlock().await.unwrap();
    })
    .await;
}

pub(crate) async fn a_longest_hold_ends_it(world: World) {
    let client = &world.client_with_lease(world.span(300)).await;
    let elsewhere = &world.client().await;
    each(async |sort| {
        let mut lock = sort.lock(client, sort.name);
        let guard = lock.acquire().max_hold(world.span(700)).await.unwrap();
        sleep(world.span(500)).await;
        guard.check().unwrap();
        assert_eq!(soon("it ends", guard.lost()).await.0, LossReason::MaxHold);
        let next = soon("it is released", sort.lock(elsewhere, sort.name).lock()).await.0.unwrap();
        drop(guard);
        sleep(ms(20)).await;
        next.check().unwrap();
        assert!(are_there(&world, sort, sort.name), "the old guard frees nothing");
        next.unlock().await.unwrap();
    })
    .await;
}

pub(crate) async fn a_forgotten_hold_is_given_back_to_who_knows_it(world: World) {
    let lease = world.span(300);
    let (client, elsewhere) = (&world.client().await, &world.client_with_lease(lease).await);
    each(async |sort| {
        if sort.name == "multi" {
            return; // It has no owner text.
        }
        let guard = sort.lock(client, sort.name).try_lock(Duration::ZERO, lease).await.unwrap();
        let (owner, token) = (guard.owner().to_owned(), guard.token());
        guard.forget();
        let mut lock = sort.lock(elsewhere, sort.name);
        let restored = lock.restore(&owner).await.unwrap();
        assert_eq!((restored.owner(), restored.token()), (&*owner, token));
        sleep(lease * 3).await;
        assert_eq!(restored.state(), HoldState::Held, "renewed from now on");
        assert!(lock.is_held().await.unwrap());
        restored.unlock().await.unwrap();
        assert!(!are_there(&world, sort, sort.name));
        assert!(matches!(lock.restore(&owner).await, Err(Error::NotOwner { .. })));
    })
    .await;
}

pub(crate) async fn a_dropped_restore_leaves_nothing(world: World) {
    each(async |sort| {
        if sort.name == "multi" {
            return; // It has no owner text.
        }
        let client = world.client().await;
        for polls in (1..5).cycle().take(40) {
            let mut lock = sort.lock(&client, sort.name);
            let guard = lock.lock().await.unwrap();
            let owner = guard.owner().to_owned();
            guard.forget();
            let mut restoring = Box::pin(lock.restore(&owner));
            for _ in 0..polls {
                if restoring.as_mut().now_or_never().is_some() {
                    break;
                }
                // The answer to what was sent has come.
                sleep(ms(1)).await;
            }
            drop(restoring);
            eventually("released", async || client.stats().releases_pending == 0).await;
            // Whatever was sent has been executed by now, on both lanes.
            assert!(!lock.is_locked().await.unwrap(), "after {polls} polls");
            assert!(!are_there(&world, sort, sort.name), "after {polls} polls");
        }
    })
    .await;
}

pub(crate) async fn a_tag_keeps_all_keys_together(world: World) {
    let (client, elsewhere) = (world.client().await, world.client().await);
    for sort in &SORTS {
        let name = format!("{{shop}}:{}", sort.name);
        let mut lock = sort.lock(&client, &name);
        for _ in 0..10 {
            let guard = lock.lock().await.unwrap();
            assert!(lock.is_locked().await.unwrap());
            let mut other = sort.lock(&elsewhere, &name);
            if sort.exclusive {
                let waiter = tokio::spawn(async move { other.try_lock(ms(10), ms(1000)).await });
                // On a busy machine the reply may take longer than so short a wait.
                let refused = waiter.await.unwrap().unwrap_err();
                assert!(refused.is_timeout() || refused.may_be_held(), "{refused}");
            }
            let tagged = |key: &String| key.contains("{shop}:") && key.matches('{').count() == 1;
            assert!(world.list(&["KEYS", "*"]).iter().all(tagged), "{}", sort.name);
            assert!(world.channels().iter().all(tagged), "{}", sort.name);
            guard.unlock().await.unwrap();
        }
        assert!(!lock.is_locked().await.unwrap());
    }
}

pub(crate) async fn a_dead_server_is_an_error(mut world: World) {
    let client = &world.builder().command_timeout(ms(300)).connect().await.unwrap();
    for sort in &SORTS {
        sort.lock(client, sort.name).lock().await.unwrap().unlock().await.unwrap();
    }
    world.fail();
    each(async |sort| {
        let mut lock = sort.lock(client, sort.name);
        for wait in [Duration::ZERO, ms(200)] {
            let (error, took) = soon("no hanging", lock.try_lock(wait, Lease::Renewed)).await;
            let error = error.unwrap_err();
            let told = matches!(error, Error::Unavailable { .. } | Error::Unknown { .. });
            assert!(told, "{error}");
            assert!(took < ms(1500), "{took:?}");
        }
    })
    .await;
}
