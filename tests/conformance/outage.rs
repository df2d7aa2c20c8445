//! An unreachable engine and missing replies. Only the embedded engine has the switches;
//! `tests/faults` does the same with a real server.

use std::time::Duration;

use leasehold::test_util::{Delay, Faults};
use leasehold::{EmbeddedRedis, Ended, Error, HoldState, Lease, Lock, LossReason};
use leasehold_testbed::{
    Bed, KINDS, connected, eventually, forget, holds, ms, release, timed, until_certain, waiting,
};
use tokio::time::{Instant, sleep};

use crate::delayed_commands::calls_on_their_way;

#[tokio::test(start_paused = true)]
async fn a_cut_line_is_unavailable_and_a_healed_one_works() {
    let redis = EmbeddedRedis::new();
    let client = redis.client();
    let lock = client.lock("x");
    lock.lock().await.unwrap().unlock().await.unwrap();
    redis.cut();
    for wait in [Duration::ZERO, ms(300)] {
        let start = Instant::now();
        let error = lock.try_lock(wait, Lease::Renewed).await.unwrap_err();
        assert!(matches!(&error, Error::Unavailable { .. }), "{error}");
        assert!(start.elapsed() <= wait + ms(50), "{:?}", start.elapsed());
    }
    redis.heal();
    release(lock.try_lock(ms(300), Lease::Renewed).await).await;
}

