//! Renewals that are refused or get no reply.

use std::time::Duration;

use leasehold::test_util::Direction;
use leasehold::{Client, EmbeddedRedis, HoldState, Lease};
use leasehold_testbed::{Bed, eventually, ms};
use tokio::task::yield_now;
use tokio::time::{Instant, advance, sleep};

use super::{BATCH, LONG, most_at_once, name, runs, set_round_trip, take_all};

/// Releases in flight at once in the background.
const AT_ONCE: u64 = 256;
/// More than the background releases in one step.
const GUARDS: usize = 6000;

#[tokio::test(start_paused = true)]
async fn one_bad_key_costs_no_healthy_hold() {
    let lease = ms(5000);
    let round_trip = ms(10);
    let redis = EmbeddedRedis::new();
    let client = redis.builder().lease(lease).connect().await.unwrap();
    let mut guards = take_all(&client, 0..BATCH, Lease::Renewed).await;
    let bad = guards.remove(BATCH / 2);
    redis.lose(&name(BATCH / 2));
    redis
        .command(&["SET", &name(BATCH / 2), "of another type"])
        .unwrap();
    set_round_trip(&redis.links().remove(0), round_trip);

    eventually("the renewal of all is refused", async || {
        runs(&redis, "lock_renew") > 0
    })
    .await;
    let refused = Instant::now();
    let renewed = async || client.stats().renewed == guards.len() as u64;
    eventually("all but one are renewed", renewed).await;
    let took = refused.elapsed();
    assert!(took <= round_trip * 10, "{took:?}");
    eventually("one is lost", async || bad.state() == HoldState::Lost).await;
    let end = Instant::now() + lease * 3;
    while Instant::now() < end {
        sleep(ms(20)).await;
        let unsure = guards
            .iter()
            .filter(|guard| guard.state() != HoldState::Held)
            .count();
        assert_eq!(unsure, 0, "they were renewed");
    }
    assert_eq!(client.stats().lost, 1);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_without_an_answer_leaves_time_for_another_one() {
    let lease = ms(3000);
    let redis = Bed::engine();
    let builder = redis
        .builder()
        .lease(lease)
        .command_timeout(Duration::from_secs(60));
    let client = builder.connect().await.unwrap();
    let link = redis.links().remove(0);
    let guard = client.lock("x").lock().await.unwrap();
    link.connections()
        .iter()
        .for_each(|connection| connection.stall(Direction::Replies));
    let renewals = async |number| runs(&redis, "lock_renew") == number;
    eventually("a renewal has no answer", async || renewals(1).await).await;
    let begin = Instant::now();
    eventually("there is another one", async || renewals(2).await).await;
    let took = begin.elapsed();
    assert!(took < lease / 3 + ms(200), "{took:?}");
    link.heal();
    sleep(lease * 3).await;
    assert_eq!(guard.state(), HoldState::Held);
}

/// A release has given it the lock for two seconds, which is less than a third of the lease that
/// renewals ask for.
#[tokio::test(start_paused = true)]
async fn a_renewal_of_a_short_lease_leaves_time_for_another_one() {
    let redis = Bed::engine();
    let builder = || redis.builder().command_timeout(Duration::from_secs(60));
    let (one, other) = (redis.client(), builder().connect().await.unwrap());
    let link = redis.links().pop().expect("that of the other one");
    let guard = one.fair_lock("x").lock().await.unwrap();
    let lock = other.fair_lock("x");
    let next = tokio::spawn(async move { lock.lock().await });
    eventually("it waits", async || other.stats().subscriptions > 0).await;
    sleep(ms(50)).await;
    guard.unlock().await.unwrap();
    let guard = next.await.unwrap().unwrap();
    link.connections()
        .iter()
        .for_each(|connection| connection.stall(Direction::Replies));
    let renewals = async |number| runs(&redis, "lock_renew") == number;
    eventually("a renewal has no answer", async || renewals(1).await).await;
    eventually("there is another one", async || renewals(2).await).await;
    assert_eq!(guard.state(), HoldState::Uncertain);
    link.heal();
    sleep(ms(3000)).await;
    assert_eq!(guard.state(), HoldState::Held);
}

/// Once, they delayed the renewals of others by a third of a second, and a hold was lost.
#[tokio::test(start_paused = true)]
async fn thousands_of_guards_that_are_let_go_delay_no_renewal() {
    let redis = Bed::engine();
    let client = redis.builder().lease(ms(300)).connect().await.unwrap();
    let many = take_all(&client, 0..GUARDS, LONG).await;
    let kept = client.lock("kept").lock().await.unwrap();
    drop(many);
    // The renewal is due when the first release can be sent.
    advance(ms(150)).await;
    let ahead = taken_up_before(&redis, &client, "lock_renew", 1).await;
    assert!(ahead < GUARDS / 4, "{ahead} releases were taken up before");
    let settled = async || client.stats().releases_pending == 0;
    eventually("all released", settled).await;
    assert_eq!(
        (kept.state(), client.stats().releases_failed),
        (HoldState::Held, 0)
    );
}

/// Once, all waiting releases were polled again for every few new ones.
#[tokio::test(start_paused = true)]
async fn the_first_of_thousands_of_releases_does_not_wait_for_the_last() {
    let redis = Bed::engine();
    let client = redis.client();
    drop(take_all(&client, 0..GUARDS, LONG).await);
    // The drops themselves send releases until `AT_ONCE` are in flight. The background sends all
    // others.
    let first = AT_ONCE + 1;
    let ahead = taken_up_before(&redis, &client, "lock_release", first).await;
    assert!(ahead < GUARDS / 4, "{ahead} releases were taken up before");
}

/// How many releases the background had started when a script had run this often.
async fn taken_up_before(
    redis: &EmbeddedRedis,
    client: &Client,
    script: &str,
    often: u64,
) -> usize {
    while runs(redis, script) < often {
        assert_eq!(client.stats().releases_failed, 0);
        assert!(client.stats().releases_pending > 0, "all are over");
        yield_now().await;
    }
    usize::try_from(client.stats().releases_queued).unwrap()
}

/// Also on the connection and on the server: only a limited number is in flight.
#[tokio::test(start_paused = true)]
async fn a_renewal_is_behind_few_releases_on_the_line() {
    // It knows the scripts: their texts would fill the line.
    let redis = Bed::engine();
    let client = redis.builder().lease(ms(300)).connect().await.unwrap();
    let many = take_all(&client, 0..GUARDS / 4, LONG).await;
    let _kept = client.lock("kept").lock().await.unwrap();
    set_round_trip(&redis.links().remove(0), ms(20));
    drop(many);
    let scripts = ["lock_release", "lock_renew"];
    let renewed = async || client.stats().renewed < 3;
    let most = most_at_once(&redis, &scripts, ms(20), renewed).await;
    assert!((2..=AT_ONCE + 1).contains(&most), "{most} calls");
}
