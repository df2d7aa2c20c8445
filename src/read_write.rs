//! The read/write lock: one name with two sides.

use std::fmt;
use std::time::Duration;

use crate::lock::Lock;
use crate::session::owner::Owner;

/// Many readers or one writer under one name, shared with Redisson's `RReadWriteLock`.
///
/// [`read`](ReadWriteLock::read) and [`write`](ReadWriteLock::write) are the two sides, each a
/// [`Lock`]. Inside a section of one side, or with its guard ([`Acquire::within`](crate::Acquire::within)):
///
/// - Under the write side, the read side may be taken too, at once, and kept when the write side is
///   released (a *downgrade*): waiting readers then come in.
/// - Under the read side, the write side is refused immediately with
///   [`Error::AlreadyHeld`](crate::Error::AlreadyHeld).
/// - Under the read side, the read side may be taken again, even if writers wait. Each read acquisition is
///   a hold of its own with a lease of its own.
///
/// # Fairness
///
/// As in Redisson, readers pass waiting writers.
/// [`prefer_writers`](ReadWriteLock::prefer_writers) changes that among the waiters of one client. After a
/// streak of hand-overs between writers of a client, its waiting readers come first, as other clients do.
///
/// # Redis cost
///
/// As in the table of [`Lock`]; read holds are never handed over: each takes one round trip. A release
/// looks at the leases of the read holds that are left: of more than sixteen, mostly at eight.
///
/// # Keys
///
/// The hash at the name, with a field `mode`; a key `{name}:<owner>:rwlock_timeout:1` for each read
/// hold; the channel `redisson_rwlock:{name}`. A plain lock must not share the name: the two exclude
/// each other, but do not wake each other.
///
/// # Examples
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::Client::embedded();
/// let catalogue = client.read_write_lock("catalogue");
/// let writing = catalogue.write().lock().await?;
/// // … change the catalogue, then check it while others read …
/// let reading = catalogue.read().acquire().within(&writing).await?;
/// writing.unlock().await?;
/// reading.unlock().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ReadWriteLock {
    read: Lock,
    write: Lock,
}

impl ReadWriteLock {
    pub(crate) fn new(read: Lock, write: Lock) -> Self {
        ReadWriteLock { read, write }
    }

    /// Makes `owner` the owner of all acquisitions of both sides through this value.
    ///
    /// See [`Owner`] for the exclusion that this gives away.
    #[must_use = "the lock is moved into the returned value"]
    pub fn owned_by(self, owner: &Owner) -> Self {
        let ReadWriteLock { read, write } = self;
        ReadWriteLock { read: read.owned_by(owner), write: write.owned_by(owner) }
    }

    /// Lets waiting writers of this client go before readers of this value.
    ///
    /// An owner that already reads never queues behind them. Readers of other clients, and of values
    /// without this setting, still pass waiting writers.
    #[must_use = "the lock is moved into the returned value"]
    pub fn prefer_writers(mut self) -> Self {
        self.read.prefer_writers();
        self
    }

    /// As [`Lock::with_lease`], for both sides.
    #[must_use = "the lock is moved into the returned value"]
    pub fn with_lease(self, lease: Duration) -> Self {
        let ReadWriteLock { read, write } = self;
        ReadWriteLock { read: read.with_lease(lease), write: write.with_lease(lease) }
    }

    /// As [`Lock::with_safety_poll`], for both sides.
    ///
    /// Waiting readers ask as often, because not everything that lets them in is published.
    #[must_use = "the lock is moved into the returned value"]
    pub fn with_safety_poll(self, every: Duration) -> Self {
        let ReadWriteLock { read, write } = self;
        ReadWriteLock { read: read.with_safety_poll(every), write: write.with_safety_poll(every) }
    }

    /// The side that many may hold.
    pub fn read(&self) -> &Lock {
        &self.read
    }

    /// The side that only one may hold.
    pub fn write(&self) -> &Lock {
        &self.write
    }

    /// The read side and the write side as two locks, for [`Lock::multi`] and the like.
    pub fn split(self) -> (Lock, Lock) {
        (self.read, self.write)
    }

    /// The name as it was given; empty if the name was refused.
    pub fn name(&self) -> &str {
        self.write.name()
    }
}

impl fmt::Debug for ReadWriteLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadWriteLock").field("name", &self.name()).finish_non_exhaustive()
    }
}
