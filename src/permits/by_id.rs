//! Calls about permits by their ids, for code without the guard.

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
    /// For a permit after [`ExpirablePermit::forget`](crate::ExpirablePermit::forget), or of another client.
    /// If the permit has a guard after all, the guard is lost, with all its permits.
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
    /// [`Error::NotOwner`] if the permit is not held: unknown, released before, or its lease ended.
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
    /// Cancel safe: the change is made or it is not.
    ///
    /// # Errors
    ///
    /// As [`release`](PermitExpirableSemaphore::release): with one bad id, no permit is released.
    /// [`Error::Config`] for no id, or for more than 1024.
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

    /// What is left of the lease of a permit; `None` if the permit is not held.
    ///
    /// [`Duration::MAX`] for a permit that does not expire.
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

    /// Gives a permit that has no guard a new lease from now; false if the permit is not held.
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
    /// [`Error::Config`] for a text that is no id or for a bad lease; others as
    /// [`try_set_permits`](PermitExpirableSemaphore::try_set_permits).
    pub async fn update_lease(&self, id: &str, lease: Duration) -> Result<bool, Error> {
        let id = joined(&[id])?;
        let lease = Lease::checked("lease", lease)?;
        self.inner.ask(|resource| permit::update_lease(resource, &id, lease), yes_or_no).await
    }
}

/// Checks ids and joins them, as the scripts take them.
fn joined(ids: &[&str]) -> Result<Arc<str>, ConfigError> {
    let is_id = |id: &&str| {
        id.len() == ID_LENGTH && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    if ids.is_empty() || !ids.iter().all(is_id) {
        return Err(ConfigError::PermitId);
    }
    if ids.len() > PERMITS_MAX as usize {
        return Err(count_out_of_range("ids", ids.len()));
    }
    Ok(Arc::from(ids.concat()))
}
