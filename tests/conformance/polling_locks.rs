//! Locks whose waiters poll instead of listening: the spin lock and the string lock.

use std::time::Duration;

use futures::future::join_all;
use leasehold::{Client, Ended, Error, Lease, Lock, LossReason};
use leasehold_testbed::{Bed, eventually, ms, no_expiry, timed, waiting};
use tokio::time::{Instant, sleep};

const KINDS: [fn(&Client) -> Lock; 2] = [
    |client| client.spin_lock("x"),
    |client| client.string_lock("x"),
];

pub(crate) async fn a_waiter_never_subscribes(bed: Bed) {
    for kind in KINDS {
        let (one, other) = (bed.client().await, bed.client().await);
        let guard = kind(&one).lock().await.unwrap();
        let takings: Vec<_> = (0..3)
            .map(|_| {
                let lock = kind(&other);
                tokio::spawn(async move { lock.lock().await?.unlock().await })
            })
            .collect();
        waiting(&other, 3).await;
        let end = Instant::now() + ms(300);
        while Instant::now() < end {
            assert_eq!(bed.channels(), [""; 0]);
            assert_eq!(
                (other.stats().subscriptions, other.stats().listeners),
                (0, 0)
            );
            sleep(ms(10)).await;
        }
        guard.unlock().await.unwrap();
        for taking in takings {
            timed("granted", taking).await.0.unwrap().unwrap();
        }
    }
}

pub(crate) async fn pauses_grow_to_their_longest(bed: Bed) {
    for (kind, pause_ms) in KINDS.into_iter().zip([128, 100]) {
        let (one, other) = (bed.client().await, bed.client().await);
        let guard = kind(&one).lock().await.unwrap();
        let before = other.stats().calls;
        let takings: Vec<_> = (0..5)
            .map(|_| {
                let lock = kind(&other);
                tokio::spawn(async move { lock.lock().await })
            })
            .collect();
        eventually("short pauses at first", async || {
            other.stats().calls - before >= 4
        })
        .await;
        sleep(ms(600)).await;
        // Between half of the longest pause and all of it. One waiter polls for all waiters of a
        // client.
        let (before, start) = (other.stats().calls, Instant::now());
        sleep(ms(2000)).await;
        let calls = other.stats().calls - before;
        let most = u64::try_from(start.elapsed().as_millis()).unwrap() / (pause_ms / 2) + 2;
        assert!((5..=most).contains(&calls), "{calls} calls, at most {most}");
        takings.iter().for_each(tokio::task::JoinHandle::abort);
        guard.unlock().await.unwrap();
    }
}

pub(crate) async fn pauses_double_from_the_first(bed: Bed) {
    let doubled: [&[u64]; 2] = [
        &[1, 2, 4, 8, 16, 32, 64, 128, 128, 128],
        &[5, 10, 20, 40, 80, 100, 100, 100],
    ];
    for (kind, pauses_ms) in KINDS.into_iter().zip(doubled) {
        let (one, other) = (bed.client().await, bed.client().await);
        let guard = kind(&one).lock().await.unwrap();
        let lock = kind(&other);
        let start = Instant::now();
        let taking = tokio::spawn(async move { lock.lock().await });
        let mut asked = Vec::new();
        while asked.len() <= pauses_ms.len() {
            if other.stats().calls > asked.len() as u64 {
                asked.push(Instant::now());
            }
            sleep(ms(1)).await;
        }
        let all = ms(pauses_ms.iter().sum());
        assert!(
            start.elapsed() >= all / 2,
            "{:?} of {all:?}",
            start.elapsed()
        );
        // On a stalled machine a pause may look longer or shorter.
        for (times, pause_ms) in asked.windows(2).zip(pauses_ms) {
            let (pause, whole) = (times[1] - times[0], ms(*pause_ms));
            // The timer and this measurement are late by up to a millisecond each.
            let fits = pause + ms(1) >= whole / 2 && pause <= whole + ms(2);
            let exact = bed.is_embedded();
            assert!(fits || !exact, "{pause:?} of {whole:?}, all: {asked:?}");
        }
        taking.abort();
        guard.unlock().await.unwrap();
    }
}

pub(crate) async fn a_spin_lock_publishes_its_release(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    // A waiter of the plain lock of that name, like a Java client.
    for end in ["unlock", "drop", "force"] {
        let held = one.spin_lock("x");
        let guard = held.lock().await.unwrap();
        let (lock, before) = (other.lock("x"), other.stats());
        let taking = tokio::spawn(async move { lock.lock().await });
        eventually("asked again", async || {
            let stats = other.stats();
            stats.listeners == 1 && stats.calls >= before.calls + 2
        })
        .await;
        match end {
            "unlock" => guard.unlock().await.unwrap(),
            "drop" => drop(guard),
            _ => assert!(held.force_unlock("a test").await.unwrap()),
        }
        let (guard, took) = timed(end, taking).await;
        assert!(
            took < bed.late(500),
            "{end}: by the message, not by a poll: {took:?}"
        );
        guard.unwrap().unwrap().unlock().await.unwrap();
        // On a server, a poll may notice it first, but the message still comes.
        eventually("woken", async || other.stats().wakes > before.wakes).await;
    }
}

