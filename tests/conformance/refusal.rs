//! What is refused before anything is sent.

use std::time::Duration;

use leasehold::{Error, Lease};
use leasehold_testbed::{Bed, KINDS, eventually, ms, release};

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
