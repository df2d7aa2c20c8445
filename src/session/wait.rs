//! How long a caller waits for a lock.

use std::time::Duration;

use tokio::time::Instant;

use crate::lease::Lease;

/// How long a caller waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// One question, one answer.
    Once,
    Until(Instant),
    Forever,
}

impl Wait {
    /// There is no time for another question.
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
    /// The wait begins now. Zero is one question; longer than a timer can count is for ever.
    fn from(wait: Duration) -> Self {
        if wait.is_zero() {
            return Wait::Once;
        }
        // Tokio's timers reach about two years.
        if wait > Lease::MAX {
            Wait::Forever
        } else {
            Wait::Until(Instant::now() + wait)
        }
    }
}
