//! Who gets the lock, when, and at what cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use futures::FutureExt;
use leasehold::settings::LocalHandover;
use leasehold::test_util::{Delay, Faults};
use leasehold::{Client, Lease, Lock, LossReason};
use leasehold_testbed::{
    Bed, Place, SOON, assert_lost, connected, eventually, in_turns, ms, timed, waiting,
};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

pub(crate) async fn a_zero_wait_asks_once(bed: Bed) {
    let (a, b) = (bed.client().await, bed.client().await);
    let _guard = a.lock("x").lock().await.unwrap();
    let before = b.stats().calls;
    let error = b.lock("x").try_lock_now(Lease::Renewed).await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert_eq!(b.stats().calls - before, 1);
    assert_eq!(b.stats().subscriptions, 0);
}

pub(crate) async fn a_zero_wait_never_rests(bed: Bed) {
    let (a, b) = (bed.client().await, bed.client().await);
    // The other client keeps its subscription warm, so the release has a subscriber.
    let guard = a.lock("x").lock().await.unwrap();
    bed.in_vain(async || b.lock("x").try_lock(ms(30), Lease::Renewed).await)
        .await;
    guard.unlock().await.unwrap();
    let before = a.stats();
    let guard = a.lock("x").try_lock_now(Lease::Renewed).await.unwrap();
    let after = a.stats();
    assert_eq!((after.calls - before.calls, after.subscriptions), (1, 0));
    assert_eq!(after.acquired_at_once - before.acquired_at_once, 1);
    drop(guard);
}

pub(crate) async fn local_waiters_are_served_in_order(bed: Bed) {
    let client = bed.client().await;
    let guard = client.lock("x").lock().await.unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..20 {
        let (lock, served) = (client.lock("x"), served.clone());
        tasks.push(tokio::spawn(async move {
            let guard = lock.lock().await.unwrap();
            served.lock().push(number);
            guard.unlock().await.unwrap();
        }));
        waiting(&client, number + 1).await;
    }
    guard.unlock().await.unwrap();
    for task in tasks {
        in_turns("all served", task).await.unwrap();
    }
    assert_eq!(*served.lock(), (0..20).collect::<Vec<_>>());
    let stats = client.stats();
    assert_eq!(
        (stats.acquired_at_once, stats.acquired_after_waiting),
        (1, 20)
    );
}

pub(crate) async fn a_hand_over_keeps_the_lock_held(bed: Bed) {
    let (client, rival) = (bed.client_with_long_streaks().await, bed.client().await);
    let guard = client.lock("x").lock().await.unwrap();
    let owner = guard.owner().to_owned();
    let next = client.lock("x");
    let waiter = tokio::spawn(async move { next.lock().await });
    waiting(&client, 1).await;
    let calls = client.stats().calls;
    guard.unlock().await.unwrap();
    let next = timed("handed over", waiter).await.0.unwrap().unwrap();
    assert_eq!(
        (client.stats().calls - calls, client.stats().handed_over),
        (0, 1)
    );
    assert_eq!(next.owner(), owner, "the same field, never free in between");
    assert_eq!(bed.count("x", &owner), 1);
    bed.in_vain(async || rival.lock("x").try_lock_now(Lease::Renewed).await)
        .await;
    next.unlock().await.unwrap();
    bed.until_gone("x").await;
}

pub(crate) async fn a_fixed_lease_is_not_handed_over(bed: Bed) {
    let client = bed.client_with_long_streaks().await;
    let lease = Lease::Fixed(ms(70_000));
    let guard = client.lock("x").try_lock_now(lease).await.unwrap();
    let next = client.lock("x");
    let waiter = tokio::spawn(async move { next.try_lock(ms(9000), lease).await });
    waiting(&client, 1).await;
    let before = (client.stats().calls, guard.owner().to_owned());
    guard.unlock().await.unwrap();
    let next = timed("granted", waiter).await.0.unwrap().unwrap();
    let stats = client.stats();
    assert_eq!((stats.calls - before.0, stats.handed_over), (2, 0));
    assert_eq!(
        (stats.acquired_at_once, stats.acquired_after_waiting),
        (1, 1)
    );
    assert_ne!(next.owner(), before.1);
    assert_eq!(bed.number(&["HLEN", "x"]), 1);
    let left = bed.left("x");
    assert!(
        (60_000..=70_000).contains(&left),
        "a lease of its own: {left}"
    );
    next.unlock().await.unwrap();
    assert!(!bed.exists("x"));
}

