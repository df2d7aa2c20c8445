//! Waits for the end of holds, and for waiters.

use std::time::Duration;

use leasehold::{
    Client, Ended, Error, Guard, HoldState, Lease, Lock, LockGuard, LossReason, Stats,
};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::{LIMIT, SOON, eventually, ms, within};

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

/// Waits until a guard is certain. A renewal or a verification may be under way.
pub async fn until_certain(guard: &LockGuard) {
    let what = format!("`{}` is certain", guard.name());
    eventually(&what, async || guard.state() == HoldState::Held).await;
}

/// How many times Redis says that the lock is held by its holder; 0 if it is free.
pub async fn holds<G: Guard>(lock: &Lock<G>) -> Result<u64, Error> {
    let holder = lock.holder().await?;
    Ok(holder.map_or(0, |holder| holder.holds))
}

/// Waits until a client has this many waiters.
pub async fn waiting(client: &Client, waiters: u64) {
    until_stats(client, LIMIT, "the waiters wait", |stats| {
        stats.waiting == waiters
    })
    .await;
}

/// Waits until the statistics of a client are as expected. Panics with `what` and the statistics if
/// they never are.
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

/// Takes a lock that is free now or gets free, and releases it.
pub async fn take_and_release(lock: &Lock) {
    let taken = within(LIMIT, "it is free", lock.lock()).await;
    release(taken).await;
}

/// Checks that nobody holds a lock.
pub async fn assert_free(lock: &Lock) {
    release(lock.try_lock_now(Lease::Renewed).await).await;
}

/// Waits until a task has its lock, long before a lease of 30 s ends, and releases the lock.
pub async fn take_turn(what: &str, waiter: JoinHandle<Result<LockGuard, Error>>) {
    let taken = within(SOON, what, waiter).await;
    release(taken.expect("no panic")).await;
}

/// Releases a lock that must have been granted.
pub async fn release(taken: Result<LockGuard, Error>) {
    let guard = taken.expect("it is free");
    guard.unlock().await.expect("it is held");
}

/// Forgets the guard of a string lock. Its hold can be restored by the returned owner.
pub fn forget(guard: LockGuard) -> String {
    let owner = guard.owner().to_owned();
    guard.forget();
    owner
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "callers write the reason down"
)]
pub fn assert_lost(error: &Error, why: LossReason) {
    assert!(
        matches!(error, Error::Lost { reason, .. } if *reason == why),
        "{error}"
    );
}

/// Whether a timeout says that the lock never expires; `None` for other errors.
pub fn no_expiry(error: &Error) -> Option<bool> {
    match error {
        Error::Timeout { in_the_way, .. } => {
            let holder = in_the_way.as_ref();
            Some(holder.is_some_and(|holder| holder.lease.is_none()))
        }
        _ => None,
    }
}
