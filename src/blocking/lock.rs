//! Locks of every kind, with blocking methods.

use std::time::Duration;

use super::acquire::Acquire;
use super::driver::Driver;
use super::guard::Guard;
use crate::error::Error;
use crate::holder::Holder;
use crate::lease::Lease;
use crate::lock::{FencedGuard, LockGuard, Waiters};
use crate::session::Owner;

/// A distributed lock with blocking methods, made by a method of [`Client`](super::Client).
///
/// Ownership, fairness, lease, cost and keys are those of [`Lock`](crate::Lock). `G` is the type of the async
/// guard that a [`Guard`] wraps.
#[derive(Debug)]
#[must_use = "a lock holds nothing until `lock`, `try_lock` or `run`"]
pub struct Lock<G = LockGuard> {
    inner: crate::Lock<G>,
    driver: Driver,
}

/// A fenced lock: its guards carry a growing number. See [`FencedLock`](crate::FencedLock).
///
/// # Examples
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// let client = leasehold::blocking::Client::embedded();
/// let guard = client.fenced_lock("report").lock()?;
/// client.set_fenced("report:latest", guard.token(), "…")?;
/// guard.unlock()?;
/// # Ok::<(), leasehold::Error>(())
/// ```
pub type FencedLock = Lock<FencedGuard>;

impl<G: crate::Guard> Lock<G> {
    pub(super) fn new(inner: crate::Lock<G>, driver: &Driver) -> Self {
        Lock {
            inner,
            driver: driver.clone(),
        }
    }

    settings! {
        /// Like [`Lock::owned_by`](crate::Lock::owned_by). Does not block.
        owned_by(owner: &Owner);
        /// Like [`Lock::non_reentrant`](crate::Lock::non_reentrant). Does not block.
        non_reentrant();
        /// Like [`Lock::with_lease`](crate::Lock::with_lease). Does not block.
        with_lease(lease: Duration);
        /// Like [`Lock::with_safety_poll`](crate::Lock::with_safety_poll). Does not block.
        with_safety_poll(every: Duration);
        /// Like [`Lock::with_retry_count`](crate::Lock::with_retry_count). Does not block.
        with_retry_count(retries: u32);
        /// Like [`Lock::with_retry_pause`](crate::Lock::with_retry_pause). Does not block.
        with_retry_pause(first: Duration, longest: Duration);
    }

    blocking_calls! {
        /// Blocks the thread; otherwise like [`Lock::lock`](crate::Lock::lock).
        ///
        /// **A second `lock()` on one thread blocks it for ever** if that thread holds the first guard. Only a
        /// shutdown of the client ends the wait. Take the lock again with the guard or in a
        /// [section](Lock::run), or give the call a wait: [`try_lock`](Lock::try_lock).
        lock() -> Guard<G> = Guard::new;
        /// Blocks the thread; otherwise like [`Lock::try_lock`](crate::Lock::try_lock).
        try_lock(wait: Duration, lease: Lease) -> Guard<G> = Guard::new;
        /// Blocks the thread; otherwise like [`Lock::try_lock_now`](crate::Lock::try_lock_now).
        try_lock_now(lease: Lease) -> Guard<G> = Guard::new;
        /// Blocks the thread; otherwise like [`Lock::restore`](crate::Lock::restore).
        restore(text: &str) -> Guard<G> = Guard::new;
        /// Blocks the thread; otherwise like [`Lock::is_locked`](crate::Lock::is_locked).
        is_locked() -> bool;
        /// Blocks the thread; otherwise like [`Lock::remaining_lease`](crate::Lock::remaining_lease).
        remaining_lease() -> Option<Duration>;
        /// Blocks the thread; otherwise like [`Lock::holder`](crate::Lock::holder).
        holder() -> Option<Holder>;
        /// Blocks the thread; otherwise like [`Lock::waiters`](crate::Lock::waiters).
        waiters() -> Waiters;
        /// Blocks the thread; otherwise like [`Lock::force_unlock`](crate::Lock::force_unlock).
        force_unlock(reason: &str) -> bool;
        /// Blocks the thread; otherwise like [`Lock::force_unlock_of`](crate::Lock::force_unlock_of).
        force_unlock_of(owner: &str, reason: &str) -> bool;
    }

    /// Starts an acquisition with more settings than [`try_lock`](Lock::try_lock) takes. Without a
    /// [wait](Acquire::wait) it waits as long as it takes, like [`lock`](Lock::lock).
    pub fn acquire(&self) -> Acquire<'_, G> {
        Acquire::new(self.inner.acquire(), &self.driver)
    }

    /// Takes the lock, runs `work` while the lock is held, and releases it.
    ///
    /// `work` is a *section* of its thread: the code that it calls can take the same lock again by its name.
    /// The work [cannot be stopped](crate::blocking#work-cannot-be-stopped) if the lock is lost, so it gets
    /// the guard to check. If the work panics, the lock is released.
    ///
    /// # Errors
    ///
    /// See [`Lock::run`](crate::Lock::run).
    ///
    /// # Panics
    ///
    /// In [async code](crate::blocking#in-async-code).
    ///
    /// # Examples
    ///
    #[cfg_attr(feature = "embedded", doc = "```")]
    #[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
    /// use std::time::Duration;
    ///
    /// use leasehold::{Error, Lease, blocking};
    ///
    /// let lock = blocking::Client::embedded().lock("orders:42");
    /// let sent = lock.try_run(Duration::from_secs(2), Lease::Renewed, |guard| {
    ///     let mut sent = 0;
    ///     for _page in 0..3 {
    ///         guard.check()?; // held still? otherwise the rest is not sent
    ///         sent += 1;
    ///     }
    ///     Ok::<_, Error>(sent)
    /// })?;
    /// assert_eq!(sent, 3);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn run<T>(
        &self,
        wait: Duration,
        lease: Lease,
        work: impl FnOnce(&Guard<G>) -> T,
    ) -> Result<T, Error> {
        self.try_lock(wait, lease)?.run_and_unlock(work)
    }

    /// Like [`run`](Lock::run), for work that returns a `Result`.
    ///
    /// # Errors
    ///
    /// The errors of `work` and of [`run`](Lock::run).
    ///
    /// # Panics
    ///
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn try_run<T, E: From<Error>>(
        &self,
        wait: Duration,
        lease: Lease,
        work: impl FnOnce(&Guard<G>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run(wait, lease, work)?
    }

    /// The name of this value; empty if the name is not allowed.
    pub fn name(&self) -> &str {
        self.inner.name()
    }
}

impl<G: crate::Guard> Clone for Lock<G> {
    fn clone(&self) -> Self {
        Lock::new(self.inner.clone(), &self.driver)
    }
}
