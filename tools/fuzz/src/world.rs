//! Paused time, and time limits for calls.

use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::timeout;

/// The start of the panic message of a call that does not end.
pub(crate) const HANG: &str = "hang:";

pub(crate) const NOW: Duration = Duration::ZERO;

pub(crate) const fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

pub(crate) const fn secs(number: u64) -> Duration {
    Duration::from_secs(number)
}

/// Runs `work` on a new runtime with paused time.
pub(crate) fn paused<T>(work: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.expect("a runtime").block_on(work)
}

/// Awaits a call. Panics if it does not end within `limit`.
#[expect(clippy::panic, reason = "a broken promise ends the input")]
pub(crate) async fn within<T>(limit: Duration, call: &str, work: impl Future<Output = T>) -> T {
    let Ok(outcome) = timeout(limit, work).await else {
        panic!("{HANG} {call} has not ended within {limit:?}");
    };
    outcome
}
