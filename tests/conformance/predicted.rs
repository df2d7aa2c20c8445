//! Two scenes that a reader of the specification of the plain lock predicted.

use leasehold::test_util::{Delay, Faults, Reply};
use leasehold::{EmbeddedRedis, HoldState, Lease};
use leasehold_testbed::{Bed, ms, timed, waiting};
use tokio::time::{Instant, sleep_until};

use crate::delayed_commands::{LATE, SEEDS, Testbed};

const LEASE: Lease = Lease::Fixed(ms(600_000));

fn fields(redis: &EmbeddedRedis) -> Vec<String> {
    let Ok(Reply::Array(fields)) = redis.command(&["HKEYS", "x"]) else {
        panic!("a hash has fields");
    };
    let text = |field: Result<Reply, _>| match field {
        Ok(Reply::Bulk(field)) => String::from_utf8(field).expect("text"),
        _ => panic!("a field is text"),
    };
    fields.into_iter().map(text).collect()
}

/// A call whose caller has given up arrives during the next hold of its client: it is refused, and
/// the hold stays.
#[tokio::test(start_paused = true)]
async fn a_call_that_was_given_up_arrives_during_the_next_hold() {
    let mut came = 0;
    for seed in SEEDS {
        let testbed = Testbed::new(seed);
        let lock = testbed.client.lock("x");
        testbed.slow(ms(30));
        let given_up = tokio::time::timeout(ms(20), lock.try_lock(ms(60_000), LEASE));
        let (given_up, broken) = tokio::join!(given_up, testbed.breaks());
        assert!(given_up.is_err());
        testbed.is_fast_again();
        let (guard, took) = timed("granted", lock.try_lock(ms(60_000), LEASE)).await;
        let guard = guard.unwrap();
        assert!(
            took < ms(1000),
            "it waits for no call of the former one: {took:?}"
        );
        let own = [guard.owner().to_owned()];
        assert_eq!(fields(&testbed.redis), own);
        let asked = testbed.asked();
        sleep_until(broken + LATE + ms(100)).await;
        came += testbed.asked() - asked;
        assert_eq!(fields(&testbed.redis), own);
        let rival = testbed.rival.lock("x");
        assert!(
            rival
                .try_lock(ms(50), LEASE)
                .await
                .unwrap_err()
                .is_timeout()
        );
        assert_eq!(guard.state(), HoldState::Held);
        guard.unlock().await.unwrap();
        let (next, took) = timed("the rival", rival.lock()).await;
        assert!(took < ms(1000), "{took:?}");
        next.unwrap().unlock().await.unwrap();
    }
    assert!((1..8).contains(&came), "{came} came late");
}

/// A hold whose renewal is answered after its deadline is lost, and others get the lock long before
/// Redis would free it.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_answered_too_late_does_not_count() {
    let redis = Bed::engine();
    let builder = redis.builder().lease(ms(3000)).command_timeout(ms(60_000));
    let (client, other) = (builder.connect().await.unwrap(), redis.client());
    let link = redis.links().remove(0);
    let guard = client.lock("x").lock().await.unwrap();
    let granted = Instant::now();
    let faults = Faults {
        reply: Delay::fixed(ms(2500)),
        ..Faults::default()
    };
    link.set_faults(faults, 1);
    let lock = other.lock("x");
    let next = tokio::spawn(async move { (lock.lock().await, Instant::now()) });
    waiting(&other, 1).await;
    sleep_until(granted + ms(1500)).await;
    assert_eq!(guard.state(), HoldState::Held);
    let Ok(Reply::Int(left)) = redis.command(&["PTTL", "x"]) else {
        panic!("it has a lease");
    };
    assert!(left > 2000, "the renewal was carried out: {left} ms");
    for later in [ms(3200), ms(3600), ms(6000)] {
        sleep_until(granted + later).await;
        assert_eq!(guard.state(), HoldState::Lost, "{later:?}");
    }
    let (next, at) = next.await.unwrap();
    let after = at - granted;
    assert!(
        (ms(2990)..ms(3300)).contains(&after),
        "the client itself removes what is lost: {after:?}"
    );
    next.unwrap().unlock().await.unwrap();
}
