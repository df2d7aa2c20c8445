//! The trait that both guard types implement.

use super::LockGuard;
use crate::error::Error;

/// A guard of a [`Lock`](crate::Lock): either [`LockGuard`] or [`FencedGuard`](crate::FencedGuard).
///
/// Use it in code that is generic over both types. Only this crate can implement it.
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

/// Seals [`Guard`]: only this crate makes guards.
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
