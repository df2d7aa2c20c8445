//! A guard in the hands of a user that may be dropped at any moment.

use std::sync::Arc;
use std::time::Duration;

use leasehold::LockGuard;
use tokio::time::Instant;

use super::{Wanted, Wild};
use crate::history::{Actor, History};

/// A grant is given to its caller within this, or to nobody.
const ON_ITS_WAY: Duration = Duration::from_millis(300);

/// Dropped, it leaves the history and then the lock.
pub(super) struct Grip {
    history: History,
    actor: Actor,
    id: u64,
    guard: Option<Arc<LockGuard>>,
    /// Not later than the server granted it.
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
        let since = Instant::now().checked_sub(ON_ITS_WAY).expect("later than the first moment");
        Grip { history, actor: wanted.actor, id, guard: Some(guard), since }
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
