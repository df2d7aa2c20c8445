//! The identity that may take a lock again while it holds it, where neither a guard nor a section says so.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use uuid::Uuid;

use crate::protocol::kind::Kind;
use crate::session::Waiter;
use crate::session::hold::Hold;

/// Who holds a lock, for code that must re-enter where neither a guard nor a section can say so.
///
/// Every acquisition is an owner of its own, so that this loop excludes:
///
/// ```no_run
/// # async fn example(lock: leasehold::Lock, jobs: Vec<u32>) -> Result<(), leasehold::Error> {
/// # async fn work(_job: u32) {}
/// for job in jobs {
///     let guard = lock.lock().await?; // waits until the task before has unlocked
///     tokio::spawn(async move {
///         work(job).await;
///         guard.unlock().await
///     });
/// }
/// # Ok(())
/// # }
/// ```
///
/// **With one `Owner` for all of them it does not**: `lock.owned_by(&owner)` re-enters what the owner
/// holds, so every task of the loop would be inside at once. Exclusion between whatever uses the same
/// `Owner` is what it gives away. Before you take one, see whether one of these fits:
///
/// - [`LockGuard::reenter`](crate::LockGuard::reenter) where the guard is at hand,
/// - [`Lock::run`](crate::Lock::run) and [`LockGuard::run`](crate::LockGuard::run) where the inner code
///   is called from the outer one: it takes the same lock by its name.
///
/// What is left is an identity that is handed through layers which know of no guard, or that stands
/// for a thread of Redisson in code that is ported from Java.
///
/// Clones are the same owner. Two owners exclude each other, and so does one owner on two clients,
/// which may be connected to different servers.
#[derive(Clone, Default)]
pub struct Owner(Arc<Mutex<Names>>);

/// What one owner holds and waits for.
///
/// Locks: taken alone, for operations on the tables only. Bounds: names this owner holds or waits for,
/// and as many dead entries.
#[derive(Default)]
struct Names {
    by_key: HashMap<(Uuid, Arc<str>), Name>,
    /// Dead names are swept when there are so many.
    sweep_at: usize,
}

#[derive(Default)]
struct Name {
    holds: HashMap<Kind, Vec<Weak<Hold>>>,
    waiters: Vec<Weak<Waiter>>,
}

/// Fewer names are not swept.
const SWEEP_MIN: usize = 32;

impl Owner {
    /// A new owner, different from all others.
    pub fn new() -> Self {
        Owner::default()
    }

    /// A live hold of a kind under a key of a client.
    pub(crate) fn newest(&self, client: Uuid, key: &Arc<str>, kind: Kind) -> Option<Arc<Hold>> {
        self.0.lock().by_key.get_mut(&(client, key.clone()))?.newest(kind)
    }

    /// A live hold of whatever kind under a key of a client.
    pub(crate) fn any(&self, client: Uuid, key: &Arc<str>) -> Option<Arc<Hold>> {
        let mut names = self.0.lock();
        let name = names.by_key.get_mut(&(client, key.clone()))?;
        let kinds: Vec<_> = name.holds.keys().copied().collect();
        kinds.into_iter().find_map(|kind| name.newest(kind))
    }

    /// All live holds of a kind under a key of a client.
    pub(crate) fn holds_of(&self, client: Uuid, key: &Arc<str>, kind: Kind) -> Vec<Arc<Hold>> {
        let names = self.0.lock();
        let name = names.by_key.get(&(client, key.clone()));
        let holds = name.and_then(|name| name.holds.get(&kind)).into_iter().flatten();
        holds.filter_map(Weak::upgrade).filter(|hold| hold.is_live()).collect()
    }

    /// It got a hold: those of its futures that wait under the key look again how they stand to it.
    pub(crate) fn add(&self, hold: &Arc<Hold>) {
        let waiting = {
            let mut names = self.0.lock();
            names.sweep();
            let name = names.by_key.entry((hold.client, hold.resource.key.clone())).or_default();
            let holds = name.holds.entry(hold.resource.kind).or_default();
            if holds.len() == holds.capacity() {
                holds.retain(|held| held.upgrade().is_some_and(|held| held.is_live()));
            }
            holds.push(Arc::downgrade(hold));
            std::mem::take(&mut name.waiters)
        };
        waiting.iter().filter_map(Weak::upgrade).for_each(|waiter| waiter.call_in());
    }

    /// One of its futures is about to wait. It looks for holds after this call, so that it sees the hold
    /// or is told of it.
    pub(crate) fn waits(&self, client: Uuid, key: &Arc<str>, waiter: &Arc<Waiter>) {
        let mut names = self.0.lock();
        names.sweep();
        let waiters = &mut names.by_key.entry((client, key.clone())).or_default().waiters;
        if waiters.len() == waiters.capacity() {
            waiters.retain(|waiter| waiter.strong_count() > 0);
        }
        waiters.push(Arc::downgrade(waiter));
    }
}

impl Names {
    fn sweep(&mut self) {
        if self.by_key.len() < self.sweep_at.max(SWEEP_MIN) {
            return;
        }
        self.by_key.retain(|_, name| name.is_alive());
        self.sweep_at = self.by_key.len() * 2;
    }
}

impl Name {
    /// What is not live never is again: it is dropped on the way.
    fn newest(&mut self, kind: Kind) -> Option<Arc<Hold>> {
        let holds = self.holds.get_mut(&kind)?;
        while let Some(last) = holds.last() {
            match last.upgrade().filter(|hold| hold.is_live()) {
                Some(hold) => return Some(hold),
                None => drop(holds.pop()),
            }
        }
        None
    }

    fn is_alive(&self) -> bool {
        let held = |held: &Weak<Hold>| held.upgrade().is_some_and(|hold| hold.is_live());
        self.holds.values().flatten().any(held)
            || self.waiters.iter().any(|waiter| waiter.strong_count() > 0)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Owner").field(&Arc::as_ptr(&self.0)).finish()
    }
}
