//! How long a caller waits for a lock.

use std::time::Duration;

use tokio::time::Instant;

use crate::lease::Lease;

/// How long a caller waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Ask once, and do not wait.
    Once,
    Until(Instant),
    Forever,
}

impl Wait {
    /// There is no time for another call.
    pub(crate) fn is_over(self) -> bool {
        match self {
            Wait::Once => true,
            Wait::Until(deadline) => Instant::now() >= deadline,
            Wait::Forever => false,
        }
    }

    pub(crate) fn deadline(self) -> Option<Instant> {
        if let Wait::Until(deadline) = self {
            Some(deadline)
        } else {
            None
        }
    }
}

impl From<Duration> for Wait {
    /// The wait begins now. Zero means one call. More than a timer can count means forever.
    fn from(wait: Duration) -> Self {
        if wait.is_zero() {
            return Wait::Once;
        }
        // Tokio's timers reach only about two years.
        if wait > Lease::MAX {
            Wait::Forever
        } else {
            Wait::Until(Instant::now() + wait)
        }
    }
}
