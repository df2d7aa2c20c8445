//! Waiters of fair locks keep their places, however many there are and whatever happens to a single
//! call.

use std::time::Duration;

use leasehold::{Client, EmbeddedRedis, LockGuard};
use leasehold_testbed::{Bed, eventually, ms, waiting};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::{LONG, most_at_once, name, runs, set_round_trip};

const CLAIM: Duration = ms(2000);

/// For how long Redis still keeps the place of each waiter of a fair lock.
fn places_kept(bed: &Bed, name: &str) -> Vec<i64> {
    let deadlines = format!("redisson_lock_timeout:{{{name}}}");
    let flat = bed.list(&["ZRANGE", &deadlines, "0", "-1", "WITHSCORES"]);
    let now = bed.clock();
    flat.chunks(2)
        .map(|pair| pair[1].parse::<i64>().expect("a number") - now)
        .collect()
}

fn queue_for(client: &Client, name: &str) -> JoinHandle<LockGuard> {
    let lock = client.fair_lock(name);
    tokio::spawn(async move { lock.lock().await.unwrap() })
}

async fn take_fair(client: &Client, name: &str) -> LockGuard {
    client.fair_lock(name).try_lock_now(LONG).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn every_waiter_of_a_long_line_keeps_its_place() {
    let redis = EmbeddedRedis::new();
    let bed = Bed::of(&redis);
    let client = redis.builder().fair_claim(CLAIM).connect().await.unwrap();
    let _held = take_fair(&client, "x").await;
    let waiters = 450;
    let _waiting: Vec<_> = (0..waiters).map(|_| queue_for(&client, "x")).collect();
    let queue = || bed.list(&["LRANGE", "redisson_lock_queue:{x}", "0", "-1"]);
    eventually("all in the queue", async || queue().len() == waiters).await;
    let before = queue();
    let end = Instant::now() + CLAIM * 4;
    while Instant::now() < end {
        sleep(ms(50)).await;
        let dead = places_kept(&bed, "x")
            .into_iter()
            .filter(|left| *left <= 0)
            .count();
        assert_eq!(dead, 0, "all give signs of life");
    }
    assert_eq!(queue(), before);
}

#[tokio::test(start_paused = true)]
async fn a_beat_without_an_answer_costs_nobody_a_place() {
    let redis = EmbeddedRedis::new();
    let bed = Bed::of(&redis);
    let patient = redis.builder().command_timeout(Duration::from_secs(60));
    let client = patient.fair_claim(CLAIM).connect().await.unwrap();
    let link = redis.links().remove(0);
    let _held = [take_fair(&client, "a").await, take_fair(&client, "b").await];
    let mut waiters = Vec::new();
    for name in ["a", "b"] {
        waiters.push(queue_for(&client, name));
        // Send their heartbeats at different times.
        sleep(ms(200)).await;
    }
    let beats = || runs(&redis, "fair_heartbeat");
    let before = beats();
    eventually("a beat", async || beats() > before).await;
    // From now on heartbeats run but get no reply, on a connection that is not given up for a
    // minute.
    link.mute();
    let end = Instant::now() + CLAIM * 4;
    while Instant::now() < end {
        sleep(ms(50)).await;
        for name in ["a", "b"] {
            let [left] = places_kept(&bed, name)[..] else {
                panic!("one place at {name}")
            };
            assert!(left > 0, "{name}: {left} ms");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_has_one_beat_under_way() {
    let redis = EmbeddedRedis::new();
    let patient = redis
        .builder()
        .command_timeout(ms(10_000))
        .fair_claim(ms(10_000));
    let client = patient.connect().await.unwrap();
    let _held = take_fair(&client, "x").await;
    let _waiter = queue_for(&client, "x");
    eventually("a beat", async || runs(&redis, "fair_heartbeat") > 0).await;
    set_round_trip(&redis.links().remove(0), ms(1500));
    let end = Instant::now() + ms(20_000);
    let most = most_at_once(&redis, &["fair_heartbeat"], ms(1500), async || {
        Instant::now() < end
    })
    .await;
    assert_eq!(most, 1);
    assert!(
        runs(&redis, "fair_heartbeat") >= 10,
        "{}",
        runs(&redis, "fair_heartbeat")
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_has_not_more_than_1024_beats_under_way() {
    // It knows the scripts: the answer that it lacks one would be lost.
    let redis = Bed::engine();
    let patient = redis.builder().command_timeout(Duration::from_secs(60));
    let client = patient.fair_claim(CLAIM).connect().await.unwrap();
    let names = 1200;
    let mut held = Vec::new();
    for number in 0..names {
        held.push(take_fair(&client, &name(number)).await);
    }
    let _waiters: Vec<_> = (0..names)
        .map(|number| queue_for(&client, &name(number)))
        .collect();
    waiting(&client, names as u64).await;
    eventually("all listen", async || {
        client.stats().listeners == names as u64
    })
    .await;
    let before = runs(&redis, "fair_heartbeat");
    redis.links().remove(0).mute();
    // Each name is due in this time, and the client still waits for the first answer.
    sleep((CLAIM / 2).saturating_sub(ms(50))).await;
    assert_eq!(runs(&redis, "fair_heartbeat") - before, 1024);
}
