//! The read/write lock: one name with two sides.

use std::fmt;
use std::time::Duration;

use crate::lock::Lock;

/// A distributed lock for many readers or one writer, shared with Redisson's `RReadWriteLock`.
///
/// [`read`](ReadWriteLock::read) and [`write`](ReadWriteLock::write) are its two sides, each a
/// [`Lock`]. Inside a section of one side, or with its guard
/// ([`Acquire::within`](crate::Acquire::within)):
///
/// - A writer can also take the read side, without waiting. It can keep the read side when it
///   releases the write side (a *downgrade*), and then waiting readers get in.
/// - A reader cannot take the write side. Upgrading is refused immediately with
///   [`Error::AlreadyHeld`](crate::Error::AlreadyHeld).
/// - A reader can take the read side again, even if writers wait. Each read acquisition has its own
///   hold and its own lease.
///
/// # Fairness
///
/// As in Redisson, readers overtake waiting writers. After a streak of hand-overs between the
/// writers of a client, its waiting readers go first, just as other clients do.
///
/// # Redis cost
///
/// See the table on [`Lock`]. Read holds are never handed over: each takes one round trip. A
/// release checks the leases of the remaining read holds. If there are more than sixteen, it
/// usually checks eight.
///
/// # Keys
///
/// - The hash at the name, with a field `mode`.
/// - A key `{name}:<owner>:rwlock_timeout:1` for each read hold.
/// - The channel `redisson_rwlock:{name}`.
///
/// Do not use the name for a plain lock as well: the two exclude each other, but do not wake each
/// other's waiters.
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

    /// Sets the lease of both sides. See [`Lock::with_lease`].
    #[must_use = "the lock is moved into the returned value"]
    pub fn with_lease(self, lease: Duration) -> Self {
        let ReadWriteLock { read, write } = self;
        ReadWriteLock {
            read: read.with_lease(lease),
            write: write.with_lease(lease),
        }
    }

    /// Sets the safety poll of both sides. See [`Lock::with_safety_poll`].
    ///
    /// Waiting readers poll this often too, because some changes that let them in are not
    /// published.
    #[must_use = "the lock is moved into the returned value"]
    pub fn with_safety_poll(self, every: Duration) -> Self {
        let ReadWriteLock { read, write } = self;
        ReadWriteLock {
            read: read.with_safety_poll(every),
            write: write.with_safety_poll(every),
        }
    }

    /// The side that many readers may hold.
    pub fn read(&self) -> &Lock {
        &self.read
    }

    /// The side that only one writer may hold.
    pub fn write(&self) -> &Lock {
        &self.write
    }

    /// Splits the lock into its read side and its write side, for [`Lock::multi`] and similar
    /// methods.
    pub fn split(self) -> (Lock, Lock) {
        (self.read, self.write)
    }

    /// The name of this value; empty if the name is not allowed.
    pub fn name(&self) -> &str {
        self.write.name()
    }
}

impl fmt::Debug for ReadWriteLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadWriteLock")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}
