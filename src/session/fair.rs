//! Keeps the places of fair waiters in their queues in Redis.
//!
//! Without a heartbeat, a place lasts for one *claim* (`ClientBuilder::fair_claim`). A heartbeat is
//! one call for all waiters of one lock in this client, and is sent several times within a claim. A
//! heartbeat also finds out what a lost message would have said: that a waiter is next, or that its
//! place is gone. Its script removes dead waiters from the queue and notifies the next one.
//!
//! The heartbeats of different locks do not wait for each other, so a slow or lost reply delays its
//! own lock only. A lock has at most one heartbeat in flight.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use crate::protocol::fair::{self, QueuePosition};
use crate::protocol::resource::{QueueName, Resource};
use crate::session::calls::Calls;
use crate::session::core::Core;
use crate::session::queue::RedisQueue;
use crate::timer::{sleep, timeout};
use crate::transport::Lane;

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
pub(crate) async fn run(core: &Core) {
    let mut timetable = Timetable::new((core.calls.settings.fair_claim / 3).min(PERIOD_MAX));
    let mut calls = FuturesUnordered::new();
    // Pinned across rounds: dropping the future half-way would lose a wake-up.
    let newcomers = newcomer(core);
    tokio::pin!(newcomers);
    loop {
        while calls.len() < AT_ONCE {
            let in_redis_queue = |queue: &QueueName| core.queues.in_redis_queue(queue);
            let Some((resource, batch)) = timetable.next_batch(in_redis_queue) else {
                break;
            };
            calls.push(async move {
                let ends = keep(&core.calls, &resource, &batch).await;
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
                timetable.learn(core.queues.with_redis_queues());
                newcomers.set(newcomer(core));
            }
            () = crate::timer::sleep_until_some(next) => {}
            Some((resource, ends)) = calls.next() => timetable.ended(resource.queue_name(), ends),
        }
    }
}

/// Returns shortly after a waiter got a place, perhaps in a queue that is not known yet. The pause
/// collects others that come at about the same time.
async fn newcomer(core: &Core) {
    core.queues.newcomer_in_redis().await;
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
            QueuePosition::Waiting => waiter.record_place(field, sent, None),
            QueuePosition::Gone | QueuePosition::Next => waiter.wake(),
        }
    }
    ends
}

// When the next heartbeat of each local queue is due.
//
// # Invariants
//
// - **BEAT-1** A known queue either is due at one instant or has a heartbeat in flight, of one or
//   more calls.
// - **BEAT-2** A queue is forgotten when its heartbeat is due and none of its waiters is in Redis
//   any more.

struct Timetable {
    period: Duration,
    queues: BTreeMap<QueueName, QueueSchedule>,
    /// In order of time.
    due: BTreeSet<(Instant, QueueName)>,
    /// Calls of the current heartbeat that are still to be sent.
    batches: VecDeque<(Arc<Resource>, RedisQueue)>,
}

struct QueueSchedule {
    resource: Arc<Resource>,
    calls_in_flight: usize,
    /// When the next heartbeat is due, according to the replies so far.
    next: Option<Instant>,
}

impl Timetable {
    /// Heartbeats of a queue are one `period` apart, or closer if a lease or a place expires
    /// earlier.
    fn new(period: Duration) -> Self {
        let (queues, due, batches) = (BTreeMap::new(), BTreeSet::new(), VecDeque::new());
        Timetable {
            period,
            queues,
            due,
            batches,
        }
    }

    /// Adds new queues, whose first heartbeat is due after one period.
    fn learn(&mut self, resources: Vec<Arc<Resource>>) {
        let first = Instant::now() + self.period;
        for resource in resources {
            let name = resource.queue_name().clone();
            self.queues.entry(name.clone()).or_insert_with(|| {
                self.due.insert((first, name));
                QueueSchedule {
                    resource,
                    calls_in_flight: 0,
                    next: None,
                }
            });
        }
    }

