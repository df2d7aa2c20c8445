//! How a hold of any kind ends: lost, dropped, shut down.

use std::time::Duration;

use futures::FutureExt;
use leasehold::{Ended, Error, HoldState, Lease, LossReason};
use leasehold_testbed::{
    Bed, KINDS, SOON, assert_lost, eventually, ms, take_and_release, timed, until_certain,
};
use tokio::time::{Instant, sleep};

use crate::for_each_kind::{are_there, for_each_exclusive_kind, for_each_kind, wait};

pub(crate) async fn a_fixed_lease_ends_for_a_waiter(bed: Bed) {
    let (client, elsewhere) = (&bed.client().await, &bed.client().await);
    let lease = bed.lease(300);
    for_each_exclusive_kind(async |kind| {
        let start = Instant::now();
        // A quorum that is not answered within a twentieth of its lease asks again.
        let guard = kind
            .lock(client, kind.name)
            .try_lock(SOON, Lease::Fixed(lease))
            .await
            .unwrap();
        let next = kind.lock(elsewhere, kind.name);
        let (next, _) = timed("at the end of the lease", next.lock()).await;
        let (next, took) = (next.unwrap(), start.elapsed());
        assert_eq!(guard.state(), HoldState::Lost, "the guard knows first");
        // A polling waiter is late by one pause.
        let late = lease + bed.late(kind.late_ms());
        // A quorum allows for drift, so it is lost and released before its lease ends.
        let earliest = if kind.quorum {
            guard.deadline() - start
        } else {
            lease
        };
        assert!(
            took + bed.early(lease) >= earliest && took < late,
            "{took:?}"
        );
        let error = guard.unlock().await.unwrap_err();
        assert_lost(&error, LossReason::Expired);
        next.check().unwrap();
        assert!(
            kind.lock(client, kind.name).is_locked().await.unwrap(),
            "it is the next one's"
        );
        next.unlock().await.unwrap();
    })
    .await;
}

pub(crate) async fn a_dead_holder_costs_one_lease(bed: Bed) {
    let lease = bed.lease(300);
    let (client, elsewhere) = (&bed.client_with_lease(lease).await, &bed.client().await);
    for_each_kind(async |kind| {
        let start = Instant::now();
        // Leave the lock like a process that died.
        kind.lock(client, kind.name).lock().await.unwrap().forget();
        assert!(kind.lock(elsewhere, kind.name).is_locked().await.unwrap());
        if kind.exclusive {
            let next = timed("after a lease", kind.lock(elsewhere, kind.name).lock()).await;
            let took = start.elapsed();
            assert!(
                took + bed.early(lease) >= lease && took < lease + bed.late(kind.late_ms()),
                "{took:?}"
            );
            next.0.unwrap().unlock().await.unwrap();
        }
        eventually("free", async || !are_there(&bed, kind, kind.name).await).await;
    })
    .await;
}

pub(crate) async fn a_loss_is_reported_and_the_next_hold_is_renewed(bed: Bed) {
    let lease = bed.lease(300);
    let client = &bed.client_with_lease(lease).await;
    for_each_kind(async |kind| {
        let lock = kind.lock(client, kind.name);
        let mut guards = vec![lock.lock().await.unwrap()];
        if kind.reentrant {
            guards.push(guards[0].reenter().await.unwrap());
        }
        for key in kind.keys(kind.name) {
            bed.command(&["DEL", &key]);
        }
        for guard in guards {
            assert_eq!(
                timed("lost", guard.ended()).await.0,
                Ended::Lost(LossReason::Gone)
            );
            assert!(matches!(guard.unlock().await, Err(Error::Lost { .. })));
        }
        let guard = lock.lock().await.unwrap();
        sleep(lease * 2).await;
        until_certain(&guard).await;
        assert!(are_there(&bed, kind, kind.name).await);
        guard.unlock().await.unwrap();
    })
    .await;
}

