//! Held permits with ids.

use std::ops::Deref;

use crate::error::Error;
use crate::lock::LockGuard;
use crate::protocol::permit::ID_LENGTH;

/// One or more held permits with ids, given back when this value is dropped or released.
///
/// State, loss, deadline, `check`, `run` and `extend` are those of its [`LockGuard`].
///
/// # Examples
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// use std::time::Duration;
///
/// use leasehold::{Client, Lease};
///
/// let seats = Client::embedded().permit_expirable_semaphore("seats");
/// seats.try_set_permits(100).await?;
///
/// let row = seats.try_acquire(3, Duration::from_secs(2), Lease::Renewed).await?;
/// assert_eq!(row.ids().count(), 3);
/// row.run(async { /* the work, dropped if the permits are lost */ }).await?;
/// row.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping the permit gives it back"]
pub struct ExpirablePermit {
    guard: LockGuard,
}

impl ExpirablePermit {
    pub(super) fn new(guard: LockGuard) -> Self {
        ExpirablePermit { guard }
    }

    /// The id, as in Redisson: 32 hex digits. If there are several permits, this is the first id.
    pub fn id(&self) -> &str {
        &self.guard.owner()[..ID_LENGTH]
    }

    /// The ids of all permits.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        let ids = self.guard.owner();
        (0..ids.len() / ID_LENGTH).map(move |at| &ids[at * ID_LENGTH..(at + 1) * ID_LENGTH])
    }

    /// Gives all permits back; the future waits until Redis has confirmed the release.
    ///
    /// The release is sent whether the future is polled or not.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up. The release continues in the background.
    ///
    /// # Errors
    ///
    #[doc = include_str!("../error/returned_by/release.md")]
    pub fn release(self) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        self.guard.unlock()
    }

    /// Leaves the permits to their lease: this client no longer renews or releases them.
    ///
    /// [`PermitExpirableSemaphore::release`](crate::PermitExpirableSemaphore::release) gives a
    /// permit back by its id.
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
