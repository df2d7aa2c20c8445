//! How long a reply may take, learned from those that came.
//!
//! When a wait ends while a call is on its way, its reply still decides: the lock is had, or it is
//! not. How long to wait for it is the retransmission time-out of TCP (RFC 6298): the smoothed round
//! trip and four times its variation, doubled each time that was too short.

use std::time::Duration;

use parking_lot::Mutex;

/// A reply may be so much later than usual, however even the times were so far.
const LEAST: Duration = Duration::from_millis(50);
/// As long as no reply was seen, and the most: a caller does not wait for an answer longer than that.
const MOST: Duration = Duration::from_millis(500);

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
    /// How often the time-out was too short since a reply came.
    doubled: u32,
}

impl ReplyTimes {
    pub(crate) fn new(command_timeout: Duration) -> Self {
        ReplyTimes { estimate: Mutex::default(), most: MOST.min(command_timeout) }
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
        *estimate = Estimate { smoothed: Some(smoothed), variation, doubled: 0 };
    }

    /// A reply did not come within [`grace`](ReplyTimes::grace).
    pub(crate) fn came_not(&self) {
        let mut estimate = self.estimate.lock();
        estimate.doubled = estimate.doubled.saturating_add(1);
    }

    /// How long a reply may take beyond the wait before it counts as lost.
    pub(crate) fn grace(&self) -> Duration {
        let estimate = *self.estimate.lock();
        let usual = |smoothed| smoothed + LEAST.max(4 * estimate.variation);
        let doubled = 2_u32.saturating_pow(estimate.doubled);
        estimate.smoothed.map_or(MOST, usual).saturating_mul(doubled).min(self.most)
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
        assert_eq!(times.grace(), MOST, "nothing is known yet");
        times.came_after(ms(60));
        assert_eq!(times.grace(), ms(180));
        (0..50).for_each(|_| times.came_after(ms(60)));
        assert!(times.grace() >= ms(110) && times.grace() < ms(115), "{:?}", times.grace());
        (0..100).for_each(|_| times.came_after(ms(1)));
        assert!(times.grace() < ms(53), "{:?}", times.grace());
    }

    #[test]
    fn what_was_too_short_is_doubled_up_to_the_most() {
        let times = ReplyTimes::new(ms(1000));
        times.came_after(ms(5));
        for span in [55, 110, 220, 440, 500, 500] {
            assert_eq!(times.grace(), ms(span));
            times.came_not();
        }
        (0..100).for_each(|_| times.came_not());
        assert_eq!(times.grace(), MOST);
        times.came_after(ms(5));
        assert!(times.grace() < ms(65), "{:?}", times.grace());
        (0..10).for_each(|_| times.came_after(ms(5000)));
        assert_eq!(times.grace(), MOST, "a stall does not count for more");
        assert_eq!(ReplyTimes::new(ms(100)).grace(), ms(100), "nor does a command take longer");
    }
}
