//! Several locks by one call: which sets qualify, and what is left if one member cannot be taken.

use leasehold::{Client, Error, Lease, Lock};
use leasehold_testbed::{Bed, ms, take_and_release};

/// In a cluster, one call is limited to names of one slot.
const NAMES: [&str; 3] = ["{m}a", "{m}b", "{m}c"];

/// One lock of each kind that a single call can take, if their names share a tag.
fn one_of_each(client: &Client, tag: &str) -> Vec<Lock> {
    let name = |name: &str| format!("{tag}{name}");
    vec![
        client.lock(name("plain")),
        client.lock(name("strict")).non_reentrant(),
        client.spin_lock(name("spin")),
        client.fenced_lock(name("tokens")).into(),
        client.string_lock(name("string")),
        client.read_write_lock(name("sides")).split().1,
    ]
}

fn keys(bed: &Bed) -> Vec<String> {
    let mut keys = bed.list(&["KEYS", "*"]);
    keys.sort();
    keys
}

pub(crate) async fn free_plain_locks_of_one_client_are_one_call(bed: Bed) {
    let client = bed.client().await;
    take_and_release(&Lock::multi(NAMES.map(|name| client.lock(name)))).await;
    let (before, seen) = (client.stats().calls, bed.calls());
    let guard = Lock::multi(NAMES.map(|name| client.lock(name)))
        .lock()
        .await
        .unwrap();
    assert_eq!((client.stats().calls - before, bed.calls() - seen), (1, 1));
    assert_eq!(keys(&bed), NAMES);
    for name in NAMES {
        assert!(bed.left(name) > 20_000);
        assert_eq!(bed.number(&["HLEN", name]), 1);
    }
    guard.unlock().await.unwrap();
    assert!(keys(&bed).is_empty());
}

pub(crate) async fn free_locks_of_several_kinds_are_one_call(bed: Bed) {
    let (client, rival) = (bed.client().await, bed.client().await);
    take_and_release(&Lock::multi(one_of_each(&client, "{m}"))).await;
    for round in 2..4 {
        let (before, seen) = (client.stats().calls, bed.calls());
        let guard = Lock::multi(one_of_each(&client, "{m}"))
            .lock()
            .await
            .unwrap();
        assert_eq!((client.stats().calls - before, bed.calls() - seen), (1, 1));
        assert_eq!(bed.number(&["GET", "redisson_lock_token:{m}tokens"]), round);
        for lock in one_of_each(&rival, "{m}") {
            assert!(bed.left(lock.name()) > 20_000, "{lock:?}");
            let ask = async || lock.try_lock_now(Lease::Fixed(ms(1000))).await;
            bed.in_vain(ask).await;
        }
        guard.check().unwrap();
        guard.unlock().await.unwrap();
        assert_eq!(keys(&bed), ["redisson_lock_token:{m}tokens"]);
    }
}

pub(crate) async fn kinds_that_do_not_fit_into_one_call_are_taken_one_by_one(bed: Bed) {
    let client = bed.client().await;
    let (read, _) = client.read_write_lock("sides").split();
    let lock = Lock::multi([client.lock("plain"), client.fair_lock("fair"), read]);
    let guard = lock.lock().await.unwrap();
    for name in ["plain", "fair", "sides"] {
        assert!(bed.exists(name), "{name}");
    }
    guard.unlock().await.unwrap();
    assert!(keys(&bed).is_empty());
}

pub(crate) async fn one_that_cannot_be_taken_leaves_none(bed: Bed) {
    let client = bed.client().await;
    for (key, broken) in [
        ("string", ["HSET", "string", "f", "1"].as_slice()),
        ("tokens", &["SET", "tokens", "1"]),
        ("sides", &["SET", "sides", "1"]),
        // Found only after the others were taken.
        (
            "redisson_lock_token:{tokens}",
            &["SET", "redisson_lock_token:{tokens}", "many"],
        ),
    ] {
        bed.command(broken);
        let lock = Lock::multi(one_of_each(&client, ""));
        let error = lock
            .try_lock_now(Lease::Fixed(ms(60_000)))
            .await
            .unwrap_err();
        assert!(matches!(error, Error::Protocol { .. }), "{key}: {error}");
        assert_eq!(keys(&bed), [key]);
        bed.command(&["DEL", key]);
        let guard = lock.try_lock_now(Lease::Fixed(ms(60_000))).await.unwrap();
        guard.unlock().await.unwrap();
        bed.command(&["DEL", "redisson_lock_token:{tokens}"]);
    }
}
