//! The fair lock: one queue for all clients, which no dead or leaving waiter blocks.

use std::sync::Arc;
use std::time::Duration;

use leasehold::{Client, Error, Lease, LockGuard};
use leasehold_testbed::{Bed, assert_free, eventually, in_turns, ms, timed};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::faulty_connection::FaultyConnection;
use crate::semaphores::in_vain;

pub(crate) const QUEUE: &str = "redisson_lock_queue:{x}";
pub(crate) const DEADLINES: &str = "redisson_lock_timeout:{x}";
/// The default claim.
pub(crate) const CLAIM: i64 = 2000;
/// A dead waiter of this library, and one of Redisson.
pub(crate) const DEAD: &str = "0b4e4b9c-9a1f-4c0e-8f6a-0c5f9d6b0f11:4000000000000000008";
pub(crate) const JAVA: &str = "0b4e4b9c-9a1f-4c0e-8f6a-0c5f9d6b0f12:57";

pub(crate) type Taking = JoinHandle<Result<LockGuard, Error>>;

pub(crate) fn queue(bed: &Bed) -> Vec<String> {
    bed.list(&["LRANGE", QUEUE, "0", "-1"])
}

pub(crate) fn deadlines(bed: &Bed) -> Vec<(String, i64)> {
    let flat = bed.list(&["ZRANGE", DEADLINES, "0", "-1", "WITHSCORES"]);
    flat.chunks(2)
        .map(|pair| (pair[0].clone(), pair[1].parse().expect("a number")))
        .collect()
}

pub(crate) fn deadline(bed: &Bed, owner: &str) -> Option<i64> {
    deadlines(bed)
        .into_iter()
        .find(|(field, _)| field == owner)
        .map(|(_, at)| at)
}

/// Puts a waiter into the queue that sends no heartbeats.
pub(crate) fn put(bed: &Bed, owner: &str, kept: Duration) {
    let kept_until = bed.clock() + i64::try_from(kept.as_millis()).expect("short");
    bed.command(&["RPUSH", QUEUE, owner]);
    bed.command(&["ZADD", DEADLINES, &kept_until.to_string(), owner]);
}

/// Starts a waiter, and returns when it is in the queue.
pub(crate) async fn queued(bed: &Bed, client: &Client) -> Taking {
    let places = queue(bed).len();
    let lock = client.fair_lock("x");
    let taking = tokio::spawn(async move { lock.lock().await });
    eventually("in the queue", async || queue(bed).len() == places + 1).await;
    taking
}

pub(crate) async fn served(what: &str, taking: Taking) -> (LockGuard, Duration) {
    let (guard, took) = timed(what, taking).await;
    (guard.expect("no panic").expect("granted"), took)
}

pub(crate) async fn nothing_is_left(bed: &Bed) {
    eventually("no key left", async || bed.number(&["DBSIZE"]) == 0).await;
}

pub(crate) async fn waiters_of_all_clients_are_served_in_order(bed: Bed) {
    let clients = [bed.client().await, bed.client().await, bed.client().await];
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..12 {
        let (lock, served) = (clients[number % 3].fair_lock("x"), served.clone());
        tasks.push(tokio::spawn(async move {
            let guard = lock.lock().await.unwrap();
            served.lock().push(number);
            sleep(ms(5)).await;
            guard.unlock().await.unwrap();
        }));
        eventually("in the queue", async || queue(&bed).len() == number + 1).await;
    }
    guard.unlock().await.unwrap();
    for task in tasks {
        in_turns("all served", task).await.unwrap();
    }
    assert_eq!(*served.lock(), (0..12).collect::<Vec<_>>());
    assert!(clients.iter().all(|client| client.stats().handed_over == 0));
    nothing_is_left(&bed).await;
}

pub(crate) async fn live_waiters_outlast_a_holder_of_four_claims(bed: Bed) {
    let claim = bed.lease(250);
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(bed.builder().fair_claim(claim).connect().await.unwrap());
    }
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let mut takings = Vec::new();
    for number in 0..20 {
        takings.push(queued(&bed, &clients[number % 4]).await);
    }
    let line = queue(&bed);
    let end = Instant::now() + claim * 4;
    while Instant::now() < end {
        assert_eq!(queue(&bed), line, "nobody is taken off or changes places");
        sleep(claim / 10).await;
    }
    guard.unlock().await.unwrap();
    for (taking, owner) in takings.into_iter().zip(line) {
        let (guard, _) = served("granted", taking).await;
        assert_eq!(guard.owner(), owner);
        guard.unlock().await.unwrap();
    }
    nothing_is_left(&bed).await;
}

