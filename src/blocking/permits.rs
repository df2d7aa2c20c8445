//! Permits with ids and leases, with blocking methods.

use std::time::Duration;

use super::driver::Driver;
use crate::error::Error;
use crate::lease::Lease;
use crate::lock::LockGuard;

/// A distributed semaphore whose permits have ids and leases. See
/// [`PermitExpirableSemaphore`](crate::PermitExpirableSemaphore).
///
/// # Examples
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// use std::time::Duration;
///
/// use leasehold::{Lease, blocking};
///
/// let seats = blocking::Client::embedded().permit_expirable_semaphore("seats").with_limit(100);
///
/// let seat = seats.try_acquire(1, Duration::from_secs(2), Lease::Fixed(Duration::from_secs(600)))?;
/// let id = seat.id().to_owned();
/// seat.forget(); // the lease goes on; another process gives the permit back
/// seats.release(&id)?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
pub struct PermitExpirableSemaphore {
    inner: crate::PermitExpirableSemaphore,
    driver: Driver,
}

impl PermitExpirableSemaphore {
    pub(super) fn new(inner: crate::PermitExpirableSemaphore, driver: &Driver) -> Self {
        PermitExpirableSemaphore {
            inner,
            driver: driver.clone(),
        }
    }

    settings! {
        /// Like [`PermitExpirableSemaphore::with_limit`](crate::PermitExpirableSemaphore::with_limit). Does not block.
        with_limit(permits: u32);
        /// Like [`PermitExpirableSemaphore::with_lease`](crate::PermitExpirableSemaphore::with_lease). Does not block.
        with_lease(lease: Duration);
        /// Like [`PermitExpirableSemaphore::with_safety_poll`](crate::PermitExpirableSemaphore::with_safety_poll). Does not block.
        with_safety_poll(every: Duration);
    }

    blocking_calls! {
        /// Blocks the thread; otherwise like [`PermitExpirableSemaphore::try_set_permits`](crate::PermitExpirableSemaphore::try_set_permits).
        try_set_permits(permits: u32) -> bool;
        /// Blocks the thread; otherwise like [`PermitExpirableSemaphore::set_permits`](crate::PermitExpirableSemaphore::set_permits).
        set_permits(permits: u32) -> i64;
        /// Blocks the thread; otherwise like [`PermitExpirableSemaphore::add_permits`](crate::PermitExpirableSemaphore::add_permits).
        add_permits(permits: i64) -> ();
        /// Blocks the thread; otherwise like [`PermitExpirableSemaphore::expire_after`](crate::PermitExpirableSemaphore::expire_after).
        expire_after(life: Duration) -> bool;
        /// Blocks the thread; otherwise like [`PermitExpirableSemaphore::acquire`](crate::PermitExpirableSemaphore::acquire).
        acquire(permits: u32, lease: Lease) -> ExpirablePermit = ExpirablePermit::new;
        /// Blocks the thread; otherwise like [`PermitExpirableSemaphore::try_acquire`](crate::PermitExpirableSemaphore::try_acquire).
        try_acquire(permits: u32, wait: Duration, lease: Lease) -> ExpirablePermit
            = ExpirablePermit::new;
        /// Blocks the thread; otherwise like [`PermitExpirableSemaphore::available`](crate::PermitExpirableSemaphore::available).
        available() -> i64;
        /// Blocks the thread; otherwise like [`PermitExpirableSemaphore::acquired`](crate::PermitExpirableSemaphore::acquired).
        acquired() -> i64;
        /// Blocks the thread; otherwise like [`PermitExpirableSemaphore::permits`](crate::PermitExpirableSemaphore::permits).
        permits() -> i64;
        /// Blocks the thread; otherwise like [`PermitExpirableSemaphore::release`](crate::PermitExpirableSemaphore::release).
        release(id: &str) -> ();
        /// Blocks the thread; otherwise like [`PermitExpirableSemaphore::release_all`](crate::PermitExpirableSemaphore::release_all).
        release_all(ids: &[&str]) -> ();
        /// Blocks the thread; otherwise like [`PermitExpirableSemaphore::force_release_of`](crate::PermitExpirableSemaphore::force_release_of).
        force_release_of(id: &str, reason: &str) -> bool;
        /// Blocks the thread; otherwise like [`PermitExpirableSemaphore::remaining_lease`](crate::PermitExpirableSemaphore::remaining_lease).
        remaining_lease(id: &str) -> Option<Duration>;
        /// Blocks the thread; otherwise like [`PermitExpirableSemaphore::update_lease`](crate::PermitExpirableSemaphore::update_lease).
        update_lease(id: &str, lease: Duration) -> bool;
    }

    /// The name of this value; empty if the name is not allowed.
    pub fn name(&self) -> &str {
        self.inner.name()
    }
}

/// One or more held permits with ids, given back when this value is dropped or released. See
/// [`ExpirablePermit`](crate::ExpirablePermit).
#[derive(Debug)]
#[must_use = "dropping the permit gives it back"]
pub struct ExpirablePermit {
    inner: crate::ExpirablePermit,
    driver: Driver,
}

impl ExpirablePermit {
    fn new(inner: crate::ExpirablePermit, driver: &Driver) -> Self {
        ExpirablePermit {
            inner,
            driver: driver.clone(),
        }
    }

    /// The id, as in Redisson: 32 hex digits. If there are several permits, this is the first id.
    pub fn id(&self) -> &str {
        self.inner.id()
    }

    /// The ids of all permits.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.inner.ids()
    }

    /// The guard of the permits, with state, deadline and check.
    pub fn guard(&self) -> &LockGuard {
        &self.inner
    }

    /// Extends the permits to at least `lease` from now. See [`LockGuard::extend`].
    ///
    /// # Errors
    ///
    /// The errors of that method.
    ///
    /// # Panics
    ///
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn extend(&self, lease: Duration) -> Result<(), Error> {
        self.driver.block_on(self.inner.extend(lease))
    }

    /// Runs `work` if the permits are held. See [`Guard::run`](super::Guard::run).
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the permits were lost before `work` ended.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> Result<T, Error> {
        self.inner.run_on_this_thread(work)
    }

    /// Like [`run`](ExpirablePermit::run), for work that returns a `Result`.
    ///
    /// # Errors
    ///
    /// The errors of `work` and of [`run`](ExpirablePermit::run).
    pub fn try_run<T, E: From<Error>>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.run(work)?
    }

    /// Gives back all permits. See [`ExpirablePermit::release`](crate::ExpirablePermit::release).
    ///
    /// # Errors
    ///
    /// The errors of that method.
    ///
    /// # Panics
    ///
    /// In [async code](crate::blocking#in-async-code). The permits are still given back.
    #[track_caller]
    pub fn release(self) -> Result<(), Error> {
        self.driver.block_on(self.inner.release())
    }

    /// See [`ExpirablePermit::forget`](crate::ExpirablePermit::forget). Does not block.
    pub fn forget(self) {
        self.inner.forget();
    }
}
