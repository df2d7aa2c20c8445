//! Waits for the end of holds, and for waiters.

use std::time::Duration;

use leasehold::{Client, Ended, Lock, LockGuard, LossReason, Stats};
use tokio::time::{Instant, sleep};

use crate::{LIMIT, ms};

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
    until_stats(client, LIMIT, "the waiters wait", |stats| {
        stats.waiting == waiters
    })
    .await;
}

/// Waits until the statistics of a client are as expected. Panics with `what` and the statistics if they never are.
pub async fn until_stats(
    client: &Client,
    limit: Duration,
    what: &str,
    holds: impl Fn(&Stats) -> bool,
) {
    let deadline = Instant::now() + limit;
    loop {
        let stats = client.stats();
        if holds(&stats) {
            return;
        }
        let now = Instant::now();
        assert!(now < deadline, "not within {limit:?}: {what}: {stats:?}");
        sleep(ms(1)).await;
    }
}

/// Takes a lock that is free, and gives it back.
pub async fn take_and_release(lock: &Lock) {
    let guard = lock.lock().await.expect("free");
    guard.unlock().await.expect("held");
}
