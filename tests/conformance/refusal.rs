//! What is refused before anything is sent.

use std::time::Duration;

use leasehold::{ConfigError, Error, Lease, Lock};
use leasehold_testbed::{Bed, KINDS, LIMIT, eventually, ms, release};

pub(crate) async fn bad_names_are_refused_before_anything_is_sent(bed: Bed) {
    let client = bed.client().await;
    let long = "n".repeat(1025);
    for (name, reason) in [
        ("", "empty"),
        (&*long, "1025 bytes"),
        ("a}b", "closing brace"),
        ("a{b", "opening brace"),
        ("{}x", "empty pair"),
        ("a}b{c}", "closing brace before"),
    ] {
        let lock = client.lock(name);
        for error in [
            lock.lock().await.unwrap_err(),
            lock.try_lock_now(Lease::Fixed(ms(100))).await.unwrap_err(),
            lock.acquire().await.unwrap_err(),
            lock.is_locked().await.unwrap_err(),
            lock.force_unlock("a test").await.unwrap_err(),
        ] {
            assert!(
                matches!(&error, Error::Config(ConfigError::Name { .. })),
                "{error}"
            );
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
    assert_eq!(client.stats().calls, 0);
}

pub(crate) async fn bad_leases_are_refused_before_anything_is_sent(bed: Bed) {
    let client = bed.client().await;
    let lock = client.lock("x");
    for (lease, shown) in [
        (Duration::ZERO, "0ns"),
        (ms(9), "9ms"),
        (Lease::MAX + ms(1), "31536000.001s"),
        (Duration::MAX, "18446744073709551615"),
    ] {
        let error = lock
            .try_lock(ms(10), Lease::Fixed(lease))
            .await
            .unwrap_err();
        let text = error.to_string();
        assert!(
            matches!(&error, Error::Config(ConfigError::OutOfRange { .. })),
            "{text}"
        );
        assert!(
            text.contains(shown) && text.contains("10ms to 31536000s"),
            "{text}"
        );
        let error = lock.acquire().max_hold(lease).await.unwrap_err();
        assert!(error.to_string().contains("max_hold"), "{error}");
    }
    assert_eq!(client.stats().calls, 0);
    let guard = lock.lock().await.unwrap();
    let calls = client.stats().calls;
    assert!(matches!(
        guard.extend(Duration::ZERO).await,
        Err(Error::Config(_))
    ));
    assert_eq!(client.stats().calls, calls);
}

pub(crate) async fn a_key_of_another_type_is_reported(bed: Bed) {
    let client = bed.client().await;
    bed.command(&["SET", "x", "a string"]);
    let lock = client.lock("x");
    for error in [
        lock.lock().await.unwrap_err(),
        lock.try_lock(ms(0), Lease::Renewed).await.unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(matches!(&error, Error::Protocol { .. }), "{text}");
        let begin = "`x` is a lock of another kind, or other data: ";
        assert!(
            text.starts_with(begin) && text.contains("WRONGTYPE"),
            "{text}"
        );
        assert!(!error.is_retryable() && !error.may_be_held());
    }
    assert!(matches!(lock.holder().await, Err(Error::Protocol { .. })));
    assert_eq!(bed.command(&["GET", "x"]), "a string");
    eventually("no key left", async || client.stats().local_queues == 0).await;
}

pub(crate) async fn an_absurdly_long_wait_is_for_ever(bed: Bed) {
    let client = bed.client().await;
    let lock = client.lock("x");
    for wait in [
        Duration::MAX,
        Duration::from_secs(u64::MAX / 2),
        Duration::from_secs(1 << 40),
    ] {
        release(lock.try_lock(wait, Lease::Renewed).await).await;
        let _held = lock.lock().await.unwrap();
        let other = client.lock("x");
        let patient = tokio::time::timeout(ms(50), other.try_lock(wait, Lease::Renewed)).await;
        assert!(patient.is_err(), "it waits");
    }
}

pub(crate) async fn a_cut_or_changed_text_is_refused_before_anything_is_sent(bed: Bed) {
    let client = bed.client().await;
    for kind in KINDS.iter().filter(|kind| kind.has_fields()) {
        let lock = kind.lock(&client, "x");
        let text = lock.lock().await.unwrap().hand_on().unwrap();
        let calls = client.stats().calls;
        let refused = async |lock: &Lock, bad: &str| {
            let error = lock.restore(bad).await.unwrap_err();
            let told = matches!(error, Error::Config(ConfigError::HandOnText { .. }));
            assert!(told, "{} {bad:?}: {error}", kind.name);
        };
        refused(&lock, "").await;
        for at in 0..text.len() {
            refused(&lock, &text[..at]).await;
            refused(&lock, &text[at + 1..]).await;
            let mut changed = text.as_bytes().to_vec();
            changed[at] ^= 1;
            refused(&lock, std::str::from_utf8(&changed).unwrap()).await;
        }
        refused(&lock, &format!("{text} ")).await;
        refused(&kind.lock(&client, "y"), &text).await;
        assert_eq!(client.stats().calls, calls, "{}", kind.name);
        lock.restore(&text).await.unwrap().unlock().await.unwrap();
        bed.command(&["DEL", "redisson_lock_token:{x}"]);
        assert!(!bed.exists("x"), "{}", kind.name);
    }
}

pub(crate) async fn locks_that_cannot_be_one_are_refused(bed: Bed) {
    let client = bed.client().await;
    let nested = Lock::multi(["a", "b"].map(|name| client.lock(name)));
    for lock in [
        Lock::multi(["a", "b", "a"].map(|name| client.lock(name))),
        Lock::multi([nested, client.fair_lock("b")]),
        Lock::quorum([client.lock("a"), client.lock("b"), client.lock("a")]),
        Lock::multi([] as [Lock; 0]),
        Lock::multi((0..1025).map(|number| client.lock(number.to_string()))),
    ] {
        let refused = lock.lock().await.unwrap_err();
        assert!(
            matches!(refused, Error::Config(ConfigError::Members { .. })),
            "{refused}"
        );
    }
    let stats = client.stats();
    assert_eq!((stats.calls, stats.local_queues), (0, 0));
    let most = Lock::multi((0..1024).map(|number| client.lock(number.to_string())));
    // In a cluster, one call after the other: that may take a while.
    release(most.try_lock(LIMIT, Lease::Fixed(LIMIT * 2)).await).await;
}

pub(crate) async fn a_forced_release_deletes_no_data(bed: Bed) {
    let client = bed.client().await;
    bed.command(&["RPUSH", "list", "a"]);
    bed.command(&["HSET", "hash", "a", "b"]);
    bed.command(&["SET", "string", "a"]);
    for kind in KINDS.iter().filter(|kind| kind.is_single()) {
        let other = if kind.name == "string" {
            "hash"
        } else {
            "string"
        };
        for key in ["list", other] {
            let forced = kind.lock(&client, key).force_unlock("a test").await;
            let refused = matches!(forced, Err(Error::Protocol { .. }));
            assert!(refused, "{} {key}: {forced:?}", kind.name);
            assert!(bed.exists(key), "{} {key}", kind.name);
        }
    }
}
