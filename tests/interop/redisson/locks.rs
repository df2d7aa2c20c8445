//! Locks: all kinds as `kind:name`, and what only a fenced or only a fair lock can do.
//!
//! Kinds: `lock`, `nonreentrant`, `fair`, `nonreentrantfair`, `fenced`, `spin`, `read`, `write`;
//! `multi:a+b+c`, of plain locks; `red`, of a plain one on each server. `at:1:lock:a` is a lock on the
//! second server, others are on the first. A fenced lock's and a fair lock's own calls take the bare
//! name.

use std::time::Duration;

use super::{Redisson, Reply, Thrown, millis};

impl Redisson {
    /// Takes a lock on a thread; waits as long as it takes. Without a lease the watchdog renews it.
    pub(crate) fn lock(&self, thread: &str, lock: &str, lease: Option<Duration>) -> Reply<()> {
        let lease = lease.map(millis).unwrap_or_default();
        self.done(&format!("lock {thread} {lock} {lease}"))
    }

    /// Takes a lock that may refuse to be taken: one that is not reentrant.
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
        self.expect(&format!("trylock {thread} {lock} {wait} {lease}"))
    }

    pub(crate) fn unlock(&self, thread: &str, lock: &str) -> Reply<Result<(), Thrown>> {
        self.attempt(&format!("unlock {thread} {lock}"))
    }

    pub(crate) fn is_locked(&self, lock: &str) -> Reply<bool> {
        self.expect(&format!("islocked {lock}"))
    }

    pub(crate) fn is_held(&self, thread: &str, lock: &str) -> Reply<bool> {
        self.expect(&format!("isheld {thread} {lock}"))
    }

    pub(crate) fn hold_count(&self, thread: &str, lock: &str) -> Reply<u64> {
        self.expect(&format!("holdcount {thread} {lock}"))
    }

    /// Remaining milliseconds; -2 if it is free.
    pub(crate) fn ttl(&self, lock: &str) -> Reply<i64> {
        self.expect(&format!("ttl {lock}"))
    }

    pub(crate) fn force_unlock(&self, lock: &str) -> Reply<bool> {
        self.expect(&format!("forceunlock {lock}"))
    }

    /// Takes a fenced lock; its token.
    pub(crate) fn lock_token(
        &self,
        thread: &str,
        name: &str,
        lease: Option<Duration>,
    ) -> Reply<u64> {
        let lease = lease.map(millis).unwrap_or_default();
        self.expect(&format!("locktoken {thread} {name} {lease}"))
    }

    pub(crate) fn try_lock_token(
        &self,
        thread: &str,
        name: &str,
        wait: Duration,
        lease: Option<Duration>,
    ) -> Reply<Option<u64>> {
        let (wait, lease) = (millis(wait), lease.map_or("-1".to_owned(), millis));
        self.expect_option(&format!("trylocktoken {thread} {name} {wait} {lease}"))
    }

    /// The last token that anybody was given; 0 before the first.
    pub(crate) fn token(&self, name: &str) -> Reply<u64> {
        self.expect(&format!("token {name}"))
    }

    /// Waits for a fair lock, appends the thread's name to the list, holds and releases. The reply
    /// comes after that: false if the wait was over first.
    pub(crate) fn enter_fair(
        &self,
        thread: &str,
        name: &str,
        list: &str,
        hold: Duration,
        wait: Option<Duration>,
    ) -> Reply<bool> {
        let (hold, wait) = (millis(hold), wait.map(millis).unwrap_or_default());
        self.expect(&format!("fair.enter {thread} {name} {list} {hold} {wait}"))
    }
}