pub(crate) async fn a_shorter_lease_is_not_handed_over(bed: Bed) {
    let client = bed.client_with_long_streaks().await;
    let guard = client.lock("x").lock().await.unwrap();
    let next = client.lock("x").with_lease(ms(7000));
    let waiter = tokio::spawn(async move { next.lock().await });
    waiting(&client, 1).await;
    guard.unlock().await.unwrap();
    let next = timed("granted", waiter).await.0.unwrap().unwrap();
    // Waiters of other clients know the end of the 30 s lease, so they must learn that the lock was
    // free in between.
    assert_eq!(client.stats().handed_over, 0);
    assert!(bed.left("x") <= 7000);
    next.unlock().await.unwrap();
}

pub(crate) async fn without_hand_over_every_release_goes_to_redis(bed: Bed) {
    let client = connected(bed.builder().local_handover(LocalHandover::Off)).await;
    let guard = client.lock("x").lock().await.unwrap();
    let next = client.lock("x");
    let waiter = tokio::spawn(async move { next.lock().await });
    waiting(&client, 1).await;
    let owner = guard.owner().to_owned();
    guard.unlock().await.unwrap();
    let next = timed("granted", waiter).await.0.unwrap().unwrap();
    assert_ne!(next.owner(), owner);
    assert_eq!(client.stats().handed_over, 0);
}

pub(crate) async fn other_clients_get_their_turn_between_streaks(bed: Bed) {
    get_their_turn(&bed, |client| client.lock("x"), Lease::Renewed, true).await;
}

pub(crate) async fn other_clients_get_their_turn_between_fixed_leases(bed: Bed) {
    get_their_turn(
        &bed,
        |client| client.lock("x"),
        Lease::Fixed(ms(20_000)),
        false,
    )
    .await;
}

pub(crate) async fn other_clients_get_their_turn_at_a_fenced_lock(bed: Bed) {
    get_their_turn(
        &bed,
        |client| client.fenced_lock("x").into(),
        Lease::Renewed,
        false,
    )
    .await;
}

pub(crate) async fn other_clients_get_their_turn_where_waiters_ask(bed: Bed) {
    get_their_turn(&bed, |client| client.spin_lock("x"), Lease::Renewed, true).await;
    get_their_turn(
        &bed,
        |client| client.string_lock("y"),
        Lease::Renewed,
        false,
    )
    .await;
}

/// Four tasks of `busy` and one of `other` always want the lock.
#[expect(
    clippy::fn_params_excessive_bools,
    reason = "what is expected of this kind"
)]
async fn get_their_turn(bed: &Bed, make: fn(&Client) -> Lock, lease: Lease, hands_over: bool) {
    let (busy, other) = (bed.client().await, bed.client_without_polls().await);
    if let Place::Embedded(engine) = &bed.place {
        // The client that has just had its turn is always the nearer one, so it must wait on
        // purpose.
        let far = Faults {
            request: Delay::fixed(Duration::from_micros(300)),
            ..Faults::default()
        };
        engine.links().pop().unwrap().set_faults(far, 1);
    }
    // Without messages, other clients are known only once they were met.
    let met = make(&other).lock().await.unwrap();
    let stop = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let (lock, stop) = (make(&busy), stop.clone());
            tokio::spawn(async move {
                while stop.load(SeqCst) == 0 {
                    let guard = lock.try_lock(Duration::MAX, lease).await.unwrap();
                    sleep(Duration::from_micros(200)).await;
                    guard.unlock().await.unwrap();
                }
            })
        })
        .collect();
    waiting(&busy, 4).await;
    met.unlock().await.unwrap();
    // A turn lasts a few milliseconds. On a busy machine, many are over before the first hand-over.
    let (mut turns, limit) = (0, Instant::now() + SOON);
    let has_handed_over = || busy.stats().handed_over > 0;
    while turns < 20 || (hands_over && !has_handed_over() && Instant::now() < limit) {
        let (guard, took) = timed("granted", make(&other).lock()).await;
        guard.unwrap().unlock().await.unwrap();
        assert!(took < bed.late(800), "{took:?}");
        turns += 1;
    }
    stop.store(1, SeqCst);
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(has_handed_over(), hands_over);
}

