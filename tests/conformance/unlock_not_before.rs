//! A lock that stays locked for a while, however soon it is released.

use std::time::Duration;

use futures::FutureExt;
use leasehold::{
    Client, ClientBuilder, ConfigError, EmbeddedRedis, Ended, Error, Lease, Lock, LockGuard,
    LossReason, Owner,
};
use leasehold_testbed::{Bed, KINDS, eventually, ms, timed, waiting};
use tokio::time::{Instant, advance, sleep, sleep_until};

use crate::faulty_connection::FaultyConnection;
use crate::for_each_kind::{are_there, for_each_exclusive_kind};

async fn take(lock: &Lock, span: Duration) -> LockGuard {
    lock.acquire()
        .wait(ms(0))
        .unlock_not_before(span)
        .await
        .unwrap()
}

/// Asserts that the lock is locked until then and free soon afterwards, whatever else happens.
async fn is_free_then(bed: &Bed, keys: &[String], begin: Instant, span: Duration) {
    let most = span + ms(1);
    // However late the remaining time is read, the sum is never too small.
    let left = |key: &String| {
        let left = ms(bed.left(key).try_into().unwrap_or(0));
        let passed = begin.elapsed();
        assert!(
            passed + left + bed.early(span) >= span,
            "it ends {left:?} after {passed:?}"
        );
        left
    };
    eventually("it is left to its expiry", async || {
        keys.iter().all(|key| left(key) <= most)
    })
    .await;
    sleep_until(begin + span - bed.span(20).min(span / 2)).await;
    eventually("free", async || {
        keys.iter()
            .all(|key| left(key) == ms(0) && !bed.exists(key))
    })
    .await;
    assert!(
        begin.elapsed() < span + bed.late(20),
        "{:?}",
        begin.elapsed()
    );
}

pub(crate) async fn a_quick_release_keeps_every_kind_locked_until_then(bed: Bed) {
    let other = bed.client_without_polls().await;
    let span = bed.lease(400);
    for_each_exclusive_kind(async |kind| {
        let client = bed.client_without_polls().await;
        let lock = kind.lock(&client, kind.name);
        let begin = Instant::now();
        let guard = take(&lock, span).await;
        let ended = guard.ended();
        let waits = [&client, &other].map(|client| {
            let lock = kind.lock(client, kind.name);
            tokio::spawn(async move {
                let guard = lock.lock().await.unwrap();
                let granted = Instant::now();
                guard.unlock().await.unwrap();
                granted
            })
        });
        crate::for_each_kind::wait(&client, kind, 1).await;
        assert!(ended.now_or_never().is_none(), "it is held");
        guard.unlock().await.unwrap();
        assert!(are_there(&bed, kind, kind.name).await);
        let late = bed.in_vain(async || {
            kind.lock(&other, kind.name)
                .try_lock_now(Lease::Renewed)
                .await
        });
        late.await;
        // Neither waiter knew any other end than that of the half-minute lease.
        for wait in waits {
            let granted = timed("it is free then", wait).await.0.unwrap();
            let took = granted - begin;
            let late = bed.late(50 + 2 * kind.late_ms());
            assert!(
                took + bed.early(span) >= span && took < span + late,
                "{took:?}"
            );
        }
        assert_eq!(client.stats().handed_over, 0);
    })
    .await;
}

pub(crate) async fn a_later_release_frees_at_once(bed: Bed) {
    let client = bed.client_with_long_streaks().await;
    let lock = client.lock("x");
    let guard = take(&lock, ms(50)).await;
    sleep(ms(60)).await;
    guard.unlock().await.unwrap();
    assert!(!bed.exists("x"));
    // And the next holder passes it on again.
    let guard = take(&lock, ms(10)).await;
    let waiter = tokio::spawn(async move { lock.lock().await });
    waiting(&client, 1).await;
    sleep(ms(20)).await;
    guard.unlock().await.unwrap();
    drop(timed("granted", waiter).await.0.unwrap().unwrap());
    assert_eq!(client.stats().handed_over, 1);
}

