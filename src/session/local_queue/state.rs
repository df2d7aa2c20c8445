//! One local queue: its holder or contender, its waiters, and what it remembers about other
//! clients.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::waiter::{Waiter, WaiterSignal};
use super::yielding::{Turns, Yield};
use crate::clock::Moment;
use crate::protocol::resource::Resource;
use crate::session::hold::Hold;

pub(super) struct LocalQueue {
    pub(super) resource: Arc<Resource>,
    pub(super) state: QueueState,
    /// The waiters that are not the contender. If Redis keeps the order, each of them asks for
    /// itself.
    /// By id, which is the order in which they came.
    pub(super) waiters: BTreeMap<u64, Arc<Waiter>>,
    pub(super) turns: Turns,
}

pub(super) enum QueueState {
    /// This waiter asks Redis on behalf of all.
    Contending(Arc<Waiter>),
    /// This client's hold has the lock or is being released.
    Held {
        hold: Arc<Hold>,
        hand_overs: HandOvers,
    },
    /// Neither. If `yielding`, the next waiter lets other clients go first.
    Vacant { yielding: Option<Box<Yield>> },
}

/// The hand-overs since Redis granted the lock to this client.
#[derive(Clone, Copy)]
pub(super) struct HandOvers {
    pub(super) count: u32,
    pub(super) since: Instant,
}

/// What is left to do after a change, once the queue is unlocked.
#[must_use = "a waiter that is not notified sleeps on"]
pub(super) enum Next {
    Same,
    Notify(Arc<Waiter>),
    /// Nobody is left, or perhaps nobody.
    Empty,
}

impl LocalQueue {
    pub(super) fn new(resource: Arc<Resource>) -> Self {
        LocalQueue {
            resource,
            state: QueueState::Vacant { yielding: None },
            waiters: BTreeMap::new(),
            turns: Turns::default(),
        }
    }

    /// Makes the next waiter the contender.
    pub(super) fn promote(&mut self, yielding: Option<Box<Yield>>) -> Next {
        if let Some((_, next)) = self.waiters.pop_first() {
            self.is_contended_by(next, yielding)
        } else {
            self.state = QueueState::Vacant { yielding };
            Next::Empty
        }
    }

    pub(super) fn is_contended_by(
        &mut self,
        next: Arc<Waiter>,
        yielding: Option<Box<Yield>>,
    ) -> Next {
        if let Some(before) = self.contender() {
            next.learns_from(before);
        }
        next.set_signal(WaiterSignal::Contend(yielding));
        self.state = QueueState::Contending(next.clone());
        Next::Notify(next)
    }

    /// A hold that Redis has just granted now has the lock, unless it ended before: then it may already have
    /// tried to leave the queue (QUEUE-4).
    pub(super) fn is_taken_by(&mut self, hold: &Arc<Hold>) -> Next {
        if hold.has_ended() {
            return self.promote(None);
        }
        self.state = QueueState::Held {
            hold: hold.clone(),
            hand_overs: HandOvers {
                count: 0,
                since: Instant::now(),
            },
        };
        Next::Same
    }

    pub(super) fn is_contender(&self, waiter: &Arc<Waiter>) -> bool {
        self.contender()
            .is_some_and(|contender| Arc::ptr_eq(contender, waiter))
    }

    pub(super) fn contender(&self) -> Option<&Arc<Waiter>> {
        match &self.state {
            QueueState::Contending(contender) => Some(contender),
            QueueState::Held { .. } | QueueState::Vacant { .. } => None,
        }
    }

    pub(super) fn all_waiters(&self) -> impl Iterator<Item = &Arc<Waiter>> {
        self.contender().into_iter().chain(self.waiters.values())
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiters.len() + usize::from(self.contender().is_some())
    }

    /// True if nobody uses the queue and nothing in it is worth remembering.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let QueueState::Vacant { yielding } = &self.state else {
            return false;
        };
        let rests = yielding
            .as_ref()
            .is_some_and(|yielding| now < yielding.until);
        !rests && !self.turns.remembers_pollers(now) && self.waiters.is_empty()
    }

    pub(super) fn is_held_by(&self, hold: &Hold) -> bool {
        self.hand_overs_of(hold).is_some()
    }

    /// The hand-overs so far, if the queue is held by this hold.
    pub(super) fn hand_overs_of(&self, hold: &Hold) -> Option<HandOvers> {
        match &self.state {
            QueueState::Held {
                hold: holder,
                hand_overs,
            } if holder.id == hold.id => Some(*hand_overs),
            _ => None,
        }
    }

    /// The hold that has the lock, unless it is being released.
    pub(super) fn holder(&self) -> Option<Arc<Hold>> {
        match &self.state {
            QueueState::Held { hold, .. } if hold.is_live() => Some(hold.clone()),
            _ => None,
        }
    }

    /// The hold that the queue is held by although it is over. QUEUE-4 rules that out.
    pub(super) fn stale_hold(&self, now: Moment) -> Option<Arc<Hold>> {
        match &self.state {
            QueueState::Held { hold, .. } if hold.is_over(now) => Some(hold.clone()),
            _ => None,
        }
    }
}
