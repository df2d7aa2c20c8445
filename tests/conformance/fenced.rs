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
    // A restored hold gets a token of its own.
    let lock: leasehold::Lock = one.fenced_lock("x").into();
    let guard = lock.lock().await.unwrap();
    next(&guard);
    let text = guard.hand_on().unwrap();
    let lock: leasehold::Lock = other.fenced_lock("x").into();
    let guard = lock.restore(&text).await.unwrap();
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
    let token = outer.token();
    let text = outer.hand_on().unwrap();
    let restored = lock.restore(&text).await.unwrap();
    assert!(
        restored.token() > token,
        "whoever had it before is refused by the resource"
    );
    restored.unlock().await.unwrap();
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
    let text = second.hand_on().unwrap();
    let lock = client.fenced_lock("x");
    let restored = lock.restore(&text).await.unwrap();
    assert_eq!(token(&restored), other + 1);
    restored.unlock().await.unwrap();
    let third = lock.lock().await.unwrap();
    assert_eq!(token(&third), other + 2);
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

pub(crate) async fn a_resource_takes_the_last_token_and_later_ones(bed: Bed) {
    const VALUE: &str = "value";
    const FENCE: &str = "leasehold_fence:{value}";
    let client = bed.client().await;
    let set = async |token: i64, value: &str| {
        client
            .set_fenced(VALUE, FencingToken::from_value(token), value)
            .await
    };
    let big = 1_i64 << 53;
    let tokens = [
        1,
        2,
        9,
        10,
        11,
        100,
        big,
        big + 1,
        big + 2,
        i64::MAX - 1,
        i64::MAX,
    ];
    for (number, token) in tokens.into_iter().enumerate() {
        for value in ["a", "b"] {
            set(token, value).await.unwrap();
            assert_eq!(bed.command(&["GET", VALUE]), value);
        }
        for earlier in &tokens[..number] {
            let stale = set(*earlier, "stale").await.unwrap_err();
            let told = matches!(&stale, Error::StaleToken { key, .. } if &**key == VALUE);
            assert!(told, "{earlier} after {token}: {stale}");
        }
        assert_eq!(bed.command(&["GET", VALUE]), "b");
        assert_eq!(bed.command(&["GET", FENCE]), token.to_string());
    }
    // Another key in the same slot is another resource.
    let tagged = client
        .set_fenced("{value}", FencingToken::from_value(1), "first")
        .await;
    tagged.unwrap();
    assert_eq!(bed.command(&["GET", "leasehold_fence::{value}"]), "1");
    // A value that is not a token refuses everybody.
    for fence in ["a word", "", "1.5", " 1"] {
        bed.command(&["SET", FENCE, fence]);
        let refused = set(i64::MAX, "stale").await.unwrap_err();
        assert!(matches!(refused, Error::Protocol { .. }), "{refused}");
        assert_eq!(bed.command(&["GET", VALUE]), "b");
    }
}

fn token(number: i64) -> FencingToken {
    FencingToken::from_value(number)
}

pub(crate) async fn a_read_shuts_earlier_tokens_out(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let (slow, quick) = (one.fenced_value("value"), other.fenced_value("value"));
    assert_eq!(slow.get(token(1)).await.unwrap(), None);
    slow.set(token(1), "first").await.unwrap();
    assert_eq!(quick.get(token(2)).await.unwrap().as_deref(), Some("first"));
    // The slow one comes back after the quick one has read.
    for stale in [
        slow.get(token(1)).await.map(drop),
        slow.set(token(1), "late").await,
        one.set_fenced("value", token(1), "late").await,
    ] {
        let told = matches!(&stale, Err(Error::StaleToken { key, .. }) if &**key == "value");
        assert!(told, "{stale:?}");
    }
    for value in ["", "second", "ä\r\n"] {
        quick.set(token(2), value).await.unwrap();
        assert_eq!(quick.get(token(2)).await.unwrap().as_deref(), Some(value));
    }
    assert_eq!(
        (bed.left("value"), bed.left("leasehold_fence:{value}")),
        (-1, -1)
    );
    // A value of another type, and one that is no token, are refused and stay.
    bed.command(&["HSET", "hash", "f", "v"]);
    let refused = one.fenced_value("hash").get(token(1)).await;
    assert!(
        matches!(refused, Err(Error::Protocol { .. })),
        "{refused:?}"
    );
    assert!(!bed.exists("leasehold_fence:{hash}"));
    bed.command(&["SET", "leasehold_fence:{value}", "a word"]);
    let refused = one.fenced_value("value").get(token(9)).await;
    assert!(
        matches!(refused, Err(Error::Protocol { .. })),
        "{refused:?}"
    );
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

pub(crate) async fn a_value_and_its_highest_token_expire_together(bed: Bed) {
    const FENCE: &str = "leasehold_fence:{value}";
    let client = bed.client().await;
    let (long, brief) = (ms(100_000), ms(50_000));
    let value = client.fenced_value("value");
    let (kept, briefly) = (
        value.clone().with_keep(long),
        value.clone().with_keep(brief),
    );
    let within = |key: &str, longest: Duration| {
        let left = bed.left(key);
        let longest = i64::try_from(longest.as_millis()).unwrap();
        assert!(
            (longest - 30_000..=longest).contains(&left),
            "{key}: {left}"
        );
    };
    // A read without a value remembers the token for as long.
    assert_eq!(kept.get(token(1)).await.unwrap(), None);
    within(FENCE, long);
    // The token of a value never expires before the value, whoever reads it.
    kept.set(token(1), "first").await.unwrap();
    for reader in [&briefly, &value] {
        reader.get(token(2)).await.unwrap();
        within("value", long);
        within(FENCE, long);
    }
    briefly.set(token(2), "second").await.unwrap();
    within("value", brief);
    within(FENCE, brief);
    kept.get(token(2)).await.unwrap();
    within("value", brief);
    within(FENCE, long);
    // One that was set for ever stays.
    value.set(token(2), "third").await.unwrap();
    kept.get(token(3)).await.unwrap();
    assert_eq!((bed.left("value"), bed.left(FENCE)), (-1, -1));
    let passing = value.with_keep(ms(20));
    passing.set(token(3), "last").await.unwrap();
    bed.until_gone("value").await;
    bed.until_gone(FENCE).await;
}
