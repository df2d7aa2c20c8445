//! When a waiter asks again if nobody tells it to.

use std::time::Duration;

use super::{Session, jittered};
use crate::mutant::Mutant;
use crate::protocol::kind::Pace;

/// The pauses of one wait.
pub(super) struct Pacing<'a> {
    session: &'a Session,
    pace: Pace,
    pauses: u32,
}

impl<'a> Pacing<'a> {
    pub(super) fn new(session: &'a Session, pace: Pace) -> Self {
        Pacing { session, pace, pauses: 0 }
    }

    pub(super) fn listens(&self) -> bool {
        self.pace.listens()
    }

    /// The next pause, at most until what is in the way ends by itself.
    pub(super) fn next(&mut self, left: Option<Duration>) -> Option<Duration> {
        let ends = left.map(|left| left + expiry_jitter());
        let pause = match self.pace {
            _ if self.session.mutants.has(Mutant::NoTimer) => return None,
            Pace::Told => return ends,
            Pace::Ask { first_ms, .. } if self.session.mutants.has(Mutant::SpinWithoutPause) => {
                Duration::from_millis(first_ms)
            }
            Pace::ToldOrPoll => jittered(self.session.settings.poll),
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
