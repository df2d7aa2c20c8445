//! Nothing is taken on a server that has just become the primary. Only the embedded engine fails
//! over at a word; `tests/deployments/forced.rs` and the fault run do it with real servers.

use std::time::Duration;

use leasehold::{Client, EmbeddedRedis, Ended, Error, HoldState, Lease, Lock, LossReason};
use leasehold_testbed::{ms, release, timed, waiting};
use tokio::time::{Instant, sleep};

/// The default, with a command timeout of a second.
const GRACE: Duration = Duration::from_millis(3_500);
const AT_ONCE: Duration = Duration::from_millis(100);

type Make = fn(&Client) -> Lock;

const LOCKS: [(&str, Make); 8] = [
    ("plain", |client| client.lock("x")),
    ("spin", |client| client.spin_lock("x")),
    ("fair", |client| client.fair_lock("x")),
    ("fenced", |client| client.fenced_lock("x").into()),
    ("string", |client| client.string_lock("x")),
    ("read", |client| client.read_write_lock("x").read().clone()),
    ("write", |client| {
        client.read_write_lock("x").write().clone()
    }),
    ("several as one", |client| {
        Lock::multi([client.lock("x"), client.lock("y")])
    }),
];

/// An engine, a client that has seen it fail over a moment ago, and when that was.
async fn failed_over() -> (EmbeddedRedis, Client, Instant) {
    let redis = EmbeddedRedis::new();
    let client = redis.client();
    client.ping().await.unwrap();
    redis.fail_over();
    let at = Instant::now();
    sleep(ms(20)).await;
    client.ping().await.unwrap();
    (redis, client, at)
}

fn says_why(error: &Error) {
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(error.is_retryable(), "{error}");
    let why = "its former holders may not have heard of that: nothing is taken there for another";
    assert!(error.to_string().contains(why), "{error}");
}

#[tokio::test(start_paused = true)]
async fn every_lock_waits_for_the_end_of_the_grace() {
    for (what, make) in LOCKS {
        let (_redis, client, at) = failed_over().await;
        let lock = make(&client);
        let refused = lock.try_lock_now(Lease::Renewed).await;
        says_why(&refused.map(drop).expect_err(what));
        assert!(at.elapsed() < AT_ONCE, "{what}: {:?}", at.elapsed());
        let refused = lock.try_lock(ms(1_000), Lease::Renewed).await;
        says_why(&refused.map(drop).expect_err(what));
        let waited = at.elapsed();
        assert!(
            waited >= ms(1_000) && waited < ms(1_200),
            "{what}: {waited:?}"
        );
        let guard = lock.lock().await.expect(what);
        let waited = at.elapsed();
        assert!(
            waited >= GRACE && waited < GRACE + AT_ONCE,
            "{what}: {waited:?}"
        );
        guard.unlock().await.expect(what);
    }
}

#[tokio::test(start_paused = true)]
async fn permits_wait_for_the_end_of_the_grace() {
    let redis = EmbeddedRedis::new();
    let client = redis.client();
    let (semaphore, permits) = (
        client.semaphore("s"),
        client.permit_expirable_semaphore("p"),
    );
    semaphore.try_set_permits(2).await.unwrap();
    permits.try_set_permits(2).await.unwrap();
    redis.fail_over();
    let at = Instant::now();
    sleep(ms(20)).await;
    says_why(
        &semaphore
            .try_acquire(1, Duration::ZERO)
            .await
            .map(drop)
            .unwrap_err(),
    );
    says_why(&semaphore.drain().await.unwrap_err());
    let refused = permits.try_acquire(1, Duration::ZERO, Lease::Renewed).await;
    says_why(&refused.map(drop).unwrap_err());
    assert_eq!(semaphore.available().await.unwrap(), 2, "a question");
    // A call that can be repeated is repeated for a second.
    assert!(at.elapsed() < ms(1_500), "{:?}", at.elapsed());
    let (one, other) = tokio::join!(semaphore.acquire(1), permits.acquire(1, Lease::Renewed));
    let waited = at.elapsed();
    assert!(waited >= GRACE && waited < GRACE + AT_ONCE, "{waited:?}");
    one.unwrap().release().await.unwrap();
    other.unwrap().release().await.unwrap();
}

