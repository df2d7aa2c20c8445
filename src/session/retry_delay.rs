//! When a waiter asks again if nobody tells it to.

use std::time::Duration;

use super::{Session, jittered};
use crate::protocol::kind::WaitMode;

/// The pauses of one wait.
pub(super) struct RetryDelay {
    wait_mode: WaitMode,
    poll: Duration,
    pauses: u32,
}

impl RetryDelay {
    pub(super) fn new(session: &Session, wait_mode: WaitMode) -> Self {
        RetryDelay { wait_mode, poll: session.settings.safety_poll, pauses: 0 }
    }

    pub(super) fn listens(&self) -> bool {
        self.wait_mode.listens()
    }

    /// The next pause, at most until what is in the way ends by itself.
    pub(super) fn next(&mut self, left: Option<Duration>) -> Option<Duration> {
        let ends = left.map(|left| left + expiry_jitter());
        let pause = match self.wait_mode {
            WaitMode::Listen => return ends,
            WaitMode::ListenAndPoll => jittered(self.poll),
            WaitMode::Poll { first_ms, most_ms } => {
                let grown = first_ms.checked_shl(self.pauses).unwrap_or(most_ms).min(most_ms);
                self.pauses = (self.pauses + 1).min(16);
                // Between half of it and all: clients that began together drift apart.
                Duration::from_millis(grown).mul_f64(0.5 + 0.5 * fastrand::f64())
            }
        };
        Some(ends.map_or(pause, |ends| ends.min(pause)))
    }
}

/// Waiters of many clients see the same remaining lease; they should not ask at the same moment.
fn expiry_jitter() -> Duration {
    Duration::from_micros(fastrand::u64(1_000..10_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKS: WaitMode = WaitMode::Poll { first_ms: 4, most_ms: 100 };

    fn ms(span: u64) -> Duration {
        Duration::from_millis(span)
    }

    fn delay(wait_mode: WaitMode, seed: u64) -> RetryDelay {
        fastrand::seed(seed);
        RetryDelay { wait_mode, poll: ms(1000), pauses: 0 }
    }

    fn pauses(seed: u64, number: usize) -> Vec<Duration> {
        let mut delay = delay(ASKS, seed);
        (0..number).map(|_| delay.next(None).expect("it asks again")).collect()
    }

    #[test]
    fn who_asks_pauses_twice_as_long_each_time_up_to_the_longest() {
        for seed in 0..1000 {
            // Many more than bits in a number of milliseconds.
            let spans = [4, 8, 16, 32, 64].into_iter().chain([100; 95]);
            for (pause, whole) in pauses(seed, 100).into_iter().zip(spans) {
                assert!(pause >= ms(whole) / 2 && pause <= ms(whole), "{pause:?} of {whole} ms");
            }
        }
    }

    #[test]
    fn who_asks_does_not_move_in_step() {
        let (one, other) = (pauses(1, 20), pauses(2, 20));
        assert!(one.iter().zip(&other).all(|(one, other)| one != other), "{one:?} {other:?}");
        let longest = one[5..].iter().collect::<std::collections::BTreeSet<_>>();
        assert_eq!(longest.len(), 15, "{one:?}");
    }

    #[test]
    fn no_pause_is_longer_than_what_is_left_of_the_holders_lease() {
        for seed in 0..1000 {
            for left in [0, 3, 40].map(ms) {
                let mut asks = delay(ASKS, seed);
                for _ in 0..20 {
                    let pause = asks.next(Some(left)).expect("it asks again");
                    assert!(pause < left + ms(10), "{pause:?} of {left:?}");
                }
                let told = delay(WaitMode::Listen, seed).next(Some(left)).expect("it ends");
                assert!(told > left && told < left + ms(10), "{told:?} of {left:?}");
                let polls = delay(WaitMode::ListenAndPoll, seed).next(Some(left)).expect("it ends");
                assert!(polls > left && polls < left + ms(10), "{polls:?} of {left:?}");
            }
        }
    }

    #[test]
    fn where_nothing_ends_by_itself_who_is_told_waits_for_that() {
        assert_eq!(delay(WaitMode::Listen, 1).next(None), None);
        let polls = delay(WaitMode::ListenAndPoll, 1).next(None).expect("it polls");
        assert!(polls >= ms(800) && polls <= ms(1200), "{polls:?}");
    }
}
