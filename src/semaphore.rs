//! The semaphore: a number of permits under one name.

use std::fmt;
use std::time::Duration;

use crate::error::Error;
use crate::lease::Lease;
use crate::lock::LockGuard;
use crate::protocol::counter::{self, number};
use crate::protocol::replies::yes_or_no;
use crate::protocol::semaphore::{self, IfAbsent, was_there};
use crate::session::wait::Wait;
use crate::synchronizer::Synchronizer;

/// A number of permits under one name, shared with Redisson's `RSemaphore`.
///
/// Redisson keeps nothing but the number of permits that are available: permits of a process that
/// died are gone with it. Here each acquisition also has a hold with a lease, which is renewed while
/// its guard lives. When the holder died, its permits come back: whoever of this library next asks
/// the semaphore puts them back, and waiters ask about once a second.
///
/// # Fairness
///
/// Waiters of one client are served in the order in which they came; one that wants many permits
/// holds up those behind it. Between clients there is no order.
///
/// # Redis cost
///
/// | Path             | Round trips | Sent                                              |
/// |------------------|-------------|---------------------------------------------------|
/// | enough permits   | 1           | `semaphore_acquire`                               |
/// | too few          | 2 + w, + 1  | `semaphore_acquire` each time, one `SUBSCRIBE`    |
/// | released         | 1           | `semaphore_release`                               |
/// | while held       | 1 per third of the lease | `semaphore_renew`, many holds in one call |
/// | while waited for | 1 a second  | `semaphore_acquire` of one waiter of the client   |
///
/// # Keys
///
/// The string at the name, and the channel `redisson_sc:{name}`; both as Redisson's. The holds are in
/// the sorted set `leasehold_semaphore:{name}`, which Redisson does not know; those of a name with
/// braces of its own in `leasehold_semaphore::name`, with two colons. The reply to a change of the
/// number is kept for 30 s, or four command time-outs if that is longer, at
/// `leasehold_reply:{name}:<id>`.
pub struct Semaphore {
    inner: Synchronizer,
}

/// Permits that come back when this is dropped or released.
///
/// [`guard`](SemaphorePermit::guard) tells its state and its loss.
#[must_use = "dropping the permit gives it back"]
pub struct SemaphorePermit {
    guard: Option<LockGuard>,
    permits: u32,
}

impl Semaphore {
    pub(crate) fn new(inner: Synchronizer) -> Self {
        Semaphore { inner }
    }

    /// Sets the number of permits, if the semaphore has none yet; false if it has.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it is done or it is not.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`], [`Error::Unknown`] or [`Error::Protocol`] if Redis gives no answer
    /// within a command time-out, [`Error::Closed`] after shutdown, [`Error::Config`] for a bad name.
    pub async fn try_set_permits(&self, permits: u32) -> Result<bool, Error> {
        self.set(permits, None).await
    }

    /// As [`try_set_permits`](Semaphore::try_set_permits); after `life` the semaphore is gone, with
    /// whoever holds permits of it then: their guards are told at the next renewal.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it is done or it is not.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for a life outside [`Lease::MIN`] to [`Lease::MAX`]; others as
    /// [`try_set_permits`](Semaphore::try_set_permits).
    pub async fn try_set_permits_for(&self, permits: u32, life: Duration) -> Result<bool, Error> {
        let life = Lease::checked("life", life)?;
        self.set(permits, Some(life)).await
    }

    async fn set(&self, permits: u32, life: Option<Duration>) -> Result<bool, Error> {
        let (publish, message) = (self.inner.publish(), permits.to_string());
        let call = |resource: &_, kept| {
            counter::set(resource, publish, permits.into(), &message, life, kept)
        };
        self.inner.change(call, yes_or_no).await
    }

    /// Takes permits, waiting as long as it takes. None are taken at once and without Redis.
    ///
    /// # Redis cost
    ///
    /// As in the table of [`Semaphore`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up: permits that are on their way are given back.
    ///
    /// # Errors
    ///
    /// [`Error::Protocol`] if Redis refuses the call for good, [`Error::Closed`] after shutdown,
    /// [`Error::Config`] for a bad name.
    pub async fn acquire(&self, permits: u32) -> Result<SemaphorePermit, Error> {
        self.take(permits, Wait::Forever).await
    }

    /// Takes permits, waiting at most `wait`; a wait of zero asks once.
    ///
    /// # Redis cost
    ///
    /// As in the table of [`Semaphore`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up: permits that are on their way are given back.
    ///
    /// # Errors
    ///
    /// [`Error::Timeout`] if there were too few permits for all of the wait: none is taken.
    /// [`Error::Unavailable`] if Redis did not take the call. [`Error::Unknown`] if the reply was
    /// lost: they are given back in the background. [`Error::Protocol`] if Redis refuses the call for
    /// good, [`Error::Closed`] after shutdown, [`Error::Config`] for a bad name.
    pub async fn try_acquire(
        &self,
        permits: u32,
        wait: Duration,
    ) -> Result<SemaphorePermit, Error> {
        self.take(permits, Wait::from(wait)).await
    }

