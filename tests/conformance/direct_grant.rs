//! A release of a fair lock gives it to the next waiter of this library in the same step, and tells
//! it.

use std::time::Duration;

use leasehold::{Client, Lease};
use leasehold_testbed::{Bed, SOON, eventually, ms, within};
use tokio::time::sleep;

use crate::fair::{
    CLAIM, DEADLINES, JAVA, QUEUE, Taking, nothing_is_left, put, queue, queued, served,
};
use crate::faulty_connection::FaultyConnection;

/// Waits until the waiter with the first place listens, and returns its field.
async fn first_listens(bed: &Bed) -> String {
    let first = queue(bed).remove(0);
    let channel = heard_channel_of(&first);
    eventually("it listens", async || bed.channels().contains(&channel)).await;
    first
}

fn channel_of(field: &str) -> String {
    format!("redisson_lock__channel:{{x}}:{field}")
}

/// The channel of its client, if this client listens for all of its waiters.
fn heard_channel_of(field: &str) -> String {
    match client_of(field) {
        Some(client) => format!("leasehold_client:{{{client}}}"),
        None => channel_of(field),
    }
}

fn client_of(field: &str) -> Option<&str> {
    let (client, number) = field.split_once(':')?;
    number.starts_with('5').then_some(client)
}

/// What a release says that gives the lock to this waiter.
fn forge_grant(bed: &Bed, field: &str) {
    let channel = channel_of(field);
    if client_of(field).is_some() {
        bed.publish(&heard_channel_of(field), &format!("\0for 60000 {channel}"));
    } else {
        bed.publish(&channel, "60000");
    }
}

/// Who listens for the waiter: itself, or its client for all of its waiters.
#[derive(Clone, Copy, Debug)]
enum HeardBy {
    Owner,
    Client,
}

impl HeardBy {
    /// A client listens for all of its waiters once one of them was refused.
    async fn begins(self, bed: &Bed, client: &Client) {
        if matches!(self, HeardBy::Owner) {
            return;
        }
        bed.command(&["HSET", "y", "somebody:1", "1"]);
        let waits = || bed.list(&["LRANGE", "redisson_lock_queue:{y}", "0", "-1"]);
        let a_waiter_is_heard = async || {
            let lock = client.fair_lock("y");
            let waiter = tokio::spawn(async move { lock.lock().await });
            eventually("it waits", async || waits().len() == 1).await;
            let is_heard = client_of(&waits()[0]).is_some();
            waiter.abort();
            eventually("it has left", async || waits().is_empty()).await;
            is_heard
        };
        eventually("its client listens", a_waiter_is_heard).await;
        bed.command(&["DEL", "y"]);
    }
}

/// Each behaviour, with a waiter that listens itself, and with one whose client listens for it. In
/// a cluster, none does. Redisson sends its messages to the waiter, not to its client.
pub(crate) async fn who_waits_behind_redisson_listens_itself(bed: Bed) {
    if bed.is_cluster() {
        return;
    }
    let (one, other) = (bed.client().await, bed.client().await);
    HeardBy::Client.begins(&bed, &other).await;
    let listens_itself = async |field: String| {
        assert!(client_of(&field).is_some());
        let channel = channel_of(&field);
        eventually("it listens", async || bed.channels().contains(&channel)).await;
        channel
    };
    bed.command(&["HSET", "x", JAVA, "1"]);
    bed.command(&["PEXPIRE", "x", "60000"]);
    let next = queued(&bed, &other).await;
    let channel = listens_itself(queue(&bed).remove(0)).await;
    bed.command(&["DEL", "x"]);
    bed.publish(&channel, "0");
    let (guard, took) = served("after Redisson", next).await;
    assert!(took < bed.late(100), "before a heartbeat: {took:?}");
    guard.unlock().await.unwrap();
    let guard = one.fair_lock("x").lock().await.unwrap();
    put(&bed, JAVA, Duration::from_secs(600));
    let next = queued(&bed, &other).await;
    listens_itself(queue(&bed).remove(1)).await;
    bed.command(&["LREM", QUEUE, "0", JAVA]);
    bed.command(&["ZREM", DEADLINES, JAVA]);
    guard.unlock().await.unwrap();
    served("after the other one", next)
        .await
        .0
        .unlock()
        .await
        .unwrap();
}

