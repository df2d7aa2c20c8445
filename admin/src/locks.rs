//! The locks that are held on a server, found by searching its keys.

mod at;
mod in_hex;
mod scan;
mod search;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use leasehold::inspect::Holder;
use leasehold::parts::Parts;

pub(crate) use at::{force_unlock_at, look_at};
pub(crate) use search::search;

/// The kind of a lock, as far as its keys show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockKind {
    /// Re-entrant, non-reentrant or spin: their keys look the same.
    Lock,
    /// Fair, with waiters in its queue or held by this library. If Redisson holds a fair lock
    /// without waiters, it looks like a plain lock.
    Fair,
    /// Fenced, with a token counter.
    Fenced,
    /// Held by readers.
    Read,
    /// Held by a writer, which may also have read holds.
    Write,
    /// A string lock of this library. Those of other libraries have no mark and are not found.
    String,
    /// A semaphore with held permits, with waiters, or with a
    /// [limit](leasehold::Semaphore::with_limit). A permit-expirable one with a limit looks the
    /// same while nobody holds its permits.
    Semaphore,
    /// A permit-expirable semaphore with held permits.
    Permits,
    /// A count-down latch with waiters.
    Latch,
    /// A string that no client of this library wrote: the lock of another program, or any other
    /// data. Only [`Admin::lock_at`](crate::Admin::lock_at) returns it.
    Foreign,
}

/// A lock or synchronizer that [`Admin::locks`](crate::Admin::locks) or
/// [`Admin::lock_at`](crate::Admin::lock_at) found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockInfo {
    /// The key, with the prefix of the client that took the lock. A byte that is not UTF-8 is
    /// U+FFFD here: see [`key_bytes`](LockInfo::key_bytes).
    pub key: String,
    bytes: Vec<u8>,
    /// The kind, as far as the keys show it.
    pub kind: LockKind,
    /// The holders. Each reader and each holder of permits has its own lease.
    ///
    /// Redisson does not store who holds the permits of a semaphore. Of more than 1,024 holders of
    /// permits, those with the shortest leases are listed.
    pub holders: Vec<Holder>,
    /// The available permits of a semaphore.
    pub available: Option<i64>,
    /// The [limit](leasehold::Semaphore::with_limit) of a semaphore that was applied last.
    pub limit: Option<u32>,
    /// The count of a latch.
    pub count: Option<i64>,
    /// The longest remaining lease; `None` if the key has no expiry, or if nobody is known to hold
    /// permits.
    pub lease: Option<Duration>,
    /// The number of waiters in the queue of a fair lock.
    pub queue: u64,
    /// The number of clients that listen for the release of a lock of another kind, each for all
    /// its waiters; see [`Waiters::listening`](leasehold::inspect::Waiters::listening).
    pub listening: Option<u64>,
}

impl LockInfo {
    /// Nothing is known about the lock but its key and kind.
    fn new(bytes: Vec<u8>, kind: LockKind) -> Self {
        LockInfo {
            key: String::from_utf8_lossy(&bytes).into_owned(),
            bytes,
            kind,
            holders: Vec::new(),
            available: None,
            limit: None,
            count: None,
            lease: None,
            queue: 0,
            listening: None,
        }
    }

    /// The bytes of the key. Another program may have written a key that is not UTF-8.
    pub fn key_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The locks that [`Admin::locks`](crate::Admin::locks) found, sorted by key.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// use leasehold::Client;
/// use leasehold_admin::{Admin, LockKind};
///
/// let client = Client::embedded();
/// let guard = client.lock("orders:42").lock().await?;
///
/// let locks = Admin::new(&client).locks("orders:*").await?;
/// for lock in locks.iter() {
///     let owners: Vec<_> = lock.holders.iter().map(|holder| &holder.owner).collect();
///     println!("{} ({}) is held by {owners:?} for {:?}", lock.key, lock.kind, lock.lease);
/// }
/// assert_eq!(locks[0].kind, LockKind::Lock);
/// guard.unlock().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LockList {
    locks: Vec<LockInfo>,
    truncated: bool,
}

impl LockList {
    /// Returns whether the search stopped at its limits, or a proxy did not show it all servers.
    /// There may be more locks.
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }
}

impl Deref for LockList {
    type Target = [LockInfo];

    fn deref(&self) -> &[LockInfo] {
        &self.locks
    }
}

impl IntoIterator for LockList {
    type Item = LockInfo;
    type IntoIter = std::vec::IntoIter<LockInfo>;

    fn into_iter(self) -> Self::IntoIter {
        self.locks.into_iter()
    }
}

/// Marks the holders that are this client or the calling task.
fn mark_own(parts: &Parts, lock: &mut LockInfo) {
    let key = Arc::from(&*lock.key);
    for holder in &mut lock.holders {
        parts.mark_own(&key, holder);
    }
}

/// Decodes PTTL. `None` for a key without expiry.
fn span(left_ms: i64) -> Option<Duration> {
    u64::try_from(left_ms).ok().map(Duration::from_millis)
}

impl fmt::Display for LockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LockKind::Lock => "lock",
            LockKind::Fair => "fair",
            LockKind::Fenced => "fenced",
            LockKind::Read => "read",
            LockKind::Write => "write",
            LockKind::String => "string",
            LockKind::Semaphore => "semaphore",
            LockKind::Permits => "permits",
            LockKind::Latch => "latch",
            LockKind::Foreign => "foreign",
        })
    }
}
