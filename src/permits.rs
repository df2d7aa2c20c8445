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
use crate::protocol::semaphore;
use crate::session::poll_watch::Wait;
use crate::synchronizer::Synchronizer;

pub use expirable_permit::ExpirablePermit;

/// The most permits of one acquisition or release. More would keep Redis busy for a millisecond or
/// longer.
const PERMITS_MAX: u32 = 1024;

/// A distributed semaphore whose permits have ids and leases, shared with Redisson's
/// `RPermitExpirableSemaphore`.
///
/// All permits whose lease has ended come back at the next call of any client. The server's clock
/// decides when a lease ends. With [`Lease::Renewed`], a permit is renewed while its guard is
/// alive. Redisson does not do that.
///
/// # Fairness
///
/// Waiters of one client are served in the order of arrival. There is no order between clients.
///
/// # Redis cost
///
/// See the table on [`Semaphore`](crate::Semaphore), with `permit_acquire`, `permit_release` and
/// `permit_renew`.
///
/// # Keys
///
/// The string at the name, the sorted set `{name}:timeout` and the channel `redisson_sc:{name}`,
/// all as in Redisson. `x` and `{x}` share the sorted set: do not use both names.
///
/// A [limit](PermitExpirableSemaphore::with_limit) is kept in the string `leasehold_limit:{name}`,
/// as long as the semaphore. If the name has braces, it is `leasehold_limit::name`.
///
/// The reply to a change of the number is kept at `leasehold_reply:{name}:<id>`, for 30 s or four
/// command timeouts, whichever is longer. A client has one such key for each change in flight, and
/// reuses it.
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
/// let seats = client.permit_expirable_semaphore("seats").with_limit(100);
///
/// // A customer has ten minutes to pay. The id goes with the order.
/// let seat = seats.acquire(1, Lease::Fixed(Duration::from_secs(600))).await?;
/// let id = seat.id().to_owned();
/// seat.forget();
///
/// // … paid, in another process …
/// seats.release(&id).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct PermitExpirableSemaphore {
    inner: Synchronizer,
}

impl PermitExpirableSemaphore {
    pub(crate) fn new(inner: Synchronizer) -> Self {
        PermitExpirableSemaphore { inner }
    }

    /// Declares how many permits there are in all: see
    /// [`Semaphore::with_limit`](crate::Semaphore::with_limit). From 1 to [`u32::MAX`]. The first
    /// call refuses a bad value.
    ///
    /// Redisson stores who holds these permits, so the first limit counts the permits of Java too.
    #[must_use = "the semaphore is moved into the returned value"]
    pub fn with_limit(mut self, permits: u32) -> Self {
        self.inner.settings.limit = Some(permits);
        self
    }

