//! One room: who holds or asks, who waits, and what is remembered of other clients.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::rest::{ASKERS_REMEMBERED, ASKERS_REST_MAX, IDLE_MAX, Idle, Rest};
use super::waiter::Waiter;
use crate::protocol::place::Place;

pub(super) struct Room {
    pub(super) place: Arc<Place>,
    pub(super) tenant: Tenant,
    /// Waiters by their ids: in the order in which they came.
    pub(super) queue: BTreeMap<u64, Arc<Waiter>>,
    /// Those that ask Redis each for itself.
    pub(super) open: BTreeMap<u64, Arc<Waiter>>,
    pub(super) streak: u32,
    pub(super) streak_since: Instant,
    /// Subscribers elsewhere that were told of the last release.
    pub(super) told: i64,
    pub(super) idle: Option<Idle>,
    /// When the front last got the lock after somebody else had it, where waiters ask.
    pub(super) met: Option<Instant>,
}

pub(super) enum Tenant {
    /// This waiter asks Redis for all.
    Front(Arc<Waiter>),
    /// This hold is ours; its id, and whether it is being released.
    Holder { id: u64, leaving: bool },
    /// Between two tenants; whoever comes first shall let other clients go first until `rest`.
    Nobody { rest: Option<Rest> },
}

/// What a change leaves to do when the room is no longer locked.
#[must_use = "a waiter that is not notified sleeps on"]
pub(super) enum Next {
    Same,
    Notify(Arc<Waiter>),
    Empty,
}

impl Room {
    pub(super) fn new(place: Arc<Place>) -> Self {
        Room {
            place,
            tenant: Tenant::Nobody { rest: None },
            queue: BTreeMap::new(),
            open: BTreeMap::new(),
            streak: 0,
            streak_since: Instant::now(),
            told: 0,
            idle: None,
            met: None,
        }
    }

    /// Makes the next waiter the front.
    pub(super) fn promote(&mut self, rest: Option<Rest>) -> Next {
        if let Some((_, next)) = self.queue.pop_first() {
            if let Tenant::Front(before) = &self.tenant {
                next.knows_from(before);
            }
            next.leads(rest);
            self.tenant = Tenant::Front(next.clone());
            Next::Notify(next)
        } else {
            self.tenant = Tenant::Nobody { rest };
            Next::Empty
        }
    }

    pub(super) fn rest_for_askers(&self, now: Instant) -> Option<Rest> {
        let until = now + (now - self.streak_since).min(ASKERS_REST_MAX);
        self.remembers_askers(now).then_some(Rest { until, others: 1 })
    }

    pub(super) fn remembers_askers(&self, now: Instant) -> bool {
        self.met.is_some_and(|met| now < met + ASKERS_REMEMBERED)
    }

    pub(super) fn is_front(&self, waiter: &Arc<Waiter>) -> bool {
        matches!(&self.tenant, Tenant::Front(front) if Arc::ptr_eq(front, waiter))
    }

    pub(super) fn waiting(&self) -> usize {
        let front = usize::from(matches!(self.tenant, Tenant::Front(_)));
        self.queue.len() + self.open.len() + front
    }

    /// Nobody is in it, and nothing is worth remembering.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let rests = |rest: Option<Rest>| rest.is_some_and(|rest| now < rest.until);
        let remembers =
            self.idle.is_some_and(|idle| now < idle.until + IDLE_MAX) || self.remembers_askers(now);
        let empty = matches!(self.tenant, Tenant::Nobody { rest } if !rests(rest));
        empty && !remembers && self.queue.is_empty() && self.open.is_empty()
    }

    pub(super) fn holder(&self) -> Option<u64> {
        match self.tenant {
            Tenant::Holder { id, leaving: false } => Some(id),
            Tenant::Holder { .. } | Tenant::Front(_) | Tenant::Nobody { .. } => None,
        }
    }
}
