//! Waiting on a thread.

use std::time::{Duration, Instant};

/// Polls a condition; panics with `what` if it does not hold within `limit`. Blocks the thread.
pub fn wait_until(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !holds() {
        assert!(
            Instant::now() < deadline,
            "still not after {limit:?}: {what}"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}
