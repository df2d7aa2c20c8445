//! Whether a failed call is repeated, when, and which error its caller gets in the end.
//!
//! # Invariants
//!
//! - **RETRY-1** Once the outcome of a call is unknown, it stays unknown, whatever its repetitions
//!   return.
//! - **RETRY-2** Only calls that were not executed, or whose outcome is unknown, are repeated.
//!   Other errors are permanent.

use std::time::Duration;

use tokio::time::Instant;

use super::calls::outages::Outage;
use super::jittered;
use crate::transport::CallError;

/// The first and the longest pause while a caller waits. Short, because a server that is busy,
/// loading or full does not announce that it has recovered.
const BRIEF: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(40)];

/// The repetitions of one call.
#[derive(Debug)]
pub(super) struct Retry {
    /// Doubled each time.
    pause: Duration,
    most: Duration,
    limit: Limit,
    in_doubt: bool,
}

#[derive(Clone, Copy, Debug)]
enum Limit {
    None,
    /// This long after the first failure.
    AfterFailure(Duration),
    At(Instant),
}

impl Retry {
    /// For a caller that waits for the reply, until `limit` after the first failure.
    pub(super) fn brief(limit: Duration) -> Self {
        let [first, most] = BRIEF;
        Retry {
            limit: Limit::AfterFailure(limit),
            ..Retry::growing(first, most)
        }
    }

    /// For calls that nobody waits for at the moment. The pauses double up to `most`.
    pub(super) fn growing(first: Duration, most: Duration) -> Self {
        Retry {
            pause: first,
            most,
            limit: Limit::None,
            in_doubt: false,
        }
    }

    /// Gives up at the first failure after `limit`.
    pub(super) fn until(self, limit: Instant) -> Self {
        Retry {
            limit: Limit::At(limit),
            ..self
        }
    }

    /// True if the outcome of an earlier call is unknown.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// Classifies a failure: `Ok` if the call may be repeated, otherwise the final error.
    pub(super) fn failed(&mut self, error: CallError) -> Result<CallError, CallError> {
        self.in_doubt |= matches!(error, CallError::Unknown(_));
        let error = if self.in_doubt {
            error.in_doubt()
        } else {
            error
        };
        let passes = matches!(error, CallError::NotApplied(_) | CallError::Unknown(_));
        if passes { Ok(error) } else { Err(error) }
    }

    /// Returns when the call may be repeated, or with the final error. `outage` must have been made
    /// before the call.
    pub(super) async fn pause(
        &mut self,
        error: CallError,
        outage: Outage<'_>,
    ) -> Result<(), CallError> {
        let error = self.failed(error)?;
        let left = self.left();
        if left.is_some_and(|left| left.is_zero()) {
            return Err(error);
        }
        let pause = self.next_pause();
        outage
            .over_within(left.map_or(pause, |left| left.min(pause)))
            .await;
        Ok(())
    }

    pub(super) fn next_pause(&mut self) -> Duration {
        let pause = jittered(self.pause);
        self.pause = (self.pause * 2).min(self.most);
        pause
    }

    fn left(&mut self) -> Option<Duration> {
        let now = Instant::now();
        if let Limit::AfterFailure(span) = self.limit {
            self.limit = Limit::At(now + span);
        }
        match self.limit {
            Limit::At(limit) => Some(limit.saturating_duration_since(now)),
            Limit::None | Limit::AfterFailure(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Fault;

    fn fault() -> Fault {
        Fault("cut".into())
    }

    #[test]
    fn an_unknown_outcome_stays_unknown() {
        let mut retry = Retry::brief(Duration::from_secs(1));
        assert_eq!(
            retry.failed(CallError::NotApplied(fault())),
            Ok(CallError::NotApplied(fault()))
        );
        assert!(!retry.is_in_doubt());
        assert_eq!(
            retry.failed(CallError::Unknown(fault())),
            Ok(CallError::Unknown(fault()))
        );
        assert_eq!(
            retry.failed(CallError::NotApplied(fault())),
            Ok(CallError::Unknown(fault()))
        );
    }

    #[test]
    fn permanent_errors_are_not_repeated() {
        let mut retry = Retry::brief(Duration::from_secs(1));
        assert_eq!(retry.failed(CallError::Closed), Err(CallError::Closed));
        assert_eq!(
            retry.failed(CallError::Refused(fault())),
            Err(CallError::Refused(fault()))
        );
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let (first, most) = (Duration::from_millis(20), Duration::from_millis(50));
        let mut retry = Retry::growing(first, most);
        for whole in [first, first * 2, most, most] {
            let pause = retry.next_pause();
            assert!(
                pause >= whole.mul_f64(0.8) && pause <= whole.mul_f64(1.2),
                "{pause:?}"
            );
        }
    }
}
