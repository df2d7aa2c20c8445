//! An acquisition with settings.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::Lock;
use super::guard::{Guard, LockGuard};
use super::guard::{flat, run};
use crate::error::ConfigError;
use crate::error::Error;
use crate::lease::Lease;
use crate::session::hold::Hold;
use crate::session::poll_watch::Wait;
use crate::session::request::{Options, checked_purpose};

/// An acquisition with settings: `.await` it for a guard, or [`run`](Acquire::run) work while the
/// lock is held.
///
/// [`Lock::acquire`] makes it. By default it waits as long as it takes, and the lease is renewed.
/// Its cost, cancel safety and errors are those of [`Lock::lock`], or of [`Lock::try_lock`] if a
/// wait is set.
///
/// Without a wait, a second acquisition in one task waits for ever, as with [`Lock::lock`]. In a
/// loop around `select!`, make the future once, before the loop:
/// `pin!(lock.acquire().into_future())`.
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
///     .lease(Lease::RenewedFor(Duration::from_secs(10)))
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
    max_hold: Option<Duration>,
    within: Option<Vec<Arc<Hold>>>,
    purpose: Option<String>,
}

impl<'a, G: Guard> Acquire<'a, G> {
    pub(super) fn new(lock: &'a Lock<G>) -> Self {
        let (wait, lease, purpose) = (None, Lease::Renewed, None);
        Acquire {
            lock,
            wait,
            lease,
            max_hold: None,
            within: None,
            purpose,
        }
    }

    /// Sets the longest wait. Zero tries once; more than a year never ends. Default: no limit.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Sets how long Redis keeps the hold if it is not renewed. Default: [`Lease::Renewed`].
    pub fn lease(mut self, lease: Lease) -> Self {
        self.lease = lease;
        self
    }

    /// Ends the hold after this time, even if its guard is alive and renewals succeed. Default: no
    /// limit.
    ///
    /// This is for holders that may hang or leak their guard. The hold is lost with
    /// [`LossReason::MaxHold`](crate::LossReason::MaxHold), and the lock is released. The allowed
    /// range is that of a lease.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = Some(max_hold);
        self
    }

    /// Describes for people what the lock is taken for: `"nightly invoices"`. Default: no
    /// description.
    ///
    /// The purpose is shown together with the [name](crate::ClientBuilder::name) of the client: by
    /// [`Lock::holder`], by leasehold-admin, by the command line, and in the [`Error::Timeout`] of
    /// other acquisitions that have a purpose. It takes 1 to 256 bytes without control characters;
    /// other texts are refused with [`ConfigError::OutOfRange`]. Taking the lock again does not
    /// change the purpose. Semaphores and latches have none.
    ///
    /// # Redis cost
    ///
    /// One more call at the grant and at each renewal. These calls run in the background and cover
    /// many holds at once. A timeout costs one more call, to find out who is in the way, even of a
    /// zero wait. See [`describe_holds`](crate::ClientBuilder::describe_holds).
    pub fn purpose(mut self, purpose: impl Into<String>) -> Self {
        self.purpose = Some(purpose.into());
        self
    }

    /// Takes the lock inside the hold of `guard`: the same lock again, or the read side under the
    /// write side.
    ///
    /// [`LockGuard::reenter`] is the short form for the same lock. Use this method for settings, or
    /// for the other side of a read/write lock:
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
    /// A guard of another lock or client is refused with [`ConfigError::OtherLock`].
    pub fn within(mut self, guard: &'a impl AsRef<LockGuard>) -> Self {
        self.within
            .get_or_insert_default()
            .extend(guard.as_ref().holds());
        self
    }

    /// Takes the lock, runs `work` while the lock is held, and releases it. See [`Lock::run`].
    ///
    /// # Redis cost
    ///
    /// See [`Lock::run`].
    ///
    /// # Cancel safety
    ///
    /// See [`Lock::run`].
    ///
    /// # Errors
    ///
    /// - [`Error::Lost`]: the lock was lost before `work` ended. After each other error, `work` did
    ///   not start.
    #[doc = include_str!("../error/returned_by/acquisition.md")]
    pub async fn run<F, W>(self, work: F) -> Result<W::Output, Error>
    where
        F: FnOnce(Arc<G>) -> W,
        W: Future,
    {
        run(self.take().await?, work).await
    }

    /// Like [`run`](Acquire::run), for work that returns a `Result`.
    ///
    /// # Redis cost
    ///
    /// See [`Lock::run`].
    ///
    /// # Cancel safety
    ///
    /// See [`Lock::run`].
    ///
    /// # Errors
    ///
    /// The errors of `work` and of [`run`](Acquire::run).
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
        options.purpose = self.purpose.map(checked_purpose).transpose()?;
        if let Some(within) = self.within {
            if !self.lock.is_lock_of_any(&within) {
                return Err(Error::Config(ConfigError::OtherLock {
                    name: self.lock.name().into(),
                }));
            }
            options.shown = Arc::from(within);
        }
        self.lock.take(|| options).await
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
