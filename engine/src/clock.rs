//! The engine's clock is tokio's, so that expiries are exact under paused time.

use std::time::Duration;

use tokio::time::Instant;

/// Epoch time starts at a fixed moment, so that runs are reproducible.
const START_US: i64 = 1_700_000_000_000_000;

#[derive(Debug)]
pub(crate) struct Clock {
    origin: Instant,
    /// Epoch microseconds at `origin`. [`Clock::jump`] moves it.
    base_us: i64,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Clock {
            origin: Instant::now(),
            base_us: START_US,
        }
    }

    pub(crate) fn now_us(&self) -> i64 {
        self.base_us.saturating_add(micros(self.origin.elapsed()))
    }

    /// Moves the server's clock forward, so that keys expire early.
    pub(crate) fn jump(&mut self, by: Duration) {
        self.base_us = self.base_us.saturating_add(micros(by));
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}
