//! Keeps the places of fair waiters in their queues in Redis.
//!
//! A place is kept for a claim. A heartbeat is one call for all waiters of one lock in this client, and
//! there are several in a claim. A heartbeat also finds what no message said: that a waiter is next, or
//! that its place is gone. The script takes dead waiters off the queue, and sends the next one its message.
//!
//! The names do not wait for each other: a heartbeat that is slow, or that gets no answer, is late for
//! its own name only. A name has one heartbeat under way at most.

mod timetable;

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, sleep, timeout};

use super::calls::Calls;
use super::holds::Holds;
use super::local_queue::RedisQueue;
use crate::protocol::fair::{self, QueuePosition};
use crate::protocol::resource::Resource;
use crate::transport::Lane;

use timetable::Timetable;

/// Waiters kept by one call: well under a millisecond of Redis.
const BATCH: usize = 200;
/// Calls on the wire at once: one after another, over a slow line the last would come too late.
const AT_ONCE: usize = 1024;
/// A heartbeat is late by this at most, whatever the claim.
const PERIOD_MAX: Duration = Duration::from_millis(500);
/// Nothing is asked or looked for more often than that.
const PERIOD_MIN: Duration = Duration::from_millis(10);

/// Heartbeats for all queues whose waiters are in Redis, until it is dropped.
pub(crate) async fn run(holds: &Holds) {
    let mut timetable = Timetable::new((holds.calls.settings.fair_claim / 3).min(PERIOD_MAX));
    let mut calls = FuturesUnordered::new();
    // Kept over the rounds: a wake that is dropped half-way would be lost.
    let newcomers = newcomer(holds);
    tokio::pin!(newcomers);
    loop {
        while calls.len() < AT_ONCE {
            let in_redis_queue = |queue: &str| holds.queues.in_redis_queue(queue);
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
            Some((resource, ends)) = calls.next() => timetable.ended(&resource.queue_name, ends),
        }
    }
}

/// A waiter got a place, perhaps in a queue that is not known yet, and a moment passed in which others
/// may.
async fn newcomer(holds: &Holds) {
    holds.queues.newcomer_in_redis().await;
    sleep(PERIOD_MIN).await;
}

/// One call of a heartbeat. Returns when something ends by itself, if that is known.
async fn keep(calls: &Calls, resource: &Resource, waiters: &RedisQueue) -> Option<Duration> {
    let (publish, claim) = (calls.publish_command(resource), calls.settings.fair_claim);
    let fields = waiters.iter().map(|(field, _)| field.clone());
    let sent = Instant::now();
    let call = calls.call(
        Lane::Background,
        fair::heartbeat(resource, publish, claim, fields),
    );
    // A heartbeat that fails is followed by another one, and every waiter asks for itself in the end. A
    // heartbeat without an answer is given up early enough for the next one.
    let reply = timeout(claim / 2, call).await.ok()?.ok()?;
    let (ends, positions) = fair::positions(reply, waiters.len()).ok()?;
    for ((field, waiter), position) in waiters.iter().zip(positions) {
        match position {
            QueuePosition::Waiting => waiter.has_place(field, sent),
            QueuePosition::Gone | QueuePosition::Next => waiter.wake(),
        }
    }
    ends
}
