//! Held permits of a semaphore.

use crate::error::Error;
use crate::lock::LockGuard;

/// Held permits of a [`Semaphore`](crate::Semaphore), given back when this value is dropped or
/// released.
///
/// [`guard`](SemaphorePermit::guard) gives the state of the hold, and tells when it is lost.
///
/// # Examples
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// # let encoders = leasehold::Client::embedded().semaphore("encoders");
/// # encoders.try_set_permits(3).await?;
/// let permit = encoders.acquire(2).await?;
/// assert_eq!(permit.permits(), 2);
/// permit.run(async { /* the work, dropped if the permits are lost */ }).await?;
/// permit.release().await?;
/// assert_eq!(encoders.available().await?, 3);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping the permit gives it back"]
pub struct SemaphorePermit {
    guard: Option<LockGuard>,
    permits: u32,
}

impl SemaphorePermit {
    pub(super) fn new(guard: LockGuard, permits: u32) -> Self {
        SemaphorePermit {
            guard: Some(guard),
            permits,
        }
    }

    /// Zero permits, without a hold.
    pub(super) fn of_none() -> Self {
        SemaphorePermit {
            guard: None,
            permits: 0,
        }
    }

    /// The number of permits held.
    pub fn permits(&self) -> u32 {
        self.permits
    }

    /// The guard of the permits, with state, deadline and loss. `None` for zero permits, which
    /// cannot be lost.
    pub fn guard(&self) -> Option<&LockGuard> {
        self.guard.as_ref()
    }

    /// Runs `work` while the permits are held. See [`LockGuard::run`].
    ///
    /// # Redis cost
    ///
    /// None.
    ///
    /// # Cancel safety
    ///
    /// The same as `work`. The permits are not affected.
    ///
    /// # Errors
    ///
    /// - [`Error::Lost`]: the permits were lost before `work` ended.
    pub async fn run<W: Future>(&self, work: W) -> Result<W::Output, Error> {
        match &self.guard {
            Some(guard) => guard.run(work).await,
            None => Ok(work.await),
        }
    }

    /// Like [`run`](SemaphorePermit::run), for work that returns a `Result`.
    ///
    /// # Redis cost
    ///
    /// None.
    ///
    /// # Cancel safety
    ///
    /// See [`run`](SemaphorePermit::run).
    ///
    /// # Errors
    ///
    /// The errors of `work` and of [`run`](SemaphorePermit::run).
    pub async fn try_run<T, E: From<Error>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.run(work).await.map_err(E::from)?
    }

    /// Gives the permits back; the future waits until Redis has confirmed the release.
    ///
    /// The release is sent whether the future is polled or not.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up. The release continues in the background.
    ///
    /// # Errors
    ///
    #[doc = include_str!("../error/returned_by/release.md")]
    pub fn release(self) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        let released = self.guard.map(LockGuard::unlock);
        async move {
            match released {
                Some(released) => released.await,
                None => Ok(()),
            }
        }
    }

    /// Keeps the permits for good.
    ///
    /// Only [`Semaphore::add_permits`](crate::Semaphore::add_permits) gives them back. This method
    /// returns immediately, and the call to Redis is sent in the background. If the process dies
    /// before that, the permits come back after the lease.
    pub fn forget(self) {
        if let Some(guard) = self.guard {
            guard.keep_for_good();
        }
    }
}