    /// When the next batch is due.
    fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The next call that is due, with the waiters whose places it keeps.
    fn next_batch(
        &mut self,
        in_redis_queue: impl Fn(&QueueName) -> RedisQueue,
    ) -> Option<(Arc<Resource>, RedisQueue)> {
        let now = Instant::now();
        while self.batches.is_empty() {
            if self.next().is_none_or(|at| at > now) {
                return None;
            }
            let (_, name) = self.due.pop_first()?;
            let waiters = in_redis_queue(&name);
            if waiters.is_empty() {
                self.queues.remove(&name);
            } else if let Some(queue) = self.queues.get_mut(&name) {
                let batch = |batch: &[_]| (queue.resource.clone(), batch.to_vec());
                self.batches.extend(waiters.chunks(BATCH).map(batch));
                queue.calls_in_flight = self.batches.len();
            }
        }
        self.batches.pop_front()
    }

    /// A call has ended. Its reply may tell when a lease or a place expires. If a heartbeat has
    /// several calls, the earliest instant counts.
    fn ended(&mut self, name: &QueueName, ends: Option<Duration>) {
        let wait = ends.map_or(self.period, |ends| {
            self.period
                .min((ends + Duration::from_millis(2)).max(PERIOD_MIN))
        });
        let at = Instant::now() + wait;
        let Some(queue) = self.queues.get_mut(name) else {
            return;
        };
        queue.calls_in_flight -= 1;
        queue.next = Some(queue.next.map_or(at, |next| next.min(at)));
        if queue.calls_in_flight == 0 {
            self.due
                .insert((queue.next.take().unwrap_or(at), name.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::Lease;
    use crate::protocol::kind::Kind;
    use crate::session::poll_watch::Wait;
    use crate::session::request::Options;
    use crate::session::waiter::Waiter;

    const PERIOD: Duration = Duration::from_millis(500);

    const fn ms(span: u64) -> Duration {
        Duration::from_millis(span)
    }

    fn waiters(number: usize) -> RedisQueue {
        let terms = Options::new(Wait::Forever, Lease::Renewed)
            .terms(PERIOD)
            .expect("good terms");
        let waiter = |number| {
            let waiter = Waiter::new(terms, Instant::now());
            (Arc::from(format!("field {number}")), waiter)
        };
        (0..number).map(waiter).collect()
    }

    /// Starts a heartbeat of as many calls as there are `answers`, and answers them in this order.
    /// Returns the time until the next heartbeat is due.
    async fn next_after(answers: &[Option<Duration>]) -> Duration {
        let fair = Arc::new(Resource::new(Kind::Fair, "", "x").expect("a good name"));
        let mut timetable = Timetable::new(PERIOD);
        timetable.learn(vec![fair.clone()]);
        tokio::time::sleep(PERIOD).await;
        let all = waiters(BATCH * answers.len() - 1);
        let mut asked = Vec::new();
        while let Some((_, batch)) = timetable.next_batch(|_| all.clone()) {
            asked.extend(batch.iter().map(|(field, _)| field.clone()));
        }
        assert!(
            asked.iter().eq(all.iter().map(|(field, _)| field)),
            "each waiter once"
        );
        let begun = Instant::now();
        for (at, answer) in answers.iter().enumerate() {
            assert_eq!(
                timetable.next(),
                None,
                "{at} of {} have ended",
                answers.len()
            );
            timetable.ended(fair.queue_name(), *answer);
        }
        timetable.next().expect("the next heartbeat") - begun
    }

    /// Between two calls of one heartbeat, the holder may leave or the first waiter may die.
    #[tokio::test(start_paused = true)]
    async fn the_earliest_of_several_ends_counts() {
        let ends = [Some(ms(20)), Some(ms(300)), Some(ms(9000)), None];
        for first in ends {
            for second in ends {
                for third in ends {
                    let earliest = [first, second, third].into_iter().flatten().min();
                    let due = earliest.map_or(PERIOD, |ends| PERIOD.min(ends + ms(2)));
                    let what = [first, second, third];
                    assert_eq!(next_after(&what).await, due, "{what:?}");
                }
            }
        }
    }

    /// An instant that has already come is asked about soon, but not at once.
    #[tokio::test(start_paused = true)]
    async fn an_end_that_has_come_is_asked_about_after_a_pause() {
        for others in [Some(ms(300)), None] {
            for answers in [
                [Some(Duration::ZERO), others],
                [others, Some(Duration::ZERO)],
            ] {
                assert_eq!(next_after(&answers).await, PERIOD_MIN, "{answers:?}");
            }
        }
    }
}
