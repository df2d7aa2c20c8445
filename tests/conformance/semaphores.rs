//! Behaviour of the semaphore that Redisson's tests define, and holders that died, lost their
//! permits or got no reply.

use std::fmt::Debug;
use std::time::Duration;

use futures::future::{join_all, try_join_all};
use leasehold::{Client, Error, Lease, Semaphore, SemaphorePermit};
use leasehold_testbed::{Bed, SOON, eventually, ms, timed, waiting};
use tokio::time::{Instant, sleep};

use crate::limits::for_both;

pub(crate) async fn set(client: &Client, name: &str, permits: u32) -> Semaphore {
    let semaphore = client.semaphore(name);
    assert!(semaphore.try_set_permits(permits).await.unwrap());
    semaphore
}

/// Expects a wait to fail. Tries once more if a stalled machine lost the last reply.
pub(crate) async fn in_vain<T: Debug>(wait: impl AsyncFn() -> Result<T, Error>) -> Error {
    let limit = Instant::now() + SOON;
    while Instant::now() < limit {
        let error = wait().await.unwrap_err();
        if error.is_timeout() {
            return error;
        }
        assert!(error.is_retryable(), "{error}");
    }
    panic!("no wait was answered")
}

/// Runs a wait next to something that starts when all its waiters wait and the contender listens.
pub(crate) async fn while_waiting<T>(
    client: &Client,
    waiters: u64,
    wait: impl Future<Output = T>,
    then: impl Future<Output = ()>,
) -> T {
    let (before, is_warm) = (client.stats().calls, client.stats().subscriptions > 0);
    let (done, ()) = tokio::join!(timed("granted", wait), async {
        waiting(client, waiters).await;
        // The contender asks, subscribes and asks again; only once if the channel is subscribed.
        let asks = before + if is_warm { 1 } else { 2 };
        let listens = async || client.stats().listeners >= 1 && client.stats().calls >= asks;
        eventually("listening", listens).await;
        then.await;
    });
    done.0
}

/// Redisson adds permits at any time, so the number that was set refuses nobody.
pub(crate) async fn more_permits_than_were_set_are_waited_for(bed: Bed) {
    let client = bed.client().await;
    let semaphore = set(&client, "s", 2).await;
    in_vain(async || semaphore.try_acquire(3, ms(50)).await).await;
    let add = async { semaphore.add_permits(1).await.unwrap() };
    let three = while_waiting(&client, 1, semaphore.acquire(3), add).await;
    assert_eq!(three.unwrap().permits(), 3);
}

pub(crate) async fn permits_are_set_once(bed: Bed) {
    let client = bed.client().await;
    let semaphore = set(&client, "s", 10).await;
    assert!(!semaphore.try_set_permits(15).await.unwrap());
    assert_eq!(semaphore.available().await.unwrap(), 10);
    let drained = semaphore.acquire(10).await.unwrap();
    assert!(
        !semaphore.try_set_permits(15).await.unwrap(),
        "none available is not none at all"
    );
    drop(drained);
}

pub(crate) async fn a_semaphore_with_a_life_ends_with_its_holds(bed: Bed) {
    let client = bed.client().await;
    let semaphore = client.semaphore("s");
    let life = bed.lease(300);
    assert!(semaphore.try_set_permits_for(2, life).await.unwrap());
    let held = semaphore.acquire(1).await.unwrap();
    semaphore.add_permits(3).await.unwrap();
    let left = u64::try_from(bed.left("s")).expect("adding leaves the expiry alone");
    assert!(ms(left) <= life);
    timed("expired", bed.until_gone("s")).await;
    timed("its holds, too", bed.until_gone("leasehold_semaphore:{s}")).await;
    assert!(semaphore.try_set_permits(1).await.unwrap());
    // A hold of the former semaphore gives nothing to the present one.
    assert!(matches!(held.release().await, Err(Error::Lost { .. })));
    assert_eq!(semaphore.available().await.unwrap(), 1);
    let refused = client
        .semaphore("t")
        .try_set_permits_for(1, Duration::ZERO)
        .await;
    assert!(matches!(refused, Err(Error::Config(_))));
}

