//! Leases of permits with extensions, repetitions and stolen ids, and semaphores that are created
//! again.

use std::time::Duration;

use leasehold::{Client, Ended, Error, Lease, LossReason, PermitExpirableSemaphore};
use leasehold_testbed::{Bed, Place, eventually, ms, timed};
use tokio::time::{Instant, sleep};

use crate::semaphores::in_vain;

const MANY: u32 = 1024;

async fn set(client: &Client, permits: u32) -> PermitExpirableSemaphore {
    let semaphore = client.permit_expirable_semaphore("p");
    assert!(semaphore.try_set_permits(permits).await.unwrap());
    semaphore
}

/// Runs a script like a late copy of a call.
fn again(bed: &Bed, script: &str, keys: [&str; 2], args: [&str; 4]) -> String {
    let scripts = leasehold::test_util::scripts();
    let (_, text, _) = scripts
        .into_iter()
        .find(|(name, ..)| *name == script)
        .expect("a script");
    let mut words = vec!["EVAL", text, "2"];
    words.extend(keys);
    words.extend(args);
    bed.command(&words)
}

pub(crate) async fn an_extension_never_shortens(bed: Bed) {
    let client = bed.client().await;
    let semaphore = set(&client, 2).await;
    let held = semaphore
        .acquire(1, Lease::Fixed(ms(60_000)))
        .await
        .unwrap();
    held.extend(bed.span(50)).await.unwrap();
    let left = semaphore.remaining_lease(held.id()).await.unwrap().unwrap();
    assert!(left > ms(50_000), "{left:?}");
    // The permit lasts as long as its guard believes.
    sleep(bed.span(60)).await;
    held.check().unwrap();
    assert_eq!(semaphore.acquired().await.unwrap(), 1);
    held.release().await.unwrap();
    assert_eq!(semaphore.available().await.unwrap(), 2);
}

pub(crate) async fn a_late_copy_of_an_acquisition_changes_nothing(bed: Bed) {
    let client = bed.client().await;
    let semaphore = set(&client, 5).await;
    let held = semaphore
        .try_acquire(3, Duration::ZERO, Lease::Fixed(ms(60_000)))
        .await
        .unwrap();
    let copy = || {
        let keys = ["p", "{p}:timeout"];
        again(
            &bed,
            "permit_acquire",
            keys,
            ["ch", "PUBLISH", held.owner(), "5000"],
        )
    };
    assert_eq!(copy(), "nil");
    let left = semaphore.remaining_lease(held.id()).await.unwrap().unwrap();
    assert!(left > ms(50_000), "{left:?}");
    // An id that was given back is not taken again with the others.
    let ids: Vec<String> = held.ids().map(str::to_owned).collect();
    semaphore.release(&ids[2]).await.unwrap();
    assert_eq!(copy(), "nil");
    assert_eq!(semaphore.acquired().await.unwrap(), 2);
    assert_eq!(semaphore.permits().await.unwrap(), 5);
    semaphore.release(&ids[0]).await.unwrap();
    assert_eq!(copy(), "nil");
    assert_eq!(semaphore.permits().await.unwrap(), 5);

    let plain = client.semaphore("s");
    plain.try_set_permits(5).await.unwrap();
    let held = plain.acquire(3).await.unwrap();
    let guard = held.guard().unwrap();
    guard.extend(ms(3_600_000)).await.unwrap();
    let until = || bed.command(&["ZSCORE", "leasehold_semaphore:{s}", guard.owner()]);
    let (before, keys) = (until(), ["s", "leasehold_semaphore:{s}"]);
    let args = ["ch", "PUBLISH", guard.owner(), "5000"];
    assert_eq!(again(&bed, "semaphore_acquire", keys, args), "nil");
    assert_eq!(until(), before);
    assert_eq!(plain.available().await.unwrap(), 2);
}

pub(crate) async fn permits_that_lost_one_of_them_are_lost(bed: Bed) {
    // Longer than the tolerance for lateness, which is larger on a busy machine.
    let lease = match &bed.place {
        Place::Server(..) => ms(9000),
        Place::Embedded(_) => ms(300),
    };
    let client = bed.client_with_lease(lease).await;
    let semaphore = set(&client, 3).await;
    let held = semaphore
        .try_acquire(3, Duration::ZERO, Lease::Renewed)
        .await
        .unwrap();
    let one = held.ids().nth(1).unwrap().to_owned();
    semaphore.release(&one).await.unwrap();
    let (ended, took) = timed("lost", held.ended()).await;
    assert_eq!(ended, Ended::Lost(LossReason::Gone));
    assert!(took < lease / 3 + bed.late(50), "by a renewal: {took:?}");
    // The remaining permits come back at once rather than at the end of the lease.
    let ended = Instant::now();
    eventually("all back", async || {
        semaphore.available().await.unwrap() == 3
    })
    .await;
    let back = ended.elapsed();
    assert!(back < bed.late(20), "before its lease ends: {back:?}");
    assert!(matches!(held.release().await, Err(Error::Lost { .. })));
    assert_eq!(semaphore.permits().await.unwrap(), 3);
}

