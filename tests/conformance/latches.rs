//! Behaviour of the latch that Redisson's tests define. No waiter hangs, however late it comes and
//! whatever it missed.

use std::time::Duration;

use futures::future::join_all;
use leasehold::{Client, CountDownLatch, Error};
use leasehold_testbed::{Bed, connected, eventually, ms, timed, waiting};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::faulty_connection::FaultyConnection;
use crate::semaphores::{in_vain, while_waiting};

async fn set(client: &Client, count: u32) -> CountDownLatch {
    let latch = client.count_down_latch("l");
    assert!(latch.try_set_count(count).await.unwrap());
    latch
}

fn waiters(client: &Client, number: u32) -> Vec<JoinHandle<Result<(), Error>>> {
    let wait = |latch: CountDownLatch| async move { latch.wait(Duration::MAX).await };
    (0..number)
        .map(|_| tokio::spawn(wait(client.count_down_latch("l"))))
        .collect()
}

async fn all_go(waiters: Vec<JoinHandle<Result<(), Error>>>) -> Duration {
    let (done, took) = timed("all go", join_all(waiters)).await;
    for done in done {
        done.unwrap().unwrap();
    }
    took
}

pub(crate) async fn a_latch_can_be_awaited(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let (latch, waiter) = (set(&one, 1).await, other.count_down_latch("l"));
    let opened = while_waiting(&other, 1, (&waiter).into_future(), async {
        assert_eq!(latch.count_down().await.unwrap(), 0);
    });
    opened.await.unwrap();
    waiter.await.unwrap(); // still open
}

pub(crate) async fn all_waiters_go_at_zero(bed: Bed) {
    let clients = [bed.client().await, bed.client().await, bed.client().await];
    let latch = set(&clients[0], 5).await;
    let tasks: Vec<_> = clients
        .iter()
        .flat_map(|client| waiters(client, 5))
        .collect();
    for client in &clients {
        waiting(client, 5).await;
    }
    for left in (0..5).rev() {
        assert!(tasks.iter().all(|task| !task.is_finished()));
        assert_eq!(latch.count_down().await.unwrap(), left);
    }
    all_go(tasks).await;
    assert_eq!(bed.number(&["EXISTS", "l"]), 0);
}

pub(crate) async fn a_count_never_falls_below_zero(bed: Bed) {
    let client = bed.client().await;
    let latch = client.count_down_latch("l");
    latch.wait(Duration::MAX).await.unwrap();
    assert_eq!(latch.count_down().await.unwrap(), 0);
    assert_eq!(latch.count().await.unwrap(), 0);
    drop(set(&client, 1).await);
    for _ in 0..3 {
        assert_eq!(latch.count_down().await.unwrap(), 0);
    }
    latch.wait(Duration::ZERO).await.unwrap();
    assert!(!bed.exists("l"));
}

pub(crate) async fn a_count_is_set_once_until_it_is_zero(bed: Bed) {
    let client = bed.client().await;
    let latch = client.count_down_latch("l");
    assert_eq!(latch.count().await.unwrap(), 0);
    drop(set(&client, 2).await);
    assert!(!latch.try_set_count(3).await.unwrap());
    assert_eq!(latch.count().await.unwrap(), 2);
    latch.count_down().await.unwrap();
    assert!(!latch.try_set_count(3).await.unwrap());
    latch.count_down().await.unwrap();
    assert!(latch.try_set_count(3).await.unwrap());
    assert_eq!(latch.count().await.unwrap(), 3);
}

/// A stored zero would be open and could not be set again.
pub(crate) async fn a_count_of_zero_sets_nothing(bed: Bed) {
    let client = bed.client().await;
    let latch = client.count_down_latch("l");
    assert!(latch.try_set_count(0).await.unwrap());
    assert_eq!(bed.number(&["DBSIZE"]), 0);
    latch.wait(Duration::ZERO).await.unwrap();
    assert!(latch.try_set_count(3).await.unwrap());
    assert!(!latch.try_set_count(0).await.unwrap());
    assert_eq!(latch.count().await.unwrap(), 3);
}

pub(crate) async fn deleting_lets_all_go(bed: Bed) {
    // So that no safety poll can wake the waiters.
    let slow = bed.builder().safety_poll(ms(60_000)).connect();
    let (one, other) = (bed.client().await, slow.await.unwrap());
    let latch = set(&one, 3).await;
    let tasks = waiters(&other, 3);
    waiting(&other, 3).await;
    let listens = async || other.stats().listeners == 1 && other.stats().calls >= 2;
    eventually("listening", listens).await;
    assert!(latch.delete().await.unwrap());
    all_go(tasks).await;
    assert!(!latch.delete().await.unwrap());
}

pub(crate) async fn a_late_waiter_finds_the_latch_open(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let latch = set(&one, 1).await;
    let early = waiters(&other, 1);
    waiting(&other, 1).await;
    latch.count_down().await.unwrap();
    let late = waiters(&other, 5);
    all_go(early).await;
    all_go(late).await;
    assert_eq!(other.stats().waiting, 0);
}