pub(crate) async fn a_spin_lock_takes_a_wait_as_long_as_it_is(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let guard = one.spin_lock("x").lock().await.unwrap();
    let start = Instant::now();
    bed.in_vain(async || {
        other
            .spin_lock("x")
            .try_lock(ms(3000), Lease::Renewed)
            .await
    })
    .await;
    let took = start.elapsed();
    assert!(
        took >= ms(3000) && took < ms(3000) + bed.late(500),
        "{took:?}"
    );
    // A release in time is found within one pause.
    let lock = other.spin_lock("x");
    let taking =
        tokio::spawn(async move { lock.try_lock(ms(5000), Lease::Fixed(ms(30_000))).await });
    waiting(&other, 1).await;
    guard.unlock().await.unwrap();
    let (guard, took) = timed("within a pause", taking).await;
    assert!(took < bed.late(200), "{took:?}");
    guard.unwrap().unwrap().unlock().await.unwrap();
}

pub(crate) async fn a_string_key_without_expiry_is_reported_and_not_touched(bed: Bed) {
    let client = bed.client().await;
    bed.command(&["SET", "x", "somebody"]);
    for wait in [Duration::ZERO, ms(100)] {
        let lock = client.string_lock("x");
        let error = bed
            .in_vain(async || lock.try_lock(wait, Lease::Fixed(ms(5000))).await)
            .await;
        assert_eq!(no_expiry(&error), Some(true));
        assert!(error.to_string().contains("no expiry"), "{error}");
    }
    assert_eq!(
        (&*bed.command(&["GET", "x"]), bed.left("x")),
        ("somebody", -1)
    );
    assert_eq!(
        client.string_lock("x").remaining_lease().await.unwrap(),
        Some(Duration::MAX)
    );
    // The same key with an expiry is an ordinary holder.
    bed.command(&["PEXPIRE", "x", "60000"]);
    let lock = client.string_lock("x");
    let error = bed
        .in_vain(async || lock.try_lock(ms(50), Lease::Fixed(ms(5000))).await)
        .await;
    assert_eq!(no_expiry(&error), Some(false));
    // Whoever knows the token may continue the hold. A key without an expiry gets none.
    bed.command(&["PERSIST", "x"]);
    let guard = client.string_lock("x").restore("somebody").await.unwrap();
    guard.extend(ms(60_000)).await.unwrap();
    assert_eq!(bed.left("x"), -1);
    guard.unlock().await.unwrap();
    assert!(!bed.exists("x"));
}

pub(crate) async fn a_hash_key_without_expiry_is_reported_and_not_touched(bed: Bed) {
    let client = bed.client().await;
    bed.command(&["HSET", "x", "somebody:1", "1"]);
    for lock in [
        client.lock("x"),
        client.spin_lock("x"),
        client.fenced_lock("x").into(),
    ] {
        let wait = async || lock.try_lock(ms(50), Lease::Fixed(ms(5000))).await;
        let error = bed.in_vain(wait).await;
        assert_eq!(no_expiry(&error), Some(true));
    }
    assert_eq!(bed.left("x"), -1);
}

pub(crate) async fn a_string_lock_is_a_token_with_an_expiry(bed: Bed) {
    let client = bed.client().await;
    let lock = client.string_lock("laravel_cache_x{");
    let guard = lock.try_lock_now(Lease::Fixed(ms(30_000))).await.unwrap();
    assert_eq!(bed.command(&["TYPE", "laravel_cache_x{"]), "string");
    assert_eq!(bed.command(&["GET", "laravel_cache_x{"]), guard.owner());
    assert!((25_000..=30_000).contains(&bed.left("laravel_cache_x{")));
    assert_eq!(bed.number(&["DBSIZE"]), 1, "no side keys");
    // A peer that compares and deletes does not delete our key, and we do not delete a peer's.
    let holder = lock.holder().await.unwrap().unwrap();
    assert_eq!((&*holder.owner, holder.holds), (guard.owner(), 1));
    bed.command(&["SET", "laravel_cache_x{", "a peer"]);
    assert!(matches!(guard.unlock().await, Err(Error::Lost { .. })));
    assert_eq!(bed.command(&["GET", "laravel_cache_x{"]), "a peer");
}

pub(crate) async fn a_string_lock_that_a_peer_has_taken_is_lost(bed: Bed) {
    let client = bed.client_with_lease(bed.lease(300)).await;
    let guard = client.string_lock("x").lock().await.unwrap();
    bed.command(&["SET", "x", "a peer", "PX", "60000"]);
    assert_eq!(
        timed("lost", guard.ended()).await.0,
        Ended::Lost(LossReason::Gone)
    );
    drop(guard);
    sleep(bed.span(50)).await;
    assert_eq!(bed.command(&["GET", "x"]), "a peer");
}

pub(crate) async fn every_waiter_reports_a_missing_expiry(bed: Bed) {
    let client = bed.client().await;
    bed.command(&["SET", "x", "somebody"]);
    // Long enough for a reply.
    let wait = bed.span(500);
    let waits = (0..3).map(|_| async {
        let lock = client.string_lock("x");
        bed.in_vain(async || lock.try_lock(wait, Lease::Fixed(ms(5000))).await)
            .await
    });
    for error in join_all(waits).await {
        assert_eq!(no_expiry(&error), Some(true));
    }
    let two = || Lock::multi([client.string_lock("w"), client.string_lock("x")]);
    for wait in [Duration::ZERO, wait] {
        let error = bed
            .in_vain(async || two().try_lock(wait, Lease::Fixed(ms(5000))).await)
            .await;
        assert_eq!(no_expiry(&error), Some(true));
    }
    bed.command(&["PEXPIRE", "x", "60000"]);
    let error = bed
        .in_vain(async || two().try_lock(wait, Lease::Fixed(ms(5000))).await)
        .await;
    assert_eq!(no_expiry(&error), Some(false));
    assert!(!bed.exists("w"));
}
