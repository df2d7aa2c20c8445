//! The permit-expirable semaphore: permits with ids and leases.

mod by_id;
mod expirable_permit;

use std::fmt;
use std::time::Duration;

use crate::error::ConfigError;
use crate::error::Error;
use crate::lease::Lease;
use crate::lock::LockGuard;
use crate::protocol::counter::{self, number};
use crate::protocol::permit;
use crate::protocol::replies::yes_or_no;
use crate::session::wait::Wait;
use crate::synchronizer::Synchronizer;

pub use expirable_permit::ExpirablePermit;

/// The most permits of one acquisition or release: more would keep Redis busy for a millisecond and more.
const PERMITS_MAX: u32 = 1024;

/// Permits with ids and leases, shared with Redisson's `RPermitExpirableSemaphore`.
///
/// Permits whose lease ended come back at the next call of any client, all at once. With
/// [`Lease::Renewed`] a permit is renewed while its guard lives, which Redisson does not do. The server's
/// clock decides when a lease ends.
///
/// # Fairness
///
/// Waiters of one client are served in the order in which they came. Between clients there is no
/// order.
///
/// # Redis cost
///
/// As in the table of [`Semaphore`](crate::Semaphore), with `permit_acquire`, `permit_release` and
/// `permit_renew`.
///
/// # Keys
///
/// The string at the name, the sorted set `{name}:timeout` and the channel `redisson_sc:{name}`; all
/// as Redisson's. `x` and `{x}` have the same sorted set: do not use both names. The reply to a change of
/// the number is kept for 30 s, or four command time-outs if that is longer, at
/// `leasehold_reply:{name}:<id>`. A client has one such key for each change under way, and uses it again.
///
/// # Examples
///
/// A permit that leaves the process that took it:
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// use std::time::Duration;
///
/// use leasehold::{Client, Lease};
///
/// let client = Client::embedded();
/// let seats = client.permit_expirable_semaphore("seats");
/// seats.try_set_permits(100).await?;
///
/// // A customer has ten minutes to pay. The id goes with the order.
/// let seat = seats.acquire(Lease::fixed(Duration::from_secs(600))).await?;
/// let id = seat.id().to_owned();
/// seat.forget();
///
/// // … paid, in another process …
/// seats.release(&id).await?;
/// # Ok(())
/// # }
/// ```
pub struct PermitExpirableSemaphore {
    inner: Synchronizer,
}

impl PermitExpirableSemaphore {
    pub(crate) fn new(inner: Synchronizer) -> Self {
        PermitExpirableSemaphore { inner }
    }

