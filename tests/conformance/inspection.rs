//! Queries about a lock, and what others see of it.

use std::time::Duration;

use leasehold::{Lease, Owner};
use leasehold_testbed::{Bed, eventually, ms};

use crate::semaphores::in_vain;

pub(crate) async fn a_free_lock_looks_free(bed: Bed) {
    let client = bed.client().await;
    let lock = client.lock("x");
    assert!(!lock.is_locked().await.unwrap());
    assert_eq!(lock.remaining_lease().await.unwrap(), None);
    assert_eq!(lock.holder().await.unwrap(), None);
    assert!(!lock.force_unlock("a test").await.unwrap());
}

pub(crate) async fn a_held_lock_shows_its_holder(bed: Bed) {
    let (client, other) = (bed.client().await, bed.client().await);
    let lock = client.lock("x");
    let guard = lock
        .try_lock_now(Lease::Fixed(ms(3_600_000)))
        .await
        .unwrap();
    let stranger = client.lock("x").owned_by(&Owner::new());
    for lock in [&lock, &client.lock("x"), &stranger, &other.lock("x")] {
        assert!(lock.is_locked().await.unwrap());
        let left = lock.remaining_lease().await.unwrap().unwrap();
        assert!(left > ms(3_590_000) && left <= ms(3_600_000), "{left:?}");
        let holder = lock.holder().await.unwrap().unwrap();
        assert_eq!((&*holder.owner, holder.holds), (guard.owner(), 1));
    }
    guard.unlock().await.unwrap();
    assert!(!lock.is_locked().await.unwrap());
}

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
    let lock = client.lock("x").owned_by(&Owner::new());
    for lease in [
        Lease::Renewed,
        Lease::Fixed(bed.lease(10)),
        Lease::Fixed(Lease::MAX),
    ] {
        let outer = lock.try_lock(ms(1000), lease).await.unwrap();
        let inner = lock.try_lock(ms(1000), lease).await;
        let left = bed.left("x");
        assert!(left > 0 || left == -2, "{lease:?}: {left}");
        drop((inner, outer));
        eventually("settled", async || !bed.exists("x")).await;
    }
}

pub(crate) async fn a_foreign_holder_is_seen(bed: Bed) {
    let client = bed.client().await;
    bed.command(&["HSET", "x", "0b4e4b9c-9a1f-4c0e-8f6a-0c5f9d6b0f11:57", "3"]);
    bed.command(&["PEXPIRE", "x", "20000"]);
    let holder = client.lock("x").holder().await.unwrap().unwrap();
    assert_eq!(
        (&*holder.owner, holder.holds),
        ("0b4e4b9c-9a1f-4c0e-8f6a-0c5f9d6b0f11:57", 3)
    );
    assert!(holder.lease.unwrap() <= ms(20_000));
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
    let text = guard.hand_on().unwrap();
    let lock = client.lock("{shop}:orders");
    lock.restore(&text).await.unwrap().unlock().await.unwrap();
    assert!(!bed.exists("app:{shop}:orders"));
}