macro_rules! behaviours_of_both {
    ($($behaviour:ident,)*) => {
        $(pub(crate) async fn $behaviour(bed: Bed) {
            let another = bed.another();
            both::$behaviour(bed, HeardBy::Owner).await;
            if !another.is_cluster() {
                both::$behaviour(another, HeardBy::Client).await;
            }
        })*
    };
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

behaviours_of_both! {
    a_release_gives_the_lock_to_the_next_waiter,
    a_grant_that_nobody_hears_of_is_found,
    a_release_gives_nothing_to_who_waits_for_another_lock,
    a_fixed_lease_is_asked_for,
    a_short_lease_ends_in_time,
    who_has_asked_for_two_places_believes_no_message,
    after_a_reconnect_no_message_is_believed,
    who_dies_with_a_grant_costs_its_place,
}

mod both {
    use super::*;

    pub(super) async fn a_release_gives_the_lock_to_the_next_waiter(bed: Bed, heard_by: HeardBy) {
        let (one, other) = (bed.client().await, bed.client().await);
        heard_by.begins(&bed, &other).await;
        let (guard, next) = hold_and_wait(&bed, &one, &other).await;
        let field = first_listens(&bed).await;
        let calls = bed.calls();
        assert_eq!(
            bed.channels().contains(&channel_of(&field)),
            matches!(heard_by, HeardBy::Owner)
        );
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
    pub(super) async fn a_grant_that_nobody_hears_of_is_found(bed: Bed, heard_by: HeardBy) {
        let one = bed.client().await;
        let (other, line) = FaultyConnection::with(&bed, |builder| builder).await;
        heard_by.begins(&bed, &other).await;
        let (guard, next) = hold_and_wait(&bed, &one, &other).await;
        let field = first_listens(&bed).await;
        line.lose_messages();
        guard.unlock().await.unwrap();
        assert_eq!(bed.count("x", &field), 1, "it has it already");
        let (guard, _) = served("the next", next).await;
        assert!(bed.left("x") > 20_000, "it has asked");
        guard.unlock().await.unwrap();
    }

    /// The locks `x` and `{x}` have one queue.
    pub(super) async fn a_release_gives_nothing_to_who_waits_for_another_lock(
        bed: Bed,
        heard_by: HeardBy,
    ) {
        let (one, other) = (bed.client().await, bed.client().await);
        heard_by.begins(&bed, &other).await;
        for (waited, released) in [("x", "{x}"), ("{x}", "x")] {
            let guard = one.fair_lock(waited).lock().await.unwrap();
            let another = one.fair_lock(released).lock().await.unwrap();
            let lock = other.fair_lock(waited);
            let next = tokio::spawn(async move { lock.try_lock(SOON, Lease::Renewed).await });
            eventually("in the queue", async || queue(&bed).len() == 1).await;
            first_listens(&bed).await;
            another.unlock().await.unwrap();
            stays_waiting(&next).await;
            assert!(!bed.exists(released), "it is free");
            guard.unlock().await.unwrap();
            served("the next", next).await.0.unlock().await.unwrap();
        }
    }

    pub(super) async fn a_fixed_lease_is_asked_for(bed: Bed, heard_by: HeardBy) {
        let (one, other) = (bed.client().await, bed.client().await);
        heard_by.begins(&bed, &other).await;
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

    /// Its place lasts longer than it wants the lock for. So it asks, and the lock is free again
    /// when its lease is over.
    pub(super) async fn a_short_lease_ends_in_time(bed: Bed, heard_by: HeardBy) {
        let (one, other) = (bed.client().await, bed.client().await);
        heard_by.begins(&bed, &other).await;
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
    pub(super) async fn who_has_asked_for_two_places_believes_no_message(
        bed: Bed,
        heard_by: HeardBy,
    ) {
        let (one, other) = (bed.client().await, bed.client().await);
        heard_by.begins(&bed, &other).await;
        let (guard, next) = hold_and_wait(&bed, &one, &other).await;
        let field = first_listens(&bed).await;
        bed.command(&["LREM", QUEUE, "0", &field]);
        bed.command(&["ZREM", DEADLINES, &field]);
        eventually("it is back", async || queue(&bed) == [field.clone()]).await;
        forge_grant(&bed, &field);
        stays_waiting(&next).await;
        guard.unlock().await.unwrap();
        served("the next", next).await.0.unlock().await.unwrap();
    }

    /// Behind a new connection may be another server, and messages of the former one may still
    /// come.
    pub(super) async fn after_a_reconnect_no_message_is_believed(bed: Bed, heard_by: HeardBy) {
        let one = bed.client().await;
        let (other, line) = FaultyConnection::with(&bed, |builder| builder).await;
        heard_by.begins(&bed, &other).await;
        let (guard, next) = hold_and_wait(&bed, &one, &other).await;
        let field = first_listens(&bed).await;
        line.reconnect();
        eventually("it is connected again", async || other.ping().await.is_ok()).await;
        let channel = heard_channel_of(&field);
        eventually("it listens again", async || {
            bed.channels().contains(&channel)
        })
        .await;
        forge_grant(&bed, &field);
        stays_waiting(&next).await;
        guard.unlock().await.unwrap();
        served("the next", next).await.0.unlock().await.unwrap();
    }

    /// The lease that a release begins ends with the place, so a waiter that died costs no more
    /// than that.
    pub(super) async fn who_dies_with_a_grant_costs_its_place(bed: Bed, heard_by: HeardBy) {
        let (one, third) = (bed.client().await, bed.client().await);
        let (other, line) = FaultyConnection::with(&bed, |builder| builder).await;
        heard_by.begins(&bed, &other).await;
        let (guard, dead) = hold_and_wait(&bed, &one, &other).await;
        first_listens(&bed).await;
        let last = queued(&bed, &third).await;
        line.die();
        guard.unlock().await.unwrap();
        let guard = within(bed.late(2 * CLAIM.unsigned_abs()), "the last", last).await;
        guard.unwrap().unwrap().unlock().await.unwrap();
        dead.abort();
    }
}
