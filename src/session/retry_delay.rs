//! When a waiter asks again without having been notified.

use std::time::Duration;

use super::calls::Calls;
use super::jittered;
use super::lock_settings::LockSettings;
use crate::protocol::kind::{Kind, WaitMode};

/// The first pause of a waiter that would listen if there were messages.
const FIRST: Duration = Duration::from_millis(10);

/// The pauses of one wait.
pub(super) struct RetryDelay {
    pauses: Pauses,
    /// How often the waiter may still ask again; `None` if there is no limit.
    retries: Option<u32>,
}

/// What wakes a waiter.
enum Pauses {
    /// A message. Messages can be lost, so the waiter may also poll at this interval.
    Listen { poll: Option<Duration> },
    /// Nothing: the kind of lock has no messages, or the server has none.
    Poll(GrowingPause),
}

/// Pauses that grow to a maximum, with jitter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrowingPause {
    first: Duration,
    longest: Duration,
    pauses: u32,
}

impl GrowingPause {
    pub(crate) fn new((first, longest): (Duration, Duration)) -> Self {
        GrowingPause {
            first,
            longest,
            pauses: 0,
        }
    }

    pub(crate) fn next(&mut self) -> Duration {
        let grown = self
            .first
            .saturating_mul(1 << self.pauses)
            .min(self.longest);
        self.pauses = (self.pauses + 1).min(16);
        // Between half of the pause and all of it, so that clients that started together drift
        // apart.
        grown.mul_f64(0.5 + 0.5 * fastrand::f64())
    }
}

impl RetryDelay {
    pub(super) fn new(calls: &Calls, kind: Kind, settings: &LockSettings) -> Self {
        let pauses = match kind.wait_mode() {
            mode if mode.listens() && calls.polls_only() => {
                let longest = settings.safety_poll(&calls.settings);
                Pauses::Poll(GrowingPause::new((FIRST.min(longest), longest)))
            }
            // The safety poll of the client covers these waiters.
            WaitMode::Listen => Pauses::Listen {
                poll: settings.safety_poll,
            },
            WaitMode::ListenAndPoll => Pauses::Listen {
                poll: Some(settings.safety_poll(&calls.settings)),
            },
            WaitMode::Poll { first, longest } => {
                let range = settings.retry_pause.unwrap_or((first, longest));
                Pauses::Poll(GrowingPause::new(range))
            }
        };
        RetryDelay {
            pauses,
            retries: settings.retry_count,
        }
    }

    /// The server has no messages after all.
    pub(super) fn polls_if_needed(&mut self, calls: &Calls, kind: Kind, settings: &LockSettings) {
        if calls.polls_only() {
            *self = RetryDelay::new(calls, kind, settings);
        }
    }

    /// The lock was held. True if the waiter has asked as often as it may.
    pub(super) fn is_over(&mut self) -> bool {
        match &mut self.retries {
            None => false,
            Some(0) => true,
            Some(retries) => {
                *retries -= 1;
                false
            }
        }
    }

    pub(super) fn listens(&self) -> bool {
        matches!(self.pauses, Pauses::Listen { .. })
    }

    /// The next pause, which ends at the latest when the current hold expires.
    pub(super) fn next(&mut self, left: Option<Duration>) -> Option<Duration> {
        let ends = left.map(|left| left + expiry_jitter());
        let pause = match &mut self.pauses {
            Pauses::Listen { poll } => poll.map(jittered),
            Pauses::Poll(pause) => Some(pause.next()),
        };
        ends.into_iter().chain(pause).min()
    }
}

/// Waiters of many clients see the same remaining lease and must not all ask at the same moment.
fn expiry_jitter() -> Duration {
    Duration::from_micros(fastrand::u64(1_000..10_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(span: u64) -> Duration {
        Duration::from_millis(span)
    }

    fn delay(pauses: Pauses, seed: u64) -> RetryDelay {
        fastrand::seed(seed);
        RetryDelay {
            pauses,
            retries: None,
        }
    }

    fn asks(seed: u64) -> RetryDelay {
        delay(Pauses::Poll(GrowingPause::new((ms(4), ms(100)))), seed)
    }

    fn listens(seed: u64) -> RetryDelay {
        delay(Pauses::Listen { poll: None }, seed)
    }

    fn listens_and_polls(seed: u64) -> RetryDelay {
        let poll = Some(ms(1000));
        delay(Pauses::Listen { poll }, seed)
    }

    #[test]
    fn a_waiter_asks_again_no_more_often_than_its_retry_count() {
        for retries in 0..5 {
            let mut delay = RetryDelay {
                retries: Some(retries),
                ..asks(1)
            };
            assert!((0..retries).all(|_| !delay.is_over()));
            assert!(delay.is_over() && delay.is_over());
        }
        let mut delay = asks(1);
        assert!((0..1000).all(|_| !delay.is_over()));
    }

    #[test]
    fn equal_pauses_do_not_grow() {
        let mut pause = GrowingPause::new((ms(40), ms(40)));
        assert!(
            (0..1000)
                .map(|_| pause.next())
                .all(|pause| pause >= ms(20) && pause <= ms(40))
        );
    }

    fn pauses(seed: u64, number: usize) -> Vec<Duration> {
        let mut delay = asks(seed);
        (0..number)
            .map(|_| delay.next(None).expect("asked again"))
            .collect()
    }

    #[test]
    fn pauses_of_a_polling_waiter_double_up_to_the_longest() {
        for seed in 0..1000 {
            // More pauses than a number of milliseconds has bits.
            let spans = [4, 8, 16, 32, 64].into_iter().chain([100; 95]);
            for (pause, whole) in pauses(seed, 100).into_iter().zip(spans) {
                assert!(
                    pause >= ms(whole) / 2 && pause <= ms(whole),
                    "{pause:?} of {whole} ms"
                );
            }
        }
    }

    #[test]
    fn polling_waiters_do_not_act_in_step() {
        let (one, other) = (pauses(1, 20), pauses(2, 20));
        assert!(
            one.iter().zip(&other).all(|(one, other)| one != other),
            "{one:?} {other:?}"
        );
        let longest = one[5..].iter().collect::<std::collections::BTreeSet<_>>();
        assert_eq!(longest.len(), 15, "{one:?}");
    }

    #[test]
    fn no_pause_is_longer_than_what_is_left_of_the_holders_lease() {
        for seed in 0..1000 {
            for left in [0, 3, 40].map(ms) {
                let mut asks = asks(seed);
                for _ in 0..20 {
                    let pause = asks.next(Some(left)).expect("asked again");
                    assert!(pause < left + ms(10), "{pause:?} of {left:?}");
                }
                let pause = listens(seed).next(Some(left)).expect("it ends");
                assert!(
                    pause > left && pause < left + ms(10),
                    "{pause:?} of {left:?}"
                );
                let polls = listens_and_polls(seed).next(Some(left)).expect("it ends");
                assert!(
                    polls > left && polls < left + ms(10),
                    "{polls:?} of {left:?}"
                );
            }
        }
    }

    #[test]
    fn a_listening_waiter_without_an_expiry_waits_for_a_message() {
        assert_eq!(listens(1).next(None), None);
        let polls = listens_and_polls(1).next(None).expect("polled");
        assert!(polls >= ms(800) && polls <= ms(1200), "{polls:?}");
    }
}
