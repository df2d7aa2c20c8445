//! A guard in the hands of a user that may be dropped at any moment.

use std::sync::Arc;

use leasehold::LockGuard;
use tokio::time::Instant;

use super::{Wanted, Wild};
use crate::history::{Actor, History};

/// Dropped, it leaves the history and then the lock.
pub(super) struct Grip {
    history: History,
    actor: Actor,
    id: u64,
    guard: Option<Arc<LockGuard>>,
    pub(super) since: Instant,
}

impl Grip {
    pub(super) fn new(user: &Wild, wanted: &Wanted, guard: LockGuard) -> Self {
        Grip::shared(user, wanted, Arc::new(guard))
    }

    /// Of a guard that somebody else releases.
    pub(super) fn shared(user: &Wild, wanted: &Wanted, guard: Arc<LockGuard>) -> Self {
        let history = user.0.history.clone();
        let id = history.granted_shared(wanted.actor, &wanted.name, wanted.side, &guard);
        Grip { history, actor: wanted.actor, id, guard: Some(guard), since: Instant::now() }
    }

    pub(super) fn guard(&self) -> Arc<LockGuard> {
        self.guard.clone().expect("until it is dropped")
    }

    /// The guard, if nobody else has it.
    pub(super) fn into_guard(mut self) -> Option<LockGuard> {
        self.history.leaves(self.actor, self.id);
        self.guard.take().and_then(Arc::into_inner)
    }
}

impl Drop for Grip {
    fn drop(&mut self) {
        if self.guard.is_some() {
            self.history.leaves(self.actor, self.id);
        }
    }
}
