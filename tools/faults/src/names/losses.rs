//! Tells losses that a stall of the machine explains from those that it does not.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The losses of a run so far.
pub(super) struct Losses {
    lease: Duration,
    /// Delays of a timer within the last lease, and when they ended.
    stalls: VecDeque<(Instant, Duration)>,
    seen: u64,
    explained: u64,
}

impl Losses {
    pub(super) fn with_lease(lease: Duration) -> Self {
        Losses {
            lease,
            stalls: VecDeque::new(),
            seen: 0,
            explained: 0,
        }
    }

    /// A timer of the process was late by this, and the clients have counted so many losses.
    ///
    /// A hold is renewed in each third of its lease. So the stalls within a lease must have taken
    /// at least such a third, or they have cost no hold.
    pub(super) fn look(&mut self, now: Instant, late: Duration, lost: u64) {
        let new = lost.saturating_sub(std::mem::replace(&mut self.seen, lost));
        self.stalls.push_back((now, late));
        self.stalls
            .retain(|(ended, _)| now.duration_since(*ended) <= self.lease);
        let stalled: Duration = self.stalls.iter().map(|(_, late)| *late).sum();
        if stalled >= self.lease / 3 {
            self.explained += new;
        }
    }

    pub(super) fn explained(&self) -> u64 {
        self.explained
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(3);

    /// The explained ones of three losses, after a stall and so much time.
    fn explained(stalled_ms: u64, after_ms: u64) -> u64 {
        let (mut losses, begin) = (Losses::with_lease(LEASE), Instant::now());
        losses.look(begin, Duration::from_millis(stalled_ms), 0);
        let then = begin + Duration::from_millis(after_ms);
        losses.look(then, Duration::ZERO, 3);
        losses.explained()
    }

    #[test]
    fn only_a_long_stall_shortly_before_explains_a_loss() {
        assert_eq!(explained(1_000, 3_000), 3);
        assert_eq!(explained(999, 3_000), 0);
        assert_eq!(explained(1_000, 3_001), 0);
    }

    #[test]
    fn short_stalls_add_up() {
        let (mut losses, begin) = (Losses::with_lease(LEASE), Instant::now());
        for at in 1..=4 {
            let then = begin + Duration::from_millis(at * 500);
            losses.look(then, Duration::from_millis(250), at);
        }
        assert_eq!(losses.explained(), 1);
    }
}
