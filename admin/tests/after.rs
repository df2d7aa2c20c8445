//! A lock that Redis frees when a time is over.

use std::time::Duration;

use leasehold::{ConfigError, EmbeddedRedis, Error, Lease, Lock, LockGuard, LossReason};
use leasehold_admin::unlock_after;
use leasehold_testbed::{Bed, KINDS, Kind, eventually, ms, timed, waiting};
use tokio::time::{Instant, advance, sleep_until};

/// Every kind that has one holder at a time.
fn kinds() -> impl Iterator<Item = &'static Kind> {
    KINDS
        .iter()
        .filter(|kind| kind.is_single() && kind.exclusive)
}

async fn take(lock: &Lock) -> LockGuard {
    lock.try_lock_now(Lease::Renewed).await.unwrap()
}

/// Asserts that the lock is locked until then and free soon afterwards.
async fn is_free_then(bed: &Bed, key: &str, begin: Instant, span: Duration) {
    // However late the remaining time is read, the sum is never too small.
    let left = || {
        let left = ms(bed.left(key).try_into().unwrap_or(0));
        let passed = begin.elapsed();
        assert!(
            passed + left + bed.early(span) >= span,
            "{key}: it ends {left:?} after {passed:?}"
        );
        left
    };
    assert!(left() <= span + ms(1), "{key}");
    eventually("free", async || left() == ms(0) && !bed.exists(key)).await;
    let took = begin.elapsed();
    assert!(took < span + bed.late(20), "{key}: {took:?}");
}

pub(crate) async fn every_kind_stays_locked_for_the_rest(bed: Bed) {
    let client = bed.client().await;
    let other = bed.client().await;
    // Shorter and longer than the lease of half a minute; the longer one is not waited for.
    for kind in kinds() {
        let guard = take(&kind.lock(&client, kind.name)).await;
        unlock_after(guard, Duration::from_secs(3600))
            .await
            .unwrap();
        let left = bed.left(kind.name);
        assert!(
            (3_590_000..=3_600_000).contains(&left),
            "{}: {left}",
            kind.name
        );
        bed.command(&["DEL", kind.name]);
        let guard = take(&kind.lock(&client, kind.name)).await;
        let (begin, span) = (Instant::now(), bed.lease(300));
        unlock_after(guard, span).await.unwrap();
        assert_eq!(client.stats().holds, 0);
        let lock = kind.lock(&other, kind.name);
        bed.in_vain(async || lock.try_lock_now(Lease::Renewed).await)
            .await;
        is_free_then(&bed, kind.name, begin, span).await;
    }
}

/// One waiter at a time, because the release of one would wake the other.
pub(crate) async fn waiters_learn_the_new_end(bed: Bed) {
    let (client, other) = (
        bed.client_without_polls().await,
        bed.client_without_polls().await,
    );
    let span = bed.lease(400);
    for kind in kinds() {
        for waiter in [&other, &client] {
            let guard = take(&kind.lock(&client, kind.name)).await;
            let lock = kind.lock(waiter, kind.name);
            let wait = tokio::spawn(async move {
                let guard = lock.lock().await.unwrap();
                let granted = Instant::now();
                guard.unlock().await.unwrap();
                granted
            });
            waiting(waiter, 1).await;
            let begin = Instant::now();
            unlock_after(guard, span).await.unwrap();
            // It knew no other end than that of the half-minute lease.
            let granted = timed("it is free then", wait).await.0.unwrap();
            let took = granted - begin;
            let late = bed.late(50 + 2 * kind.late_ms());
            assert!(
                took + bed.early(span) >= span && took < span + late,
                "{}: {took:?}",
                kind.name
            );
        }
    }
}

/// Redis counts whole milliseconds: a remainder below one millisecond is sent as one, not as zero.
#[tokio::test(start_paused = true)]
async fn a_fraction_of_a_millisecond_keeps_the_lock() {
    for kind in kinds() {
        let redis = EmbeddedRedis::new();
        let guard = take(&kind.lock(&redis.client(), "x")).await;
        unlock_after(guard, Duration::from_nanos(1)).await.unwrap();
        let is_held = || redis.dump().contains_key(b"x".as_slice());
        assert!(is_held(), "{}", kind.name);
        advance(ms(2)).await;
        assert!(!is_held(), "{}: free then", kind.name);
    }
}

