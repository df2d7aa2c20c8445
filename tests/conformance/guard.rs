//! What a guard promises, and how it ends.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use leasehold::{Client, ConfigError, Ended, Error, HoldState, Lease, Lock, LossReason};
use leasehold_testbed::{Bed, SOON, assert_lost, eventually, ms, timed, until_certain, waiting};
use tokio::time::{Instant, sleep};

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

pub(crate) async fn max_hold_ends_a_hold(bed: Bed) {
    let client = bed.client_with_lease(bed.lease(300)).await;
    let lock = client.lock("x");
    let start = Instant::now();
    let guard = lock.acquire().max_hold(bed.lease(700)).await.unwrap();
    let (ended, _) = timed("it ends", guard.ended()).await;
    let took = start.elapsed();
    assert_eq!(ended, Ended::Lost(LossReason::MaxHold));
    assert!(
        took > bed.lease(600) && took < bed.lease(700) + bed.late(200),
        "{took:?}"
    );
    bed.until_gone("x").await;
    // A leaked guard cannot keep the lock either.
    std::mem::forget(lock.acquire().max_hold(bed.span(400)).await.unwrap());
    let (next, took) = timed("free again", client.lock("x").lock()).await;
    next.unwrap().unlock().await.unwrap();
    assert!(took < bed.span(400) + bed.late(300), "{took:?}");
}

pub(crate) async fn a_forgotten_guard_leaves_the_lock_to_its_lease(bed: Bed) {
    let client = bed.client_with_lease(bed.lease(400)).await;
    let start = Instant::now();
    client.lock("x").lock().await.unwrap().forget();
    assert_eq!((client.stats().holds, client.stats().local_queues), (0, 0));
    assert!(bed.exists("x"));
    bed.until_gone("x").await;
    let took = start.elapsed();
    assert!(
        took > bed.lease(300) && took < bed.lease(400) + bed.late(200),
        "not renewed: {took:?}"
    );
}

pub(crate) async fn a_text_moves_a_hold_to_another_client(bed: Bed) {
    let (a, b) = (
        bed.client().await,
        bed.client_with_lease(bed.lease(300)).await,
    );
    let guard = a.lock("x").lock().await.unwrap();
    let (owner, ended) = (guard.owner().to_owned(), guard.ended());
    let text = guard.hand_on().unwrap();
    assert_eq!((a.stats().holds, ended.await), (0, Ended::HandedOn));
    assert_eq!(bed.count("x", &owner), 1, "it is held all the while");
    let restored = b.lock("x").restore(&text).await.unwrap();
    assert_eq!(bed.number(&["HLEN", "x"]), 1);
    assert_eq!(bed.count("x", restored.owner()), 1);
    assert_ne!(restored.owner(), owner, "nobody else can be its owner");
    sleep(bed.lease(500)).await;
    until_certain(&restored).await; // Renewed here.
    restored.unlock().await.unwrap();
    assert!(!bed.exists("x"));
}

pub(crate) async fn a_text_of_an_ended_hold_is_refused(bed: Bed) {
    let client = bed.client().await;
    let lock = client.lock("x");
    let text = lock.lock().await.unwrap().hand_on().unwrap();
    bed.command(&["DEL", "x"]);
    let error = lock.restore(&text).await.unwrap_err();
    assert!(matches!(error, Error::NotOwner { .. }), "{error}");
    assert!(!bed.exists("x"));
    // A text that nobody restores in time leaves the lock free.
    let short = Lease::Fixed(bed.lease(200));
    let text = lock.try_lock_now(short).await.unwrap().hand_on().unwrap();
    let next = timed("free", client.lock("x").lock()).await.0.unwrap();
    let error = lock.restore(&text).await.unwrap_err();
    assert!(matches!(error, Error::NotOwner { .. }), "{error}");
    next.unlock().await.unwrap();
}

pub(crate) async fn one_of_several_guards_is_not_handed_on(bed: Bed) {
    let client = bed.client().await;
    let outer = client.lock("x").lock().await.unwrap();
    let refused = outer.reenter().await.unwrap().hand_on().unwrap_err();
    assert!(
        matches!(refused, Error::Config(ConfigError::OtherGuards { .. })),
        "{refused}"
    );
    assert_eq!(outer.hold_count(), 1);
    let counted = async || bed.count("x", outer.owner()) == 1;
    eventually("released", counted).await;
    bed.command(&["DEL", "x"]);
    outer.extend(ms(1000)).await.unwrap_err();
    let refused = outer.hand_on().unwrap_err();
    assert!(matches!(refused, Error::Lost { .. }), "{refused}");
}

pub(crate) async fn shutdown_releases_and_wakes_everybody(bed: Bed) {
    let (client, rival) = (bed.client().await, bed.client().await);
    let _held_elsewhere = rival.lock("theirs").lock().await.unwrap();
    let mut guards = Vec::new();
    for number in 0..50 {
        guards.push(client.lock(format!("mine:{number}")).lock().await.unwrap());
    }
    let mut tasks = Vec::new();
    for number in 0..30 {
        // Contenders, waiters behind a contender, and waiters behind this client's own holds.
        let name = if number < 10 {
            "theirs".to_owned()
        } else {
            format!("mine:{number}")
        };
        let lock = client.lock(name);
        tasks.push(tokio::spawn(async move { lock.lock().await }));
    }
    waiting(&client, 30).await;
    let ((), took) = timed("shut down", async {
        client.shutdown(ms(5000)).await.unwrap();
    })
    .await;
    assert!(took < bed.late(2000), "{took:?}");
    for task in tasks {
        let ended = timed("woken", task).await.0.unwrap();
        assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
    }
    for guard in guards {
        assert_lost(&guard.check().unwrap_err(), LossReason::Closed);
        assert!(!bed.exists(guard.name()));
    }
    let closed = client.lock("x").lock().await.unwrap_err();
    assert!(matches!(closed, Error::Closed), "{closed}");
    client.shutdown(ms(1000)).await.unwrap();
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

pub(crate) async fn a_text_that_was_given_away_is_not_the_next_holders(bed: Bed) {
    let client = bed.client_with_long_streaks().await;
    let mut locks = [
        client.string_lock("x"),
        client.string_lock("x"),
        client.string_lock("x"),
    ];
    let [first, second, thief] = &mut locks;
    let held = first.lock().await.unwrap();
    let text = held.owner().to_owned();
    let (next, ()) = tokio::join!(timed("granted", second.lock()), async {
        waiting(&client, 1).await;
        held.unlock().await.unwrap();
    });
    let next = next.0.unwrap();
    let refused = thief.restore(&text).await.unwrap_err();
    assert!(matches!(refused, Error::NotOwner { .. }), "{refused}");
    next.unlock().await.unwrap();
}
