//! Waiting in a runtime, whose time may be paused.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

/// How long anything may take that is expected to happen.
pub const LIMIT: Duration = Duration::from_secs(30);

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

/// The outcome of a future that is expected to end.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let done = timeout(LIMIT, Box::pin(future)).await;
    done.unwrap_or_else(|_| panic!("not within {LIMIT:?}: {what}"))
}