    /// What a renewed lease is for this value, [`Lease::Renewed`]. Default:
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
        let (publish, message) = (self.inner.publish(), permits.to_string());
        let call = |resource: &_, reply_key| {
            counter::set(resource, publish, permits.into(), &message, None, reply_key)
        };
        self.inner.change(call, yes_or_no).await
    }

    /// Sets the total, held permits included. Returns how many are then available: negative if more are
    /// held.
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
    /// As [`try_set_permits`](PermitExpirableSemaphore::try_set_permits).
    pub async fn set_permits(&self, permits: u32) -> Result<i64, Error> {
        let publish = self.inner.publish();
        self.inner.ask(|resource| permit::resize(resource, publish, permits.into()), number).await
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
    /// [`try_set_permits`](PermitExpirableSemaphore::try_set_permits).
    pub async fn add_permits(&self, permits: i64) -> Result<(), Error> {
        self.inner.add(permits).await
    }

    /// Lets the semaphore end after `life`, with all its permits; false if there is none.
    ///
    /// A guard with a renewed lease learns of it at the next renewal; a guard with a fixed lease ends with
    /// its lease.
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
    /// [`try_set_permits`](PermitExpirableSemaphore::try_set_permits).
    pub async fn expire_after(&self, life: Duration) -> Result<bool, Error> {
        let life = Lease::checked("life", life)?;
        self.inner.ask(|resource| permit::expire(resource, life), yes_or_no).await
    }

    /// Takes a permit, waiting as long as it takes.
    ///
    /// # Redis cost
    ///
    /// As in the table of [`Semaphore`](crate::Semaphore).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up: a permit that is on its way is given back.
    ///
    /// # Errors
    ///
    /// [`Error::Protocol`] if Redis refuses the call for good, [`Error::Closed`] after shutdown,
    /// [`Error::Config`] for a bad name or lease.
    pub async fn acquire(&self, lease: Lease) -> Result<ExpirablePermit, Error> {
        self.take(1, Wait::Forever, lease).await
    }

    /// Takes a permit, waiting at most `wait`; a wait of zero asks once.
    ///
    /// # Redis cost
    ///
    /// As in the table of [`Semaphore`](crate::Semaphore).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up: a permit that is on its way is given back.
    ///
    /// # Errors
    ///
    /// [`Error::Timeout`] if no permit was available for all of the wait. [`Error::Unavailable`] if Redis did
    /// not take the call. [`Error::Unknown`] if the reply was lost: the permit is given back
    /// in the background. [`Error::Protocol`] if Redis refuses the call for good, [`Error::Closed`] after
    /// shutdown, [`Error::Config`] for a bad name or lease.
    pub async fn try_acquire(
        &self,
        wait: Duration,
        lease: Lease,
    ) -> Result<ExpirablePermit, Error> {
        self.take(1, Wait::from(wait), lease).await
    }

    /// Takes several permits, all of them or none, waiting at most `wait`.
    ///
    /// # Redis cost
    ///
    /// As in the table of [`Semaphore`](crate::Semaphore).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up: permits that are on their way are given back.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](PermitExpirableSemaphore::try_acquire); [`Error::Config`] for zero permits, or
    /// for more than 1024.
    pub async fn try_acquire_many(
        &self,
        permits: u32,
        wait: Duration,
        lease: Lease,
    ) -> Result<ExpirablePermit, Error> {
        self.take(permits, Wait::from(wait), lease).await
    }

    async fn take(&self, permits: u32, wait: Wait, lease: Lease) -> Result<ExpirablePermit, Error> {
        if !(1..=PERMITS_MAX).contains(&permits) {
            return Err(Error::Config(count_out_of_range("permits", permits)));
        }
        let share = self.inner.take(permits, wait, lease).await?;
        Ok(ExpirablePermit::new(LockGuard::new(share)))
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
    /// As [`try_set_permits`](PermitExpirableSemaphore::try_set_permits).
    pub async fn available(&self) -> Result<i64, Error> {
        Ok(self.numbers().await?.0)
    }

    /// How many permits are held.
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
    /// As [`try_set_permits`](PermitExpirableSemaphore::try_set_permits).
    pub async fn acquired(&self) -> Result<i64, Error> {
        Ok(self.numbers().await?.1)
    }

    /// How many permits there are, available and held.
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
    /// As [`try_set_permits`](PermitExpirableSemaphore::try_set_permits).
    pub async fn permits(&self) -> Result<i64, Error> {
        let (available, held) = self.numbers().await?;
        Ok(available + held)
    }

    async fn numbers(&self) -> Result<(i64, i64), Error> {
        let publish = self.inner.publish();
        self.inner
            .ask(|resource| permit::count(resource, publish), permit::available_and_held)
            .await
    }

    /// The name as it was given; empty if the name was refused.
    pub fn name(&self) -> &str {
        self.inner.name()
    }
}

fn count_out_of_range(what: &'static str, given: impl fmt::Display) -> ConfigError {
    let (given, allowed) = (given.to_string(), format!("1 to {PERMITS_MAX}"));
    ConfigError::OutOfRange { what, given, allowed }
}

impl fmt::Debug for PermitExpirableSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PermitExpirableSemaphore")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}
