//! An acquisition with settings.

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
use crate::protocol::description::TEXT_MAX;
use crate::session::hold::Hold;
use crate::session::request::{Ends, Options};
use crate::session::wait::Wait;

/// An acquisition with settings; `.await` it for the guard, or [`run`](Acquire::run) work under it.
///
/// Made by [`Lock::acquire`]. Without settings it waits as long as it takes, and the lease is renewed. Its
/// cost, its cancel safety and its errors are those of [`Lock::lock`], with a wait those of
/// [`Lock::try_lock`].
///
/// # Examples
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// use std::time::Duration;
///
/// use leasehold::{Client, Lease};
///
/// let lock = Client::embedded().lock("orders:42");
/// let guard = lock
///     .acquire()
///     .wait(Duration::from_secs(2))
///     .lease(Lease::renewed(Duration::from_secs(10)))
///     .max_hold(Duration::from_secs(60)) // the end of a holder that hangs
///     .await?;
/// guard.unlock().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an acquisition does nothing unless it is awaited"]
pub struct Acquire<'a, G = LockGuard> {
    lock: &'a Lock<G>,
    wait: Option<Duration>,
    lease: Lease,
    ends: Option<Box<Ends>>,
    within: Option<Vec<Arc<Hold>>>,
    purpose: Option<String>,
}

/// The longest purpose, in bytes.
const PURPOSE_MAX: usize = TEXT_MAX;

impl<'a, G: Guard> Acquire<'a, G> {
    pub(super) fn new(lock: &'a Lock<G>) -> Self {
        let (wait, lease, purpose) = (None, Lease::Renewed, None);
        Acquire { lock, wait, lease, ends: None, within: None, purpose }
    }

    /// Waits at most this long. Zero asks once; more than a year has no end. Default: no end.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// How long Redis keeps the hold without hearing from this client. Default: [`Lease::Renewed`].
    pub fn lease(mut self, lease: Lease) -> Self {
        self.lease = lease;
        self
    }

    /// Ends the hold after this time, even if its guard lives and renewal works. Default: no end.
    ///
    /// For holders that may hang or leak their guard: the lock becomes lost
    /// ([`LossReason::MaxHold`](crate::LossReason::MaxHold)) and is released. The limits are those of a
    /// lease.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.ends.get_or_insert_default().max_hold = Some(max_hold);
        self
    }

    /// Keeps the lock for at least this time, counted from the acquisition, even if it is released sooner.
    /// Default: a release frees it. From 10 ms to a year, and not longer than a fixed lease.
    ///
    /// For a job that must not run again too soon: cron on a fleet whose clocks differ, as the
    /// `lockAtLeastFor` of Java's `ShedLock`. A release before that moment ends the guard as ever, renewals stop, and
    /// Redis keeps the lock until then by itself: the process may end. Every end of the guard is such a release:
    /// [`unlock`](LockGuard::unlock), a drop, [`max_hold`](Acquire::max_hold),
    /// [`Client::shutdown`](crate::Client::shutdown). Nobody is given the lock before, neither other clients nor
    /// waiters of this one. A process that dies leaves the lock as long: the lease of the acquisition is at least
    /// this time. Renewals come as ever.
    ///
    /// - An acquisition that fails or is dropped keeps nothing. A [forced](Lock::force_unlock) release frees the lock
    ///   at once.
    /// - Of nested acquisitions the latest moment counts; their guards are released in any order.
    /// - A hold that is [handed on](LockGuard::hand_on) takes it to no other guard.
    /// - A read hold that was taken under a write hold and outlives it keeps the write side locked: for as long as
    ///   it lasts, and up to its lease longer.
    ///
    /// Not for the read side of a read/write lock, whose readers share the key, nor for sets with such a member:
    /// [`ConfigError::Setting`].
    ///
    /// # Redis cost
    ///
    /// None more: the release is 1 round trip, which publishes the new end of the lease.
    ///
    /// # Examples
    ///
    #[cfg_attr(feature = "embedded", doc = "```")]
    #[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    ///
    /// let lock = leasehold::Client::embedded().lock("nightly");
    /// let tick = lock.acquire().wait(Duration::ZERO).unlock_not_before(Duration::from_secs(300));
    /// tick.run(async |_guard| { /* the job, which may be fast */ }).await?;
    /// assert!(lock.is_locked().await?, "another machine whose clock is behind finds it taken");
    /// # Ok(())
    /// # }
    /// ```
    pub fn unlock_not_before(mut self, span: Duration) -> Self {
        self.ends.get_or_insert_default().unlock_not_before = Some(span);
        self
    }

    /// What the lock is taken for, for people: `"nightly invoices"`. Default: nothing is said.
    ///
    /// It is shown with the [name](crate::ClientBuilder::name) of the client by
    /// [`Lock::holder`], by [`Client::locks`](crate::Client::locks), in the [`Error::Timeout`] of others that
    /// have a purpose, and by the command line. 1 to 256 bytes without control characters; anything else is
    /// refused with [`ConfigError::OutOfRange`]. A re-entrance says nothing of its own. Semaphores and latches
    /// have no holders.
    ///
    /// # Redis cost
    ///
    /// One more call at the grant and one at each renewal, in the background and for many holds at once; one at a
    /// time-out, to ask who is in the way. As [`describe_holds`](crate::ClientBuilder::describe_holds).
    pub fn purpose(mut self, purpose: impl Into<String>) -> Self {
        self.purpose = Some(purpose.into());
        self
    }

    /// Takes the lock within the hold of `guard`: re-enters the hold, or reads under a write hold.
    ///
    /// [`LockGuard::reenter`] re-enters with fewer words. This call also takes settings, and the other side
    /// of a read/write lock:
    ///
    #[cfg_attr(feature = "embedded", doc = "```")]
    #[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let catalogue = leasehold::Client::embedded().read_write_lock("catalogue");
    /// let writing = catalogue.write().lock().await?;
    /// let reading = catalogue.read().acquire().within(&writing).await?;
    /// writing.unlock().await?; // waiting readers come in
    /// reading.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A guard of another lock, or of another client, is refused with [`ConfigError::OtherLock`].
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
        options.ends = self.ends;
        options.purpose = self.purpose.map(checked_purpose).transpose()?;
        if let Some(within) = self.within {
            if !self.lock.is_lock_of_any(&within) {
                return Err(Error::Config(ConfigError::OtherLock {
                    name: self.lock.name().into(),
                }));
            }
            options.shown = Arc::from(within);
        }
        self.lock.take(options).await
    }
}

fn checked_purpose(purpose: String) -> Result<Arc<str>, ConfigError> {
    let fits = (1..=PURPOSE_MAX).contains(&purpose.len());
    if fits && !purpose.chars().any(char::is_control) {
        return Ok(Arc::from(purpose));
    }
    let given = purpose.chars().take(64).flat_map(char::escape_debug).collect();
    let allowed = format!("1 to {PURPOSE_MAX} bytes without control characters");
    Err(ConfigError::OutOfRange { what: "purpose", given, allowed })
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
