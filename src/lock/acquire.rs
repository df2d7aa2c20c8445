//! The fluent form of an acquisition.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::Lock;
use super::guard::run::{flat, run};
use super::guard::{Guard, LockGuard};
use crate::error::ConfigError;
use crate::error::Error;
use crate::lease::Lease;
use crate::session::hold::Hold;
use crate::session::request::Options;
use crate::session::wait::Wait;

/// An acquisition in the making; `.await` it, or [`run`](Acquire::run) something under it.
///
/// Without settings it waits as long as it takes and the lease is renewed. Its cost, its cancel safety
/// and its errors are those of [`Lock::lock`], with a wait those of [`Lock::try_lock`].
#[must_use = "an acquisition does nothing unless it is awaited"]
pub struct Acquire<'a, G = LockGuard> {
    lock: &'a Lock<G>,
    wait: Option<Duration>,
    lease: Lease,
    max_hold: Option<Duration>,
    within: Option<Vec<Arc<Hold>>>,
}

impl<'a, G: Guard> Acquire<'a, G> {
    pub(super) fn new(lock: &'a Lock<G>) -> Self {
        Acquire { lock, wait: None, lease: Lease::Renewed, max_hold: None, within: None }
    }

    /// Waits at most so long; zero asks once, more than a year has no end.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// How long Redis keeps the hold without hearing from us.
    pub fn lease(mut self, lease: Lease) -> Self {
        self.lease = lease;
        self
    }

    /// Ends the hold after so long, even if its guard lives and renewal works.
    ///
    /// For holders that may hang or leak their guard: the lock becomes lost
    /// ([`LossReason::MaxHold`](crate::LossReason::MaxHold)) and is released. The limits are those of a
    /// lease.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = Some(max_hold);
        self
    }

    /// Takes the lock within the hold of `guard`: re-enters it, or reads under its write hold.
    ///
    /// [`LockGuard::reenter`] does the first with fewer words; this one takes settings, and the other
    /// side of a read/write lock:
    ///
    /// ```no_run
    /// # async fn example(catalogue: leasehold::ReadWriteLock) -> Result<(), leasehold::Error> {
    /// let writing = catalogue.write().lock().await?;
    /// let reading = catalogue.read().acquire().within(&writing).await?;
    /// writing.unlock().await?; // waiting readers come in
    /// # reading.unlock().await
    /// # }
    /// ```
    ///
    /// A guard of another lock, or of another client, is [`ConfigError::OtherLock`].
    pub fn within(mut self, guard: &'a impl AsRef<LockGuard>) -> Self {
        self.within.get_or_insert_default().extend(guard.as_ref().holds());
        self
    }

    /// Takes the lock, runs `work` while it is held, and releases it: as [`Lock::run`].
    ///
    /// # Redis cost
    ///
    /// As [`Lock::run`].
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::run`].
    ///
    /// # Errors
    ///
    /// As [`Lock::run`].
    pub async fn run<F, W>(self, work: F) -> Result<W::Output, Error>
    where
        F: FnOnce(Arc<G>) -> W,
        W: Future,
    {
        run(self.take().await?, work).await
    }

    /// As [`run`](Acquire::run), for work that may fail: as [`Lock::try_run`].
    ///
    /// # Redis cost
    ///
    /// As [`Lock::run`].
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::run`].
    ///
    /// # Errors
    ///
    /// As [`Lock::try_run`].
    pub async fn try_run<T, E, F, W>(self, work: F) -> Result<T, E>
    where
        E: From<Error>,
        F: FnOnce(Arc<G>) -> W,
        W: Future<Output = Result<T, E>>,
    {
        flat(self.run(work).await)
    }

    async fn take(self) -> Result<G, Error> {
        let wait = self.wait.map_or(Wait::Forever, Wait::from);
        let mut options = Options::new(wait, self.lease);
        options.max_hold = self.max_hold;
        if let Some(within) = self.within {
            if !self.lock.is_under(&within) {
                return Err(Error::Config(ConfigError::OtherLock {
                    name: self.lock.name().into(),
                }));
            }
            options.shown = Arc::from(within);
        }
        self.lock.take(options).await
    }
}

impl<'a, G: Guard> IntoFuture for Acquire<'a, G> {
    type Output = Result<G, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.take())
    }
}

impl<G> fmt::Debug for Acquire<'_, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("lock", &self.lock)
            .field("wait", &self.wait)
            .field("lease", &self.lease)
            .finish_non_exhaustive()
    }
}