/// Redis counts whole milliseconds: a remainder below one millisecond is sent as one, not as zero.
#[tokio::test(start_paused = true)]
async fn a_fraction_of_a_millisecond_keeps_the_lock() {
    for kind in KINDS
        .iter()
        .filter(|kind| kind.is_single() && kind.name != "read")
    {
        for (before, micros) in [(true, 999), (true, 1), (false, 0)] {
            let redis = EmbeddedRedis::new();
            let lock = kind.lock(&redis.client(), "x");
            let guard = take(&lock, ms(50)).await;
            advance(Duration::from_micros(50_000 - micros)).await;
            guard.unlock().await.unwrap();
            let holds = redis.dump().contains_key(b"x".as_slice());
            assert_eq!(holds, before, "{}, {micros} us before", kind.name);
            advance(ms(2)).await;
            assert!(
                !redis.dump().contains_key(b"x".as_slice()),
                "{}: free then",
                kind.name
            );
        }
    }
}

pub(crate) async fn every_end_of_a_guard_keeps_it(bed: Bed) {
    let span = bed.lease(300);
    let keys = ["x".to_owned()];
    let ends: [fn(LockGuard, Client); 3] = [
        |guard, _client| drop(guard),
        |guard, client| {
            drop(client);
            drop(guard);
        },
        |guard, _client| drop(guard.unlock()),
    ];
    for end in ends {
        let client = bed.client_with_lease(bed.lease(100)).await;
        let begin = Instant::now();
        let guard = take(&client.lock("x"), span).await;
        end(guard, client);
        is_free_then(&bed, &keys, begin, span).await;
    }
    let (client, begin) = (bed.client().await, Instant::now());
    let _guard = take(&client.lock("x"), span).await;
    client.shutdown(Duration::from_secs(5)).await.unwrap();
    is_free_then(&bed, &keys, begin, span).await;

    let (client, begin) = (bed.client().await, Instant::now());
    let lock = client.lock("x");
    let guard = lock
        .acquire()
        .max_hold(span / 4)
        .unlock_not_before(span)
        .await
        .expect("free");
    let (ended, _) = timed("it ends", guard.ended()).await;
    assert_eq!(ended, Ended::Lost(LossReason::MaxHold));
    is_free_then(&bed, &keys, begin, span).await;
}

pub(crate) async fn a_dead_process_keeps_it(bed: Bed) {
    let (client, line) = FaultyConnection::with_lease(&bed, bed.lease(100)).await;
    let (begin, span) = (Instant::now(), bed.lease(400));
    let guard = take(&client.lock("x"), span).await;
    line.die();
    is_free_then(&bed, &["x".to_owned()], begin, span).await;
    drop(guard);
}

/// The first lease is long, but losses must be noticed as soon as usual.
pub(crate) async fn a_hold_with_a_long_first_lease_is_renewed_as_often_as_any_other(bed: Bed) {
    let lease = bed.lease(300);
    let client = bed.client_with_lease(lease).await;
    let guard = take(&client.lock("x"), lease * 100).await;
    assert!(guard.remaining() > lease * 90);
    let start = Instant::now();
    sleep(lease * 2).await;
    let (renewed, thirds) = (
        client.stats().renewed,
        start.elapsed().as_millis() / (lease / 3).as_millis(),
    );
    assert!(
        renewed >= 4 && u128::from(renewed) <= thirds + 1,
        "{renewed} in {thirds} thirds"
    );
    assert!(
        bed.left("x") > i64::try_from((lease * 90).as_millis()).unwrap(),
        "not shorter"
    );
    bed.command(&["DEL", "x"]);
    let (ended, took) = timed("the loss is found", guard.ended()).await;
    assert_eq!(ended, Ended::Lost(LossReason::Gone));
    assert!(took < lease / 2 + bed.late(0), "{took:?}");
}

/// Loads the scripts, so that a call whose reply is lost was executed.
async fn knows_the_scripts(bed: &Bed, kind: fn(&Client) -> Lock) {
    let client = bed.client().await;
    let guard = take(&kind(&client), ms(20)).await;
    let key = guard.name().to_owned();
    guard.unlock().await.unwrap();
    bed.until_gone(&key).await;
    kind(&client).lock().await.unwrap().unlock().await.unwrap();
}