/// They have the lock already, or want none.
#[tokio::test(start_paused = true)]
async fn holders_and_questions_do_not_wait() {
    let redis = EmbeddedRedis::new();
    let (holder, other) = (redis.client(), redis.client());
    let kept = holder.lock("kept").lock().await.unwrap();
    redis.set_replicas(0);
    let gone = holder.lock("gone").lock().await.unwrap();
    redis.fail_over();
    redis.set_replicas(1);
    let at = Instant::now();
    assert_eq!(gone.ended().await, Ended::Lost(LossReason::Gone));
    kept.reenter().await.unwrap().unlock().await.unwrap();
    kept.extend(Duration::from_secs(60)).await.unwrap();
    assert_eq!(kept.state(), HoldState::Held);
    assert!(other.lock("kept").is_locked().await.unwrap());
    assert!(!other.lock("gone").is_locked().await.unwrap());
    kept.unlock().await.unwrap();
    assert!(!other.lock("kept").is_locked().await.unwrap());
    assert!(at.elapsed() < AT_ONCE, "{:?}", at.elapsed());
}

/// Only one waiter of a client asks, and the others must hear the same reason.
#[tokio::test(start_paused = true)]
async fn those_behind_the_waiter_that_asks_hear_why() {
    let (_redis, client, _) = failed_over().await;
    // It asks for all, and goes on waiting when the others give up.
    let first = client.lock("x");
    let first = tokio::spawn(async move { release(first.lock().await).await });
    waiting(&client, 1).await;
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let lock = client.lock("x");
        tasks.push(tokio::spawn(async move {
            lock.try_lock(ms(1_000), Lease::Renewed).await.map(drop)
        }));
    }
    for task in tasks {
        says_why(&task.await.unwrap().unwrap_err());
    }
    timed("it gets the lock", first).await.0.unwrap();
}

/// A waiter of the former primary, whose lock is released during the grace, and given to it.
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_given_in_the_grace_counts_after_it() {
    for make in [LOCKS[0].1, LOCKS[2].1] {
        let redis = EmbeddedRedis::new();
        let (holder, waiter) = (redis.client(), redis.client());
        let guard = make(&holder).lock().await.unwrap();
        let lock = make(&waiter);
        let waits =
            tokio::spawn(async move { lock.lock().await.map(|guard| (guard, Instant::now())) });
        waiting(&waiter, 1).await;
        sleep(ms(1_500)).await;
        redis.fail_over();
        let at = Instant::now();
        sleep(ms(50)).await;
        guard.unlock().await.unwrap();
        let (_guard, got) = timed("it gets the lock", waits).await.0.unwrap().unwrap();
        assert!(got - at >= GRACE, "{:?}", got - at);
        assert!(got - at < GRACE + ms(1_200), "{:?}", got - at);
    }
}

#[tokio::test(start_paused = true)]
async fn the_grace_can_be_longer_or_none() {
    for grace in [Duration::ZERO, Duration::from_secs(45)] {
        let redis = EmbeddedRedis::new();
        let client = redis
            .builder()
            .failover_grace(grace)
            .connect()
            .await
            .unwrap();
        client.ping().await.unwrap();
        redis.fail_over();
        let at = Instant::now();
        release(client.lock("x").lock().await).await;
        let waited = at.elapsed();
        assert!(
            waited >= grace && waited < grace + AT_ONCE,
            "{grace:?}: {waited:?}"
        );
    }
}

/// A connection that is made again leads to the same data.
#[tokio::test(start_paused = true)]
async fn an_outage_alone_is_no_change() {
    let redis = EmbeddedRedis::new();
    let client = redis.client();
    client.ping().await.unwrap();
    redis.cut();
    sleep(ms(2_000)).await;
    redis.heal();
    let at = Instant::now();
    release(client.lock("x").lock().await).await;
    assert!(at.elapsed() < ms(300), "{:?}", at.elapsed());
}

/// Another server may have taken its place.
#[tokio::test(start_paused = true)]
async fn a_hold_is_uncertain_while_its_server_is_out_of_reach() {
    let redis = EmbeddedRedis::new();
    let guard = redis.client().lock("x").lock().await.unwrap();
    redis.cut();
    sleep(ms(50)).await;
    assert_eq!(guard.state(), HoldState::Uncertain);
    guard.check().unwrap();
    redis.heal();
    sleep(ms(1_500)).await;
    assert_eq!(guard.state(), HoldState::Held);
}
