//! Semaphores: plain ones, and those whose permits have an id and expire. A permit
//! has no owner, so the thread in a request matters only for waiting.

use std::time::Duration;

use leasehold_others::{Reply, Thrown};

use super::{Redisson, millis};

impl Redisson {
    /// Sets the number of permits. Whether it had not been set before.
    pub(crate) fn semaphore_set(&self, name: &str, permits: u32) -> Reply<bool> {
        self.get(&format!("sem.set {name} {permits}"))
    }

    pub(crate) fn semaphore_acquire(&self, thread: &str, name: &str, permits: u32) -> Reply<()> {
        self.done(&format!("sem.acquire {thread} {name} {permits}"))
    }

    pub(crate) fn semaphore_try_acquire(
        &self,
        thread: &str,
        name: &str,
        permits: u32,
        wait: Duration,
    ) -> Reply<bool> {
        let wait = millis(wait);
        self.get(&format!("sem.tryacquire {thread} {name} {permits} {wait}"))
    }

    pub(crate) fn semaphore_release(&self, name: &str, permits: u32) -> Reply<()> {
        self.done(&format!("sem.release {name} {permits}"))
    }

    /// A negative number takes permits away.
    pub(crate) fn semaphore_add(&self, name: &str, permits: i32) -> Reply<()> {
        self.done(&format!("sem.add {name} {permits}"))
    }

    /// Takes all permits. Returns how many there were.
    pub(crate) fn semaphore_drain(&self, name: &str) -> Reply<i64> {
        self.get(&format!("sem.drain {name}"))
    }

    pub(crate) fn semaphore_available(&self, name: &str) -> Reply<i64> {
        self.get(&format!("sem.available {name}"))
    }

    /// Sets the number of permits. Whether it had not been set before.
    pub(crate) fn permit_set(&self, name: &str, permits: u32) -> Reply<bool> {
        self.get(&format!("permit.set {name} {permits}"))
    }

    /// Returns the id of the permit. Without a lease, it never expires.
    pub(crate) fn permit_acquire(
        &self,
        thread: &str,
        name: &str,
        lease: Option<Duration>,
    ) -> Reply<String> {
        let lease = lease.map(millis).unwrap_or_default();
        self.get(&format!("permit.acquire {thread} {name} {lease}"))
    }

    /// Returns the id, or `null`.
    pub(crate) fn permit_try_acquire(
        &self,
        thread: &str,
        name: &str,
        wait: Duration,
        lease: Option<Duration>,
    ) -> Reply<String> {
        let (wait, lease) = (millis(wait), lease.map_or("-1".to_owned(), millis));
        self.get(&format!("permit.tryacquire {thread} {name} {wait} {lease}"))
    }

    /// Throws if no such permit exists, or not any more.
    pub(crate) fn permit_release(&self, name: &str, id: &str) -> Reply<Result<(), Thrown>> {
        self.attempt(&format!("permit.release {name} {id}"))
    }

    pub(crate) fn permit_try_release(&self, name: &str, id: &str) -> Reply<bool> {
        self.get(&format!("permit.tryrelease {name} {id}"))
    }

    pub(crate) fn permit_available(&self, name: &str) -> Reply<i64> {
        self.get(&format!("permit.available {name}"))
    }

    pub(crate) fn permit_acquired(&self, name: &str) -> Reply<i64> {
        self.get(&format!("permit.acquired {name}"))
    }

    /// The number of permits, free or held.
    pub(crate) fn permit_total(&self, name: &str) -> Reply<i64> {
        self.get(&format!("permit.total {name}"))
    }
}
