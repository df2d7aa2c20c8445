//! The semaphore with blocking methods.

use std::time::Duration;

use super::driver::Driver;
use crate::error::Error;
use crate::lock::LockGuard;

/// A distributed semaphore: a number of permits under one name. See [`Semaphore`](crate::Semaphore).
///
/// # Examples
///
/// At most three jobs at once, across all processes:
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// let encoders = leasehold::blocking::Client::embedded().semaphore("encoders").with_limit(3);
///
/// let permit = encoders.acquire(1)?;
/// // … encode …
/// permit.release()?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
pub struct Semaphore {
    inner: crate::Semaphore,
    driver: Driver,
}

impl Semaphore {
    pub(super) fn new(inner: crate::Semaphore, driver: &Driver) -> Self {
        Semaphore {
            inner,
            driver: driver.clone(),
        }
    }

    settings! {
        /// Like [`Semaphore::with_limit`](crate::Semaphore::with_limit). Does not block.
        with_limit(permits: u32);
        /// Like [`Semaphore::with_lease`](crate::Semaphore::with_lease). Does not block.
        with_lease(lease: Duration);
        /// Like [`Semaphore::with_safety_poll`](crate::Semaphore::with_safety_poll). Does not block.
        with_safety_poll(every: Duration);
        /// Like [`Semaphore::with_purpose`](crate::Semaphore::with_purpose). Does not block.
        with_purpose(purpose: impl Into<String>);
    }

    blocking_calls! {
        /// Blocks the thread; otherwise like [`Semaphore::try_set_permits`](crate::Semaphore::try_set_permits).
        try_set_permits(permits: u32) -> bool;
        /// Blocks the thread; otherwise like [`Semaphore::try_set_permits_for`](crate::Semaphore::try_set_permits_for).
        try_set_permits_for(permits: u32, life: Duration) -> bool;
        /// Blocks the thread; otherwise like [`Semaphore::set_permits`](crate::Semaphore::set_permits).
        set_permits(permits: u32) -> i64;
        /// Blocks the thread; otherwise like [`Semaphore::acquire`](crate::Semaphore::acquire). A thread that holds
        /// permits may wait for its own release: then only a shutdown of the client ends the wait.
        acquire(permits: u32) -> SemaphorePermit = SemaphorePermit::new;
        /// Blocks the thread; otherwise like [`Semaphore::try_acquire`](crate::Semaphore::try_acquire).
        try_acquire(permits: u32, wait: Duration) -> SemaphorePermit = SemaphorePermit::new;
        /// Blocks the thread; otherwise like [`Semaphore::add_permits`](crate::Semaphore::add_permits).
        add_permits(permits: i64) -> ();
        /// Blocks the thread; otherwise like [`Semaphore::drain`](crate::Semaphore::drain).
        drain() -> i64;
        /// Blocks the thread; otherwise like [`Semaphore::available`](crate::Semaphore::available).
        available() -> i64;
        /// Blocks the thread; otherwise like [`Semaphore::permits`](crate::Semaphore::permits).
        permits() -> i64;
        /// Blocks the thread; otherwise like [`Semaphore::force_release_of`](crate::Semaphore::force_release_of).
        force_release_of(owner: &str, reason: &str) -> bool;
    }

    /// The name of this value; empty if the name is not allowed.
    pub fn name(&self) -> &str {
        self.inner.name()
    }
}

/// Held permits of a [`Semaphore`], given back when this value is dropped or released. See
/// [`SemaphorePermit`](crate::SemaphorePermit).
#[derive(Debug)]
#[must_use = "dropping the permit gives it back"]
pub struct SemaphorePermit {
    inner: crate::SemaphorePermit,
    driver: Driver,
}

impl SemaphorePermit {
    fn new(inner: crate::SemaphorePermit, driver: &Driver) -> Self {
        SemaphorePermit {
            inner,
            driver: driver.clone(),
        }
    }

    /// The number of permits held.
    pub fn permits(&self) -> u32 {
        self.inner.permits()
    }

    /// The guard of the permits, with state, deadline and check. `None` for zero permits, which cannot be
    /// lost.
    pub fn guard(&self) -> Option<&LockGuard> {
        self.inner.guard()
    }

    /// Runs `work` if the permits are held. See [`Guard::run`](super::Guard::run).
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the permits were lost before `work` ended.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> Result<T, Error> {
        match self.inner.guard() {
            Some(guard) => guard.run_on_this_thread(work),
            None => Ok(work()),
        }
    }

    /// Like [`run`](SemaphorePermit::run), for work that returns a `Result`.
    ///
    /// # Errors
    ///
    /// The errors of `work` and of [`run`](SemaphorePermit::run).
    pub fn try_run<T, E: From<Error>>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.run(work)?
    }

    /// Gives the permits back. See [`SemaphorePermit::release`](crate::SemaphorePermit::release).
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

    /// See [`SemaphorePermit::forget`](crate::SemaphorePermit::forget). Does not block.
    pub fn forget(self) {
        self.inner.forget();
    }
}
