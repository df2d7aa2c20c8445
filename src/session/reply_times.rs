//! How long a reply may take, learned from those that came.
//!
//! When a wait ends while a call is on its way, its reply still decides: the lock is had, or it is
//! not. How long to wait for it is the retransmission time-out of TCP (RFC 6298): the smoothed round
//! trip and four times its variation. Where that was too short, the undo that follows has the time of a
//! whole command, and its reply tells how long replies take now.

use std::time::Duration;

use parking_lot::Mutex;

/// A reply may be so much later than usual, however even the times were so far.
const LEAST: Duration = Duration::from_millis(25);
/// As long as no reply was seen.
const FIRST: Duration = Duration::from_millis(500);

/// The times of one client's replies.
///
/// Locks: taken alone, for a few sums.
#[derive(Debug)]
pub(crate) struct ReplyTimes {
    estimate: Mutex<Estimate>,
    most: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
struct Estimate {
    smoothed: Option<Duration>,
    variation: Duration,
}

impl ReplyTimes {
    /// None is longer than a command's time-out.
    pub(crate) fn new(most: Duration) -> Self {
        ReplyTimes { estimate: Mutex::default(), most }
    }

    /// A reply took so long.
    pub(crate) fn came_after(&self, time: Duration) {
        let mut estimate = self.estimate.lock();
        let (smoothed, variation) = match estimate.smoothed {
            None => (time, time / 2),
            Some(before) => {
                (before * 7 / 8 + time / 8, estimate.variation * 3 / 4 + before.abs_diff(time) / 4)
            }
        };
        *estimate = Estimate { smoothed: Some(smoothed), variation };
    }

    /// How long a reply may take beyond the wait before it counts as lost.
    pub(crate) fn grace(&self) -> Duration {
        let estimate = *self.estimate.lock();
        let usual = |smoothed| smoothed + LEAST.max(4 * estimate.variation);
        estimate.smoothed.map_or(FIRST, usual).min(self.most.max(LEAST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(span: u64) -> Duration {
        Duration::from_millis(span)
    }

    #[test]
    fn a_reply_has_as_long_as_replies_take() {
        let times = ReplyTimes::new(ms(1000));
        assert_eq!(times.grace(), FIRST, "nothing is known yet");
        times.came_after(ms(60));
        assert_eq!(times.grace(), ms(180));
        for _ in 0..50 {
            times.came_after(ms(60));
        }
        assert!(times.grace() >= ms(85) && times.grace() < ms(90), "{:?}", times.grace());
        for _ in 0..100 {
            times.came_after(ms(1));
        }
        assert!(times.grace() < ms(28), "{:?}", times.grace());
    }

    #[test]
    fn one_slow_reply_is_enough_to_wait_for_the_next() {
        let times = ReplyTimes::new(ms(1000));
        (0..100).for_each(|_| times.came_after(ms(1)));
        assert!(times.grace() < ms(30), "{:?}", times.grace());
        times.came_after(ms(100));
        assert!(times.grace() > ms(100), "{:?}", times.grace());
        (0..10).for_each(|_| times.came_after(ms(5000)));
        assert_eq!(times.grace(), ms(1000), "the time-out of a command ends it");
    }
}