pub(crate) async fn a_wait_that_was_given_up_delays_nobody(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let guard = one.fair_lock("x").lock().await.unwrap();
    for _ in 0..3 {
        bed.in_vain(async || {
            other
                .fair_lock("x")
                .try_lock(bed.span(50), Lease::Renewed)
                .await
        })
        .await;
    }
    eventually("left the queue", async || !bed.exists(QUEUE)).await;
    assert!(!bed.exists(DEADLINES));
    guard.unlock().await.unwrap();
    let next = one
        .fair_lock("x")
        .try_lock_now(Lease::Renewed)
        .await
        .unwrap();
    next.unlock().await.unwrap();
    nothing_is_left(&bed).await;
}

pub(crate) async fn a_zero_wait_neither_queues_nor_passes(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let ask = async || {
        other
            .fair_lock("x")
            .try_lock_now(Lease::Fixed(ms(5000)))
            .await
    };
    let guard = one
        .fair_lock("x")
        .try_lock_now(Lease::Fixed(bed.lease(200)))
        .await
        .unwrap();
    bed.in_vain(ask).await;
    assert!(!bed.exists(QUEUE) && !bed.exists(DEADLINES));
    guard.forget();
    bed.until_gone("x").await;
    // If the queue is empty, anybody may take the free lock.
    ask().await.unwrap().unlock().await.unwrap();
    // If somebody is in the queue, the lock is reserved even though it is free.
    put(&bed, DEAD, ms(60_000));
    bed.in_vain(ask).await;
    assert_eq!(queue(&bed), [DEAD]);
    bed.command(&["DEL", QUEUE, DEADLINES]);
    ask().await.unwrap().unlock().await.unwrap();
    assert_eq!(other.stats().subscriptions, 0);
}

pub(crate) async fn a_cancelled_head_passes_its_message_on(bed: Bed) {
    let client = async || {
        bed.builder()
            .fair_claim(ms(60_000))
            .connect()
            .await
            .unwrap()
    };
    let (one, other) = (client().await, client().await);
    for _ in 0..5 {
        let guard = one.fair_lock("x").lock().await.unwrap();
        let lock = other.fair_lock("x");
        let mut head = Box::pin(lock.lock());
        eventually("in the queue", async || {
            assert!(futures::poll!(head.as_mut()).is_pending());
            queue(&bed).len() == 1
        })
        .await;
        let next = queued(&bed, &one).await;
        let listens = async || {
            assert!(futures::poll!(head.as_mut()).is_pending());
            one.stats().listeners == 1
        };
        eventually("the next listens", listens).await;
        let woken = one.stats().wakes;
        // The waiter is woken for its turn and never polled.
        guard.unlock().await.unwrap();
        drop(head);
        let (guard, took) = served("granted", next).await;
        assert!(took < bed.late(100), "before a beat: {took:?}");
        // On a server, a heartbeat may notice it first, but the message still comes.
        eventually("by the message", async || one.stats().wakes > woken).await;
        guard.unlock().await.unwrap();
        nothing_is_left(&bed).await;
    }
}

pub(crate) async fn a_timed_out_head_lets_the_next_in(bed: Bed) {
    let (one, other) = (bed.client_without_polls().await, bed.client().await);
    let guard = one.fair_lock("x").lock().await.unwrap();
    let lock = other.fair_lock("x");
    let wait = bed.span(200);
    let head = tokio::spawn(async move { lock.try_lock(wait, Lease::Fixed(ms(5000))).await });
    eventually("in the queue", async || queue(&bed).len() == 1).await;
    let next = queued(&bed, &one).await;
    bed.timed_out(&timed("gave up", head).await.0.unwrap().unwrap_err());
    eventually("left the queue", async || queue(&bed).len() == 1).await;
    eventually("the next listens", async || one.stats().subscriptions == 1).await;
    let woken = one.stats().wakes;
    guard.unlock().await.unwrap();
    let (guard, took) = served("granted", next).await;
    assert!(took < bed.late(100), "before a beat: {took:?}");
    eventually("by the message, not by a beat", async || {
        one.stats().wakes > woken
    })
    .await;
    guard.unlock().await.unwrap();
    nothing_is_left(&bed).await;
}

