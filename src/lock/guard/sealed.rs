//! The trait of the two types of guards.

use super::LockGuard;
use crate::error::Error;

/// The guard of a [`Lock`](crate::Lock): a [`LockGuard`], or a [`FencedGuard`](crate::FencedGuard).
///
/// Only this crate implements it. It is for code that takes locks of both types.
///
/// # Examples
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// use leasehold::{Client, Error, Guard, Lock};
///
/// async fn nightly<G: Guard>(lock: &Lock<G>) -> Result<(), Error> {
///     let guard = lock.lock().await?;
///     guard.as_ref().run(async { /* the job */ }).await?;
///     guard.into().unlock().await
/// }
///
/// let client = Client::embedded();
/// nightly(&client.lock("clean-up")).await?;
/// nightly(&client.fenced_lock("report")).await?;
/// # Ok(())
/// # }
/// ```
pub trait Guard:
    AsRef<LockGuard> + Into<LockGuard> + Send + Sync + Sized + 'static + Sealed
{
    #[doc(hidden)]
    fn of(guard: LockGuard) -> Result<Self, Error>;
}

/// Only this crate makes guards.
pub trait Sealed {}

impl Sealed for LockGuard {}

impl Guard for LockGuard {
    fn of(guard: LockGuard) -> Result<Self, Error> {
        Ok(guard)
    }
}

impl AsRef<LockGuard> for LockGuard {
    fn as_ref(&self) -> &LockGuard {
        self
    }
}