pub(crate) async fn a_renewal_is_not_longer_than_redis_can_be_kept(bed: Bed) {
    let client = bed.client_with_lease(bed.lease(500)).await;
    let semaphore = set(&client, 4 * MANY).await;
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(
            semaphore
                .try_acquire(MANY, ms(9000), Lease::Renewed)
                .await
                .unwrap(),
        );
    }
    let before = (client.stats().calls, client.stats().renewed);
    eventually("all renewed", async || {
        client.stats().renewed >= before.1 + 4
    })
    .await;
    assert!(
        client.stats().calls >= before.0 + 4,
        "each of them is a call's work"
    );
    for permit in held {
        permit.release().await.unwrap();
    }
    assert_eq!(semaphore.available().await.unwrap(), i64::from(4 * MANY));
}

pub(crate) async fn a_semaphore_that_is_made_anew_has_no_holds(bed: Bed) {
    let client = bed.client_with_lease(bed.lease(300)).await;
    let semaphore = client.semaphore("s");
    // Created again by setting the number, and by a release.
    for made_by_release in [false, true] {
        assert!(semaphore.try_set_permits(2).await.unwrap());
        let held = semaphore.acquire(1).await.unwrap();
        // Like Redisson's `delete()`, which does not know about holds.
        bed.command(&["DEL", "s"]);
        if made_by_release {
            semaphore.add_permits(2).await.unwrap();
        } else {
            assert!(semaphore.try_set_permits(2).await.unwrap());
        }
        let (ended, _) = timed("lost", held.guard().unwrap().ended()).await;
        assert_eq!(ended, Ended::Lost(LossReason::Gone));
        assert!(held.release().await.is_err());
        assert_eq!(semaphore.available().await.unwrap(), 2);
        bed.command(&["DEL", "s"]);
    }
    let semaphore = set(&client, 2).await;
    for made_by_adding in [false, true] {
        let held = semaphore
            .acquire(1, Lease::Fixed(ms(60_000)))
            .await
            .unwrap();
        bed.command(&["DEL", "p"]);
        if made_by_adding {
            semaphore.add_permits(2).await.unwrap();
        } else {
            assert!(semaphore.try_set_permits(2).await.unwrap());
        }
        assert!(held.release().await.is_err());
        assert_eq!(semaphore.available().await.unwrap(), 2);
        assert_eq!(semaphore.permits().await.unwrap(), 2);
    }
}

/// Redisson's `addPermits` and `drainPermits` store the number again, without an expiry.
pub(crate) async fn holds_outlast_a_life_that_java_took_away(bed: Bed) {
    let client = bed.client().await;
    let semaphore = client.semaphore("s");
    let life = bed.lease(300);
    for drained in [false, true] {
        assert!(semaphore.try_set_permits_for(2, life).await.unwrap());
        let held = semaphore.acquire(1).await.unwrap();
        if drained {
            bed.command(&["SET", "s", "0"]);
            in_vain(async || semaphore.try_acquire(1, Duration::ZERO).await).await;
        } else {
            bed.command(&["SET", "s", "4"]);
            semaphore.acquire(4).await.unwrap().forget();
        }
        sleep(2 * life).await;
        held.release().await.unwrap();
        assert_eq!(semaphore.available().await.unwrap(), 1);
        bed.command(&["DEL", "s"]);
    }
}

/// Like Redisson's `expire`, after the permits were taken.
pub(crate) async fn holds_end_with_a_life_that_came_later(bed: Bed) {
    let client = bed.client().await;
    let semaphore = client.semaphore("s");
    assert!(semaphore.try_set_permits(1).await.unwrap());
    let held = semaphore.acquire(1).await.unwrap();
    bed.command(&["PEXPIRE", "s", "9000"]);
    in_vain(async || semaphore.try_acquire(1, Duration::ZERO).await).await;
    let left = bed.left("leasehold_semaphore:{s}");
    assert!((1..=9000).contains(&left), "{left}");
    held.release().await.unwrap();
}

pub(crate) async fn a_drain_takes_those_of_dead_holders_too(bed: Bed) {
    let client = bed.client().await;
    let semaphore = client.semaphore("s");
    semaphore.try_set_permits(3).await.unwrap();
    let live = semaphore.acquire(1).await.unwrap();
    bed.command(&["DECRBY", "s", "2"]);
    bed.command(&["ZADD", "leasehold_semaphore:{s}", "1", "dead:1:2"]);
    assert_eq!(semaphore.drain().await.unwrap(), 2);
    assert_eq!(semaphore.available().await.unwrap(), 0);
    live.release().await.unwrap();
    assert_eq!(semaphore.available().await.unwrap(), 1);
}

pub(crate) async fn no_permits_make_no_semaphore(bed: Bed) {
    let client = bed.client().await;
    client
        .permit_expirable_semaphore("p")
        .add_permits(0)
        .await
        .unwrap();
    client.semaphore("s").add_permits(0).await.unwrap();
    assert_eq!(bed.number(&["DBSIZE"]), 0);
}
