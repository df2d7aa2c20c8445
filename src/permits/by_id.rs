//! Methods that take the ids of permits, for code without the guard.

use std::sync::Arc;
use std::time::Duration;

use super::{PERMITS_MAX, PermitExpirableSemaphore, count_out_of_range};
use crate::error::{ConfigError, Error};
use crate::lease::Lease;
use crate::protocol::counter::number;
use crate::protocol::permit::{self, ID_LENGTH};
use crate::protocol::replies::{self, Released, yes_or_no};

impl PermitExpirableSemaphore {
    /// Gives back a permit that has no guard.
    ///
    /// Use it for a permit after [`ExpirablePermit::forget`](crate::ExpirablePermit::forget), or
    /// for a permit of another client. If the permit has a guard after all, that guard is lost with
    /// all its permits. Its client gets a message, and the guard reports the loss, as after
    /// [`Lock::force_unlock`](crate::Lock::force_unlock).
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
    /// - [`Error::NotOwner`]: the permit is not held. It is unknown, was released, or its lease
    ///   ended.
    #[doc = include_str!("../error/returned_by/call.md")]
    /// - [`Error::Config`] also: the text is not an id.
    pub async fn release(&self, id: &str) -> Result<(), Error> {
        self.release_all(&[id]).await
    }

    /// Gives back up to 1,024 permits, all or none.
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
    /// - [`Error::NotOwner`]: a permit is not held. It is unknown, was released, or its lease
    ///   ended. No permit is released.
    #[doc = include_str!("../error/returned_by/call.md")]
    /// - [`Error::Config`] also: a text is not an id, or there is no id, or more than 1,024.
    pub async fn release_all(&self, ids: &[&str]) -> Result<(), Error> {
        if self.released_by(ids, "it was released by its id").await? {
            return Ok(());
        }
        Err(Error::NotOwner {
            name: Arc::from(self.name()),
        })
    }

    /// Gives a permit back by force; returns false if it is not held.
    ///
    /// Like [`release`](PermitExpirableSemaphore::release) of a permit that another client holds,
    /// but its guard also reports the `reason`, as after
    /// [`Lock::force_unlock`](crate::Lock::force_unlock).
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The permit is either given back or not.
    ///
    /// # Errors
    ///
    #[doc = include_str!("../error/returned_by/call.md")]
    /// - [`Error::Config`] also: the text is not an id, or the `reason` cannot be used.
    pub async fn force_release_of(&self, id: &str, reason: &str) -> Result<bool, Error> {
        self.released_by(&[id], reason).await
    }

    async fn released_by(&self, ids: &[&str], reason: &str) -> Result<bool, Error> {
        let (ids, note) = (joined(ids)?, self.inner.handle.calls().forced_note(reason)?);
        let call = |resource: &_, publish| permit::release_by(resource, publish, &ids, &note);
        match self.inner.ask(call, replies::released).await? {
            Released::Absent | Released::StillHeld => Ok(false),
            Released::Free { .. } | Released::HandedOver | Released::FreeForUnlisted => Ok(true),
        }
    }

    /// Returns the remaining lease of a permit; `None` if the permit is not held.
    ///
    /// [`Duration::MAX`] means that the permit does not expire.
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
    #[doc = include_str!("../error/returned_by/call.md")]
    /// - [`Error::Config`] also: the text is not an id.
    pub async fn remaining_lease(&self, id: &str) -> Result<Option<Duration>, Error> {
        let id = joined(&[id])?;
        let call = |resource: &_, _publish| permit::lease_of(resource, &id);
        Ok(match self.inner.ask(call, number).await? {
            -1 => Some(Duration::MAX),
            left => u64::try_from(left).ok().map(Duration::from_millis),
        })
    }

    /// Gives a permit without a guard a new lease from now on; returns false if the permit is not
    /// held.
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
    #[doc = include_str!("../error/returned_by/call.md")]
    /// - [`Error::Config`] also: the text is not an id or the lease is out of range.
    pub async fn update_lease(&self, id: &str, lease: Duration) -> Result<bool, Error> {
        let id = joined(&[id])?;
        let lease = Lease::checked("lease", lease)?;
        let call = |resource: &_, _publish| permit::update_lease(resource, &id, lease);
        self.inner.ask(call, yes_or_no).await
    }
}

/// Checks ids and joins them in the form that the scripts take.
fn joined(ids: &[&str]) -> Result<Arc<str>, ConfigError> {
    let is_id = |id: &&str| {
        id.len() == ID_LENGTH
            && id
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    if ids.is_empty() || !ids.iter().all(is_id) {
        return Err(ConfigError::PermitId);
    }
    if ids.len() > PERMITS_MAX as usize {
        return Err(count_out_of_range("ids", ids.len()));
    }
    Ok(Arc::from(ids.concat()))
}
