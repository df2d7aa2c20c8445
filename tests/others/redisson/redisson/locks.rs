//! Locks of all kinds, written `kind:name`.
//!
//! Kinds: `lock`, `nonreentrant`, `fair`, `nonreentrantfair`, `fenced`, `spin`, `read`, `write`;
//! `multi:a+b+c` of plain locks; `red` of one plain lock on each server. `at:1:lock:a` is a lock on
//! the second server; without `at`, it is on the first.

use std::time::Duration;

use leasehold_others::{Reply, Thrown};

use super::{Redisson, millis};
use crate::harness::NEARLY_WHOLE;

impl Redisson {
    /// Takes a lock on a thread, without a limit for the wait. Without a lease, the watchdog renews
    /// it.
    pub(crate) fn lock(&self, thread: &str, lock: &str, lease: Option<Duration>) -> Reply<()> {
        let lease = lease.map(millis).unwrap_or_default();
        self.done(&format!("lock {thread} {lock} {lease}"))
    }

    /// The same for a lock that may throw: a non-reentrant one that the thread holds.
    pub(crate) fn lock_or_throw(&self, thread: &str, lock: &str) -> Reply<Result<(), Thrown>> {
        self.attempt(&format!("lock {thread} {lock}"))
    }

    pub(crate) fn try_lock(
        &self,
        thread: &str,
        lock: &str,
        wait: Duration,
        lease: Option<Duration>,
    ) -> Reply<bool> {
        let (wait, lease) = (millis(wait), lease.map_or("-1".to_owned(), millis));
        self.get(&format!("trylock {thread} {lock} {wait} {lease}"))
    }

    pub(crate) fn unlock(&self, thread: &str, lock: &str) -> Reply<Result<(), Thrown>> {
        self.attempt(&format!("unlock {thread} {lock}"))
    }

    pub(crate) fn is_locked(&self, lock: &str) -> Reply<bool> {
        self.get(&format!("islocked {lock}"))
    }

    pub(crate) fn is_held(&self, thread: &str, lock: &str) -> Reply<bool> {
        self.get(&format!("isheld {thread} {lock}"))
    }

    pub(crate) fn hold_count(&self, thread: &str, lock: &str) -> Reply<u64> {
        self.get(&format!("holdcount {thread} {lock}"))
    }

    /// Checks that a lease of 30 s was taken or renewed a moment ago.
    pub(crate) async fn assert_nearly_whole(&self, lock: &str) {
        let left = self.get(&format!("ttl {lock}")).await;
        assert!(NEARLY_WHOLE.contains(&left), "{lock}: {left} ms");
    }

    /// Checks that this thread cannot release a lock.
    pub(crate) async fn assert_not_held(&self, thread: &str, lock: &str) {
        let refused = self.unlock(thread, lock).await;
        let refused = refused.expect_err("it is not held");
        assert!(
            refused.0.starts_with("IllegalMonitorStateException"),
            "{refused:?}"
        );
    }

    pub(crate) fn force_unlock(&self, lock: &str) -> Reply<bool> {
        self.get(&format!("forceunlock {lock}"))
    }

    /// Waits for a fair lock, appends the thread's name to the list, holds the lock for a while and
    /// releases it. Replies after the release, or with false if the wait timed out.
    pub(crate) fn enter_fair(
        &self,
        thread: &str,
        name: &str,
        list: &str,
        hold: Duration,
        wait: Option<Duration>,
    ) -> Reply<bool> {
        let (hold, wait) = (millis(hold), wait.map(millis).unwrap_or_default());
        self.get(&format!("fair.enter {thread} {name} {list} {hold} {wait}"))
    }
}
