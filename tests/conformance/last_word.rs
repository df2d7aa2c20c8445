//! Redis itself decides, not a message, which may be lost: at the end of a wait, and after a waiter
//! has subscribed.

use std::time::Duration;

use futures::future::try_join_all;
use leasehold::test_util::{Delay, Faults};
use leasehold::{EmbeddedRedis, Error, Lease};
use leasehold_testbed::{Bed, Kind, Place, SOON, eventually, ms, timed, waiting};
use tokio::time::{Instant, sleep, sleep_until};

use crate::faulty_connection::FaultyConnection;
use crate::for_each_kind::for_each_exclusive_kind;

/// The wait, and when the lock is released. On a busy machine neither may be late.
const fn times(bed: &Bed) -> [Duration; 2] {
    match &bed.place {
        Place::Server(..) => [ms(6000), ms(0)],
        // No heartbeat comes in between.
        Place::Embedded(_) => [ms(1400), ms(1300)],
    }
}

/// A release near the end of the wait, whose message is lost, is found by the last call.
pub(crate) async fn a_lost_message_is_made_up_for_at_the_end_of_the_wait(bed: Bed) {
    let other = &bed.client().await;
    let [wait, release] = times(&bed);
    let asks_last = async |kind: &Kind| {
        let (client, line) =
            FaultyConnection::with(&bed, |builder| builder.safety_poll(ms(60_000))).await;
        let guard = kind.lock(other, kind.name).lock().await.unwrap();
        let (start, lock) = (Instant::now(), kind.lock(&client, kind.name));
        let taking = tokio::spawn(async move {
            let taken = lock.try_lock(wait, Lease::Fixed(ms(9000))).await;
            (taken, start.elapsed())
        });
        // Polling kinds find the release earlier.
        let settled = async || {
            let stats = client.stats();
            stats.subscriptions == 1 || stats.listeners == 0 && stats.calls > 4
        };
        eventually("listening or polling", settled).await;
        line.lose_messages();
        sleep_until(start + release).await;
        guard.unlock().await.unwrap();
        let (taken, took) = timed("it is found", taking).await.0.unwrap();
        (taken, took, line)
    };
    for_each_exclusive_kind(async |kind| {
        let (mut taken, mut took, mut line) = asks_last(kind).await;
        // On a server, repeat if a stalled machine lost the last reply.
        for _ in 0..4 {
            let lost = matches!(&taken, Err(error) if error.may_be_held());
            if lost && !bed.is_embedded() {
                (taken, took, line) = asks_last(kind).await;
            }
        }
        let guard = taken.unwrap_or_else(|error| panic!("{}, {took:?}: {error}", kind.name));
        assert!(took <= wait + bed.late(50), "{}: {took:?}", kind.name);
        guard.unlock().await.unwrap();
        drop(line);
    })
    .await;
}

pub(crate) async fn a_latch_that_opened_unheard_is_found_at_the_end_of_the_wait(bed: Bed) {
    let other = bed.client().await;
    let asks_last = async || {
        let (client, line) =
            FaultyConnection::with(&bed, |builder| builder.safety_poll(ms(60_000))).await;
        let opens = other.count_down_latch("l");
        assert!(opens.try_set_count(1).await.unwrap());
        let (start, [wait, release]) = (Instant::now(), times(&bed));
        // The contender, and a waiter behind it.
        let waits = [(); 2].map(|()| {
            let latch = client.count_down_latch("l");
            tokio::spawn(async move { latch.wait(wait).await })
        });
        waiting(&client, 2).await;
        eventually("listening", async || client.stats().subscriptions == 1).await;
        line.lose_messages();
        sleep_until(start + release).await;
        assert_eq!(opens.count_down().await.unwrap(), 0);
        timed("it is found open", try_join_all(waits))
            .await
            .0
            .unwrap()
    };
    let mut found = asks_last().await;
    // As above.
    for _ in 0..4 {
        let is_lost = |one: &Result<(), Error>| matches!(one, Err(Error::Unavailable { .. }));
        if found.iter().any(is_lost) && !bed.is_embedded() {
            found = asks_last().await;
        }
    }
    found.into_iter().for_each(Result::unwrap);
}

/// Also if the subscription is never confirmed, for instance on a half-open connection.
#[tokio::test(start_paused = true)]
async fn a_waiter_still_subscribing_at_the_end_of_its_wait_asks_once_more() {
    let redis = EmbeddedRedis::new();
    let (other, client) = (redis.client(), redis.client());
    let guard = other.lock("x").lock().await.unwrap();
    let reply = Delay::fixed(ms(300));
    let slow = Faults {
        reply,
        ..Faults::default()
    };
    redis.links().pop().unwrap().set_faults(slow, 1);
    let release = async {
        sleep(ms(100)).await;
        guard.unlock().await.unwrap();
    };
    // Asked immediately and answered at 300 ms. The subscription would be confirmed at 600 ms.
    let lock = client.lock("x");
    let taking = lock.try_lock(ms(500), Lease::Fixed(ms(9000)));
    let (taken, ()) = tokio::join!(taking, release);
    taken.expect("free for 400 ms").unlock().await.unwrap();
}

/// Check, listen, check again: the message of a release in between reaches nobody.
#[tokio::test(start_paused = true)]
async fn a_release_during_a_subscription_is_noticed() {
    for_each_exclusive_kind(async |kind| {
        let redis = EmbeddedRedis::new();
        let (other, polls) = (redis.client(), ms(60_000));
        let client = redis.builder().safety_poll(polls).connect().await.unwrap();
        let slow = Faults {
            request: Delay::fixed(ms(100)),
            ..Faults::default()
        };
        redis.links().pop().unwrap().set_faults(slow, 1);
        let lock = kind.lock(&other, kind.name);
        let guard = lock.try_lock_now(Lease::Fixed(polls)).await.unwrap();
        let release = async {
            sleep(ms(150)).await;
            guard.unlock().await.unwrap();
        };
        // Asked at 100 ms. The subscription would be confirmed at 200 ms.
        let start = Instant::now();
        let lock = kind.lock(&client, kind.name);
        let (taken, ()) = tokio::join!(lock.try_lock(SOON, Lease::Fixed(polls)), release);
        let took = start.elapsed();
        taken.unwrap().unlock().await.unwrap();
        assert!(took < ms(2000), "{}: {took:?}", kind.name);
    })
    .await;
}
