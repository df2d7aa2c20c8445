//! The blocking guard of a lock.

use std::ops::Deref;
use std::time::Duration;

use super::driver::Driver;
use crate::error::Error;
use crate::lease::Ended;
use crate::lock::{HoldText, LockGuard, done_unless_lost};
use crate::timer;

/// A held lock, until the guard is dropped or unlocked, with blocking methods.
///
/// Methods that never wait are those of the async guard, which this type derefs to:
/// [`check`](LockGuard::check), [`state`](LockGuard::state), [`deadline`](LockGuard::deadline),
/// [`remaining`](LockGuard::remaining), [`hold_count`](LockGuard::hold_count), [`name`](LockGuard::name),
/// [`owner`](LockGuard::owner) and [`token`](crate::FencedGuard::token).
///
/// # Release
///
/// [`unlock`](Guard::unlock) waits for Redis and reports the outcome. A drop queues the same release and
/// returns immediately, on any thread, including in async code.
///
/// # Examples
///
/// A second thread that watches the hold and learns when it ends:
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// use std::thread;
/// use std::time::Duration;
///
/// use leasehold::{Ended, EmbeddedRedis, Lease, LossReason, blocking};
///
/// let client = blocking::Client::new(EmbeddedRedis::new().client())?;
/// let guard = client.lock("report").try_lock_now(Lease::Fixed(Duration::from_millis(100)))?;
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
        Guard {
            inner,
            driver: driver.clone(),
        }
    }

    /// Releases the lock and waits until Redis has confirmed it. See [`LockGuard::unlock`].
    ///
    /// # Errors
    ///
    /// The errors of that method.
    ///
    /// # Panics
    ///
    /// In [async code](crate::blocking#in-async-code). The lock is still released.
    #[track_caller]
    pub fn unlock(self) -> Result<(), Error> {
        self.driver.block_on(self.inner.into().unlock())
    }

    /// Returns another guard of the same hold. See [`LockGuard::reenter`].
    ///
    /// # Errors
    ///
    /// The errors of that method.
    ///
    /// # Panics
    ///
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn reenter(&self) -> Result<Guard<G>, Error> {
        let further = self.driver.block_on(self.inner.as_ref().reenter())?;
        Ok(Guard::new(G::of(further)?, &self.driver))
    }

    /// Extends the hold to at least `lease` from now. See [`LockGuard::extend`].
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
        self.driver.block_on(self.inner.as_ref().extend(lease))
    }

    /// Waits at most `wait` for the hold to end, and returns how it ended; `None` if it has not.
    ///
    /// Use it in a thread that watches while another works. The worker itself calls
    /// [`check`](LockGuard::check).
    ///
    /// # Panics
    ///
    /// In [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn ended(&self, wait: Duration) -> Option<Ended> {
        let ended = self.inner.as_ref().ended();
        self.driver
            .block_on(async move { timer::timeout(wait, ended).await.ok() })
    }

    /// Runs `work` if the lock is held, and reports whether it was held until the end.
    ///
    /// `work` is a *section* of its thread: the code that it calls can take the same lock again from the same
    /// client, by name or value. Threads that it starts are not inside. The work [cannot be
    /// stopped](crate::blocking#work-cannot-be-stopped). The call blocks only as long as `work` does.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the hold ended before `work` did. The result of `work` is dropped.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> Result<T, Error> {
        self.inner.as_ref().run_on_this_thread(work)
    }

    /// Like [`run`](Guard::run), for work that returns a `Result`.
    ///
    /// # Errors
    ///
    /// The errors of `work` and of [`run`](Guard::run).
    pub fn try_run<T, E: From<Error>>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.run(work)?
    }

    #[track_caller]
    pub(super) fn run_and_unlock<T>(self, work: impl FnOnce(&Self) -> T) -> Result<T, Error> {
        let done = self.run(|| work(&self))?;
        done_unless_lost(done, self.unlock())
    }

    /// See [`LockGuard::hand_on`]. Does not block.
    ///
    /// # Errors
    ///
    /// The errors of that method.
    pub fn hand_on(self) -> Result<HoldText, Error> {
        self.inner.into().hand_on()
    }

    /// See [`LockGuard::forget`]. Does not block.
    pub fn forget(self) {
        self.inner.into().forget();
    }

    /// Returns the async guard of the same hold, for code that continues in a runtime.
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

/// Lets [`Acquire::within`](super::Acquire::within) take this guard.
impl<G: crate::Guard> AsRef<LockGuard> for Guard<G> {
    fn as_ref(&self) -> &LockGuard {
        self.inner.as_ref()
    }
}