pub(crate) async fn a_hold_that_never_reached_its_caller_does_not_linger(bed: Bed) {
    // The caller leaves while its call is in flight.
    knows_the_scripts(&bed, |client| client.lock("x")).await;
    let patient = |builder: ClientBuilder| builder.command_timeout(ms(10_000));
    let (client, line) = FaultyConnection::with(&bed, patient).await;
    line.lose_replies();
    let lock = client.lock("x");
    let mut taking = Box::pin(async { take(&lock, ms(60_000)).await });
    assert!(futures::poll!(&mut taking).is_pending());
    eventually("executed", async || {
        let _ = futures::poll!(&mut taking).is_pending();
        bed.exists("x")
    })
    .await;
    drop(taking);
    line.reconnect();
    bed.until_gone("x").await;
    // The first member was taken, and the second was not.
    let other = bed.client().await;
    let held = other.lock("b").lock().await.unwrap();
    let both = Lock::multi(["a", "b"].map(|name| other.lock(name)));
    let error = both
        .acquire()
        .wait(bed.span(50))
        .unlock_not_before(ms(60_000))
        .await;
    assert!(error.unwrap_err().is_timeout());
    bed.until_gone("a").await;
    held.unlock().await.unwrap();
    assert!(!bed.exists("b"));
}

pub(crate) async fn lost_replies_change_nothing(bed: Bed) {
    let span = bed.lease(200);
    let kinds: [fn(&Client) -> Lock; 2] =
        [|client| client.lock("x"), |client| client.string_lock("x")];
    for kind in kinds {
        knows_the_scripts(&bed, kind).await;
        // The acquisition is repeated.
        let settings = |builder: ClientBuilder| builder.command_timeout(ms(100)).lease(span * 2);
        let (client, line) = FaultyConnection::with(&bed, settings).await;
        let lock = kind(&client);
        line.lose_replies();
        let (begin, asked) = (Instant::now(), lock.clone());
        let taking = tokio::spawn(async move { asked.acquire().unlock_not_before(span).await });
        eventually("executed", async || bed.exists("x")).await;
        line.reconnect();
        let guard = timed("it is repeated", taking).await.0.unwrap().unwrap();
        // The release is repeated.
        line.lose_replies();
        let unlocking = tokio::spawn(guard.unlock());
        let shortened = i64::try_from(span.as_millis()).unwrap();
        eventually("executed", async || bed.left("x") <= shortened).await;
        line.reconnect();
        let _confirmed_or_not = timed("it ends", unlocking).await.0.unwrap();
        assert!(bed.exists("x"));
        // The first call was executed some time after the beginning.
        eventually("free", async || !bed.exists("x")).await;
        assert!(begin.elapsed() >= span);
        // Calls that are still in flight do not take the lock again.
        eventually("all settled", async || client.stats().releases_pending == 0).await;
        assert!(!bed.exists("x"));
        assert_eq!(
            (client.stats().holds, client.stats().releases_failed),
            (0, 0)
        );
    }
}

pub(crate) async fn the_latest_moment_of_nested_acquisitions_counts(bed: Bed) {
    let client = bed.client().await;
    let (short, long) = (bed.lease(100), bed.lease(400));
    let keys = ["x".to_owned()];
    let lock = client.lock("x").owned_by(&Owner::new());
    for spans in [[short, long], [long, short]] {
        let begin = Instant::now();
        let [outer, inner] = [take(&lock, spans[0]).await, take(&lock, spans[1]).await];
        inner.unlock().await.unwrap();
        outer.unlock().await.unwrap();
        is_free_then(&bed, &keys, begin, long).await;
    }
    // The same owner cannot re-enter any more.
    let begin = Instant::now();
    let outer = lock.lock().await.unwrap();
    take(&lock, short).await.unlock().await.unwrap();
    assert_eq!(outer.hold_count(), 1);
    outer.unlock().await.unwrap();
    bed.in_vain(async || lock.try_lock_now(Lease::Renewed).await)
        .await;
    is_free_then(&bed, &keys, begin, short).await;
    // A further guard of the same hold does not ask for a time of its own.
    let outer = take(&lock, short).await;
    sleep(short).await;
    let again = outer.reenter().await.unwrap();
    drop(outer);
    again.unlock().await.unwrap();
    bed.until_gone("x").await;
}

