//! Replies that no script sends, for instance because a proxy mixes them up: their effects are
//! undone. Only the embedded engine has the switch.

use std::time::Duration;

use leasehold::test_util::{Delay, Faults, LinkControl};
use leasehold::{EmbeddedRedis, Error, Lease, LockGuard};
use leasehold_testbed::{KINDS, eventually, ms, release};

/// Longer than any of these tests, so that a hold left behind is noticed.
const LEASE: Lease = Lease::Fixed(ms(3_600_000));

/// Garbles the reply to the next call, until `applied` is true. Later replies are correct.
async fn garbled_until(link: &LinkControl, applied: impl AsyncFnMut() -> bool) {
    let reply = Delay::fixed(ms(20));
    link.set_faults(
        Faults {
            reply,
            garble: 1.0,
            ..Faults::default()
        },
        1,
    );
    eventually("it is applied", applied).await;
    link.set_faults(Faults::default(), 1);
}

fn not_understood<T>(what: &str, taken: Result<T, Error>) {
    let error = taken.err().unwrap_or_else(|| panic!("{what}: granted"));
    assert!(
        matches!(error, Error::Protocol { .. } | Error::Quorum { .. }),
        "{what}: {error}"
    );
}

async fn nothing_is_left(what: &str, redis: &EmbeddedRedis) {
    let key = |key: &Vec<u8>| String::from_utf8_lossy(key).into_owned();
    let counter = |key: &String| key.starts_with("redisson_lock_token");
    let left = || {
        redis
            .dump()
            .keys()
            .map(key)
            .filter(|key| !counter(key))
            .collect::<Vec<_>>()
    };
    let undone = async {
        while !left().is_empty() {
            tokio::time::sleep(ms(10)).await;
        }
    };
    let undone = tokio::time::timeout(ms(1000), undone).await;
    assert!(undone.is_ok(), "{what} left {:?}", left());
}

#[tokio::test(start_paused = true)]
async fn a_grant_with_an_odd_reply_is_given_back() {
    for kind in &KINDS {
        for wait in [Duration::ZERO, ms(5000)] {
            let redis = EmbeddedRedis::new();
            let client = redis.client();
            let link = redis.links().remove(0);
            let lock = kind.lock(&client, "x");
            let keys = async || !redis.dump().is_empty();
            let taken = tokio::join!(lock.try_lock(wait, LEASE), garbled_until(&link, keys)).0;
            not_understood(kind.name, taken);
            nothing_is_left(kind.name, &redis).await;
            release(lock.try_lock(wait, LEASE).await).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn permits_with_an_odd_reply_are_given_back() {
    let redis = EmbeddedRedis::new();
    let client = redis.client();
    let link = redis.links().remove(0);
    let (counted, named) = (
        client.semaphore("s"),
        client.permit_expirable_semaphore("p"),
    );
    counted.try_set_permits(3).await.unwrap();
    named.try_set_permits(3).await.unwrap();
    let other = redis.client();
    let (left, ids) = (other.semaphore("s"), other.permit_expirable_semaphore("p"));
    let taken = async || left.available().await.unwrap() == 1;
    let acquired = tokio::join!(counted.acquire(2), garbled_until(&link, taken)).0;
    not_understood("a semaphore", acquired);
    let taken = async || ids.available().await.unwrap() == 2;
    let acquired = tokio::join!(named.acquire(1, LEASE), garbled_until(&link, taken)).0;
    not_understood("expirable permits", acquired);
    eventually("all back", async || {
        (
            left.available().await.unwrap(),
            ids.available().await.unwrap(),
        ) == (3, 3)
    })
    .await;
}

/// A raised count is lowered again, and a release is repeated.
#[tokio::test(start_paused = true)]
async fn a_hold_outlives_odd_replies_and_ends_all_the_same() {
    for kind in KINDS
        .iter()
        .filter(|kind| kind.reentrant && kind.counted && kind.is_single())
    {
        let redis = EmbeddedRedis::new();
        let client = redis.client();
        let link = redis.links().remove(0);
        let lock = kind.lock(&client, "x");
        let outer = lock.try_lock_now(LEASE).await.unwrap();
        if kind.exclusive {
            let count = || redis.command(&["HGET", "x", outer.owner()]).unwrap();
            let once = count();
            let inner = outer.reenter();
            not_understood(
                kind.name,
                tokio::join!(inner, garbled_until(&link, async || count() != once)).0,
            );
            eventually("it is lowered", async || count() == once).await;
            outer.check().unwrap();
        }
        let released: Result<(), Error> = {
            let free = async || redis.command(&["EXISTS", "x"]) == Ok(false.into());
            tokio::join!(LockGuard::unlock(outer), garbled_until(&link, free)).0
        };
        not_understood(kind.name, released);
        nothing_is_left(kind.name, &redis).await;
        eventually("settled", async || client.stats().releases_pending == 0).await;
    }
}
