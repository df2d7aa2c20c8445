//! When the next heartbeat of each local queue is due.
//!
//! # Invariants
//!
//! - **T1** A queue that is known is either due at one time or has a heartbeat under way, of one call or
//!   several.
//! - **T2** A queue is forgotten when its heartbeat is due and none of its waiters is in Redis any more.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{BATCH, PERIOD_MIN};
use crate::protocol::resource::Resource;
use crate::session::local_queue::RedisQueue;

pub(super) struct Timetable {
    period: Duration,
    queues: BTreeMap<Arc<str>, LocalQueue>,
    /// In the order of their times.
    due: BTreeSet<(Instant, Arc<str>)>,
    /// Calls of the heartbeat that has begun which are still to be sent.
    batches: VecDeque<(Arc<Resource>, RedisQueue)>,
}

struct LocalQueue {
    resource: Arc<Resource>,
    calls_under_way: usize,
    /// When the next heartbeat is to come, by the answers that came.
    next: Option<Instant>,
}

impl Timetable {
    /// The heartbeats of a queue come a period apart, unless something ends by itself before.
    pub(super) fn new(period: Duration) -> Self {
        let (queues, due, batches) = (BTreeMap::new(), BTreeSet::new(), VecDeque::new());
        Timetable { period, queues, due, batches }
    }

    /// New queues get their first heartbeat.
    pub(super) fn learn(&mut self, resources: Vec<Arc<Resource>>) {
        let first = Instant::now() + self.period;
        for resource in resources {
            let name = resource.queue_name.clone();
            self.queues.entry(name.clone()).or_insert_with(|| {
                self.due.insert((first, name));
                LocalQueue { resource, calls_under_way: 0, next: None }
            });
        }
    }

    /// When to ask for the next batch.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The next call that is due, with the waiters whose places it keeps.
    pub(super) fn next_batch(
        &mut self,
        in_redis_queue: impl Fn(&str) -> RedisQueue,
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
                queue.calls_under_way = self.batches.len();
            }
        }
        self.batches.pop_front()
    }

    /// A call has ended, and told when something ends by itself, if that is known. Of several calls
    /// the one that says the earliest counts.
    pub(super) fn ended(&mut self, name: &Arc<str>, ends: Option<Duration>) {
        let wait = ends.map_or(self.period, |ends| {
            self.period.min((ends + Duration::from_millis(2)).max(PERIOD_MIN))
        });
        let at = Instant::now() + wait;
        let Some(queue) = self.queues.get_mut(name) else { return };
        queue.calls_under_way -= 1;
        queue.next = Some(queue.next.map_or(at, |next| next.min(at)));
        if queue.calls_under_way == 0 {
            self.due.insert((queue.next.take().unwrap_or(at), name.clone()));
        }
    }
}
