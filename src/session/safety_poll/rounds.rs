//! When which waiters are looked after: a round for each span between two polls that a waiter wants.
//!
//! # Invariants
//!
//! - **ROUNDS-1** There is a round for each span of a waiter that is in a queue: a waiter joins it after it has
//!   entered the queue, and a round that ends is taken out before the queues are looked through.
//!
//! # Bounds
//!
//! One round for the client's span, and one for each other span of the waiters that there are, on a grid of ten for
//! each power of ten. A round looks through all queues: all rounds together do so five times as often as the shortest.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::session::jittered;
use crate::sync::{Mutex, Notify};

/// What rounds take, in tenths of a power of ten milliseconds.
const GRID: [u64; 10] = [80, 60, 50, 40, 30, 25, 20, 15, 12, 10];

#[derive(Debug)]
pub(in crate::session) struct Rounds {
    /// The client's span. Its round never ends, so that most waiters have nothing to join.
    usual: Duration,
    due: Mutex<Due>,
    sooner: Notify,
}

#[derive(Debug)]
struct Due {
    usual: Instant,
    others: BTreeMap<Duration, Instant>,
}

impl Rounds {
    pub(in crate::session) fn new(usual: Duration) -> Self {
        let due = Due {
            usual: Instant::now() + jittered(usual),
            others: BTreeMap::new(),
        };
        Rounds {
            usual,
            due: Mutex::new(due),
            sooner: Notify::new(),
        }
    }

    /// The span of the round of a waiter that wants to be looked after so often: at most a quarter shorter, so that
    /// rounds are few.
    pub(in crate::session) fn span_of(&self, every: Duration) -> Duration {
        let ms = u64::try_from(every.as_millis()).unwrap_or(u64::MAX);
        let tens = 10_u64.pow(ms.max(10).ilog10() - 1);
        let shorter = GRID
            .iter()
            .map(|tenths| tenths * tens)
            .find(|span| *span <= ms);
        shorter
            .filter(|_| every != self.usual)
            .map_or(every, Duration::from_millis)
    }

    /// A waiter wants to be looked after so often.
    pub(in crate::session) fn join(&self, every: Duration) {
        if every == self.usual {
            return;
        }
        let mut due = self.due.lock();
        let before = due.next();
        let at = *due
            .others
            .entry(every)
            .or_insert_with(|| Instant::now() + jittered(every));
        drop(due);
        if at < before {
            self.sooner.notify_one();
        }
    }

    /// When the next round is due.
    pub(super) fn next(&self) -> Instant {
        self.due.lock().next()
    }

    /// There is a round before the one that was the next.
    pub(super) async fn sooner(&self) {
        self.sooner.notified().await;
    }

    /// The spans whose rounds are due. All but the client's end with that, until somebody joins them.
    pub(super) fn take_due(&self, now: Instant) -> Vec<Duration> {
        let mut due = self.due.lock();
        let mut taken: Vec<_> = due
            .others
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(every, _)| *every)
            .collect();
        due.others.retain(|_, at| *at > now);
        if due.usual <= now {
            due.usual = now + jittered(self.usual);
            taken.push(self.usual);
        }
        taken
    }
}

impl Due {
    fn next(&self) -> Instant {
        self.others
            .values()
            .copied()
            .chain([self.usual])
            .min()
            .unwrap_or(self.usual)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const USUAL: Duration = Duration::from_secs(10);
    const OWN: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn the_clients_round_goes_on_and_another_ends_when_nobody_joins_it() {
        let rounds = Rounds::new(USUAL);
        rounds.join(USUAL);
        assert!(rounds.next() >= Instant::now() + USUAL.mul_f64(0.8));
        rounds.join(OWN);
        rounds.sooner().await;
        let first = rounds.next();
        assert!(
            first <= Instant::now() + OWN.mul_f64(1.2),
            "the shorter one is next"
        );
        rounds.join(OWN);
        assert_eq!(rounds.next(), first, "a second waiter puts nothing off");
        assert!(rounds.take_due(Instant::now()).is_empty(), "none is due");
        advance(OWN.mul_f64(1.2)).await;
        assert_eq!(rounds.take_due(Instant::now()), [OWN]);
        assert!(
            rounds.next() > Instant::now() + OWN.mul_f64(1.2),
            "it has ended"
        );
        for _ in 0..3 {
            advance(USUAL.mul_f64(1.2)).await;
            assert_eq!(rounds.take_due(Instant::now()), [USUAL]);
        }
    }

    /// Each round looks through all queues.
    #[tokio::test(start_paused = true)]
    async fn however_many_spans_there_are_the_rounds_are_few() {
        let rounds = Rounds::new(USUAL);
        for ms in (10..=60_000).step_by(13) {
            let every = Duration::from_millis(ms);
            let span = rounds.span_of(every);
            assert!(
                span <= every && span * 4 >= every * 3,
                "{every:?} is polled each {span:?}"
            );
            rounds.join(span);
        }
        let spans = rounds.take_due(Instant::now() + Duration::from_secs(100));
        assert!(spans.len() < 40, "{spans:?}");
        let often = |spans: &[Duration]| {
            spans
                .iter()
                .map(|span| 1.0 / span.as_secs_f64())
                .sum::<f64>()
        };
        assert!(
            often(&spans) < 5.0 * often(&[Duration::from_millis(10)]),
            "{spans:?}"
        );
        for ms in [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 60_000] {
            assert_eq!(
                rounds.span_of(Duration::from_millis(ms)).as_millis(),
                ms.into()
            );
        }
        let usual = Rounds::new(Duration::from_millis(1111));
        assert_eq!(usual.span_of(Duration::from_millis(1111)).as_millis(), 1111);
    }

    #[tokio::test(start_paused = true)]
    async fn a_longer_span_than_the_clients_wakes_nobody() {
        let rounds = Rounds::new(OWN);
        let before = rounds.next();
        rounds.join(USUAL);
        assert_eq!(rounds.next(), before);
        advance(USUAL.mul_f64(1.2)).await;
        assert_eq!(rounds.take_due(Instant::now()), [USUAL, OWN]);
    }
}
