//! Tokens: one for each outermost acquisition, growing over all clients, never taken back.

use std::time::Duration;

use leasehold::{Error, FencingToken, Lease};
use leasehold_testbed::{Bed, eventually, ms, timed, waiting};

const COUNTER: &str = "redisson_lock_token:{x}";

pub(crate) async fn every_way_in_takes_the_next_token(bed: Bed) {
    let (one, other) = (bed.client_with_long_streaks().await, bed.client().await);
    let mut last = 0;
    let mut next = |guard: &leasehold::LockGuard| {
        let token = guard.token().expect("a fenced lock").value();
        assert_eq!((token, bed.number(&["GET", COUNTER])), (last + 1, last + 1));
        last = token;
    };
    let guard = one.fenced_lock("x").lock().await.unwrap();
    next(&guard);
    // Another task of the same client, with a fixed lease and with a renewed one.
    let waiter = one.fenced_lock("x");
    let taking =
        tokio::spawn(async move { waiter.try_lock(ms(9000), Lease::Fixed(ms(30_000))).await });
    waiting(&one, 1).await;
    guard.unlock().await.unwrap();
    let guard = timed("granted", taking).await.0.unwrap().unwrap();
    next(&guard);
    let waiter = one.fenced_lock("x");
    let taking = tokio::spawn(async move { waiter.lock().await });
    waiting(&one, 1).await;
    guard.unlock().await.unwrap();
    let guard = timed("granted", taking).await.0.unwrap().unwrap();
    next(&guard);
    guard.unlock().await.unwrap();
    // Another client, without a wait and with one.
    let guard = other
        .fenced_lock("x")
        .try_lock_now(Lease::Fixed(ms(5000)))
        .await
        .unwrap();
    next(&guard);
    guard.unlock().await.unwrap();
    let guard = one
        .fenced_lock("x")
        .try_lock(ms(5000), Lease::Renewed)
        .await
        .unwrap();
    next(&guard);
    guard.unlock().await.unwrap();
    assert_eq!(one.stats().handed_over, 0, "each needs a token of its own");
}

pub(crate) async fn a_nested_section_has_the_token_of_the_outer_one(bed: Bed) {
    let client = bed.client().await;
    let lock = client.fenced_lock("x");
    let outer = lock.lock().await.unwrap();
    for _ in 0..3 {
        let again = [
            outer.reenter().await.unwrap(),
            lock.acquire().within(&outer).await.unwrap(),
        ];
        for inner in again {
            assert_eq!(
                (inner.token(), inner.hold_count() > 1),
                (outer.token(), true)
            );
            inner.unlock().await.unwrap();
        }
        outer
            .run(async { lock.lock().await?.unlock().await })
            .await
            .unwrap()
            .unwrap();
    }
    assert_eq!(bed.command(&["GET", COUNTER]), "1");
    outer.unlock().await.unwrap();
    assert!(client.lock("plain").lock().await.unwrap().token().is_none());
}

pub(crate) async fn a_failed_acquisition_takes_no_token(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let guard = one.fenced_lock("x").lock().await.unwrap();
    for wait in [Duration::ZERO, ms(30)] {
        bed.in_vain(async || other.fenced_lock("x").try_lock(wait, Lease::Renewed).await)
            .await;
    }
    assert_eq!(bed.command(&["GET", COUNTER]), "1");
    guard.unlock().await.unwrap();
}

pub(crate) async fn the_counter_outlives_every_end_of_a_hold(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let token = |guard: &leasehold::LockGuard| guard.token().expect("a fenced lock").value();
    let guard = one.fenced_lock("x").lock().await.unwrap();
    assert!(other.fenced_lock("x").force_unlock("a test").await.unwrap());
    drop(guard);
    // Long enough that the reply arrives before the lease ends; otherwise the waiter asks again.
    let brief = Lease::Fixed(bed.lease(300));
    let guard = other
        .fenced_lock("x")
        .try_lock(ms(5000), brief)
        .await
        .unwrap();
    assert_eq!(token(&guard), 2);
    bed.until_gone("x").await;
    drop(guard);
    one.shutdown(ms(5000)).await.unwrap();
    assert_eq!(bed.left(COUNTER), -1, "it has no expiry");
    let guard = other.fenced_lock("x").lock().await.unwrap();
    assert_eq!(token(&guard), 3);
    guard.unlock().await.unwrap();
    // A counter of Redisson is continued.
    bed.command(&["SET", COUNTER, "41"]);
    let guard = other.fenced_lock("x").lock().await.unwrap();
    assert_eq!(token(&guard), 42);
    assert!(guard.token() > FencingToken::from_value(41));
    guard.unlock().await.unwrap();
}

