//! What a guard promises, and how it ends.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use leasehold::{Client, Ended, Error, HoldState, Lease, Lock, LossReason};
use leasehold_testbed::{Bed, SOON, assert_lost, eventually, forget, ms, timed, until_certain};
use tokio::time::sleep;

pub(crate) async fn unlock_reports_and_frees(bed: Bed) {
    let client = bed.client().await;
    let lock = client.lock("x");
    for _ in 0..2 {
        let guard = lock.lock().await.unwrap();
        assert_eq!((guard.name(), guard.state()), ("x", HoldState::Held));
        guard.check().unwrap();
        guard.unlock().await.unwrap();
        assert!(!bed.exists("x"));
    }
}

pub(crate) async fn a_drop_frees(bed: Bed) {
    let client = bed.client().await;
    drop(client.lock("x").lock().await.unwrap());
    bed.until_gone("x").await;
}

pub(crate) async fn a_drop_on_a_plain_thread_frees(bed: Bed) {
    let client = bed.client().await;
    let guard = client.lock("x").lock().await.unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    bed.until_gone("x").await;
}

pub(crate) async fn a_drop_while_unwinding_frees(bed: Bed) {
    let client = bed.client().await;
    let guard = client.lock("x").lock().await.unwrap();
    let unwound = catch_unwind(AssertUnwindSafe(move || {
        let _guard = guard;
        std::panic::resume_unwind(Box::new("on purpose"));
    }));
    assert!(unwound.is_err());
    bed.until_gone("x").await;
}

pub(crate) async fn a_guard_may_outlive_lock_and_client(bed: Bed) {
    let client = bed.client_with_lease(bed.lease(300)).await;
    let guard = client.lock("x").lock().await.unwrap();
    drop(client);
    sleep(bed.lease(500)).await;
    until_certain(&guard).await; // Renewed for the guard's sake.
    assert!(bed.exists("x"));
    guard.unlock().await.unwrap();
    assert!(!bed.exists("x"));
}

pub(crate) async fn run_ends_the_work_when_the_lock_is_lost(bed: Bed) {
    let client = bed.client_with_lease(bed.lease(300)).await;
    let guard = client.lock("x").lock().await.unwrap();
    let work = guard.run(std::future::pending::<()>());
    let lose = async {
        sleep(bed.span(10)).await;
        bed.command(&["DEL", "x"]);
    };
    let ((ended, ()), _) = timed("the work is ended", async { tokio::join!(work, lose) }).await;
    assert_lost(&ended.unwrap_err(), LossReason::Gone);
    let never = guard.run(async { unreachable!("the lock is lost") }).await;
    assert!(matches!(never, Err(Error::Lost { .. })));
    assert!(matches!(guard.check(), Err(Error::Lost { .. })));
}

pub(crate) async fn run_looks_at_the_clock_before_each_poll(bed: Bed) {
    let client = bed.client().await;
    let make: [fn(&Client) -> Lock; 2] = [
        |client| client.lock("x"),
        |client| Lock::multi(["x", "y"].map(|name| client.lock(name))),
    ];
    for make in make {
        let lease = bed.lease(100);
        let guard = make(&client)
            .try_lock(ms(9000), Lease::Fixed(lease))
            .await
            .unwrap();
        let (stall, mut polls) = (bed.stall(), 0);
        let work = poll_fn(move |context| {
            polls += 1;
            assert_eq!(polls, 1, "polled after the end of the lease");
            // The future asks to be polled again, and then the process stalls: no timer fires.
            context.waker().wake_by_ref();
            stall(lease);
            Poll::<()>::Pending
        });
        // A separate task continues without looking at timers.
        let worked = tokio::spawn(async move { guard.run(work).await });
        let (worked, _) = timed("it ends", worked).await;
        let error = worked.expect("no panic").unwrap_err();
        assert_lost(&error, LossReason::Expired);
    }
}

pub(crate) async fn run_returns_what_the_work_returns(bed: Bed) {
    let client = bed.client().await;
    let guard = client.lock("x").lock().await.unwrap();
    assert_eq!(guard.run(async { 42 }).await.unwrap(), 42);
    guard.unlock().await.unwrap();
}

