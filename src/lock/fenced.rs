//! The guard of a fenced lock.

use std::future::Future;
use std::ops::Deref;

use super::guard::{Guard, LockGuard, Sealed};
use super::{FencedLock, Lock};
use crate::error::{Error, Refused};
use crate::fencing::FencingToken;

/// To combine locks of several kinds. [`LockGuard::token`] of the guards still returns the token.
impl From<FencedLock> for Lock {
    fn from(lock: FencedLock) -> Self {
        Lock::of(lock.set)
    }
}

/// A held fenced lock: a [`LockGuard`] that always has a [`FencingToken`].
///
/// [`FencingToken`] shows how a resource uses the token.
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock"]
#[clippy::has_significant_drop]
pub struct FencedGuard {
    guard: LockGuard,
    token: FencingToken,
}

impl FencedGuard {
    /// The token of this hold. Local and free.
    ///
    /// All guards of one hold have the same token.
    #[must_use = "a token is to go with each write; the lock is held only while the guard lives"]
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// See [`LockGuard::unlock`].
    pub fn unlock(self) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        self.guard.unlock()
    }

    /// Like [`LockGuard::reenter`]. The new guard has the same token.
    ///
    /// # Redis cost
    ///
    /// See [`LockGuard::reenter`].
    ///
    /// # Cancel safety
    ///
    /// See [`LockGuard::reenter`].
    ///
    /// # Errors
    ///
    #[doc = include_str!("../error/returned_by/reentry.md")]
    pub async fn reenter(&self) -> Result<FencedGuard, Error> {
        FencedGuard::of(self.guard.reenter().await?)
    }

    /// See [`LockGuard::forget`].
    pub fn forget(self) {
        self.guard.forget();
    }
}

impl Sealed for FencedGuard {}

impl Guard for FencedGuard {
    fn of(guard: LockGuard) -> Result<Self, Error> {
        match guard.token() {
            Some(token) => Ok(FencedGuard { guard, token }),
            None => Err(Error::Protocol {
                name: guard.name().into(),
                refused: Refused::Other,
                detail: "a fenced lock was granted without a token".into(),
            }),
        }
    }
}

impl Deref for FencedGuard {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.guard
    }
}

impl AsRef<LockGuard> for FencedGuard {
    fn as_ref(&self) -> &LockGuard {
        &self.guard
    }
}

impl From<FencedGuard> for LockGuard {
    fn from(guard: FencedGuard) -> Self {
        guard.guard
    }
}
