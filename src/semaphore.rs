//! The semaphore: a number of permits under one name.

mod permit;

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

pub use permit::SemaphorePermit;

/// A number of permits under one name, shared with Redisson's `RSemaphore`.
///
/// Redisson keeps only the number of available permits: the permits of a process that died are gone.
/// Here each acquisition also has a hold with a lease, which is renewed while its guard lives. The permits
/// of a dead holder come back: the next call of any client of this library puts them back, and waiters
/// call about once a second.
///
/// # Fairness
///
/// Waiters of one client are served in the order in which they came; a waiter for many permits holds up
/// the waiters behind it. Between clients there is no order.
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
/// the sorted set `leasehold_semaphore:{name}`, which Redisson does not know; for a name with braces of its
/// own, in `leasehold_semaphore::name`, with two colons. The reply to a change of the number is kept for
/// 30 s, or four command time-outs if that is longer, at `leasehold_reply:{name}:<id>`. A client has one such
/// key for each change under way, and uses it again.
///
/// # Examples
///
/// At most three jobs at once, over all processes:
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// use leasehold::Client;
///
/// let client = Client::embedded();
/// let encoders = client.semaphore("encoders");
/// encoders.try_set_permits(3).await?; // false in every process but the first
///
/// let permit = encoders.acquire(1).await?;
/// // … encode …
/// permit.release().await?;
/// # Ok(())
/// # }
/// ```
pub struct Semaphore {
    inner: Synchronizer,
}

impl Semaphore {
    pub(crate) fn new(inner: Synchronizer) -> Self {
        Semaphore { inner }
    }

    /// What a renewed lease is for this value: that of all its permits. Default:
    /// [`ClientBuilder::lease`](crate::ClientBuilder::lease). From 100 ms to a year.
    ///
    /// Permits of a holder that died come back after it. A bad value is refused by the first call.
    #[must_use = "the semaphore is moved into the returned value"]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.inner.settings.own_mut().lease = Some(lease);
        self
    }

    /// How often a waiter of this value asks, in case a message was lost or permits came back without one.
    /// Default: [`ClientBuilder::safety_poll`](crate::ClientBuilder::safety_poll). From 10 ms to 60 s.
    ///
    /// One waiter of the client asks for all. A bad value is refused by the first call.
    #[must_use = "the semaphore is moved into the returned value"]
    pub fn with_safety_poll(mut self, every: Duration) -> Self {
        self.inner.settings.own_mut().safety_poll = Some(every);
        self
    }

    /// Sets the number of permits, unless the semaphore is there already; false then.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the change is made or it is not.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`], [`Error::Unknown`] or [`Error::Protocol`] if Redis gives no answer
    /// within a command time-out, [`Error::Closed`] after shutdown, [`Error::Config`] for a bad name.
    pub async fn try_set_permits(&self, permits: u32) -> Result<bool, Error> {
        self.set(permits, None).await
    }

    /// As [`try_set_permits`](Semaphore::try_set_permits), for a semaphore that ends after `life`.
    ///
    /// Permits that are held then are lost; their guards learn of it at the next renewal.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the change is made or it is not.
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
        let call = |resource: &_, reply_key| {
            counter::set(resource, publish, permits.into(), &message, life, reply_key)
        };
        self.inner.change(call, yes_or_no).await
    }

    /// Takes permits, waiting as long as it takes. Zero permits are taken at once and without Redis.
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
    /// lost: the permits are given back in the background. [`Error::Protocol`] if Redis refuses the call for
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
            return Ok(SemaphorePermit::of_none());
        }
        let share = self.inner.take(permits, wait, Lease::Renewed).await?;
        Ok(SemaphorePermit::new(LockGuard::new(share), permits))
    }

    /// Gives back permits that have no guard, as Redisson's `release`.
    ///
    /// For permits after [`SemaphorePermit::forget`], or to add permits. A semaphore that is not there is
    /// made.
    ///
    /// # Redis cost
    ///
    /// 1 round trip; none for no permits.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the change is made or it is not.
    ///
    /// # Errors
    ///
    /// As [`try_set_permits`](Semaphore::try_set_permits).
    pub async fn release(&self, permits: u32) -> Result<(), Error> {
        self.add_permits(permits.into()).await
    }

    /// As [`release`](Semaphore::release), but does not make a semaphore; false if there is none.
    ///
    /// # Redis cost
    ///
    /// 1 round trip; none for no permits.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the change is made or it is not.
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
        let call = |resource: &_, reply_key| {
            semaphore::add(resource, publish, permits.into(), left_alone, reply_key)
        };
        self.inner.change(call, was_there).await
    }

    /// Adds permits, or takes permits away if the number is negative: up to [`u32::MAX`] at once.
    ///
    /// The number of available permits may become negative.
    ///
    /// # Redis cost
    ///
    /// 1 round trip; none for no permits.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the change is made or it is not.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for a number beyond that; others as
    /// [`try_set_permits`](Semaphore::try_set_permits).
    pub async fn add_permits(&self, permits: i64) -> Result<(), Error> {
        self.inner.add(permits).await
    }

    /// Takes all available permits for good. Returns how many were taken, including permits of dead holders.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the change is made or it is not.
    ///
    /// # Errors
    ///
    /// As [`try_set_permits`](Semaphore::try_set_permits).
    pub async fn drain(&self) -> Result<i64, Error> {
        let publish = self.inner.publish();
        self.inner
            .change(|resource, reply_key| semaphore::drain(resource, publish, reply_key), number)
            .await
    }

    /// How many permits are available; negative if more permits were taken away than there were.
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

    /// The name as it was given; empty if the name was refused.
    pub fn name(&self) -> &str {
        self.inner.name()
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("name", &self.name()).finish_non_exhaustive()
    }
}
