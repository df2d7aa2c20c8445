//! Waiting in a runtime, whose time may be paused.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

/// How long anything may take that is expected to happen.
pub const LIMIT: Duration = Duration::from_secs(30);
/// The same, of what must not be due to the end of a lease of 30 s.
pub const SOON: Duration = Duration::from_secs(10);

pub const fn ms(span: u64) -> Duration {
    Duration::from_millis(span)
}

/// Waits for a condition; panics with `what` if it does not come true.
pub async fn eventually(what: &str, holds: impl AsyncFnMut() -> bool) {
    eventually_within(LIMIT, what, holds).await;
}

/// Waits for a condition that comes true within a limit of its own.
pub async fn eventually_within(limit: Duration, what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !holds().await {
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        sleep(ms(1)).await;
    }
}

/// Starts waiters until one of them is listed beside the lock. A client begins to listen when it
/// waits for the first time, so that one may not be listed.
pub async fn until_listed<T>(
    mut waits: impl FnMut() -> JoinHandle<T>,
    mut is_listed: impl AsyncFnMut() -> bool,
) -> JoinHandle<T> {
    for tries in 0.. {
        assert!(tries < 50, "nobody is listed");
        let waiter = waits();
        let listed = eventually("it is listed", &mut is_listed);
        if timeout(ms(200), listed).await.is_ok() {
            return waiter;
        }
        waiter.abort();
    }
    unreachable!("it tries at most fifty times")
}

/// The outcome of a future that is expected to end.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    within(LIMIT, what, future).await
}

/// The outcome of a future that must end within a limit of its own.
pub async fn within<T>(limit: Duration, what: &str, future: impl Future<Output = T>) -> T {
    let done = timeout(limit, Box::pin(future)).await;
    done.unwrap_or_else(|_| panic!("not within {limit:?}: {what}"))
}

/// The outcome of a future in which many take turns with a lock. It has twice the time, because
/// each turn takes longer on a busy machine, but less than a lease of 30 s.
pub async fn in_turns<T>(what: &str, future: impl Future<Output = T>) -> T {
    within(SOON * 2, what, future).await
}

/// The outcome of a future that no lease ends, and how long it took.
pub async fn timed<T>(what: &str, future: impl Future<Output = T>) -> (T, Duration) {
    let start = Instant::now();
    let done = within(SOON, what, future).await;
    (done, start.elapsed())
}