pub(crate) async fn permits_are_added_and_taken_away(bed: Bed) {
    let client = bed.client().await;
    let semaphore = set(&client, "s", 10).await;
    let (five, three) = (
        semaphore.acquire(5).await.unwrap(),
        semaphore.acquire(3).await.unwrap(),
    );
    semaphore.add_permits(-10).await.unwrap();
    assert_eq!(semaphore.available().await.unwrap(), -8);
    bed.in_vain(async || semaphore.try_acquire(1, Duration::ZERO).await)
        .await;
    five.release().await.unwrap();
    assert_eq!(semaphore.available().await.unwrap(), -3);
    three.release().await.unwrap();
    semaphore.add_permits(1).await.unwrap();
    assert_eq!(semaphore.available().await.unwrap(), 1);
    assert_eq!(bed.command(&["GET", "s"]), "1");
}

pub(crate) async fn a_waiter_for_many_waits_for_all(bed: Bed) {
    for_both(&bed, async |of, one, bed| {
        let other = bed.client().await;
        of.set(one, 3).await;
        let held = (0..3).map(|_| of.take(one, None, 1, None));
        let mut held = try_join_all(held).await.unwrap();
        let many = while_waiting(&other, 1, of.take(&other, None, 3, None), async {
            for given in 0..3 {
                let vain = other.stats().wakes_in_vain;
                held.pop().unwrap().release().await;
                if given < 2 {
                    eventually("refused again", async || other.stats().wakes_in_vain > vain).await;
                }
            }
        });
        many.await.unwrap().release().await;
        assert_eq!(of.available(one).await, 3);
    })
    .await;
}

pub(crate) async fn a_timed_wait_ends_with_the_last_release(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let (semaphore, waiter) = (set(&one, "s", 4).await, other.semaphore("s"));
    let pairs = try_join_all([semaphore.acquire(2), semaphore.acquire(2)])
        .await
        .unwrap();
    let start = Instant::now();
    let late = while_waiting(&other, 1, waiter.try_acquire(4, ms(9000)), async {
        for pair in pairs {
            sleep(bed.span(100)).await;
            pair.release().await.unwrap();
        }
    });
    drop(late.await.unwrap());
    assert!(start.elapsed() >= 2 * bed.span(100));
    if bed.is_embedded() {
        assert!(
            start.elapsed() < ms(215),
            "told, not polled: {:?}",
            start.elapsed()
        );
    }
    eventually("they are back", async || {
        semaphore.available().await.unwrap() == 4
    })
    .await;
    let all = semaphore.acquire(4).await.unwrap();
    let start = Instant::now();
    in_vain(async || waiter.try_acquire(1, bed.span(50)).await).await;
    assert!(start.elapsed() >= bed.span(50));
    all.release().await.unwrap();
}

pub(crate) async fn a_drained_semaphore_has_none(bed: Bed) {
    let client = bed.client().await;
    let semaphore = client.semaphore("s");
    assert_eq!(semaphore.drain().await.unwrap(), 0);
    assert!(!bed.exists("s"), "draining makes none");
    set(&client, "s", 10).await;
    let held = semaphore.acquire(3).await.unwrap();
    assert_eq!(semaphore.drain().await.unwrap(), 7);
    assert_eq!(semaphore.available().await.unwrap(), 0);
    assert_eq!(semaphore.drain().await.unwrap(), 0);
    held.release().await.unwrap();
    assert_eq!(semaphore.available().await.unwrap(), 3);
}

pub(crate) async fn a_release_does_not_make_a_deleted_semaphore_again(bed: Bed) {
    let client = bed.client().await;
    let semaphore = client.semaphore("s");
    set(&client, "s", 1).await;
    let held = semaphore.acquire(1).await.unwrap();
    bed.command(&["DEL", "s"]);
    drop(held);
    eventually("released", async || !bed.exists("leasehold_semaphore:{s}")).await;
    assert!(!bed.exists("s"));
}

async fn all_get_one(bed: &Bed, clients: &[Client], message: impl AsyncFnOnce()) {
    let tasks: Vec<_> = (0..6)
        .map(|number| {
            let semaphore = clients[number % clients.len()].semaphore("s");
            tokio::spawn(async move { semaphore.acquire(1).await.unwrap() })
        })
        .collect();
    let each = 6 / u64::try_from(clients.len()).unwrap();
    for client in clients {
        let listens = async || client.stats().listeners == 1 && client.stats().calls >= 2;
        eventually("listening", listens).await;
        waiting(client, each).await;
    }
    let start = Instant::now();
    message().await;
    let (held, _) = timed("everybody", join_all(tasks)).await;
    if bed.is_embedded() {
        assert!(
            start.elapsed() < ms(100),
            "one message for all: {:?}",
            start.elapsed()
        );
    }
    let held: Vec<SemaphorePermit> = held.into_iter().map(Result::unwrap).collect();
    assert_eq!(bed.command(&["GET", "s"]), "0");
    for permit in held {
        permit.release().await.unwrap();
    }
}

