//! The read/write lock with blocking methods.

use std::time::Duration;

use super::driver::Driver;
use super::lock::Lock;
use crate::session::Owner;

/// A distributed lock for many readers or one writer. See [`ReadWriteLock`](crate::ReadWriteLock).
///
/// # Examples
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// let catalogue = leasehold::blocking::Client::embedded().read_write_lock("catalogue");
/// let writing = catalogue.write().lock()?;
/// // … change the catalogue, then check it while others read …
/// let reading = catalogue.read().acquire().within(&writing).lock()?;
/// writing.unlock()?;
/// reading.unlock()?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ReadWriteLock {
    inner: crate::ReadWriteLock,
    driver: Driver,
}

impl ReadWriteLock {
    pub(super) fn new(inner: crate::ReadWriteLock, driver: &Driver) -> Self {
        ReadWriteLock {
            inner,
            driver: driver.clone(),
        }
    }

    settings! {
        /// Like [`ReadWriteLock::owned_by`](crate::ReadWriteLock::owned_by). Does not block.
        owned_by(owner: &Owner);
        /// Like [`ReadWriteLock::with_lease`](crate::ReadWriteLock::with_lease). Does not block.
        with_lease(lease: Duration);
        /// Like [`ReadWriteLock::with_safety_poll`](crate::ReadWriteLock::with_safety_poll). Does not block.
        with_safety_poll(every: Duration);
    }

    /// The side that many readers may hold.
    pub fn read(&self) -> Lock {
        Lock::new(self.inner.read().clone(), &self.driver)
    }

    /// The side that only one writer may hold.
    pub fn write(&self) -> Lock {
        Lock::new(self.inner.write().clone(), &self.driver)
    }

    /// The name of this value; empty if the name is not allowed.
    pub fn name(&self) -> &str {
        self.inner.name()
    }
}
