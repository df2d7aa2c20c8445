//! The guard: the right to be in the critical section, and what is known of it.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

use super::HoldHandle;
use crate::config::ConfigError;
use crate::error::Error;
use crate::lease::{HoldState, Lease, LossReason};
use crate::session::Tenancy;
use crate::session::rejoin::extend;

/// Holds a lock until it is dropped or unlocked.
///
/// # Release
///
/// [`unlock`](LockGuard::unlock) waits for Redis and reports; a drop queues the same release and
/// returns at once. A drop never blocks, never panics and needs no runtime.
///
/// # Losing the lease
///
/// The guard compares clocks: its [`deadline`](LockGuard::deadline) is counted from before the
/// request was sent, so it passes before Redis frees the lock. [`state`](LockGuard::state),
/// [`check`](LockGuard::check), [`lost`](LockGuard::lost) and [`run`](LockGuard::run) build on it.
///
/// # Examples
///
/// ```no_run
/// # async fn example(mut lock: leasehold::Lock) -> Result<(), leasehold::Error> {
/// let guard = lock.lock().await?;
/// let report = guard.run(async { /* a long job, dropped if the lock is lost */ 42 }).await?;
/// guard.check()?; // before an irreversible step
/// guard.unlock().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping the guard releases the lock"]
#[clippy::has_significant_drop]
pub struct LockGuard {
    tenancy: Tenancy,
}

impl LockGuard {
    pub(crate) fn new(tenancy: Tenancy) -> Self {
        LockGuard { tenancy }
    }

    /// Releases the lock and waits until Redis has confirmed it.
    ///
    /// Of nested guards only the last one frees the lock.
    ///
    /// # Redis cost
    ///
    /// 1 round trip; none if the lock was handed to another waiter of this client.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up: the release goes on in the background.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the hold had ended before: others may have been in the section.
    /// [`Error::Unavailable`] and [`Error::Unknown`] if Redis did not confirm it; it is repeated in
    /// the background until it does or the lease ends.
    pub async fn unlock(self) -> Result<(), Error> {
        self.tenancy.release().await
    }

    /// What this process knows of the hold. Local and free.
    pub fn state(&self) -> HoldState {
        self.tenancy.hold().look()
    }

    /// Resolves with the reason when the hold is lost.
    ///
    /// The future does not borrow the guard. It never resolves for a hold that is released in time.
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + 'static {
        let hold = self.tenancy.hold().clone();
        async move { hold.lost().await }
    }

    /// Until when the lock is surely held, unless it is forced or Redis fails. Local and free.
    pub fn deadline(&self) -> Instant {
        self.tenancy.hold().deadline()
    }

    /// Fails if the hold is lost. Local and free: call it before each irreversible step.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`].
    pub fn check(&self) -> Result<(), Error> {
        let hold = self.tenancy.hold();
        match hold.loss() {
            None => Ok(()),
            Some(reason) => Err(Error::lost(&hold.place.name, reason)),
        }
    }

    /// Polls `work` only while the lock is held, and drops it when the lock is lost.
    ///
    /// # Cancel safety
    ///
    /// As `work`; the guard is not touched.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the hold ended before `work` did.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Error> {
        let hold = self.tenancy.hold();
        tokio::select! {
            biased;
            reason = hold.lost() => Err(Error::lost(&hold.place.name, reason)),
            done = work => Ok(done),
        }
    }

    /// Makes the hold last at least `lease` from now; never shortens it.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the lease is extended or it is not.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the hold is gone, [`Error::Unavailable`] and [`Error::Unknown`] if Redis
    /// gave no answer: the old deadline stands. [`Error::Config`] for a bad lease.
    pub async fn extend(&self, lease: Duration) -> Result<(), Error> {
        let lease = Lease::checked("lease", lease)?;
        extend(self.tenancy.handle(), self.tenancy.hold(), lease).await
    }

    /// How many guards of this hold live. Local and free.
    pub fn hold_count(&self) -> u32 {
        self.tenancy.hold().guards()
    }

    /// The lock's name.
    pub fn name(&self) -> &str {
        &self.tenancy.hold().place.name
    }

    /// The owner's name on the wire, as other clients see it.
    pub fn owner(&self) -> &str {
        &self.tenancy.hold().field
    }

    /// Leaves the lock to its lease: it is neither renewed nor released any more.
    ///
    /// With other guards of this hold alive it only ends this one.
    pub fn forget(self) {
        // Nobody needs to know which of the two it was.
        let _alone: bool = self.tenancy.let_go();
    }

    /// Turns the hold into text, to be adopted by another task, client or process.
    ///
    /// The hold is not renewed any more; [`Client::adopt`](crate::Client::adopt) must take it over
    /// before its lease ends.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the hold is lost; [`Error::Config`] while other guards of it live, in
    /// which case this guard is released as by a drop.
    pub fn into_handle(self) -> Result<HoldHandle, Error> {
        self.check()?;
        let hold = self.tenancy.hold();
        let handle = HoldHandle::new(&hold.place.key, &hold.field);
        if self.tenancy.let_go() {
            return Ok(handle);
        }
        let reason = "other guards of this hold are alive";
        Err(Error::Config(ConfigError::Handle { reason }))
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("name", &self.name())
            .field("owner", &self.owner())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