    async fn take(&self, permits: u32, wait: Wait) -> Result<SemaphorePermit, Error> {
        self.inner.resource()?;
        if permits == 0 {
            return Ok(SemaphorePermit { guard: None, permits });
        }
        let share = self.inner.take(permits, wait, Lease::Renewed).await?;
        Ok(SemaphorePermit { guard: Some(LockGuard::new(share)), permits })
    }

    /// Gives permits that no guard stands for, as Redisson's `release`: after
    /// [`SemaphorePermit::forget`], or to add some. A semaphore that is not there is made.
    ///
    /// # Redis cost
    ///
    /// 1 round trip; none for no permits.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it is done or it is not.
    ///
    /// # Errors
    ///
    /// As [`try_set_permits`](Semaphore::try_set_permits).
    pub async fn release(&self, permits: u32) -> Result<(), Error> {
        self.add_permits(permits.into()).await
    }

    /// As [`release`](Semaphore::release), but a semaphore that is not there is not made; false then.
    ///
    /// # Redis cost
    ///
    /// 1 round trip; none for no permits.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it is done or it is not.
    ///
    /// # Errors
    ///
    /// As [`try_set_permits`](Semaphore::try_set_permits).
    pub async fn release_if_exists(&self, permits: u32) -> Result<bool, Error> {
        self.inner.resource()?;
        if permits == 0 {
            return Ok(false);
        }
        let (publish, left_alone) = (self.inner.publish(), IfAbsent::LeaveAlone);
        let call = |resource: &_, kept| {
            semaphore::add(resource, publish, permits.into(), left_alone, kept)
        };
        self.inner.change(call, was_there).await
    }

    /// Adds permits, or takes some away: up to [`u32::MAX`] at once. The number may become negative.
    ///
    /// # Redis cost
    ///
    /// 1 round trip; none for no permits.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it is done or it is not.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for more than that; others as
    /// [`try_set_permits`](Semaphore::try_set_permits).
    pub async fn add_permits(&self, permits: i64) -> Result<(), Error> {
        self.inner.add(permits).await
    }

    /// Takes all available permits for good. Returns how many were taken, those of dead holders included.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it is done or it is not.
    ///
    /// # Errors
    ///
    /// As [`try_set_permits`](Semaphore::try_set_permits).
    pub async fn drain(&self) -> Result<i64, Error> {
        let publish = self.inner.publish();
        self.inner.change(|resource, kept| semaphore::drain(resource, publish, kept), number).await
    }

    /// How many permits are available; negative if more were taken away than there were.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// As [`try_set_permits`](Semaphore::try_set_permits).
    pub async fn available(&self) -> Result<i64, Error> {
        let publish = self.inner.publish();
        self.inner.ask(|resource| semaphore::available(resource, publish), number).await
    }

    /// The name as it was given; empty if it cannot be used.
    pub fn name(&self) -> &str {
        self.inner.name()
    }
}

impl SemaphorePermit {
    /// How many permits it stands for.
    pub fn permits(&self) -> u32 {
        self.permits
    }

    /// What it is held by: its state, its deadline, its loss. `None` for no permits, which nothing
    /// can take away.
    pub fn guard(&self) -> Option<&LockGuard> {
        self.guard.as_ref()
    }

    /// Runs `work` while the permits are held: as [`LockGuard::run`].
    ///
    /// # Redis cost
    ///
    /// None.
    ///
    /// # Cancel safety
    ///
    /// As `work`; the permits are not touched.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the permits were lost before `work` ended.
    pub async fn run<W: Future>(&self, work: W) -> Result<W::Output, Error> {
        match &self.guard {
            Some(guard) => guard.run(work).await,
            None => Ok(work.await),
        }
    }

    /// As [`run`](SemaphorePermit::run), for work that may fail with an error of its own.
    ///
    /// # Redis cost
    ///
    /// None.
    ///
    /// # Cancel safety
    ///
    /// As [`run`](SemaphorePermit::run).
    ///
    /// # Errors
    ///
    /// Those of `work`, and those of [`run`](SemaphorePermit::run).
    pub async fn try_run<T, E: From<Error>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.run(work).await.map_err(E::from)?
    }

    /// Gives the permits back; the future waits until Redis has confirmed it, and need not be polled for
    /// that to happen.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up: the release goes on in the background.
    ///
    /// # Errors
    ///
    /// As [`LockGuard::unlock`].
    pub fn release(self) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        let released = self.guard.map(LockGuard::unlock);
        async move {
            match released {
                Some(released) => released.await,
                None => Ok(()),
            }
        }
    }

    /// Keeps the permits taken for good: no guard and no lease gives them back any more, only
    /// [`Semaphore::release`] does.
    ///
    /// Returns at once; Redis is told in the background. If the process dies before it was, the
    /// permits come back after the lease.
    pub fn forget(self) {
        if let Some(guard) = self.guard {
            guard.keep_for_good();
        }
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl fmt::Debug for SemaphorePermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SemaphorePermit")
            .field("permits", &self.permits)
            .field("guard", &self.guard)
            .finish()
    }
}