pub(crate) async fn a_lost_message_costs_one_poll(bed: Bed) {
    let (deaf, line) = FaultyConnection::with(&bed, |builder| builder.safety_poll(ms(200))).await;
    let latch = set(&bed.client().await, 1).await;
    let tasks = waiters(&deaf, 3);
    waiting(&deaf, 3).await;
    let listens = async || deaf.stats().listeners == 1 && deaf.stats().calls >= 2;
    eventually("listening", listens).await;
    line.lose_messages();
    assert_eq!(latch.count_down().await.unwrap(), 0);
    let took = all_go(tasks).await;
    if bed.is_embedded() {
        assert!(took < ms(300), "{took:?}");
    }
}

pub(crate) async fn a_latch_that_opened_during_an_outage_is_found_open(bed: Bed) {
    // So that no poll can find it.
    let slow = |builder: leasehold::ClientBuilder| builder.safety_poll(ms(60_000));
    let (cut_off, line) = FaultyConnection::with(&bed, slow).await;
    let one = bed.client().await;
    let latch = set(&one, 1).await;
    // Load the script.
    in_vain(async || one.count_down_latch("l").wait(Duration::ZERO).await).await;
    let before = bed.calls();
    let tasks = waiters(&cut_off, 3);
    waiting(&cut_off, 3).await;
    // The waiter has asked again since it listens, so no further call will tell it.
    let asked = async || cut_off.stats().listeners == 1 && bed.calls() >= before + 2;
    eventually("asked again", asked).await;
    line.lose_messages();
    latch.count_down().await.unwrap();
    // The message was in flight when the connection broke.
    sleep(ms(50)).await;
    assert!(tasks.iter().all(|task| !task.is_finished()));
    line.reconnect();
    all_go(tasks).await;
}

/// A message is only a hint, because anybody may publish one.
pub(crate) async fn a_message_does_not_open_a_latch(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client_without_polls().await);
    let latch = set(&one, 1).await;
    let tasks = waiters(&other, 2);
    waiting(&other, 2).await;
    let listens = async || other.stats().listeners == 1 && other.stats().calls >= 2;
    eventually("listening", listens).await;
    for channel in bed.channels() {
        bed.publish(&channel, "0");
    }
    eventually("woken", async || other.stats().wakes == 1).await;
    sleep(bed.span(50)).await;
    assert!(tasks.iter().all(|task| !task.is_finished()), "it is closed");
    assert_eq!(latch.count_down().await.unwrap(), 0);
    all_go(tasks).await;
}

pub(crate) async fn a_front_that_nobody_polls_hides_nothing(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let latch = set(&one, 1).await;
    let idle = other.count_down_latch("l");
    let mut front = Box::pin(idle.wait(Duration::MAX));
    let listens = async || other.stats().listeners == 1 && other.stats().calls >= 2;
    tokio::select! {
        done = &mut front => panic!("it is not open: {done:?}"),
        () = eventually("listening", listens) => {}
    }
    let patient = waiters(&other, 1);
    let (behind, span) = (other.count_down_latch("l"), bed.lease(500));
    let wait = tokio::spawn(async move { behind.wait(span).await });
    waiting(&other, 3).await;
    assert_eq!(latch.count_down().await.unwrap(), 0);
    timed("it sees for itself", wait).await.0.unwrap().unwrap();
    // What the contender saw lets all waiters go.
    all_go(patient).await;
    timed("the front goes", front).await.0.unwrap();
    assert_eq!(other.stats().timed_out, 0);
    eventually("nobody is left", async || other.stats().local_queues == 0).await;
}

/// A first call that is stuck in an old connection may still come.
pub(crate) async fn a_reply_is_kept_until_no_late_copy_can_come(bed: Bed) {
    for (time_out, kept) in [(1000, 30_000), (9000, 36_000)] {
        let client = connected(bed.builder().command_timeout(ms(time_out))).await;
        client.count_down_latch("l").try_set_count(1).await.unwrap();
        client.semaphore("s").add_permits(1).await.unwrap();
        client
            .permit_expirable_semaphore("p")
            .add_permits(1)
            .await
            .unwrap();
        let replies = bed.list(&["KEYS", "leasehold_reply:*"]);
        assert_eq!(replies.len(), 3, "{replies:?}");
        for reply in replies {
            let left = bed.left(&reply);
            assert!((kept - 5000..=kept).contains(&left), "{reply}: {left}");
        }
        bed.command(&["FLUSHALL"]);
    }
}

pub(crate) async fn a_change_whose_reply_was_lost_counts_once(bed: Bed) {
    let known = bed.client().await.count_down_latch("{l}known");
    known.try_set_count(1).await.unwrap();
    known.count_down().await.unwrap();

    let (client, line) =
        FaultyConnection::with(&bed, |builder| builder.command_timeout(ms(9000))).await;
    let latch = client.count_down_latch("l");
    let cut_when = async |expected: &str| {
        let done = async || bed.command(&["GET", "l"]) == expected;
        eventually("it is done", done).await;
        line.reconnect();
    };
    line.lose_replies();
    let (done, ()) = tokio::join!(latch.try_set_count(3), cut_when("3"));
    assert!(done.unwrap(), "the first one did it");
    for (left, then) in [(2, "2"), (1, "1"), (0, "nil")] {
        line.lose_replies();
        let (done, ()) = tokio::join!(latch.count_down(), cut_when(then));
        assert_eq!(done.unwrap(), left);
    }
}
