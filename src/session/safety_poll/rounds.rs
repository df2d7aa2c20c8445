//! When which waiters are looked after: a round for each span between two polls that a waiter wants.
//!
//! # Invariants
//!
//! - **R1** There is a round for each span of a waiter that is in a queue: a waiter joins it after it has
//!   entered the queue, and a round that ends is taken out before the queues are looked through.
//!
//! # Bounds
//!
//! One round for the client's span, and one for each other span of the waiters that there are.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::session::jittered;

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
        let due = Due { usual: Instant::now() + jittered(usual), others: BTreeMap::new() };
        Rounds { usual, due: Mutex::new(due), sooner: Notify::new() }
    }

    /// A waiter wants to be looked after so often.
    pub(in crate::session) fn join(&self, every: Duration) {
        if every == self.usual {
            return;
        }
        let mut due = self.due.lock();
        let before = due.next();
        let at = *due.others.entry(every).or_insert_with(|| Instant::now() + jittered(every));
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
        let mut taken: Vec<_> =
            due.others.iter().filter(|(_, at)| **at <= now).map(|(every, _)| *every).collect();
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
        self.others.values().copied().chain([self.usual]).min().unwrap_or(self.usual)
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
        assert!(first <= Instant::now() + OWN.mul_f64(1.2), "the shorter one is next");
        rounds.join(OWN);
        assert_eq!(rounds.next(), first, "a second waiter puts nothing off");
        assert!(rounds.take_due(Instant::now()).is_empty(), "none is due");
        advance(OWN.mul_f64(1.2)).await;
        assert_eq!(rounds.take_due(Instant::now()), [OWN]);
        assert!(rounds.next() > Instant::now() + OWN.mul_f64(1.2), "it has ended");
        for _ in 0..3 {
            advance(USUAL.mul_f64(1.2)).await;
            assert_eq!(rounds.take_due(Instant::now()), [USUAL]);
        }
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
