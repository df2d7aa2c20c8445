//! Queries about a lock, and what others see of it.

use std::time::Duration;

use leasehold::Lease;
use leasehold_testbed::{Bed, eventually, ms};

use crate::semaphores::in_vain;

pub(crate) async fn the_key_is_redissons(bed: Bed) {
    let client = bed.client().await;
    let guard = client.lock("orders:42").lock().await.unwrap();
    assert_eq!(bed.command(&["TYPE", "orders:42"]), "hash");
    assert_eq!(bed.number(&["HLEN", "orders:42"]), 1);
    assert_eq!(bed.count("orders:42", guard.owner()), 1);
    let (uuid, number) = guard.owner().rsplit_once(':').unwrap();
    assert_eq!((uuid.len(), uuid.matches('-').count()), (36, 4));
    assert!(
        uuid.chars()
            .all(|c| c == '-' || c.is_ascii_digit() || c.is_ascii_lowercase())
    );
    assert!(number.parse::<i64>().is_ok());
    assert_eq!(bed.number(&["DBSIZE"]), 1, "no side keys");
}

pub(crate) async fn a_key_always_has_an_expiry(bed: Bed) {
    let client = bed.client().await;
    let lock = client.lock("x");
    for lease in [
        Lease::Renewed,
        Lease::Fixed(bed.lease(10)),
        Lease::Fixed(Lease::MAX),
    ] {
        let outer = lock.try_lock(ms(1000), lease).await.unwrap();
        let inner = lock.acquire().wait(ms(1000)).lease(lease);
        let inner = inner.within(&outer).await;
        let left = bed.left("x");
        assert!(left > 0 || left == -2, "{lease:?}: {left}");
        drop((inner, outer));
        eventually("settled", async || !bed.exists("x")).await;
    }
}

pub(crate) async fn a_key_without_expiry_is_seen_as_such(bed: Bed) {
    let client = bed.client().await;
    bed.command(&["HSET", "x", "somebody:1", "1"]);
    let lock = client.lock("x");
    assert_eq!(lock.remaining_lease().await.unwrap(), Some(Duration::MAX));
    assert_eq!(lock.holder().await.unwrap().unwrap().lease, None);
    in_vain(async || client.lock("x").try_lock(ms(50), Lease::Renewed).await).await;
    assert_eq!(bed.left("x"), -1, "it is left as it was");
}

pub(crate) async fn names_may_carry_a_tag_and_a_prefix(bed: Bed) {
    let client = bed.builder().key_prefix("app:").connect().await.unwrap();
    let guard = client.lock("{shop}:orders").lock().await.unwrap();
    assert_eq!(guard.name(), "{shop}:orders");
    assert!(bed.exists("app:{shop}:orders"));
    guard.unlock().await.unwrap();
    assert!(!bed.exists("app:{shop}:orders"));
}