pub(crate) async fn a_fixed_lease_is_the_longest_time(bed: Bed) {
    let client = bed.client().await;
    let span = bed.lease(200);
    for kind in [
        |client: &Client| client.lock("x"),
        |client: &Client| client.fair_lock("x"),
    ] {
        let lock = kind(&client);
        let fixed = |span| {
            lock.acquire()
                .lease(Lease::Fixed(ms(30_000)))
                .unlock_not_before(span)
                .into_future()
        };
        let begin = Instant::now();
        fixed(span).await.unwrap().unlock().await.unwrap();
        is_free_then(&bed, &["x".to_owned()], begin, span).await;
        let calls = client.stats().calls;
        for span in [ms(30_001), ms(9), Duration::MAX] {
            let refused = fixed(span).await.unwrap_err();
            let what = ConfigError::OutOfRange {
                what: "unlock_not_before",
                given: format!("{span:?}"),
                allowed: "10ms to 30s".into(),
            };
            assert!(
                matches!(&refused, Error::Config(error) if *error == what),
                "{refused}"
            );
        }
        assert_eq!(client.stats().calls, calls);
    }
}

pub(crate) async fn a_forced_release_frees_it_at_once(bed: Bed) {
    let client = bed.client().await;
    let lock = client.lock("x");
    take(&lock, ms(60_000)).await.unlock().await.unwrap();
    assert!(lock.force_unlock("a test").await.unwrap());
    let guard = take(&lock, ms(60_000)).await;
    assert!(lock.force_unlock("a test").await.unwrap());
    assert!(matches!(guard.unlock().await, Err(Error::Lost { .. })));
    assert!(!bed.exists("x"));
}

/// A hold that is handed over without a call has no lease that covers the time.
pub(crate) async fn the_next_waiter_keeps_the_lock_for_its_own_time(bed: Bed) {
    let client = bed.client_with_long_streaks().await;
    let span = ms(60_000);
    let guard = client.lock("x").lock().await.unwrap();
    let lock = client.lock("x");
    let waiter = tokio::spawn(async move { lock.acquire().unlock_not_before(span).await.unwrap() });
    waiting(&client, 1).await;
    guard.unlock().await.unwrap();
    let guard = timed("granted", waiter).await.0.unwrap();
    assert_eq!(client.stats().handed_over, 0, "it needs a longer lease");
    assert!(bed.left("x") > 50_000, "{}", bed.left("x"));
    drop(guard);
    eventually("left to expire", async || {
        client.stats().releases_pending == 0
    })
    .await;
    assert!(bed.left("x") > 50_000, "{}", bed.left("x"));
}

pub(crate) async fn a_lock_with_several_holders_cannot_linger(bed: Bed) {
    let client = bed.client().await;
    let reads = || client.read_write_lock("x").read().clone();
    let sets = [
        reads(),
        Lock::multi([client.lock("a"), reads()]),
        Lock::multi([client.fair_lock("a"), reads()]),
        Lock::quorum([client.lock("a"), client.lock("b"), reads()]),
    ];
    let calls = client.stats().calls;
    for lock in sets {
        let refused = lock
            .acquire()
            .unlock_not_before(ms(1000))
            .await
            .unwrap_err();
        let is_setting = matches!(
            refused,
            Error::Config(ConfigError::Setting {
                setting: "unlock_not_before",
                ..
            })
        );
        assert!(is_setting, "{refused}");
    }
    assert_eq!(client.stats().calls, calls);
}

/// The remaining time of the write hold must not end the read hold.
pub(crate) async fn a_read_hold_that_was_taken_under_it_is_not_shortened(bed: Bed) {
    let (client, other) = (bed.client().await, bed.client().await);
    let span = bed.lease(300);
    let (lock, seen) = (client.read_write_lock("x"), other.read_write_lock("x"));
    let writing = take(lock.write(), span).await;
    let reading = lock.read().acquire().within(&writing).await.unwrap();
    let begin = Instant::now();
    writing.unlock().await.unwrap();
    sleep_until(begin + span + bed.span(50)).await;
    let writes = async || seen.write().try_lock_now(Lease::Renewed).await;
    bed.in_vain(writes).await;
    reading.unlock().await.expect("held");
    // A read hold with a shorter lease does not end the write hold either.
    let (lock, seen) = (client.read_write_lock("y"), other.read_write_lock("y"));
    let begin = Instant::now();
    let writing = take(lock.write(), span).await;
    let short = Lease::Fixed(span / 3);
    let reading = lock
        .read()
        .acquire()
        .lease(short)
        .within(&writing)
        .await
        .unwrap();
    writing.unlock().await.unwrap();
    timed("its lease ends", reading.ended()).await;
    let writes = async || seen.write().try_lock_now(Lease::Renewed).await;
    bed.in_vain(writes).await;
    is_free_then(&bed, &["y".to_owned()], begin, span).await;
}
