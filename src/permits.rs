//! The permit-expirable semaphore: permits with ids and leases.

mod expirable_permit;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::ConfigError;
use crate::error::Error;
use crate::lease::Lease;
use crate::lock::LockGuard;
use crate::protocol::counter::{self, number};
use crate::protocol::permit::{self, ID_LENGTH};
use crate::protocol::replies::{self, Released, yes_or_no};
use crate::session::wait::Wait;
use crate::synchronizer::Synchronizer;

pub use expirable_permit::ExpirablePermit;

/// The most permits of one acquisition or release: more would make Redis busy for a millisecond and more.
const PERMITS_MAX: u32 = 1024;

/// Permits with ids and leases, shared with Redisson's `RPermitExpirableSemaphore`.
///
/// Permits whose lease ended come back at the next call of anybody, however many they are. With
/// [`Lease::Renewed`] a permit is renewed while its guard lives, which Redisson does not do; expiry is
/// judged by the server's clock.
///
/// # Fairness
///
/// Waiters of one client are served in the order in which they came. Between clients there is no
/// order.
///
/// # Redis cost
///
/// As of [`Semaphore`](crate::Semaphore), with `permit_acquire`, `permit_release` and `permit_renew`.
///
/// # Keys
///
/// The string at the name, the sorted set `{name}:timeout` and the channel `redisson_sc:{name}`; all
/// as Redisson's, which gives `x` and `{x}` one sorted set: do not use both names. The reply to a
/// change of the number is kept for 30 s, or four command time-outs if that is longer, at
/// `leasehold_reply:{name}:<id>`.
pub struct PermitExpirableSemaphore {
    inner: Synchronizer,
}

impl PermitExpirableSemaphore {
    pub(crate) fn new(inner: Synchronizer) -> Self {
        PermitExpirableSemaphore { inner }
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
        let (publish, message) = (self.inner.publish(), permits.to_string());
        let call = |resource: &_, kept| {
            counter::set(resource, publish, permits.into(), &message, None, kept)
        };
        self.inner.change(call, yes_or_no).await
    }

    /// Sets the number of all permits, held ones included. Returns how many are then available: negative
    /// if more are held.
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
    /// As [`try_set_permits`](PermitExpirableSemaphore::try_set_permits).
    pub async fn set_permits(&self, permits: u32) -> Result<i64, Error> {
        let publish = self.inner.publish();
        self.inner.ask(|resource| permit::resize(resource, publish, permits.into()), number).await
    }

    /// Adds permits, or takes some away: up to [`u32::MAX`] at once; the number may become negative.
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
    /// [`try_set_permits`](PermitExpirableSemaphore::try_set_permits).
    pub async fn add_permits(&self, permits: i64) -> Result<(), Error> {
        self.inner.add(permits).await
    }

    /// Lets the semaphore end after `life`, with all its permits; false if there is none.
    ///
    /// Guards of renewed permits are told at the next renewal, others by their own leases.
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
    /// [`try_set_permits`](PermitExpirableSemaphore::try_set_permits).
    pub async fn expire_after(&self, life: Duration) -> Result<bool, Error> {
        let life = Lease::checked("life", life)?;
        self.inner.ask(|resource| permit::expire(resource, life), yes_or_no).await
    }

    /// Takes a permit, waiting as long as it takes.
    ///
    /// # Redis cost
    ///
    /// As of [`Semaphore`](crate::Semaphore).
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
    /// As of [`Semaphore`](crate::Semaphore).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up: a permit that is on its way is given back.
    ///
    /// # Errors
    ///
    /// [`Error::Timeout`] if there was none for all of the wait. [`Error::Unavailable`] if Redis did
    /// not take the call. [`Error::Unknown`] if the reply was lost: it is given back in the
    /// background. [`Error::Protocol`] if Redis refuses the call for good, [`Error::Closed`] after
    /// shutdown, [`Error::Config`] for a bad name or lease.
    pub async fn try_acquire(
        &self,
        wait: Duration,
        lease: Lease,
    ) -> Result<ExpirablePermit, Error> {
        self.take(1, Wait::from(wait), lease).await
    }

