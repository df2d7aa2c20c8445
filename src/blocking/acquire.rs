//! A blocking acquisition with settings.

use std::time::Duration;

use super::driver::Driver;
use super::guard::Guard;
use crate::error::Error;
use crate::lease::Lease;
use crate::lock::LockGuard;

/// A blocking acquisition with settings: [`lock`](Acquire::lock) takes the lock, [`run`](Acquire::run) runs
/// work under it.
///
/// [`Lock::acquire`](super::Lock::acquire) makes it. The settings are those of [`Acquire`](crate::Acquire).
///
/// # Examples
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// use std::time::Duration;
///
/// use leasehold::{Lease, blocking};
///
/// let lock = blocking::Client::embedded().lock("orders:42");
/// let guard = lock
///     .acquire()
///     .wait(Duration::from_secs(2))
///     .lease(Lease::RenewedFor(Duration::from_secs(10)))
///     .max_hold(Duration::from_secs(60)) // the end of a thread that hangs
///     .lock()?;
/// guard.unlock()?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "an acquisition does nothing until `lock` or `run`"]
pub struct Acquire<'a, G = LockGuard> {
    inner: crate::Acquire<'a, G>,
    driver: &'a Driver,
}

impl<'a, G: crate::Guard> Acquire<'a, G> {
    pub(super) fn new(inner: crate::Acquire<'a, G>, driver: &'a Driver) -> Self {
        Acquire { inner, driver }
    }

    settings! {
        /// Like [`Acquire::wait`](crate::Acquire::wait).
        wait(wait: Duration);
        /// Like [`Acquire::lease`](crate::Acquire::lease).
        lease(lease: Lease);
        /// Like [`Acquire::max_hold`](crate::Acquire::max_hold).
        max_hold(max_hold: Duration);
        /// Like [`Acquire::purpose`](crate::Acquire::purpose).
        purpose(purpose: impl Into<String>);
        /// Like [`Acquire::unlock_not_before`](crate::Acquire::unlock_not_before).
        unlock_not_before(span: Duration);
        /// Like [`Acquire::within`](crate::Acquire::within).
        within(guard: &'a impl AsRef<LockGuard>);
    }

    /// Takes the lock and blocks the thread meanwhile.
    ///
    /// # Errors
    ///
    /// See [`Acquire`](crate::Acquire).
    ///
    /// # Panics
    ///
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn lock(self) -> Result<Guard<G>, Error> {
        let taken = self.driver.block_on(self.inner.into_future());
        taken.map(|inner| Guard::new(inner, self.driver))
    }

    /// Takes the lock, runs `work` while the lock is held, and releases it. See
    /// [`Lock::run`](super::Lock::run).
    ///
    /// # Errors
    ///
    /// See [`Lock::run`](crate::Lock::run).
    ///
    /// # Panics
    ///
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn run<T>(self, work: impl FnOnce(&Guard<G>) -> T) -> Result<T, Error> {
        self.lock()?.run_and_unlock(work)
    }

    /// Like [`run`](Acquire::run), for work that returns a `Result`.
    ///
    /// # Errors
    ///
    /// The errors of `work` and of [`run`](Acquire::run).
    ///
    /// # Panics
    ///
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn try_run<T, E: From<Error>>(
        self,
        work: impl FnOnce(&Guard<G>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run(work)?
    }
}