pub(crate) async fn a_closure_runs_under_the_lock(bed: Bed) {
    let client = bed.client().await;
    let lock = client.lock("x");
    let held = lock
        .run(ms(100), Lease::Renewed, async |_| bed.exists("x"))
        .await
        .unwrap();
    assert!(held && !bed.exists("x"));
    let _guard = lock.lock().await.unwrap();
    let refused = client
        .lock("x")
        .run(ms(20), Lease::Renewed, async |_| ())
        .await;
    assert!(refused.unwrap_err().is_timeout());
}

pub(crate) async fn extend_moves_the_deadline_forward_only(bed: Bed) {
    let client = bed.client().await;
    let guard = client
        .lock("x")
        .try_lock_now(Lease::Fixed(ms(5000)))
        .await
        .unwrap();
    let before = guard.deadline();
    guard.extend(ms(60_000)).await.unwrap();
    assert!(guard.deadline() > before + ms(50_000));
    assert!(bed.left("x") > 50_000);
    let long = guard.deadline();
    guard.extend(ms(1000)).await.unwrap();
    assert_eq!(guard.deadline(), long);
    assert!(bed.left("x") > 50_000);
    bed.command(&["DEL", "x"]);
    let gone = guard.extend(ms(1000)).await.unwrap_err();
    assert_lost(&gone, LossReason::Gone);
    assert!(!bed.exists("x"), "not resurrected");
}

pub(crate) async fn a_hold_released_in_time_is_never_reported_lost(bed: Bed) {
    let client = bed.client().await;
    for names in [vec!["x"], vec!["x", "y"]] {
        let lock = Lock::multi(names.into_iter().map(|name| client.lock(name)));
        let guard = lock
            .try_lock_now(Lease::Fixed(bed.lease(200)))
            .await
            .unwrap();
        let (told, late) = (tokio::spawn(guard.ended()), guard.ended());
        guard.unlock().await.unwrap();
        assert_eq!(timed("ended", told).await.0.unwrap(), Ended::Released);
        sleep(bed.lease(300)).await;
        assert_eq!(late.now_or_never(), Some(Ended::Released));
    }
}

pub(crate) async fn an_owner_moves_a_hold_to_another_client(bed: Bed) {
    let (a, b) = (
        bed.client().await,
        bed.client_with_lease(bed.lease(300)).await,
    );
    let guard = a.string_lock("x").lock().await.unwrap();
    let ended = guard.ended();
    let owner = forget(guard);
    assert_eq!((a.stats().holds, ended.await), (0, Ended::Forgotten));
    assert_eq!(
        bed.command(&["GET", "x"]),
        &*owner,
        "it is held all the while"
    );
    let restored = b.string_lock("x").restore(&owner).await.unwrap();
    assert_eq!(restored.owner(), owner);
    sleep(bed.lease(500)).await;
    until_certain(&restored).await; // Renewed here.
    restored.unlock().await.unwrap();
    assert!(!bed.exists("x"));
}

pub(crate) async fn a_client_that_is_dropped_releases(bed: Bed) {
    let client = bed.client().await;
    let guards = [
        client.lock("x").lock().await.unwrap(),
        client.lock("y").lock().await.unwrap(),
    ];
    drop(client);
    drop(guards);
    bed.until_gone("x").await;
    bed.until_gone("y").await;
}

pub(crate) async fn finished_acquisitions_leave_nothing_behind(bed: Bed) {
    let client = bed.client().await;
    for round in 0..300_u64 {
        let lock = client.lock(format!("x:{}", round % 7));
        match round % 3 {
            0 => lock.lock().await.unwrap().unlock().await.unwrap(),
            1 => drop(lock.try_lock(SOON, Lease::Fixed(SOON)).await.unwrap()),
            _ => {
                let mut cancelled = Box::pin(lock.lock());
                for _ in 0..round % 5 {
                    let step = tokio::time::timeout(Duration::ZERO, cancelled.as_mut());
                    if step.await.is_ok() {
                        break;
                    }
                }
            }
        }
    }
    eventually("all tables are empty", async || {
        let stats = client.stats();
        (stats.local_queues, stats.waiting, stats.holds) == (0, 0, 0)
            && (stats.listeners, stats.releases_pending, stats.subscriptions) == (0, 0, 0)
    })
    .await;
    assert_eq!(bed.number(&["DBSIZE"]), 0);
    assert_eq!(
        (client.stats().lost, client.stats().releases_failed),
        (0, 0)
    );
}