/// A caller that got its timeout may ask again immediately, or let somebody else ask.
pub(crate) async fn a_waiter_that_timed_out_has_left_the_queue(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let guard = one.fair_lock("x").lock().await.unwrap();
    let lock = other.fair_lock("x");
    for _ in 0..20 {
        let start = Instant::now();
        in_vain(async || lock.try_lock(ms(10), Lease::Renewed).await).await;
        // The caller does not wait longer than that for a server that does not confirm.
        if start.elapsed() < ms(10 + 25) {
            assert_eq!(queue(&bed), [""; 0], "its place is in nobody's way");
        }
    }
    guard.unlock().await.unwrap();
    assert_free(&lock).await;
    nothing_is_left(&bed).await;
}

/// Also after a lost reply, when more than one call about its place must be settled.
pub(crate) async fn a_waiter_that_timed_out_in_doubt_has_left_the_queue(bed: Bed) {
    let one = bed.client().await;
    let (other, line) = FaultyConnection::with(&bed, |builder| builder).await;
    let guard = one.fair_lock("x").lock().await.unwrap();
    line.lose_replies();
    let lock = other.fair_lock("x");
    let (wait, start) = (ms(4000), Instant::now());
    let taking = tokio::spawn(async move { lock.try_lock(wait, Lease::Fixed(ms(5000))).await });
    eventually("in the queue", async || queue(&bed).len() == 1).await;
    line.reconnect();
    eventually("it knows", async || other.stats().listeners == 1).await;
    let error = timed("gave up", taking).await.0.unwrap().unwrap_err();
    // On a busy machine, the last reply may come too late to count.
    assert!(error.is_retryable(), "{error}");
    if start.elapsed() < wait + ms(25) {
        assert!(error.is_timeout(), "{error}");
        assert_eq!(queue(&bed), [""; 0], "its place is in nobody's way");
    }
    guard.unlock().await.unwrap();
    nothing_is_left(&bed).await;
}

pub(crate) async fn a_forced_release_notifies_the_head_of_the_queue(bed: Bed) {
    let (one, other) = (bed.client_without_polls().await, bed.client().await);
    let guard = one.fair_lock("x").lock().await.unwrap();
    let (first, second) = (queued(&bed, &one).await, queued(&bed, &other).await);
    eventually("the head listens", async || one.stats().subscriptions == 1).await;
    assert!(other.fair_lock("x").force_unlock("a test").await.unwrap());
    let (next, took) = served("the head", first).await;
    assert!(took < bed.late(100), "before a beat: {took:?}");
    eventually("by the message, not by a beat", async || {
        one.stats().wakes == 1
    })
    .await;
    assert!(!second.is_finished());
    assert!(matches!(guard.unlock().await, Err(Error::Lost { .. })));
    next.unlock().await.unwrap();
    served("the second", second).await.0.unlock().await.unwrap();
}

pub(crate) async fn the_queue_is_called_after_the_prefixed_name(bed: Bed) {
    let client = bed.builder().key_prefix("app:").connect().await.unwrap();
    let guard = client.fair_lock("x").lock().await.unwrap();
    let lock = client.fair_lock("x");
    let next = tokio::spawn(async move { lock.lock().await });
    let there = [
        "app:x",
        "redisson_lock_queue:{app:x}",
        "redisson_lock_timeout:{app:x}",
    ];
    eventually("in the queue", async || bed.exists(there[1])).await;
    let mut keys = bed.list(&["KEYS", "*"]);
    keys.sort();
    assert_eq!(keys, there);
    guard.unlock().await.unwrap();
    served("granted", next).await.0.unlock().await.unwrap();
    nothing_is_left(&bed).await;
}

pub(crate) async fn a_waiter_that_comes_back_to_a_free_lock_gets_it(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let guard = one.fair_lock("x").lock().await.unwrap();
    let (first, second) = (queued(&bed, &one).await, queued(&bed, &other).await);
    eventually("both listen", async || {
        one.stats().listeners + other.stats().listeners == 2
    })
    .await;
    // Heartbeats keep the place, then it is removed by mistake. The waiter asks before any other
    // does.
    sleep(ms(600)).await;
    let head = queue(&bed).remove(0);
    let start = Instant::now();
    bed.command(&["LREM", QUEUE, "0", &head]);
    bed.command(&["ZREM", DEADLINES, &head]);
    bed.command(&["DEL", "x"]);
    bed.publish(&format!("redisson_lock__channel:{{x}}:{head}"), "0");
    let (next, _) = served("the first", first).await;
    if bed.is_embedded() {
        assert!(
            start.elapsed() < ms(50),
            "no beat had to find it: {:?}",
            start.elapsed()
        );
    }
    assert!(!second.is_finished());
    assert!(matches!(guard.unlock().await, Err(Error::Lost { .. })));
    next.unlock().await.unwrap();
    served("the second", second).await.0.unlock().await.unwrap();
    nothing_is_left(&bed).await;
}
