//! Waiters that have a place in a queue in Redis: those of fair locks.

use std::sync::Arc;

use super::state::LocalQueue;
use super::waiter::Servers;
use super::{LocalQueues, Waiter};
use crate::clock::Moment;
use crate::protocol::fair::NAMED;
use crate::protocol::resource::{QueueName, Resource};

/// Waiters in a queue in Redis, each with its field.
pub(crate) type RedisQueue = Vec<(Arc<str>, Arc<Waiter>)>;

impl LocalQueues {
    /// The resources with waiters in queues in Redis.
    pub(crate) fn with_redis_queues(&self) -> Vec<Arc<Resource>> {
        let in_redis_queue = |queue: &LocalQueue| {
            queue
                .waiters
                .values()
                .any(|waiter| waiter.field_in_redis_queue().is_some())
        };
        let resource = |queue: &LocalQueue| in_redis_queue(queue).then(|| queue.resource.clone());
        let mut resources = self.map.collect(|_, queue| resource(queue));
        resources.sort_by_key(|resource| resource.queue_name());
        resources
    }

    /// A waiter has a place in the queue in Redis. `kept` is when the call that last kept the place
    /// was sent. `sole_since` is set if it is the first that asked for a place.
    pub(crate) fn has_place(
        &self,
        waiter: &Waiter,
        field: &Arc<str>,
        kept: Moment,
        sole_since: Option<Servers>,
    ) {
        waiter.has_place(field, kept, sole_since);
        self.in_redis.notify_one();
    }

    /// True if another waiter of this client is in the queue in Redis, so that a newcomer will wait.
    pub(crate) fn is_crowded(&self, resource: &Resource) -> bool {
        self.map
            .get(&resource.queue_name())
            .is_some_and(|queue| queue.waiters.len() > 1)
    }

    /// The last waiters of this client in the queue in Redis that came before this one, the last one first.
    pub(crate) fn ahead_of(&self, resource: &Resource, waiter: &Waiter) -> Vec<Arc<str>> {
        let Some(queue) = self.map.get(&resource.queue_name()) else {
            return Vec::new();
        };
        let ahead = queue.waiters.range(..waiter.id).rev();
        let fields = ahead.filter_map(|(_, waiter)| waiter.field_in_redis_queue());
        fields.take(NAMED).collect()
    }

    /// Resolves when a waiter has got a place in a queue in Redis, perhaps in a queue that was
    /// empty.
    pub(crate) async fn newcomer_in_redis(&self) {
        self.in_redis.notified().await;
    }

    /// The waiters of a local queue that are also in the queue in Redis.
    pub(crate) fn in_redis_queue(&self, queue: &QueueName) -> RedisQueue {
        let in_redis_queue =
            |waiter: &Arc<Waiter>| Some((waiter.field_in_redis_queue()?, waiter.clone()));
        let Some(queue) = self.map.get(queue) else {
            return RedisQueue::new();
        };
        queue.waiters.values().filter_map(in_redis_queue).collect()
    }
}
