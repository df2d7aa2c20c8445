//! When the two keys of a fair queue expire: after its dead waiters, and never while a Redisson
//! waiter is in the queue.

use std::time::Duration;

use leasehold::{Client, Lease, LockGuard};
use leasehold_testbed::{Bed, SOON, eventually, ms};
use tokio::time::{Instant, sleep};

use crate::fair::{DEADLINES, JAVA, QUEUE, nothing_is_left, put, queue, queued, served};
use crate::faulty_connection::FaultyConnection;

/// For how long a queue stays if no client sends heartbeats.
const KEPT: i64 = 24 * 60 * 60 * 1000;
const NO_EXPIRY: [i64; 2] = [-1, -1];
const LONG: Lease = Lease::Fixed(Duration::from_secs(600));

/// The remaining time of both keys.
fn left(bed: &Bed) -> [i64; 2] {
    [QUEUE, DEADLINES].map(|key| bed.left(key))
}

/// Whether both keys got their full time a moment ago.
fn fresh(bed: &Bed) -> bool {
    left(bed)
        .iter()
        .all(|left| (KEPT - 700..=KEPT).contains(left))
}

async fn held(client: &Client) -> LockGuard {
    client.fair_lock("x").try_lock_now(LONG).await.unwrap()
}

pub(crate) async fn a_queue_of_the_dead_expires(bed: Bed) {
    let holder = bed.client().await;
    let (doomed, line) = FaultyConnection::with(&bed, |builder| builder).await;
    held(&holder).await.forget();
    let waiter = queued(&bed, &doomed).await;
    assert!(fresh(&bed), "its first call: {:?}", left(&bed));
    bed.command(&["DEL", QUEUE, DEADLINES]);
    eventually("back in the queue", async || queue(&bed).len() == 1).await;
    assert!(fresh(&bed), "its return: {:?}", left(&bed));
    for key in [QUEUE, DEADLINES] {
        bed.command(&["PERSIST", key]);
    }
    eventually("a heartbeat", async || fresh(&bed)).await;
    line.die();
    waiter.abort();
    drop(doomed);
    // Nobody is left who renews the forgotten hold.
    drop(holder);
    if bed.is_embedded() {
        sleep(Duration::from_secs(25 * 60 * 60)).await;
        nothing_is_left(&bed).await;
    }
}

pub(crate) async fn a_living_waiter_keeps_its_queue(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let guard = held(&one).await;
    let (first, second) = (queued(&bed, &one).await, queued(&bed, &other).await);
    let end = Instant::now() + ms(2000);
    while Instant::now() < end {
        let [queue, deadlines] = left(&bed);
        let least = KEPT - i64::try_from(bed.late(700).as_millis()).expect("short");
        assert!(queue > least && deadlines > least, "{queue}, {deadlines}");
        sleep(ms(50)).await;
    }
    guard.unlock().await.unwrap();
    for taking in [first, second] {
        served("granted", taking).await.0.unlock().await.unwrap();
    }
    nothing_is_left(&bed).await;
}

/// A place removed by mistake is put back behind those of the same client. The list must not be
/// created again.
pub(crate) async fn a_place_that_is_put_back_leaves_the_expiry(bed: Bed) {
    let (holder, client) = (bed.client().await, bed.client().await);
    let guard = held(&holder).await;
    let taking = [queued(&bed, &client).await, queued(&bed, &client).await];
    let places = queue(&bed);
    bed.command(&["LREM", QUEUE, "0", &places[1]]);
    bed.command(&["ZREM", DEADLINES, &places[1]]);
    eventually("back in the queue", async || queue(&bed) == places).await;
    assert!(!left(&bed).contains(&-1), "{:?}", left(&bed));
    guard.unlock().await.unwrap();
    for taking in taking {
        served("granted", taking).await.0.unlock().await.unwrap();
    }
    nothing_is_left(&bed).await;
}

/// A Redisson thread joined behind a waiter of ours, whose queue was to expire. While our waiter
/// stays, its heartbeat sees the thread. When it leaves, the call with which it leaves does.
pub(crate) async fn a_queue_with_a_thread_of_redisson_stays(bed: Bed) {
    for way in [
        "granted",
        "left",
        "timed out",
        "dead",
        "joined",
        "forced",
        "heartbeat",
    ] {
        let (one, other) = (bed.client().await, bed.client().await);
        let lock = one.fair_lock("x");
        let guard = lock.acquire().lease(LONG).await.unwrap();
        let waiter = if way == "timed out" {
            let lock = one.fair_lock("x");
            let waiter = tokio::spawn(async move { lock.try_lock(ms(100), LONG).await });
            eventually("in the queue", async || queue(&bed).len() == 1).await;
            waiter
        } else {
            queued(&bed, &one).await
        };
        sleep(ms(20)).await;
        put(&bed, JAVA, Duration::from_secs(600));
        let mut guards = Vec::new();
        match way {
            "granted" => {
                guard.unlock().await.unwrap();
                guards.push(served("granted", waiter).await.0);
                assert_eq!(queue(&bed), [JAVA]);
            }
            "left" => {
                waiter.abort();
                eventually("left the queue", async || queue(&bed) == [JAVA]).await;
                guards.push(guard);
            }
            "timed out" => {
                assert!(waiter.await.unwrap().unwrap_err().is_timeout());
                eventually("left the queue", async || queue(&bed) == [JAVA]).await;
                guards.push(guard);
            }
            "joined" => {
                let behind = queued(&bed, &other).await;
                assert_eq!(left(&bed), NO_EXPIRY, "{way}");
                // Both ends of the queue are ours, and heartbeats continue.
                sleep(ms(1200)).await;
                assert_eq!((queue(&bed).len(), left(&bed)), (3, NO_EXPIRY));
                waiter.abort();
                behind.abort();
                eventually("left the queue", async || queue(&bed) == [JAVA]).await;
                guards.push(guard);
            }
            "dead" => {
                let dead = queue(&bed).remove(0);
                bed.command(&["ZADD", DEADLINES, "1", &dead]);
                let ask = async || other.fair_lock("x").try_lock_now(LONG).await;
                bed.in_vain(ask).await;
                guards.push(guard);
            }
            "forced" => {
                assert!(other.fair_lock("x").force_unlock("a test").await.unwrap());
                guards.push(served("granted", waiter).await.0);
            }
            _ => {
                eventually(way, async || left(&bed) == NO_EXPIRY).await;
                guards.push(guard);
            }
        }
        assert_eq!(left(&bed), NO_EXPIRY, "{way}");
        one.shutdown(SOON).await.unwrap();
        other.shutdown(SOON).await.unwrap();
        if bed.is_embedded() {
            // No waiter of ours is left.
            sleep(Duration::from_secs(25 * 60 * 60)).await;
        }
        assert_eq!(queue(&bed), [JAVA], "{way}");
        for key in ["x", QUEUE, DEADLINES] {
            bed.command(&["DEL", key]);
        }
    }
}

pub(crate) async fn a_queue_that_the_last_thread_left_expires_again(bed: Bed) {
    let client = bed.client().await;
    let guard = held(&client).await;
    let waiter = queued(&bed, &client).await;
    put(&bed, JAVA, Duration::from_secs(600));
    eventually("the thread was seen", async || left(&bed) == NO_EXPIRY).await;
    bed.command(&["LREM", QUEUE, "0", JAVA]);
    bed.command(&["ZREM", DEADLINES, JAVA]);
    eventually("it has gone", async || fresh(&bed)).await;
    guard.unlock().await.unwrap();
    served("granted", waiter).await.0.unlock().await.unwrap();
    nothing_is_left(&bed).await;
}