/// A renewal that is on its way would prolong the lease again.
#[tokio::test(start_paused = true)]
async fn no_renewal_comes_after_it() {
    for kind in kinds() {
        let redis = EmbeddedRedis::new();
        let client = redis.builder().lease(ms(300)).connect().await.unwrap();
        for wait in [99, 100, 101] {
            let lock = kind.lock(&client, "x");
            let guard = take(&lock).await;
            advance(ms(wait)).await;
            let begin = Instant::now();
            unlock_after(guard, ms(10)).await.unwrap();
            sleep_until(begin + ms(12)).await;
            let is_held = redis.dump().contains_key(b"x".as_slice());
            assert!(!is_held, "{} after {wait} ms", kind.name);
        }
    }
}

pub(crate) async fn a_rest_of_zero_is_a_release(bed: Bed) {
    let client = bed.client().await;
    for kind in kinds() {
        let guard = take(&kind.lock(&client, kind.name)).await;
        unlock_after(guard, Duration::ZERO).await.unwrap();
        assert!(!bed.exists(kind.name), "{}", kind.name);
    }
}

pub(crate) async fn a_guard_that_is_not_the_last_is_refused(bed: Bed) {
    let client = bed.client().await;
    let lock = client.lock("x");
    let guard = take(&lock).await;
    let inner = guard.reenter().await.unwrap();
    let refused = unlock_after(inner, ms(60_000)).await;
    assert!(
        matches!(refused, Err(Error::AlreadyHeld { .. })),
        "{refused:?}"
    );
    guard.check().unwrap();
    guard.unlock().await.unwrap();
    bed.until_gone("x").await;
}

pub(crate) async fn a_lock_with_several_holders_is_refused(bed: Bed) {
    let client = bed.client().await;
    let reads = client.read_write_lock("r").read().clone();
    let refused = unlock_after(take(&reads).await, ms(60_000)).await;
    assert!(
        matches!(refused, Err(Error::Config(ConfigError::Setting { .. }))),
        "{refused:?}"
    );
    bed.until_gone("r").await;
    let both = Lock::multi(["a", "b"].map(|name| client.lock(name)));
    let refused = unlock_after(take(&both).await, ms(60_000)).await;
    assert!(
        matches!(refused, Err(Error::Config(ConfigError::Several { .. }))),
        "{refused:?}"
    );
    let guard = take(&client.lock("x")).await;
    let refused = unlock_after(guard, Duration::MAX).await;
    assert!(
        matches!(refused, Err(Error::Config(ConfigError::OutOfRange { .. }))),
        "{refused:?}"
    );
    for name in ["a", "b", "x"] {
        bed.until_gone(name).await;
    }
}

pub(crate) async fn a_hold_that_is_gone_is_reported(bed: Bed) {
    let client = bed.client().await;
    for kind in kinds() {
        let guard = take(&kind.lock(&client, kind.name)).await;
        bed.command(&["DEL", kind.name]);
        let lost = unlock_after(guard, ms(60_000)).await;
        assert!(
            matches!(
                lost,
                Err(Error::Lost {
                    reason: LossReason::Gone,
                    ..
                })
            ),
            "{}: {lost:?}",
            kind.name
        );
        assert!(!bed.exists(kind.name), "{}", kind.name);
    }
}

pub(crate) async fn a_forced_release_frees_it_before(bed: Bed) {
    let (client, other) = (bed.client().await, bed.client().await);
    for kind in kinds() {
        let guard = take(&kind.lock(&client, kind.name)).await;
        unlock_after(guard, ms(60_000)).await.unwrap();
        let lock = kind.lock(&other, kind.name);
        assert!(lock.force_unlock("a test").await.unwrap(), "{}", kind.name);
        take(&lock).await.unlock().await.unwrap();
    }
}

/// The rest of the write hold must not end the read hold.
pub(crate) async fn a_read_hold_that_was_taken_under_it_is_not_cut_short(bed: Bed) {
    let (client, other) = (bed.client().await, bed.client().await);
    let span = bed.lease(300);
    let (lock, seen) = (client.read_write_lock("x"), other.read_write_lock("x"));
    let writing = take(lock.write()).await;
    let reading = lock.read().acquire().within(&writing).await.unwrap();
    let begin = Instant::now();
    unlock_after(writing, span).await.unwrap();
    sleep_until(begin + span + bed.span(50)).await;
    bed.in_vain(async || seen.write().try_lock_now(Lease::Renewed).await)
        .await;
    reading.unlock().await.expect("held");
}

pub(crate) async fn the_process_may_end(bed: Bed) {
    let span = bed.lease(400);
    for shuts_down in [true, false] {
        let client = bed.client().await;
        let guard = take(&client.lock("x")).await;
        let begin = Instant::now();
        unlock_after(guard, span).await.unwrap();
        if shuts_down {
            client.shutdown(ms(5_000)).await.unwrap();
        }
        drop(client);
        is_free_then(&bed, "x", begin, span).await;
    }
}
