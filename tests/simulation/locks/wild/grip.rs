//! A guard of a user that may be dropped at any moment.

use std::sync::Arc;
use std::time::Duration;

use leasehold::LockGuard;
use tokio::time::Instant;

use super::{Wanted, Wild};
use crate::ledger::{Entry, Held, Ledger, Wish, alone};

/// A grant reaches its caller within this time, or nobody.
const ON_ITS_WAY: Duration = Duration::from_millis(300);

/// Its drop removes it from the ledger first and then releases the lock.
pub(super) struct Grip {
    ledger: Ledger,
    entry: Option<Entry>,
    /// Not later than the server granted it.
    pub(super) since: Instant,
}

impl Grip {
    pub(super) fn new(user: &Wild, wanted: &Wanted, guard: LockGuard) -> Self {
        Grip::shared(user, wanted, Arc::new(guard))
    }

    /// For a guard that somebody else releases.
    pub(super) fn shared(user: &Wild, wanted: &Wanted, guard: Arc<LockGuard>) -> Self {
        let wish = Wish::of_lock(wanted.actor, wanted.name, wanted.side);
        let entry = user.ledger.enters(wish, Held::Lock(guard));
        user.shared.check_grant(user, &entry);
        let since = Instant::now()
            .checked_sub(ON_ITS_WAY)
            .expect("later than the first moment");
        Grip {
            ledger: user.ledger.clone(),
            entry: Some(entry),
            since,
        }
    }

    pub(super) fn guard(&self) -> Arc<LockGuard> {
        match self.entry.as_ref().map(|entry| &entry.held) {
            Some(Held::Lock(guard)) => guard.clone(),
            _ => unreachable!("a lock until it is dropped"),
        }
    }

    /// The guard, which nobody else may have.
    pub(super) fn into_guard(mut self) -> LockGuard {
        let guard = self.guard();
        drop(self.leave());
        alone(guard)
    }

    fn leave(&mut self) -> Option<Entry> {
        let entry = self.entry.take()?;
        self.ledger.leaves(&entry);
        Some(entry)
    }
}

impl Drop for Grip {
    fn drop(&mut self) {
        drop(self.leave());
    }
}
