//! Orders for the workers of a client process, and time spans on the command line.

use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use crate::clock;

/// A range of milliseconds, written `FIRST-LAST`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span(u64, u64);

impl Span {
    pub(crate) fn pick(self, random: &mut fastrand::Rng) -> Duration {
        Duration::from_millis(random.u64(self.0..=self.1))
    }
}

impl std::fmt::Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.0, self.1)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse().map_err(|error| format!("{text}: {error}"));
        let (first, last) = text.split_once('-').ok_or("expected FIRST-LAST")?;
        let span = Span(number(first)?, number(last)?);
        if span.0 <= span.1 {
            Ok(span)
        } else {
            Err("the first is more than the last".into())
        }
    }
}

/// Orders that workers check between two steps.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    pub(crate) stop: AtomicBool,
    /// Until this time of the monotonic clock, the first worker that has checked its guard and is
    /// about to write stops the process. The worker writes when the process continues. Zero if
    /// there is no such order.
    pub(crate) freeze_before_write: AtomicU64,
}

impl Orders {
    /// Whether the calling worker must stop the process. True for one caller only.
    pub(crate) fn is_to_freeze(&self) -> bool {
        clock::monotonic() < self.freeze_before_write.swap(0, SeqCst)
    }
}
