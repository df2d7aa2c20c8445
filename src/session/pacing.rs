//! When a waiter asks again if nobody tells it to.

use std::time::Duration;

use super::{Session, jittered};
use crate::protocol::kind::Pace;

/// The pauses of one wait.
pub(super) struct Pacing {
    pace: Pace,
    poll: Duration,
    pauses: u32,
}

impl Pacing {
    pub(super) fn new(session: &Session, pace: Pace) -> Self {
        Pacing { pace, poll: session.settings.poll, pauses: 0 }
    }

    pub(super) fn listens(&self) -> bool {
        self.pace.listens()
    }

    /// The next pause, at most until what is in the way ends by itself.
    pub(super) fn next(&mut self, left: Option<Duration>) -> Option<Duration> {
        let ends = left.map(|left| left + expiry_jitter());
        let pause = match self.pace {
            Pace::Told => return ends,
            Pace::ToldOrPoll => jittered(self.poll),
            Pace::Ask { first_ms, most_ms } => {
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

    const ASKS: Pace = Pace::Ask { first_ms: 4, most_ms: 100 };

    fn ms(span: u64) -> Duration {
        Duration::from_millis(span)
    }

    fn pacing(pace: Pace, seed: u64) -> Pacing {
        fastrand::seed(seed);
        Pacing { pace, poll: ms(1000), pauses: 0 }
    }

    fn pauses(seed: u64, number: usize) -> Vec<Duration> {
        let mut pacing = pacing(ASKS, seed);
        (0..number).map(|_| pacing.next(None).expect("it asks again")).collect()
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
                let mut asks = pacing(ASKS, seed);
                for _ in 0..20 {
                    let pause = asks.next(Some(left)).expect("it asks again");
                    assert!(pause < left + ms(10), "{pause:?} of {left:?}");
                }
                let told = pacing(Pace::Told, seed).next(Some(left)).expect("it ends");
                assert!(told > left && told < left + ms(10), "{told:?} of {left:?}");
                let polls = pacing(Pace::ToldOrPoll, seed).next(Some(left)).expect("it ends");
                assert!(polls > left && polls < left + ms(10), "{polls:?} of {left:?}");
            }
        }
    }

    #[test]
    fn where_nothing_ends_by_itself_who_is_told_waits_for_that() {
        assert_eq!(pacing(Pace::Told, 1).next(None), None);
        let polls = pacing(Pace::ToldOrPoll, 1).next(None).expect("it polls");
        assert!(polls >= ms(800) && polls <= ms(1200), "{polls:?}");
    }
}