pub(crate) async fn a_dropped_acquisition_leaves_nothing(bed: Bed) {
    for_each_kind(async |kind| {
        let (client, elsewhere) = (bed.client().await, bed.client().await);
        let settled = async || {
            let stats = client.stats();
            (
                stats.waiting,
                stats.listeners,
                stats.releases_pending,
                stats.holds,
            ) == (0, 0, 0, 0)
        };
        for held in [false, true] {
            if held && !kind.exclusive {
                continue;
            }
            let holder = kind.lock(&elsewhere, kind.name);
            let guard = if held {
                Some(holder.lock().await.unwrap())
            } else {
                None
            };
            for polls in 0..24 {
                let lock = kind.lock(&client, kind.name);
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
                assert_eq!(
                    are_there(&bed, kind, kind.name).await,
                    held,
                    "after {polls} polls"
                );
                if let Some(guard) = &guard {
                    guard.check().unwrap();
                }
            }
            if let Some(guard) = guard {
                guard.unlock().await.unwrap();
            }
            assert!(!are_there(&bed, kind, kind.name).await);
        }
    })
    .await;
    // No place in a queue and no lease of a reader. Only the counter of tokens stays on purpose.
    let left = bed.list(&["KEYS", "*"]);
    assert_eq!(left, ["redisson_lock_token:{fenced}"]);
}

pub(crate) async fn a_shutdown_ends_acquisitions_on_their_way(bed: Bed) {
    for kind in &KINDS {
        for steps in 0..6 {
            let client = bed.client().await;
            let lock = kind.lock(&client, kind.name);
            let taking = tokio::spawn(async move { lock.lock().await });
            for _ in 0..steps {
                tokio::task::yield_now().await;
            }
            client.shutdown(ms(5000)).await.unwrap();
            assert!(
                !are_there(&bed, kind, kind.name).await,
                "{}, after {steps} steps",
                kind.name
            );
            match timed("ended", taking).await.0.unwrap() {
                Err(error) => assert!(matches!(error, Error::Closed), "{error}"),
                Ok(guard) => {
                    assert_eq!(
                        timed("lost", guard.ended()).await.0,
                        Ended::Lost(LossReason::Closed)
                    );
                }
            }
        }
    }
}

pub(crate) async fn a_shutdown_ends_hand_overs_on_their_way(bed: Bed) {
    for kind in KINDS.iter().filter(|kind| kind.exclusive) {
        let client = bed.client_with_long_streaks().await;
        let lock = kind.lock(&client, kind.name);
        let guard = lock.try_lock_now(Lease::Fixed(ms(60_000))).await.unwrap();
        let next = kind.lock(&client, kind.name);
        let next =
            tokio::spawn(async move { next.try_lock(ms(9000), Lease::Fixed(ms(60_000))).await });
        wait(&client, kind, 1).await;
        drop(guard);
        client.shutdown(ms(5000)).await.unwrap();
        assert!(!are_there(&bed, kind, kind.name).await, "{}", kind.name);
        assert!(matches!(
            timed("ended", next).await.0.unwrap(),
            Err(Error::Closed)
        ));
    }
}

pub(crate) async fn a_longest_hold_ends_it(bed: Bed) {
    let client = &bed.client_with_lease(bed.lease(300)).await;
    let elsewhere = &bed.client().await;
    for_each_kind(async |kind| {
        let lock = kind.lock(client, kind.name);
        let guard = lock.acquire().max_hold(bed.lease(700)).await.unwrap();
        sleep(bed.lease(400)).await;
        guard.check().unwrap();
        assert_eq!(
            timed("it ends", guard.ended()).await.0,
            Ended::Lost(LossReason::MaxHold)
        );
        let next = timed("released", kind.lock(elsewhere, kind.name).lock())
            .await
            .0
            .unwrap();
        drop(guard);
        sleep(ms(20)).await;
        next.check().unwrap();
        assert!(
            are_there(&bed, kind, kind.name).await,
            "the old guard frees nothing"
        );
        next.unlock().await.unwrap();
    })
    .await;
}

pub(crate) async fn a_dead_server_is_an_error(mut bed: Bed) {
    let client = &bed
        .builder()
        .command_timeout(ms(300))
        .connect()
        .await
        .unwrap();
    for kind in &KINDS {
        take_and_release(&kind.lock(client, kind.name)).await;
    }
    bed.fail();
    for_each_kind(async |kind| {
        let lock = kind.lock(client, kind.name);
        for wait in [Duration::ZERO, ms(200)] {
            let (error, took) = timed("no hanging", lock.try_lock(wait, Lease::Renewed)).await;
            let error = error.unwrap_err();
            let told = match &error {
                Error::Unavailable { .. } | Error::Unknown { .. } => !kind.quorum,
                Error::Quorum { obtained, .. } => *obtained == 0,
                _ => false,
            };
            assert!(told, "{error}");
            assert!(took < bed.late(1500), "{took:?}");
        }
    })
    .await;
}
