//! What stands for permits that are held.

use std::fmt;
use std::ops::Deref;

use crate::error::Error;
use crate::lock::LockGuard;
use crate::protocol::permit::ID_LENGTH;

/// One or several permits, given back when this is dropped or released.
///
/// State, loss, deadline, `check`, `run` and `extend` are those of its [`LockGuard`].
#[must_use = "dropping the permit gives it back"]
pub struct ExpirablePermit {
    guard: LockGuard,
}

impl ExpirablePermit {
    pub(super) fn new(guard: LockGuard) -> Self {
        ExpirablePermit { guard }
    }

    /// The id, as Redisson's: 32 hex digits. The first one, if there are several permits.
    pub fn id(&self) -> &str {
        &self.guard.owner()[..ID_LENGTH]
    }

    /// The ids of all permits that this stands for.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        let ids = self.guard.owner();
        (0..ids.len() / ID_LENGTH).map(move |at| &ids[at * ID_LENGTH..(at + 1) * ID_LENGTH])
    }

    /// Gives all its permits back; the future waits until Redis has confirmed it, and need not be polled
    /// for that to happen.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up: the release goes on in the background.
    ///
    /// # Errors
    ///
    /// As [`LockGuard::unlock`].
    pub fn release(self) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        self.guard.unlock()
    }

    /// Leaves the permit to its lease: it is neither renewed nor released any more, except by
    /// [`PermitExpirableSemaphore::release`](crate::PermitExpirableSemaphore::release) with its id.
    pub fn forget(self) {
        self.guard.forget();
    }
}

impl Deref for ExpirablePermit {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.guard
    }
}

impl fmt::Debug for ExpirablePermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExpirablePermit").field("guard", &self.guard).finish()
    }
}
