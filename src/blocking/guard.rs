//! The guard of a lock that a thread holds.

use std::ops::Deref;
use std::time::Duration;

use super::driver::Driver;
use crate::error::Error;
use crate::lease::Ended;
use crate::lock::{LockGuard, done_unless_lost};

/// Holds a lock until it is dropped or unlocked: an async guard with blocking calls.
///
/// What needs no wait is that of the async guard, to which this one derefs:
/// [`check`](LockGuard::check), [`state`](LockGuard::state), [`deadline`](LockGuard::deadline),
/// [`remaining`](LockGuard::remaining), [`hold_count`](LockGuard::hold_count), [`name`](LockGuard::name),
/// [`owner`](LockGuard::owner) and [`token`](crate::FencedGuard::token).
///
/// # Release
///
/// [`unlock`](Guard::unlock) waits for Redis and reports. A drop queues the same release and returns at
/// once, on any thread, in async code as well.
///
/// # Examples
///
/// A thread that looks on, and learns when the hold ends:
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// use std::thread;
/// use std::time::Duration;
///
/// use leasehold::{Ended, EmbeddedRedis, Lease, LossReason, blocking};
///
/// let client = blocking::Client::new(EmbeddedRedis::new().client())?;
/// let guard = client.lock("report").try_lock_now(Lease::fixed(Duration::from_millis(100)))?;
/// thread::scope(|scope| {
///     let watching = scope.spawn(|| guard.ended(Duration::from_secs(60)));
///     // … the work of this thread …
///     assert_eq!(watching.join().expect("no panic"), Some(Ended::Lost(LossReason::Expired)));
/// });
/// assert!(guard.unlock().is_err(), "it was lost");
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock"]
#[clippy::has_significant_drop]
pub struct Guard<G: crate::Guard = LockGuard> {
    inner: G,
    driver: Driver,
}

impl<G: crate::Guard> Guard<G> {
    pub(super) fn new(inner: G, driver: &Driver) -> Self {
        Guard { inner, driver: driver.clone() }
    }

    /// Releases the lock and waits until Redis has confirmed it: as [`LockGuard::unlock`].
    ///
    /// # Errors
    ///
    /// Those of that call.
    ///
    /// # Panics
    ///
    /// In [async code](crate::blocking#in-async-code); the lock is released.
    #[track_caller]
    pub fn unlock(self) -> Result<(), Error> {
        self.driver.block_on(self.inner.into().unlock())
    }

    /// A further guard of the same hold: as [`LockGuard::reenter`].
    ///
    /// # Errors
    ///
    /// Those of that call.
    ///
    /// # Panics
    ///
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn reenter(&self) -> Result<Guard<G>, Error> {
        let further = self.driver.block_on(self.inner.as_ref().reenter())?;
        Ok(Guard::new(G::of(further)?, &self.driver))
    }

    /// Makes the hold last at least `lease` from now: as [`LockGuard::extend`].
    ///
    /// # Errors
    ///
    /// Those of that call.
    ///
    /// # Panics
    ///
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn extend(&self, lease: Duration) -> Result<(), Error> {
        self.driver.block_on(self.inner.as_ref().extend(lease))
    }

    /// Waits for the end of the hold, at most `wait`, and says how it ended; `None` if it goes on.
    ///
    /// For a thread that looks on while another works. The worker itself calls
    /// [`check`](LockGuard::check).
    ///
    /// # Panics
    ///
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn ended(&self, wait: Duration) -> Option<Ended> {
        let ended = self.inner.as_ref().ended();
        self.driver.block_on(async move { tokio::time::timeout(wait, ended).await.ok() })
    }

    /// Runs `work` if the lock is held, and says whether it was held to the end.
    ///
    /// `work` is a *section* of its thread: code that it calls may take the same lock again, by name or value,
    /// from the same client; threads that it starts may not. It
    /// [cannot be stopped](crate::blocking#work-cannot-be-stopped). Blocks only as long as `work` does.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the hold ended before `work` did: its result is dropped.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> Result<T, Error> {
        self.inner.as_ref().run_on_this_thread(work)
    }

    /// As [`run`](Guard::run), for work that may fail with an error of its own.
    ///
    /// # Errors
    ///
    /// The errors of `work`, and those of [`run`](Guard::run).
    pub fn try_run<T, E: From<Error>>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.run(work)?
    }

    #[track_caller]
    pub(super) fn run_and_unlock<T>(self, work: impl FnOnce(&Self) -> T) -> Result<T, Error> {
        let done = self.run(|| work(&self))?;
        done_unless_lost(done, self.unlock())
    }

    /// As [`LockGuard::hand_on`]. Does not block.
    ///
    /// # Errors
    ///
    /// Those of that call.
    pub fn hand_on(self) -> Result<String, Error> {
        self.inner.into().hand_on()
    }

    /// As [`LockGuard::forget`]. Does not block.
    pub fn forget(self) {
        self.inner.into().forget();
    }

    /// The async guard of the same hold, for code that goes on in a runtime.
    pub fn into_async(self) -> G {
        self.inner
    }
}

impl<G: crate::Guard> Deref for Guard<G> {
    type Target = G;

    fn deref(&self) -> &G {
        &self.inner
    }
}

/// For [`Acquire::within`](super::Acquire::within).
impl<G: crate::Guard> AsRef<LockGuard> for Guard<G> {
    fn as_ref(&self) -> &LockGuard {
        self.inner.as_ref()
    }
}
