//! One local queue: who holds or asks, who waits, and what is remembered of other clients.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::waiter::Waiter;
use super::yielding::{IDLE_MAX, IdleSubscribers, POLLERS_REMEMBERED, POLLERS_YIELD_MAX, Yield};
use crate::protocol::resource::Resource;

pub(super) struct LocalQueue {
    pub(super) resource: Arc<Resource>,
    pub(super) state: QueueState,
    /// Waiters by their ids: in the order in which they came.
    pub(super) waiters: BTreeMap<u64, Arc<Waiter>>,
    /// Where Redis keeps the order: waiters that ask each for itself.
    pub(super) contenders: BTreeMap<u64, Arc<Waiter>>,
    pub(super) streak: u32,
    pub(super) streak_since: Instant,
    /// Subscribers that received the message of the last release, in other clients.
    pub(super) receivers: i64,
    pub(super) idle_subscribers: Option<IdleSubscribers>,
    /// When the contender last got the lock after another client had it, where waiters poll.
    pub(super) met_poller: Option<Instant>,
}

pub(super) enum QueueState {
    /// This waiter asks Redis for all.
    Contending(Arc<Waiter>),
    /// A hold of this client has the lock; its id, and whether it is being released.
    Held { id: u64, releasing: bool },
    /// Neither. The waiter that comes first lets other clients go first, if `yielding`.
    Vacant { yielding: Option<Yield> },
}

/// What a change leaves to do when the queue is no longer locked.
#[must_use = "a waiter that is not notified sleeps on"]
pub(super) enum Next {
    Same,
    Notify(Arc<Waiter>),
    Empty,
}

impl LocalQueue {
    pub(super) fn new(resource: Arc<Resource>) -> Self {
        LocalQueue {
            resource,
            state: QueueState::Vacant { yielding: None },
            waiters: BTreeMap::new(),
            contenders: BTreeMap::new(),
            streak: 0,
            streak_since: Instant::now(),
            receivers: 0,
            idle_subscribers: None,
            met_poller: None,
        }
    }

    /// Makes the next waiter the contender.
    pub(super) fn promote(&mut self, yielding: Option<Yield>) -> Next {
        if let Some((_, next)) = self.waiters.pop_first() {
            if let QueueState::Contending(before) = &self.state {
                next.learns_from(before);
            }
            next.contends(yielding);
            self.state = QueueState::Contending(next.clone());
            Next::Notify(next)
        } else {
            self.state = QueueState::Vacant { yielding };
            Next::Empty
        }
    }

    pub(super) fn yield_to_pollers(&self, now: Instant) -> Option<Yield> {
        let until = now + (now - self.streak_since).min(POLLERS_YIELD_MAX);
        self.remembers_pollers(now).then_some(Yield { until, others: 1 })
    }

    pub(super) fn remembers_pollers(&self, now: Instant) -> bool {
        self.met_poller.is_some_and(|met| now < met + POLLERS_REMEMBERED)
    }

    pub(super) fn is_contender(&self, waiter: &Arc<Waiter>) -> bool {
        matches!(&self.state, QueueState::Contending(contender) if Arc::ptr_eq(contender, waiter))
    }

    pub(super) fn waiting(&self) -> usize {
        let contender = usize::from(matches!(self.state, QueueState::Contending(_)));
        self.waiters.len() + self.contenders.len() + contender
    }

    /// Does a waiter want to be looked after so often?
    pub(super) fn is_polled(&self, every: Duration) -> bool {
        let contender = if let QueueState::Contending(contender) = &self.state {
            Some(contender)
        } else {
            None
        };
        contender.into_iter().chain(self.waiters.values()).any(|waiter| waiter.poll == every)
    }

    /// Nobody uses it, and nothing is worth remembering.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let rests = |yielding: Option<Yield>| yielding.is_some_and(|yielding| now < yielding.until);
        let remembers = self.idle_subscribers.is_some_and(|idle| now < idle.until + IDLE_MAX)
            || self.remembers_pollers(now);
        let empty = matches!(self.state, QueueState::Vacant { yielding } if !rests(yielding));
        empty && !remembers && self.waiters.is_empty() && self.contenders.is_empty()
    }

    pub(super) fn holder(&self) -> Option<u64> {
        match self.state {
            QueueState::Held { id, releasing: false } => Some(id),
            QueueState::Held { .. } | QueueState::Contending(_) | QueueState::Vacant { .. } => None,
        }
    }
}