    /// Sets the lease that [`Lease::Renewed`] means for this value. Default:
    /// [`ClientBuilder::lease`](crate::ClientBuilder::lease). From 100 ms to a year.
    ///
    /// The permits of a holder that died come back after this lease. The first call refuses a bad
    /// value.
    #[must_use = "the semaphore is moved into the returned value"]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.inner.settings.lease = Some(lease);
        self
    }

    /// Sets how often waiters of this value poll, in case a message was lost or permits came back
    /// without one. Default: [`ClientBuilder::safety_poll`](crate::ClientBuilder::safety_poll).
    /// From 10 ms to 60 s.
    ///
    /// One waiter of the client polls for all of them. The first call refuses a bad value.
    #[must_use = "the semaphore is moved into the returned value"]
    pub fn with_safety_poll(mut self, every: Duration) -> Self {
        self.inner.settings.safety_poll = Some(every);
        self
    }

    /// Sets the number of permits if the semaphore does not exist yet; returns false if it does.
    ///
    /// It is no limit: see [`Semaphore::try_set_permits`](crate::Semaphore::try_set_permits).
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The change is either made or not.
    ///
    /// # Errors
    ///
    #[doc = include_str!("error/returned_by/call.md")]
    pub async fn try_set_permits(&self, permits: u32) -> Result<bool, Error> {
        let message = permits.to_string();
        let call = |resource: &_, publish, reply_key| {
            counter::set(resource, publish, permits.into(), &message, None, reply_key)
        };
        self.inner.change(call, yes_or_no).await
    }

    /// Sets the total, including held permits. Returns how many are then available: negative if
    /// more are held. It counts as a limit as in
    /// [`Semaphore::set_permits`](crate::Semaphore::set_permits).
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The change is either made or not.
    ///
    /// # Errors
    ///
    #[doc = include_str!("error/returned_by/call.md")]
    pub async fn set_permits(&self, permits: u32) -> Result<i64, Error> {
        let total = self.inner.total();
        let call = |resource: &_, publish| permit::resize(resource, publish, permits.into(), total);
        self.inner.ask(call, number).await
    }

    /// Adds permits, or takes permits away if the number is negative.
    ///
    /// At most [`u32::MAX`] permits can be added or taken at once. The number of available permits
    /// may become negative.
    ///
    /// # Redis cost
    ///
    /// 1 round trip. None for zero permits.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The change is either made or not.
    ///
    /// # Errors
    ///
    #[doc = include_str!("error/returned_by/call.md")]
    /// - [`Error::Config`] also: the number is too large.
    pub async fn add_permits(&self, permits: i64) -> Result<(), Error> {
        self.inner.add(permits).await
    }

    /// Makes the semaphore and all its permits expire after `life`; returns false if there is no
    /// semaphore.
    ///
    /// A guard with a renewed lease notices at its next renewal. A guard with a fixed lease ends
    /// with its lease.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The change is either made or not.
    ///
    /// # Errors
    ///
    #[doc = include_str!("error/returned_by/call.md")]
    /// - [`Error::Config`] also: `life` is not between [`Lease::MIN`] and [`Lease::MAX`].
    pub async fn expire_after(&self, life: Duration) -> Result<bool, Error> {
        let life = Lease::checked("life", life)?;
        let call = |resource: &_, _publish| permit::expire(resource, life);
        self.inner.ask(call, yes_or_no).await
    }

    /// Takes permits, all or none, and waits as long as it takes. Such a wait may never end: see
    /// [`Semaphore::acquire`](crate::Semaphore::acquire).
    ///
    /// # Redis cost
    ///
    /// See the table on [`Semaphore`](crate::Semaphore).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up. Permits that are granted later are given back.
    ///
    /// # Errors
    ///
    /// - [`Error::Protocol`]: Redis refuses the call, and retrying does not help.
    /// - [`Error::NotDurable`]: too few copies of the grant were confirmed, and it is being undone.
    /// - [`Error::NoPermits`]: the number of permits was never set, and this value declares no
    ///   limit.
    /// - [`Error::ExceedsLimit`]: there are fewer permits in all, by the limit of this value.
    ///   Without one, by the limit that was applied last.
    /// - [`Error::Closed`] or [`Error::Forked`]: the client was shut down, or made before a fork.
    /// - [`Error::Config`]: the name, the lease or a setting cannot be used, or the number of
    ///   permits is not between 1 and 1,024.
    pub async fn acquire(&self, permits: u32, lease: Lease) -> Result<ExpirablePermit, Error> {
        self.take(permits, Wait::Forever, lease).await
    }

    /// Takes permits, all or none, and waits at most `wait`. A `wait` of zero tries once.
    ///
    /// # Redis cost
    ///
    /// See the table on [`Semaphore`](crate::Semaphore).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up. Permits that are granted later are given back.
    ///
    /// # Errors
    ///
    /// - [`Error::Timeout`]: there were too few permits until `wait` ended. None is taken.
    /// - [`Error::Unavailable`]: Redis did not execute the call.
    /// - [`Error::Unknown`]: the reply was lost. The permits are given back in the background.
    /// - [`Error::NotDurable`]: too few copies of the grant were confirmed, and it is being undone.
    /// - [`Error::Protocol`]: Redis refuses the call, and retrying does not help.
    /// - [`Error::NoPermits`] or [`Error::ExceedsLimit`]: the number of permits was never set, or
    ///   is too small.
    /// - [`Error::Closed`] or [`Error::Forked`]: the client was shut down, or made before a fork.
    /// - [`Error::Config`]: the name, the lease or a setting cannot be used, or the number of
    ///   permits is not between 1 and 1,024.
    pub async fn try_acquire(
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

    /// Returns the number of available permits. It is negative if more were taken away than there
    /// were.
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
    #[doc = include_str!("error/returned_by/call.md")]
    pub async fn available(&self) -> Result<i64, Error> {
        Ok(self.numbers().await?.0)
    }

    /// Returns the number of held permits.
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
    #[doc = include_str!("error/returned_by/call.md")]
    pub async fn acquired(&self) -> Result<i64, Error> {
        Ok(self.numbers().await?.1)
    }

    /// Returns the total number of permits, available and held.
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
    #[doc = include_str!("error/returned_by/call.md")]
    pub async fn permits(&self) -> Result<i64, Error> {
        let (available, held) = self.numbers().await?;
        Ok(available + held)
    }

    async fn numbers(&self) -> Result<(i64, i64), Error> {
        let read = semaphore::available_and_held;
        self.inner.ask(permit::count, read).await
    }

    /// The name of this value; empty if the name is not allowed.
    pub fn name(&self) -> &str {
        self.inner.name()
    }
}

fn count_out_of_range(what: &'static str, given: impl fmt::Display) -> ConfigError {
    ConfigError::out_of_range(what, given, format!("1 to {PERMITS_MAX}"))
}
