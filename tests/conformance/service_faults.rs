//! The faults that tests of services switch on: clients see what they see on a real server.

use std::time::Duration;

use leasehold::settings::Durability;
use leasehold::{EmbeddedRedis, Ended, Error, HoldState, Lease, LockGuard, LossReason};
use leasehold_testbed::{Bed, eventually, ms, release, soon, timed, until_certain};
use tokio::time::{Instant, sleep, timeout};

use crate::for_each_kind::for_each_exclusive_kind;

const GONE: Ended = Ended::Lost(LossReason::Gone);

/// A client with this many copies, and a held lock of it.
async fn durable(redis: &EmbeddedRedis, copies: Durability) -> LockGuard {
    let client = redis.builder().durability(copies).connect().await.unwrap();
    client.lock("a").lock().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn replicas_that_stop_following_end_a_durable_hold_with_its_lease() {
    let redis = EmbeddedRedis::new();
    let guard = durable(&redis, Durability::replicas(1)).await;
    redis.set_replicas(0);
    soon("its renewal fails", async {
        eventually("uncertain", async || guard.state() == HoldState::Uncertain).await;
    })
    .await;
    redis.set_replicas(1);
    until_certain(&guard).await;
    redis.set_replicas(0);
    assert_eq!(guard.ended().await, Ended::Lost(LossReason::Expired));
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_copies_takes_its_time_and_ends_when_there_are_enough() {
    let redis = EmbeddedRedis::new();
    let copies = Durability::replicas(2).within(ms(400));
    let client = redis.builder().durability(copies).connect().await.unwrap();
    let start = Instant::now();
    let refused = client.lock("a").lock().await.unwrap_err();
    let is_one_short = matches!(
        refused,
        Error::NotDurable {
            wanted: 2,
            acknowledged: 1,
            ..
        }
    );
    assert!(is_one_short, "{refused}");
    assert_eq!(start.elapsed(), ms(400));
    let start = Instant::now();
    let lock = client.lock("a");
    let (taken, ()) = tokio::join!(lock.lock(), async {
        sleep(ms(100)).await;
        redis.set_replicas(2);
    });
    release(taken).await;
    assert_eq!(start.elapsed(), ms(100));
}

#[tokio::test(start_paused = true)]
async fn each_lost_reply_is_one() {
    let redis = EmbeddedRedis::new();
    let client = redis.client();
    let free = async || !redis.dump().contains_key(b"a".as_slice());
    // The second one is that of the clean-up, which is repeated.
    redis.lose_next_reply();
    redis.lose_next_reply();
    let lost = client.lock("a").try_lock_now(Lease::Renewed).await;
    assert!(lost.unwrap_err().may_be_held());
    eventually("free", free).await;
    let taken = client.lock("a").try_lock_now(Lease::Renewed).await;
    taken.unwrap().unlock().await.unwrap();
    // Acquisitions that have time, releases and changes are repeated.
    redis.lose_next_reply();
    let guard = client.lock("a").lock().await.unwrap();
    redis.lose_next_reply();
    guard.unlock().await.unwrap();
    let semaphore = client.semaphore("s");
    redis.lose_next_reply();
    semaphore.add_permits(2).await.unwrap();
    assert_eq!(semaphore.available().await.unwrap(), 2);
    assert!(free().await);
}

#[tokio::test(start_paused = true)]
async fn a_late_reply_comes_as_late_and_costs_its_part_of_the_lease() {
    let redis = Bed::engine();
    let (old, delay) = (redis.client(), ms(200));
    release(old.lock("a").lock().await).await;
    redis.delay(delay);
    // Clients that are made later are as far away.
    for client in [old, redis.client()] {
        client.ping().await.unwrap();
        let start = Instant::now();
        let lease = Lease::Fixed(ms(1000));
        let guard = client.lock("a").try_lock_now(lease).await.unwrap();
        assert_eq!(start.elapsed(), delay);
        assert!(guard.remaining() <= ms(800), "{:?}", guard.remaining());
        guard.unlock().await.unwrap();
    }
    redis.delay(Duration::ZERO);
    let client = redis.client();
    client.ping().await.unwrap();
    let start = Instant::now();
    release(client.lock("a").lock().await).await;
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_is_too_late_is_unknown() {
    let redis = EmbeddedRedis::new();
    let builder = redis.builder().command_timeout(ms(500));
    let client = builder.connect().await.unwrap();
    release(client.lock("a").lock().await).await;
    let guard = client.lock("held").lock().await.unwrap();
    redis.delay(ms(2000));
    let refused = client.lock("a").try_lock_now(Lease::Renewed).await;
    assert!(matches!(refused, Err(Error::Unknown { .. })), "{refused:?}");
    eventually("uncertain", async || guard.state() == HoldState::Uncertain).await;
    redis.delay(Duration::ZERO);
    until_certain(&guard).await;
    release(client.lock("a").lock().await).await;
    guard.unlock().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_failover_keeps_what_the_replicas_have() {
    for_each_exclusive_kind(async |kind| {
        let redis = EmbeddedRedis::new();
        let (one, other) = (redis.client(), redis.client());
        let old = kind.lock(&one, "old").lock().await.unwrap();
        let released = kind.lock(&one, "released").lock().await.unwrap();
        redis.set_replicas(0);
        let new = kind.lock(&one, "new").lock().await.unwrap();
        released.unlock().await.unwrap();
        sleep(ms(50)).await;
        redis.fail_over();
        assert_eq!(timeout(ms(1000), new.ended()).await, Ok(GONE));
        let next = timed("nobody has it", kind.lock(&other, "new").lock())
            .await
            .0;
        next.unwrap().unlock().await.unwrap();
        assert!(old.check().is_ok(), "the new primary has it");
        until_certain(&old).await;
        // The release was lost, so the lock is held until its lease ends.
        let again = kind.lock(&other, "released");
        let again = again.try_lock(ms(20_000), Lease::Renewed).await;
        assert!(again.unwrap_err().is_timeout());
        old.unlock().await.unwrap();

        // Replicas that follow have everything.
        redis.set_replicas(1);
        let held = kind.lock(&one, "new").lock().await.unwrap();
        redis.fail_over();
        let ended = timeout(ms(60_000), held.ended()).await;
        assert!(ended.is_err(), "it goes on: {ended:?}");
        held.unlock().await.unwrap();
    })
    .await;
}