pub(crate) async fn one_release_lets_many_in(bed: Bed) {
    let giver = bed.client().await;
    let semaphore = set(&giver, "s", 0).await;
    // So that no safety poll can wake the waiters.
    let slow = || bed.builder().safety_poll(ms(60_000)).connect();
    let one = [slow().await.unwrap()];
    all_get_one(&bed, &one, async || semaphore.add_permits(6).await.unwrap()).await;
    semaphore.drain().await.unwrap();
    let three = [
        slow().await.unwrap(),
        slow().await.unwrap(),
        slow().await.unwrap(),
    ];
    all_get_one(&bed, &three, async || {
        semaphore.add_permits(6).await.unwrap();
    })
    .await;
    // The same with one hold of all permits.
    let all = semaphore.acquire(6).await.unwrap();
    all_get_one(&bed, &three, async || all.release().await.unwrap()).await;
}

pub(crate) async fn a_front_that_gives_up_lets_the_next_ask(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    set(&one, "s", 2).await;
    // Served in order of arrival: a waiter for few permits waits behind one for many.
    let (many, few) = (other.semaphore("s"), other.semaphore("s"));
    let front = tokio::spawn(async move { many.try_acquire(3, ms(9000)).await });
    waiting(&other, 1).await;
    let behind = tokio::spawn(async move { few.acquire(2).await.unwrap() });
    waiting(&other, 2).await;
    // A wait of zero bypasses the queue.
    other
        .semaphore("s")
        .try_acquire(1, Duration::ZERO)
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    assert!(!behind.is_finished());
    front.abort();
    drop(timed("the next asks", behind).await.0.unwrap());
}

pub(crate) async fn the_total_of_a_semaphore_can_be_set(bed: Bed) {
    let client = bed.client().await;
    let semaphore = client.semaphore("s");
    assert_eq!(semaphore.set_permits(3).await.unwrap(), 3);
    let held = semaphore.acquire(2).await.unwrap();
    assert_eq!(semaphore.permits().await.unwrap(), 3);
    let waiter = client.semaphore("s");
    let waits = tokio::spawn(async move { waiter.acquire(3).await });
    waiting(&client, 1).await;
    assert_eq!(semaphore.set_permits(5).await.unwrap(), 3);
    let three = timed("the waiter is served", waits)
        .await
        .0
        .unwrap()
        .unwrap();
    // Held permits count.
    assert_eq!(semaphore.set_permits(1).await.unwrap(), -4);
    held.release().await.unwrap();
    three.release().await.unwrap();
    assert_eq!(semaphore.available().await.unwrap(), 1);
    // Holds of a semaphore that was deleted are not counted into a new one.
    let held = semaphore.acquire(1).await.unwrap();
    bed.command(&["DEL", "s"]);
    assert_eq!(semaphore.set_permits(2).await.unwrap(), 2);
    drop(held);
}

pub(crate) async fn a_key_of_another_type_is_reported(bed: Bed) {
    let client = bed.client().await;
    bed.command(&["LPUSH", "x", "not a number"]);
    let (semaphore, permits) = (
        client.semaphore("x"),
        client.permit_expirable_semaphore("x"),
    );
    let latch = client.count_down_latch("x");
    let told = |outcome: Result<(), Error>| {
        let error = outcome.unwrap_err();
        assert!(matches!(&error, Error::Protocol { .. }), "{error}");
    };
    told(semaphore.acquire(1).await.map(drop));
    told(semaphore.available().await.map(drop));
    told(semaphore.add_permits(1).await);
    told(permits.acquire(1, Lease::Fixed(ms(9000))).await.map(drop));
    told(permits.permits().await.map(drop));
    told(latch.wait(Duration::MAX).await);
    told(latch.count_down().await.map(drop));
    assert_eq!(client.stats().waiting, 0);
}