pub(crate) async fn a_dropped_front_passes_the_front_on(bed: Bed) {
    let (a, b) = (bed.client().await, bed.client_without_polls().await);
    let guard = a.lock("x").lock().await.unwrap();
    let (first, second) = (b.lock("x"), b.lock("x"));
    let front = tokio::spawn(async move { first.lock().await });
    waiting(&b, 1).await;
    let next = tokio::spawn(async move { second.lock().await });
    waiting(&b, 2).await;
    front.abort();
    waiting(&b, 1).await;
    guard.unlock().await.unwrap();
    let (guard, took) = timed("granted", next).await;
    guard.unwrap().unwrap().unlock().await.unwrap();
    assert!(took < bed.late(500), "{took:?}");
}

pub(crate) async fn an_abandoned_hand_over_goes_to_the_next(bed: Bed) {
    let client = bed.client_with_long_streaks().await;
    for lease in [Lease::Renewed, Lease::Fixed(ms(9000))] {
        let guard = client.lock("x").try_lock(ms(100), lease).await.unwrap();
        let (first, second) = (client.lock("x"), client.lock("x"));
        let mut abandoned = Box::pin(first.try_lock(ms(9000), lease));
        assert!(abandoned.as_mut().now_or_never().is_none());
        let next = tokio::spawn(async move { second.try_lock(ms(9000), Lease::Renewed).await });
        waiting(&client, 2).await;
        // The waiter is woken for its turn and never polled.
        guard.unlock().await.unwrap();
        drop(abandoned);
        let (guard, took) = timed("granted", next).await;
        guard.unwrap().unwrap().unlock().await.unwrap();
        assert!(took < bed.late(2000), "{took:?}");
        bed.until_gone("x").await;
    }
}

pub(crate) async fn a_waiter_hears_of_every_kind_of_end(bed: Bed) {
    for end in ["unlock", "drop", "force", "shutdown"] {
        let (a, b) = (bed.client().await, bed.client_without_polls().await);
        let held = a.lock("x");
        let guard = held.lock().await.unwrap();
        let other = b.lock("x");
        let waiter = tokio::spawn(async move { other.lock().await.unwrap().unlock().await });
        eventually("listening", async || {
            b.stats().listeners == 1 && b.stats().calls >= 2
        })
        .await;
        match end {
            "unlock" => guard.unlock().await.unwrap(),
            "drop" => drop(guard),
            "force" => assert!(held.force_unlock("a test").await.unwrap()),
            _ => a.shutdown(ms(1000)).await.unwrap(),
        }
        let (done, took) = timed(end, waiter).await;
        done.unwrap().unwrap();
        assert!(took < bed.late(500), "{end}: {took:?}");
    }
}

pub(crate) async fn a_key_of_another_client_is_taken_at_its_expiry(bed: Bed) {
    let client = bed.client_without_polls().await;
    bed.command(&["HSET", "x", "somebody:1", "1"]);
    let start = Instant::now();
    bed.command(&["PEXPIRE", "x", "700"]);
    let lock = client.lock("x");
    let (guard, _) = timed("expired", lock.lock()).await;
    let took = start.elapsed();
    guard.unwrap().unlock().await.unwrap();
    assert!(took > ms(500) && took < ms(700) + bed.late(200), "{took:?}");
}

/// Waiters behind a hold of their own client do not ask, so nobody else would notice.
pub(crate) async fn a_hold_that_is_gone_lets_local_waiters_in(bed: Bed) {
    let kinds: [fn(&Client) -> Lock; 4] = [
        |client| client.lock("x"),
        |client| client.fenced_lock("x").into(),
        |client| client.spin_lock("x"),
        |client| client.string_lock("x"),
    ];
    for kind in kinds {
        let client = bed.builder().safety_poll(ms(200)).connect().await.unwrap();
        let held = kind(&client)
            .try_lock_now(Lease::Fixed(ms(60_000)))
            .await
            .unwrap();
        // Other waited-for names are held all the time.
        let other = bed.client().await;
        let mut others = Vec::new();
        let mut waiters = Vec::new();
        for name in ["a", "y"] {
            others.push(other.lock(name).lock().await.unwrap());
            let lock = client.lock(name);
            waiters.push(tokio::spawn(async move { lock.lock().await }));
        }
        let lock = kind(&client);
        let waiter = tokio::spawn(async move { lock.lock().await });
        waiting(&client, 3).await;
        bed.command(&["DEL", "x"]);
        let guard = timed("granted", waiter).await.0.unwrap().unwrap();
        assert_lost(&held.check().unwrap_err(), LossReason::Gone);
        guard.unlock().await.unwrap();
        waiters.iter().for_each(tokio::task::JoinHandle::abort);
        for guard in others {
            guard.unlock().await.unwrap();
        }
    }
}

