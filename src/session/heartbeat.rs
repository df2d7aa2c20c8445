//! Keeps the places of fair waiters in their queues in Redis.
//!
//! Without a heartbeat, a place lasts for one *claim* (`ClientBuilder::fair_claim`). A heartbeat is
//! one call for all waiters of one lock in this client, and is sent several times within a claim. A
//! heartbeat also finds out what a lost message would have said: that a waiter is next, or that its
//! place is gone. Its script removes dead waiters from the queue and notifies the next one.
//!
//! The heartbeats of different locks do not wait for each other, so a slow or lost reply delays its
//! own lock only. A lock has at most one heartbeat in flight.

mod timetable;

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::calls::Calls;
use super::holds::Holds;
use super::local_queue::RedisQueue;
use crate::protocol::fair::{self, QueuePosition};
use crate::protocol::resource::{QueueName, Resource};
use crate::timer::{sleep, timeout};
use crate::transport::Lane;

use timetable::Timetable;

/// Waiters in one call. Redis needs well under a millisecond for them.
const BATCH: usize = 200;
/// Calls in flight at once. If they were sent one after another over a slow connection, the last
/// would come too late.
const AT_ONCE: usize = 1024;
/// The longest time between two heartbeats, however long the claim.
const PERIOD_MAX: Duration = Duration::from_millis(500);
/// The shortest time between two heartbeats.
const PERIOD_MIN: Duration = Duration::from_millis(10);

/// Sends heartbeats for all queues whose waiters are in Redis, until it is dropped.
pub(crate) async fn run(holds: &Holds) {
    let mut timetable = Timetable::new((holds.calls.settings.fair_claim / 3).min(PERIOD_MAX));
    let mut calls = FuturesUnordered::new();
    // Pinned across rounds: dropping the future half-way would lose a wake-up.
    let newcomers = newcomer(holds);
    tokio::pin!(newcomers);
    loop {
        while calls.len() < AT_ONCE {
            let in_redis_queue = |queue: &QueueName| holds.queues.in_redis_queue(queue);
            let Some((resource, batch)) = timetable.next_batch(in_redis_queue) else {
                break;
            };
            calls.push(async move {
                let ends = keep(&holds.calls, &resource, &batch).await;
                (resource, ends)
            });
        }
        let next = if calls.len() < AT_ONCE {
            timetable.next()
        } else {
            None
        };
        tokio::select! {
            biased;
            () = &mut newcomers => {
                timetable.learn(holds.queues.with_redis_queues());
                newcomers.set(newcomer(holds));
            }
            () = super::sleep_until_some(next) => {}
            Some((resource, ends)) = calls.next() => timetable.ended(&resource.queue_name(), ends),
        }
    }
}

/// Returns shortly after a waiter got a place, perhaps in a queue that is not known yet. The pause
/// collects others that come at about the same time.
async fn newcomer(holds: &Holds) {
    holds.queues.newcomer_in_redis().await;
    sleep(PERIOD_MIN).await;
}

/// Sends one call of a heartbeat. Returns when the current holder's lease or the first waiter's
/// place expires, if known.
async fn keep(calls: &Calls, resource: &Resource, waiters: &RedisQueue) -> Option<Duration> {
    let (publish, claim) = (calls.publish_command(resource), calls.settings.fair_claim);
    let fields = waiters.iter().map(|(field, _)| field.clone());
    let sent = calls.now();
    let call = calls.call(
        Lane::Background,
        fair::heartbeat(resource, publish, claim, fields),
    );
    // A heartbeat that fails is followed by another, and in the end every waiter asks for itself. A
    // heartbeat without a reply is given up in time for the next one.
    let reply = timeout(claim / 2, call).await.ok()?.ok()?;
    let (ends, positions) = fair::positions(reply, waiters.len()).ok()?;
    for ((field, waiter), position) in waiters.iter().zip(positions) {
        match position {
            QueuePosition::Waiting => waiter.has_place(field, sent, None),
            QueuePosition::Gone | QueuePosition::Next => waiter.wake(),
        }
    }
    ends
}
