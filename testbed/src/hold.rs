//! What becomes of a hold.

use leasehold::{Ended, LockGuard, LossReason};

/// Resolves when the hold has come to its end, which must be a loss.
pub fn lost(guard: &LockGuard) -> impl Future<Output = LossReason> + Send + 'static {
    let ended = guard.ended();
    async move {
        match ended.await {
            Ended::Lost(reason) => reason,
            other => panic!("not lost: {other:?}"),
        }
    }
}
