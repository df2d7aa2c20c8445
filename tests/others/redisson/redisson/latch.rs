//! Count-down latches. The thread in a request matters only for waiting.

use std::time::Duration;

use leasehold_others::Reply;

use super::{Redisson, millis};

impl Redisson {
    /// Whether the latch had no count yet.
    pub(crate) fn latch_set(&self, name: &str, count: u64) -> Reply<bool> {
        self.get(&format!("latch.set {name} {count}"))
    }

    pub(crate) fn latch_count_down(&self, name: &str) -> Reply<()> {
        self.done(&format!("latch.countdown {name}"))
    }

    pub(crate) fn latch_count(&self, name: &str) -> Reply<u64> {
        self.get(&format!("latch.count {name}"))
    }

    /// Whether the latch existed. Threads that wait for it keep waiting.
    pub(crate) fn latch_delete(&self, name: &str) -> Reply<bool> {
        self.get(&format!("latch.delete {name}"))
    }

    /// Whether the count reached 0 within `wait`. Without a wait, always true.
    pub(crate) fn latch_wait(
        &self,
        thread: &str,
        name: &str,
        wait: Option<Duration>,
    ) -> Reply<bool> {
        let wait = wait.map(millis).unwrap_or_default();
        self.get(&format!("latch.await {thread} {name} {wait}"))
    }
}
