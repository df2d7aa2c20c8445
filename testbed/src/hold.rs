//! Waits for the end of holds, and for waiters.

use leasehold::{Client, Ended, Lock, LockGuard, LossReason};

use crate::eventually;

/// Resolves when the hold has ended, which must be by a loss.
pub fn lost(guard: &LockGuard) -> impl Future<Output = LossReason> + Send + 'static {
    let ended = guard.ended();
    async move {
        match ended.await {
            Ended::Lost(reason) => reason,
            other => panic!("not lost: {other:?}"),
        }
    }
}

/// Waits until a client has this many waiters.
pub async fn waiting(client: &Client, waiters: u64) {
    let wait = || client.stats().waiting == waiters;
    eventually("the waiters wait", async || wait()).await;
}

/// Takes a lock that is free, and gives it back.
pub async fn take_and_release(lock: &Lock) {
    let guard = lock.lock().await.expect("free");
    guard.unlock().await.expect("held");
}