    /// Takes several permits, all or none, waiting at most `wait`.
    ///
    /// # Redis cost
    ///
    /// As of [`Semaphore`](crate::Semaphore).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up: permits that are on their way are given back.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](PermitExpirableSemaphore::try_acquire); [`Error::Config`] for none, or for
    /// more than 1024.
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
            return Err(Error::Config(not_at_once("permits", permits)));
        }
        let share = self.inner.take(permits, wait, lease).await?;
        Ok(ExpirablePermit::new(LockGuard::new(share)))
    }

    /// Gives a permit back that no guard stands for: after [`ExpirablePermit::forget`], or of another client.
    ///
    /// If a guard stands for it after all, that is lost, with all permits that it stands for.
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
    /// [`Error::NotOwner`] if it is not held: unknown, released before, or its lease ended.
    /// [`Error::Config`] for a text that is no id; others as
    /// [`try_set_permits`](PermitExpirableSemaphore::try_set_permits).
    pub async fn release(&self, id: &str) -> Result<(), Error> {
        self.release_all(&[id]).await
    }

    /// Gives permits back, all of them or none: up to 1024 at once.
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
    /// As [`release`](PermitExpirableSemaphore::release): one bad id, and none is released.
    /// [`Error::Config`] for none, or for more than 1024.
    pub async fn release_all(&self, ids: &[&str]) -> Result<(), Error> {
        let ids = joined(ids)?;
        let publish = self.inner.publish();
        let call = |resource: &_| permit::release_all(resource, publish, &ids);
        match self.inner.ask(call, replies::released).await? {
            Released::Absent | Released::StillHeld => {
                Err(Error::NotOwner { name: Arc::from(self.name()) })
            }
            Released::Free { .. } => Ok(()),
        }
    }

    /// What is left of the lease of a permit; [`Duration::MAX`] if it does not expire, `None` if it is
    /// not held.
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
    /// [`Error::Config`] for a text that is no id; others as
    /// [`try_set_permits`](PermitExpirableSemaphore::try_set_permits).
    pub async fn remaining_lease(&self, id: &str) -> Result<Option<Duration>, Error> {
        let id = joined(&[id])?;
        let left = self.inner.ask(|resource| permit::lease_of(resource, &id), number).await?;
        Ok(match left {
            -1 => Some(Duration::MAX),
            left => u64::try_from(left).ok().map(Duration::from_millis),
        })
    }

    /// Gives a permit that no guard stands for a new lease from now; false if it is not held.
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
    /// [`Error::Config`] for a text that is no id or for a bad lease; others as
    /// [`try_set_permits`](PermitExpirableSemaphore::try_set_permits).
    pub async fn update_lease(&self, id: &str, lease: Duration) -> Result<bool, Error> {
        let id = joined(&[id])?;
        let lease = Lease::checked("lease", lease)?;
        self.inner.ask(|resource| permit::update_lease(resource, &id, lease), yes_or_no).await
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

    /// The name as it was given; empty if it cannot be used.
    pub fn name(&self) -> &str {
        self.inner.name()
    }
}

/// Ids as the scripts take them.
fn joined(ids: &[&str]) -> Result<Arc<str>, ConfigError> {
    let is_id = |id: &&str| {
        id.len() == ID_LENGTH && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    if ids.is_empty() || !ids.iter().all(is_id) {
        return Err(ConfigError::PermitId);
    }
    if ids.len() > PERMITS_MAX as usize {
        return Err(not_at_once("ids", ids.len()));
    }
    Ok(Arc::from(ids.concat()))
}

fn not_at_once(what: &'static str, given: impl fmt::Display) -> ConfigError {
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
