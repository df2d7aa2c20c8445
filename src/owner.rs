//! The identity that may take a lock again while it holds it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use uuid::Uuid;

use crate::session::hold::Hold;

static NEXT: AtomicU64 = AtomicU64::new(1);

/// Who holds a lock, for code that must re-enter across call layers.
///
/// Every lock value is an owner of its own. Where a deeper layer knows only the name of a lock that
/// its caller may hold, pass an `Owner` along and make the lock value with
/// [`owned_by`](crate::Lock::owned_by): all lock values of one owner and one name share one hold.
/// Clones are the same owner. Two owners always exclude each other, and so does one owner on two
/// clients, which may be connected to different servers.
#[derive(Clone)]
pub struct Owner(Arc<Inner>);

struct Inner {
    id: u64,
    /// Locks: taken alone, for list operations only. Bound: names this owner holds at once, plus
    /// dead entries that the next addition sweeps.
    holds: Mutex<Vec<Weak<Hold>>>,
}

impl Owner {
    /// A new owner, different from all others.
    pub fn new() -> Self {
        Owner(Arc::new(Inner { id: NEXT.fetch_add(1, Relaxed), holds: Mutex::default() }))
    }

    pub(crate) fn id(&self) -> u64 {
        self.0.id
    }

    /// The live holds of this owner under a key of a client, of whatever kind.
    pub(crate) fn holds_of(&self, client: Uuid, key: &str) -> Vec<Arc<Hold>> {
        let holds = self.0.holds.lock();
        holds
            .iter()
            .filter_map(Weak::upgrade)
            .filter(|hold| hold.client == client && &*hold.place.key == key && hold.is_live())
            .collect()
    }

    pub(crate) fn add(&self, hold: &Arc<Hold>) {
        let mut holds = self.0.holds.lock();
        holds.retain(|held| held.upgrade().is_some_and(|hold| hold.is_live()));
        holds.push(Arc::downgrade(hold));
    }
}

impl Default for Owner {
    fn default() -> Self {
        Owner::new()
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Owner").field(&self.0.id).finish()
    }
}