pub(crate) async fn the_safety_poll_makes_up_for_a_lost_message(bed: Bed) {
    let client = bed.builder().safety_poll(ms(200)).connect().await.unwrap();
    bed.command(&["HSET", "x", "somebody:1", "1"]);
    bed.command(&["PEXPIRE", "x", "60000"]);
    let lock = client.lock("x");
    let waiter = tokio::spawn(async move { lock.lock().await });
    eventually("listening", async || client.stats().listeners == 1).await;
    // Nothing is published.
    bed.command(&["DEL", "x"]);
    let (guard, took) = timed("granted", waiter).await;
    guard.unwrap().unwrap().unlock().await.unwrap();
    assert!(took < bed.late(600), "{took:?}");
}

pub(crate) async fn a_warm_channel_that_is_used_again_is_kept(bed: Bed) {
    let (a, b) = (bed.client().await, bed.client_without_polls().await);
    let guard = a.lock("x").lock().await.unwrap();
    // A wait this short may be over before it listens.
    eventually("it is warm", async || {
        bed.in_vain(async || b.lock("x").try_lock(ms(30), Lease::Renewed).await)
            .await;
        (b.stats().listeners, b.stats().subscriptions) == (0, 1)
    })
    .await;
    let (lock, before) = (b.lock("x"), b.stats().calls);
    let waiter = tokio::spawn(async move { lock.lock().await });
    eventually("asked and listening", async || {
        b.stats().listeners == 1 && b.stats().calls > before
    })
    .await;
    // Longer than a channel without waiters stays subscribed.
    sleep(ms(5000)).await;
    assert_eq!((b.stats().listeners, b.stats().subscriptions), (1, 1));
    guard.unlock().await.unwrap();
    let (guard, took) = timed("granted", waiter).await;
    guard.unwrap().unwrap().unlock().await.unwrap();
    assert!(took < bed.late(500), "{took:?}");
}

/// A channel stays subscribed for waiters only. Otherwise each release would be sent to clients
/// that do not want the lock.
#[tokio::test(start_paused = true)]
async fn a_try_without_waiting_keeps_no_channel_warm() {
    let bed = Bed::of(&Bed::engine());
    let (a, b) = (bed.client().await, bed.client().await);
    for wait in [None, Some(ms(50)), Some(Duration::ZERO)] {
        let guard = a.lock("x").lock().await.unwrap();
        b.lock("x")
            .try_lock(ms(30), Lease::Renewed)
            .await
            .unwrap_err();
        guard.unlock().await.unwrap();
        assert_eq!(b.stats().subscriptions, 1, "it is warm");
        for _ in 0..20 {
            let lock = b.lock("x");
            let guard = match wait {
                None => lock.lock().await,
                Some(wait) => lock.try_lock(wait, Lease::Renewed).await,
            };
            guard.unwrap().unlock().await.unwrap();
            sleep(ms(500)).await;
        }
        assert_eq!(b.stats().subscriptions, 0, "{wait:?}");
    }
}

/// On a subscribed channel no release is missed, so one refusal is enough before the waiter sleeps.
#[tokio::test(start_paused = true)]
async fn on_a_warm_channel_a_waiter_asks_once() {
    let bed = Bed::of(&Bed::engine());
    let (a, b) = (bed.client().await, bed.client_without_polls().await);
    // The first time the client begins to listen, and asks once more when the lock is free. After
    // that, the release gives it the lock.
    for (asks, more) in [(2, 1), (1, 0)] {
        let guard = a.lock("x").lock().await.unwrap();
        let (lock, before) = (b.lock("x"), b.stats().calls);
        let waiter = tokio::spawn(async move { lock.lock().await });
        eventually("asked", async || b.stats().calls - before == asks).await;
        // Everything that happens before the wait is over.
        eventually("listening", async || b.stats().listeners == 1).await;
        guard.unlock().await.unwrap();
        let next = timed("granted", waiter).await.0.unwrap().unwrap();
        assert_eq!(b.stats().calls - before, asks + more);
        next.unlock().await.unwrap();
    }
}
