//! A release of a fair lock gives it to the next waiter of this library in the same step, and tells it.

use std::time::Duration;

use leasehold::{Client, Lease};
use leasehold_testbed::{Bed, SOON, eventually, ms, within};
use tokio::time::sleep;

use crate::fair::{CLAIM, Taking, nothing_is_left, queue, queued, served};
use crate::faulty_connection::FaultyConnection;

/// Waits until the waiter with the first place listens, and returns its field.
async fn first_listens(bed: &Bed) -> String {
    let first = queue(bed).remove(0);
    let channel = channel_of(&first);
    eventually("it listens", async || bed.channels().contains(&channel)).await;
    first
}

fn channel_of(field: &str) -> String {
    format!("redisson_lock__channel:{{x}}:{field}")
}

/// What a release says that gives the lock to this waiter.
fn forge_grant(bed: &Bed, field: &str) {
    bed.publish(&channel_of(field), "60000");
}

async fn stays_waiting(waiter: &Taking) {
    sleep(ms(300)).await;
    assert!(!waiter.is_finished(), "it believes a message");
}

async fn hold_and_wait(
    bed: &Bed,
    holder: &Client,
    waiter: &Client,
) -> (leasehold::LockGuard, Taking) {
    let guard = holder.fair_lock("x").lock().await.unwrap();
    let waiter = queued(bed, waiter).await;
    (guard, waiter)
}

pub(crate) async fn a_release_gives_the_lock_to_the_next_waiter(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let (guard, next) = hold_and_wait(&bed, &one, &other).await;
    let field = first_listens(&bed).await;
    let calls = bed.calls();
    guard.unlock().await.unwrap();
    let (guard, _) = served("the next", next).await;
    if bed.is_embedded() {
        assert_eq!(bed.calls() - calls, 1, "the release");
        assert!(
            (1..=CLAIM).contains(&bed.left("x")),
            "as its place was kept"
        );
    }
    assert_eq!(bed.count("x", &field), 1);
    eventually("renewed", async || bed.left("x") > 20_000).await;
    guard.unlock().await.unwrap();
    nothing_is_left(&bed).await;
}

/// Heartbeats find what a lost message would have said.
pub(crate) async fn a_grant_that_nobody_hears_of_is_found(bed: Bed) {
    let one = bed.client().await;
    let (other, line) = FaultyConnection::with(&bed, |builder| builder).await;
    let (guard, next) = hold_and_wait(&bed, &one, &other).await;
    let field = first_listens(&bed).await;
    line.lose_messages();
    guard.unlock().await.unwrap();
    assert_eq!(bed.count("x", &field), 1, "it has it already");
    let (guard, _) = served("the next", next).await;
    assert!(bed.left("x") > 20_000, "it has asked");
    guard.unlock().await.unwrap();
}

pub(crate) async fn a_fixed_lease_is_asked_for(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let guard = one.fair_lock("x").lock().await.unwrap();
    let lock = other.fair_lock("x");
    let next = tokio::spawn(async move {
        let lease = Lease::Fixed(Duration::from_secs(600));
        lock.try_lock(SOON, lease).await
    });
    eventually("in the queue", async || queue(&bed).len() == 1).await;
    first_listens(&bed).await;
    guard.unlock().await.unwrap();
    let (guard, _) = served("the next", next).await;
    assert!(bed.left("x") > 500_000);
    guard.unlock().await.unwrap();
}

/// Its place lasts longer than it wants the lock for. So it asks, and the lock is free again when its lease is over.
pub(crate) async fn a_short_lease_ends_in_time(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let guard = one.fair_lock("x").lock().await.unwrap();
    let lock = other.fair_lock("x");
    let lease = bed.lease(100);
    let next = tokio::spawn(async move { lock.try_lock(SOON, Lease::Fixed(lease)).await });
    eventually("in the queue", async || queue(&bed).len() == 1).await;
    first_listens(&bed).await;
    guard.unlock().await.unwrap();
    let (guard, _) = served("the next", next).await;
    assert!(Duration::from_millis(bed.left("x").unsigned_abs()) <= lease);
    guard.forget();
}

/// A message may be late, and mean a place that the waiter had before.
pub(crate) async fn who_has_asked_for_two_places_believes_no_message(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let (guard, next) = hold_and_wait(&bed, &one, &other).await;
    let field = first_listens(&bed).await;
    bed.command(&["LREM", "redisson_lock_queue:{x}", "0", &field]);
    bed.command(&["ZREM", "redisson_lock_timeout:{x}", &field]);
    eventually("it is back", async || queue(&bed) == [field.clone()]).await;
    forge_grant(&bed, &field);
    stays_waiting(&next).await;
    guard.unlock().await.unwrap();
    served("the next", next).await.0.unlock().await.unwrap();
}

/// Behind a new connection may be another server, and messages of the former one may still come.
pub(crate) async fn after_a_reconnect_no_message_is_believed(bed: Bed) {
    let one = bed.client().await;
    let (other, line) = FaultyConnection::with(&bed, |builder| builder).await;
    let (guard, next) = hold_and_wait(&bed, &one, &other).await;
    let field = first_listens(&bed).await;
    line.reconnect();
    eventually("it is connected again", async || other.ping().await.is_ok()).await;
    let channel = channel_of(&field);
    eventually("it listens again", async || {
        bed.channels().contains(&channel)
    })
    .await;
    forge_grant(&bed, &field);
    stays_waiting(&next).await;
    guard.unlock().await.unwrap();
    served("the next", next).await.0.unlock().await.unwrap();
}

/// The lease that a release begins ends with the place, so a waiter that died costs no more than that.
pub(crate) async fn who_dies_with_a_grant_costs_its_place(bed: Bed) {
    let (one, third) = (bed.client().await, bed.client().await);
    let (other, line) = FaultyConnection::with(&bed, |builder| builder).await;
    let (guard, dead) = hold_and_wait(&bed, &one, &other).await;
    first_listens(&bed).await;
    let last = queued(&bed, &third).await;
    line.die();
    guard.unlock().await.unwrap();
    let guard = within(bed.late(2 * CLAIM.unsigned_abs()), "the last", last).await;
    guard.unwrap().unwrap().unlock().await.unwrap();
    dead.abort();
}