pub(crate) async fn tokens_are_exact_as_far_as_the_counter_goes(bed: Bed) {
    // A double, which is what scripts use for numbers, cannot tell these two apart.
    let (one, other) = (1_i64 << 53, (1_i64 << 53) + 1);
    let client = bed.client_with_long_streaks().await;
    bed.command(&["SET", COUNTER, &(one - 1).to_string()]);
    let token = |guard: &leasehold::LockGuard| guard.token().expect("a fenced lock").value();
    let first = client.fenced_lock("x").lock().await.unwrap();
    assert_eq!(token(&first), one);
    let waiter = client.fenced_lock("x");
    let taking = tokio::spawn(async move { waiter.lock().await });
    waiting(&client, 1).await;
    first.unlock().await.unwrap();
    let second = timed("taken over", taking).await.0.unwrap().unwrap();
    assert_eq!(token(&second), other);
    second.unlock().await.unwrap();
    let lock = client.fenced_lock("x");
    let third = lock.lock().await.unwrap();
    assert_eq!(token(&third), other + 1);
    third.unlock().await.unwrap();

    bed.command(&["SET", COUNTER, &(i64::MAX - 1).to_string()]);
    let last = lock.lock().await.unwrap();
    assert_eq!(token(&last), i64::MAX);
    last.unlock().await.unwrap();
    let refused = lock.lock().await.unwrap_err();
    assert!(matches!(refused, Error::Protocol { .. }), "{refused}");
    assert!(!bed.exists("x"), "without a token it is not taken");
}

pub(crate) async fn a_counter_that_gives_no_token_leaves_nothing_behind(bed: Bed) {
    let client = bed.client().await;
    let lock = client.fenced_lock("x");
    for counter in ["-7", "-1", "a word", "1.5"] {
        bed.command(&["SET", COUNTER, counter]);
        let refused = lock
            .try_lock_now(Lease::Fixed(ms(60_000)))
            .await
            .unwrap_err();
        assert!(
            matches!(refused, Error::Protocol { .. }),
            "{counter}: {refused}"
        );
        eventually("nothing is held", async || {
            client.stats().releases_pending == 0 && !bed.exists("x")
        })
        .await;
    }
    bed.command(&["SET", COUNTER, "0"]);
    lock.lock().await.unwrap().unlock().await.unwrap();
}

/// The strings of the crates for services.
pub(crate) async fn a_text_is_kept_once(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let long = ms(100_000);
    assert_eq!(one.kept("text").await.unwrap(), None);
    assert!(!bed.exists("text"), "a read keeps nothing");
    assert_eq!(one.keep("text", "ä\r\n", long).await.unwrap(), None);
    for client in [&one, &other] {
        let there = client.keep("text", "second", 2 * long).await.unwrap();
        assert_eq!(there.as_deref(), Some("ä\r\n"));
        assert_eq!(client.kept("text").await.unwrap(), there);
    }
    assert!((70_000..=100_000).contains(&bed.left("text")));
    // Also an empty one.
    for there in [None, Some("")] {
        let kept = one.keep("empty", "", long).await.unwrap();
        assert_eq!(kept.as_deref(), there);
    }
    bed.command(&["HSET", "hash", "f", "v"]);
    for refused in [one.kept("hash").await, one.keep("hash", "text", long).await] {
        let told = matches!(&refused, Err(error) if !error.is_retryable());
        assert!(told, "{refused:?}");
    }
    for never in [Duration::ZERO, ms(9), Duration::MAX] {
        let refused = one.keep("text", "text", never).await;
        assert!(matches!(refused, Err(Error::Config(_))), "{refused:?}");
    }
}
