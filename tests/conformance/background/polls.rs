//! The safety poll finds names whose release was not announced.

use std::time::Duration;

use futures::future::join_all;
use leasehold::test_util::{Delay, Faults};
use leasehold::{Client, EmbeddedRedis, HoldState, Lease, LockGuard};
use leasehold_testbed::{eventually, ms, timed, waiting};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::{BATCH, LONG, name, runs, take_all};

/// So rare that a test sees only one poll.
const POLL: Duration = ms(10_000);

type Waiter = JoinHandle<LockGuard>;

fn wait_for(client: &Client, name: &str) -> Waiter {
    let lock = client.lock(name);
    tokio::spawn(async move { lock.lock().await.unwrap() })
}

/// The guards of all waiters, which they get by the next safety poll.
async fn soon_served(waiters: Vec<Waiter>) -> Vec<LockGuard> {
    // The poll comes between 80 % and 120 % of the interval.
    let guards = timeout(POLL.mul_f64(1.3), join_all(waiters)).await;
    let guards = guards.expect("one poll finds them");
    guards.into_iter().map(|guard| guard.unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn all_names_that_vanished_are_found_by_one_call() {
    let redis = EmbeddedRedis::new();
    let builder = || {
        redis
            .builder()
            .safety_poll(POLL)
            .lease(Duration::from_secs(600))
    };
    let (holder, client) = (
        builder().connect().await.unwrap(),
        builder().connect().await.unwrap(),
    );
    let _foreign = take_all(&holder, 0..BATCH / 2, LONG).await;
    let _own = take_all(&client, BATCH / 2..BATCH, Lease::Renewed).await;
    let waiters: Vec<_> = (0..BATCH)
        .map(|number| wait_for(&client, &name(number)))
        .collect();
    waiting(&client, BATCH as u64).await;
    for number in 0..BATCH {
        redis.lose(&name(number));
    }
    let guards = soon_served(waiters).await;
    assert_eq!(client.stats().polls, 1);
    assert_eq!(guards.len(), BATCH);
    assert_eq!(client.stats().lost, (BATCH / 2) as u64);
}

#[tokio::test(start_paused = true)]
async fn more_names_than_one_poll_asks_for_are_all_found() {
    let redis = EmbeddedRedis::new();
    let builder = || redis.builder().safety_poll(POLL);
    let (holder, client) = (
        builder().connect().await.unwrap(),
        builder().connect().await.unwrap(),
    );
    let names = BATCH * 2 + 100;
    let _held = take_all(&holder, 0..names, LONG).await;
    let waiters: Vec<_> = (0..names)
        .map(|number| wait_for(&client, &name(number)))
        .collect();
    waiting(&client, names as u64).await;
    for number in 0..names {
        redis.lose(&name(number));
    }
    let guards = soon_served(waiters).await;
    assert_eq!(guards.len(), names);
    assert_eq!(client.stats().polls, 3);
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_younger_than_the_poll_is_not_lost() {
    let redis = EmbeddedRedis::new();
    let (holder, client) = (redis.client(), redis.client());
    let link = redis.links().pop().unwrap();
    let _foreign = take_all(&holder, 0..1, LONG).await;
    let waiters = [wait_for(&client, &name(0)), wait_for(&client, &name(0))];
    waiting(&client, 2).await;
    redis.lose(&name(0));
    let slow = ms(300);
    link.set_faults(
        Faults {
            reply: Delay::fixed(slow),
            ..Faults::default()
        },
        1,
    );
    eventually("the poll has asked", async || {
        runs(&redis, "keys_exist") == 1
    })
    .await;
    link.set_faults(Faults::default(), 1);
    let channel = format!("redisson_lock__channel:{{{}}}", name(0));
    redis.command(&["PUBLISH", &channel, "0"]).unwrap();
    let [first, _second] = waiters;
    let (guard, took) = timed("granted", first).await;
    assert!(took < slow, "the answer of the poll has not come");
    sleep(slow * 2).await;
    assert_eq!(guard.unwrap().state(), HoldState::Held);
}
