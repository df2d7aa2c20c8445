//! An owner of holds, for code that re-enters a lock and has neither a guard nor a section.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use crate::client_id::ClientId;
use crate::protocol::kind::Kind;
use crate::session::Waiter;
use crate::session::hold::Hold;
use crate::sync::Mutex;

/// An identity that may take a lock again while it holds it.
///
/// For code that must re-enter and has neither a guard nor a section.
///
/// # Examples
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// use leasehold::{Client, Owner};
///
/// let client = Client::embedded();
/// let owner = Owner::new();
/// let outer = client.lock("account:7").owned_by(&owner).lock().await?;
/// let inner = client.lock("account:7").owned_by(&owner).lock().await?; // at once
/// inner.unlock().await?;
/// outer.unlock().await?;
/// # Ok(())
/// # }
/// ```
///
/// # What it gives away
///
/// Without an `Owner` every acquisition is an owner of its own, so the tasks of this loop exclude each
/// other:
///
/// ```no_run
/// # async fn example(lock: leasehold::Lock, jobs: Vec<u32>) -> Result<(), leasehold::Error> {
/// # async fn work(_job: u32) {}
/// for job in jobs {
///     let guard = lock.lock().await?; // waits until the previous task has unlocked
///     tokio::spawn(async move {
///         work(job).await;
///         guard.unlock().await
///     });
/// }
/// # Ok(())
/// # }
/// ```
///
/// **With one `Owner` for all tasks they do not**: `lock.owned_by(&owner)` re-enters the hold of the
/// owner, so all tasks would be inside at once. An `Owner` gives away the exclusion between its users.
/// Before you take one, see whether one of these fits:
///
/// - [`LockGuard::reenter`](crate::LockGuard::reenter) if the guard is at hand,
/// - [`Lock::run`](crate::Lock::run) and [`LockGuard::run`](crate::LockGuard::run) if the outer code calls
///   the inner code, which then takes the same lock by its name.
///
/// An `Owner` is for an identity that passes through layers without guards, or that stands for a thread
/// of Redisson in code that is ported from Java.
///
/// Clones are the same owner. Two owners exclude each other. One owner on two clients excludes itself: the
/// clients may be connected to different servers.
#[derive(Clone, Default)]
pub struct Owner(Arc<Mutex<Names>>);

/// The holds and the waiters of one owner, by name.
///
/// The lock is held alone, and only for map operations. The map is bounded by the names with holds
/// or waiters, plus as many dead entries.
#[derive(Default)]
struct Names {
    by_key: HashMap<(ClientId, Arc<str>), Name>,
    /// Dead names are swept when the map has this many entries.
    sweep_at: usize,
}

#[derive(Default)]
struct Name {
    holds: Vec<Weak<Hold>>,
    waiters: Vec<Weak<Waiter>>,
}

/// A map with fewer names is not swept.
const SWEEP_MIN: usize = 32;

impl Owner {
    /// A new owner, different from all others.
    pub fn new() -> Self {
        Owner::default()
    }

    /// The newest live hold of one kind under a key of a client.
    pub(crate) fn newest(&self, client: ClientId, key: &Arc<str>, kind: Kind) -> Option<Arc<Hold>> {
        self.holds_of(client, key, kind).pop()
    }

    /// Any live hold under a key of a client, whatever its kind.
    pub(crate) fn any(&self, client: ClientId, key: &Arc<str>) -> Option<Arc<Hold>> {
        self.live(client, key, |_| true).pop()
    }

    /// All live holds of a kind under a key of a client.
    fn holds_of(&self, client: ClientId, key: &Arc<str>, kind: Kind) -> Vec<Arc<Hold>> {
        self.live(client, key, |hold| hold.resource.kind == kind)
    }

    fn live(&self, client: ClientId, key: &Arc<str>, of: impl Fn(&Hold) -> bool) -> Vec<Arc<Hold>> {
        let held = self
            .0
            .lock()
            .by_key
            .get(&(client, key.clone()))
            .map(Name::held);
        // Filter outside the lock: dropping a hold may call foreign code (FOREIGN-1).
        let mut held = held.unwrap_or_default();
        held.retain(|hold| of(hold) && hold.is_live());
        held
    }

    /// Adds a hold, and signals this owner's waiters under the same key, because the hold may let
    /// them in.
    pub(crate) fn add(&self, hold: &Arc<Hold>) {
        let waiting = {
            let mut names = self.0.lock();
            names.sweep();
            let name = names
                .by_key
                .entry((hold.client, hold.resource.key.clone()))
                .or_default();
            if name.holds.len() == name.holds.capacity() {
                name.holds.retain(|held| held.strong_count() > 0);
            }
            name.holds.push(Arc::downgrade(hold));
            std::mem::take(&mut name.waiters)
        };
        waiting
            .iter()
            .filter_map(Weak::upgrade)
            .for_each(|waiter| waiter.look_again());
    }

    /// Adds a waiter of this owner. The caller must look for holds afterwards: then it either sees
    /// a new hold or is signalled.
    pub(crate) fn waits(&self, client: ClientId, key: &Arc<str>, waiter: &Arc<Waiter>) {
        let mut names = self.0.lock();
        names.sweep();
        let waiters = &mut names
            .by_key
            .entry((client, key.clone()))
            .or_default()
            .waiters;
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
    fn held(&self) -> Vec<Arc<Hold>> {
        self.holds.iter().filter_map(Weak::upgrade).collect()
    }

    fn is_alive(&self) -> bool {
        self.holds.iter().any(|held| held.strong_count() > 0)
            || self.waiters.iter().any(|waiter| waiter.strong_count() > 0)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Owner").field(&Arc::as_ptr(&self.0)).finish()
    }
}