#[tokio::test(start_paused = true)]
async fn waiters_ride_out_an_outage() {
    let redis = EmbeddedRedis::new();
    let (holder, client) = (redis.client(), redis.client());
    let guard = holder.lock("x").lock().await.unwrap();
    let mut tasks = Vec::new();
    for _ in 0..5 {
        let lock = client.lock("x");
        tasks.push(tokio::spawn(async move {
            lock.lock().await.unwrap().unlock().await
        }));
    }
    waiting(&client, 5).await;
    redis.cut();
    sleep(ms(3000)).await;
    assert_eq!(guard.state(), HoldState::Uncertain, "30 s have not passed");
    redis.heal();
    guard.unlock().await.unwrap();
    for task in tasks {
        timed("all served", task).await.0.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_uncertain_until_a_new_primary_has_confirmed_it() {
    let redis = EmbeddedRedis::new();
    let client = redis.client();
    let guard = client.lock("x").lock().await.unwrap();
    redis.delay(ms(20));
    redis.fail_over();
    eventually("uncertain", async || guard.state() == HoldState::Uncertain).await;
    until_certain(&guard).await;
    assert_eq!(client.stats().renewed, 1);
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_is_cut_off_knows_before_others_get_in() {
    let redis = EmbeddedRedis::new();
    let (holder, rival) = (redis.client(), redis.client());
    let guard = holder.lock("x").lock().await.unwrap();
    let mine = redis.links().remove(0);
    sleep(ms(10)).await;
    mine.cut();
    let rivals = tokio::spawn(async move { rival.lock("x").lock().await.map(|_| Instant::now()) });
    sleep(ms(15_000)).await;
    assert_eq!(
        guard.state(),
        HoldState::Uncertain,
        "renewal fails, the deadline has not passed"
    );
    guard.check().unwrap();
    let ended = guard.ended().await;
    let known = Instant::now();
    assert_eq!(ended, Ended::Lost(LossReason::Expired));
    let got_in = rivals.await.unwrap().unwrap();
    assert!(known < got_in, "{:?}", known - got_in);
}

/// The server counts a lease from when it runs the call, which may be long before the reply
/// arrives.
#[tokio::test(start_paused = true)]
async fn a_lease_is_counted_from_before_it_was_asked_for() {
    for kind in KINDS.iter().filter(|kind| kind.is_single()) {
        let redis = EmbeddedRedis::new();
        let client = redis.client();
        let slow = Faults {
            reply: Delay::fixed(ms(400)),
            ..Faults::default()
        };
        redis.links().pop().unwrap().set_faults(slow, 1);
        let (start, lease) = (Instant::now(), ms(10_000));
        let lock = kind.lock(&client, kind.name);
        let guard = lock.try_lock_now(Lease::Fixed(lease)).await.unwrap();
        assert!(guard.deadline() <= start + lease, "{}", kind.name);
        let start = Instant::now();
        guard.extend(2 * lease).await.unwrap();
        assert!(
            guard.deadline() <= start + 2 * lease,
            "{}: extended",
            kind.name
        );
        guard.unlock().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_in_doubt_stays_unknown() {
    let redis = EmbeddedRedis::new();
    let client = connected(redis.builder().command_timeout(ms(100))).await;
    let lock = client.lock("x");
    let link = redis.links().remove(0);
    let outer = lock.lock().await.unwrap();
    // First replies are lost, then nothing can be sent: both calls may have been executed.
    for deeper in [true, false] {
        link.mute();
        let cut = async {
            sleep(ms(150)).await;
            link.cut();
        };
        let other = client.lock("y");
        let again = lock.acquire().wait(ms(400)).within(&outer);
        let taking = if deeper {
            again
        } else {
            other.acquire().wait(ms(400))
        };
        let (taken, ()) = tokio::join!(taking.into_future(), cut);
        let error = taken.unwrap_err();
        assert!(error.may_be_held(), "{error}");
        link.heal();
        sleep(ms(200)).await;
    }
    assert_eq!((outer.state(), outer.hold_count()), (HoldState::Held, 1));
}

#[tokio::test(start_paused = true)]
async fn a_multi_lock_in_doubt_is_reported_as_possibly_held() {
    let redis = Bed::engine();
    let client = connected(redis.builder().command_timeout(ms(100))).await;
    let link = redis.links().remove(0);
    link.mute();
    let cut = async {
        sleep(ms(50)).await;
        link.cut();
    };
    let both = Lock::multi(["a", "b"].map(|name| client.lock(name)));
    let (taken, ()) = tokio::join!(both.try_lock(ms(400), Lease::Renewed), cut);
    let error = taken.unwrap_err();
    assert!(error.may_be_held(), "{error}");
    assert!(redis.dump().contains_key(b"a".as_slice()), "it was applied");
}

#[tokio::test(start_paused = true)]
async fn an_extended_hold_is_released_however_long_the_outage() {
    let redis = EmbeddedRedis::new();
    let client = redis.client();
    let guard = client
        .lock("x")
        .try_lock_now(Lease::Fixed(ms(100)))
        .await
        .unwrap();
    guard.extend(ms(3_600_000)).await.unwrap();
    let semaphore = client.semaphore("s");
    semaphore.try_set_permits(2).await.unwrap();
    let [back, kept] = [
        semaphore.acquire(1).await.unwrap(),
        semaphore.acquire(1).await.unwrap(),
    ];
    for permit in [&back, &kept] {
        permit.guard().unwrap().extend(ms(3_600_000)).await.unwrap();
    }
    redis.cut();
    drop((guard, back));
    kept.forget();
    // Many leases, but shorter than the extended one in Redis.
    sleep(ms(600_000)).await;
    redis.heal();
    sleep(ms(10_000)).await;
    assert_eq!(client.stats().releases_failed, 0);
    assert!(!client.lock("x").is_locked().await.unwrap());
    assert_eq!(semaphore.available().await.unwrap(), 1);
    // The kept permit does not come back by a lease.
    sleep(ms(3_600_000)).await;
    assert_eq!(semaphore.available().await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_change_in_doubt_stays_unknown_at_the_shutdown() {
    let redis = Bed::engine();
    let client = connected(redis.builder().command_timeout(ms(9000))).await;
    let latch = client.count_down_latch("l");
    latch.try_set_count(2).await.unwrap();
    let link = redis.links().remove(0);
    link.mute();
    let shut = async {
        sleep(ms(20)).await;
        link.cut();
        client.shutdown(ms(100)).await
    };
    let (counted, _) = tokio::join!(latch.count_down(), shut);
    let error = counted.unwrap_err();
    assert!(error.may_be_held(), "it was counted: {error}");
    assert_eq!(
        redis.client().count_down_latch("l").count().await.unwrap(),
        1
    );
}

/// Renewals and extensions use two connections, so their order is not known.
#[tokio::test(start_paused = true)]
async fn a_renewal_in_flight_does_not_shorten_an_extension() {
    for kind in &KINDS {
        let redis = EmbeddedRedis::new();
        let client = redis.builder().lease(ms(3000)).connect().await.unwrap();
        let link = redis.links().remove(0);
        let lock = kind.lock(&client, "x");
        let guard = lock.lock().await.unwrap();
        link.set_faults(
            Faults {
                request: Delay::fixed(ms(500)),
                ..Faults::default()
            },
            1,
        );
        let sent = async || calls_on_their_way(&link) > 0;
        eventually("a renewal is on its way", sent).await;
        link.set_faults(Faults::default(), 1);
        let renewed = client.stats().renewed;
        guard.extend(ms(60_000)).await.unwrap();
        assert_eq!(client.stats().renewed, renewed, "{}: not yet", kind.name);
        eventually("it arrives", async || client.stats().renewed > renewed).await;
        sleep(ms(20_000)).await;
        guard.check().unwrap();
        for (key, seen) in redis.dump() {
            let key = String::from_utf8_lossy(&key).into_owned();
            // Only the counter of a fenced lock has no expiry.
            let longer = seen.pttl.is_none_or(|left| left > 35_000);
            assert!(longer, "{}: {key} has {:?} ms", kind.name, seen.pttl);
        }
        assert!(lock.is_locked().await.unwrap(), "{}", kind.name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_restore_that_was_not_sent_changes_nothing() {
    let redis = EmbeddedRedis::new();
    let (first, second) = (redis.client(), redis.client());
    let owner = forget(first.string_lock("x").lock().await.unwrap());
    let lock = second.string_lock("x");
    let link = redis.links().pop().unwrap();
    link.cut();
    let error = lock.restore(&owner).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    link.heal();
    eventually("settled", async || second.stats().releases_pending == 0).await;
    sleep(ms(5000)).await;
    let guard = lock.restore(&owner).await.expect("it is still there");
    guard.unlock().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_extended_hold_is_released_after_a_long_outage() {
    let redis = EmbeddedRedis::new();
    let client = redis.client();
    let lock = client.lock("x");
    for nested in [false, true] {
        let guard = lock.try_lock(ms(10), Lease::Fixed(ms(1000))).await.unwrap();
        let long = Duration::from_secs(3600);
        let inner = if nested {
            let inner = lock.acquire().lease(Lease::Fixed(long));
            Some(inner.within(&guard).await.unwrap())
        } else {
            guard.extend(long).await.unwrap();
            None
        };
        redis.cut();
        drop((inner, guard));
        sleep(Duration::from_secs(60)).await;
        redis.heal();
        eventually("free", async || redis.dump().is_empty()).await;
    }
}

/// More calls in doubt than releases in flight: their undos are repeated for a whole lease.
#[tokio::test(start_paused = true)]
async fn undos_that_are_repeated_hold_up_no_release() {
    let redis = EmbeddedRedis::new();
    let client = redis.client();
    let link = redis.links().remove(0);
    let way = Faults {
        request: Delay::fixed(ms(30)),
        capacity: 1 << 20,
        ..Faults::default()
    };
    link.set_faults(way, 1);
    let tasks: Vec<_> = (0..1000)
        .map(|number| {
            let lock = client.lock(format!("n{number}"));
            tokio::spawn(async move { lock.lock().await.unwrap().unlock().await.unwrap() })
        })
        .collect();
    eventually("all are on their way", async || {
        client.stats().calls == 1000
    })
    .await;
    sleep(ms(1)).await;
    link.cut();
    link.set_faults(Faults::default(), 1);
    link.heal();
    for task in tasks {
        timed("they ride it out", task).await.0.unwrap();
    }
    let start = Instant::now();
    drop(client.lock("x").lock().await.unwrap());
    let lock = client.lock("y");
    let outer = lock.lock().await.unwrap();
    drop(outer.reenter().await.unwrap());
    let count = async || holds(&lock).await.unwrap() == 1;
    eventually("an inner release is told", count).await;
    eventually("free", async || {
        !client.lock("x").is_locked().await.unwrap()
    })
    .await;
    assert!(start.elapsed() < ms(50), "{:?}", start.elapsed());
    assert_eq!(
        client.stats().releases_pending,
        1000,
        "all are repeated yet"
    );
    outer.unlock().await.unwrap();
    // Late calls would have arrived within a lease.
    sleep(ms(31_000)).await;
    assert_eq!(client.stats().releases_pending, 0);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_is_over_when_all_is_released_or_its_time_is() {
    for (healed, deadline) in [
        (None, ms(700)),
        (None, ms(10_000)),
        (Some(5000), ms(10_000)),
    ] {
        let redis = EmbeddedRedis::new();
        let client = redis.client();
        let guard = client.lock("x").lock().await.unwrap();
        let start = Instant::now();
        redis.cut();
        let heals = async {
            if let Some(after) = healed {
                sleep(ms(after)).await;
                redis.heal();
            }
        };
        let (done, ()) = tokio::join!(client.shutdown(deadline), heals);
        let took = start.elapsed();
        if let Some(after) = healed {
            done.unwrap();
            assert!(redis.dump().is_empty(), "after {took:?}");
            assert!(took < ms(after + 10), "{took:?}");
        } else {
            let error = done.unwrap_err();
            assert!(matches!(error, Error::Unknown { .. }), "{error}");
            assert!((deadline..deadline + ms(10)).contains(&took), "{took:?}");
            assert_eq!(redis.dump().len(), 1, "it is held until its lease ends");
            // A second shutdown learns no more, whether or not the client has given up.
            sleep(ms(1000)).await;
            let error = client.shutdown(ms(3000)).await.unwrap_err();
            assert!(error.may_be_held(), "{error}");
        }
        drop(guard);
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_that_others_cut_short_goes_on() {
    let redis = EmbeddedRedis::new();
    let client = redis.client();
    let _guard = client.lock("x").lock().await.unwrap();
    redis.cut();
    let heals = async {
        sleep(ms(8000)).await;
        redis.heal();
    };
    let [short, long] = [client.shutdown(ms(100)), client.shutdown(ms(20_000))];
    let (short, long, ()) = tokio::join!(short, long, heals);
    let error = short.unwrap_err();
    assert!(error.may_be_held(), "{error}");
    long.unwrap();
    assert!(redis.dump().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_gone_goes_on_for_two_seconds() {
    for shut in [false, true] {
        let redis = EmbeddedRedis::new();
        let client = redis.client();
        let guard = client.lock("x").lock().await.unwrap();
        redis.cut();
        if shut {
            let shutting = client.shutdown(ms(60_000));
            assert!(tokio::time::timeout(ms(100), shutting).await.is_err());
        }
        drop((guard, client));
        sleep(ms(1900)).await;
        assert_eq!(redis.links().len(), 1, "it still tries");
        sleep(ms(200)).await;
        assert!(redis.links().is_empty(), "it has given up");
    }
}
