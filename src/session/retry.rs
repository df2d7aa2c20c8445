//! Whether a failed call is repeated, when, and which error its caller gets in the end.
//!
//! # Invariants
//!
//! - **RETRY-1** Once the outcome of a call is unknown, it stays unknown, whatever its repetitions
//!   return.
//! - **RETRY-2** Only calls that were not executed, or whose outcome is unknown, are repeated.
//!   Other errors are permanent.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::{Cause, Error, Refused};
use crate::protocol::counter::{ReplyKey, reply_key};
use crate::protocol::kind::{Kind, WaitMode};
use crate::protocol::resource::Resource;
use crate::protocol::{Call, Unexpected, Value};
use crate::session::calls::{Calls, Outage, ReplyKeys};
use crate::session::settings::LockSettings;
use crate::timer::jittered;
use crate::transport::{CallError, Lane};

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

// When a waiter asks again without having been notified.

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

// Calls that are repeated and must still take effect only once. Each of them carries a reply key,
// under which Redis keeps the first reply for a while.
//
// # Bounds
//
// A name has at most as many reply keys as this client ever had such calls in flight at once,
// because the key of a finished call serves the next one.

/// A call sent on an old connection is assumed to be executed within this time, or never.
const LATE: Duration = Duration::from_secs(30);

/// The number of a reply key. It belongs to one call until that call ends.
struct ReplyKeyNumber<'a> {
    free: &'a ReplyKeys,
    number: u64,
}

impl<'a> ReplyKeyNumber<'a> {
    fn take(calls: &'a Calls) -> Self {
        let free = &calls.reply_keys;
        let number = free.0.lock().pop().unwrap_or_else(|| calls.next_id());
        ReplyKeyNumber { free, number }
    }
}

impl Drop for ReplyKeyNumber<'_> {
    fn drop(&mut self) {
        self.free.0.lock().push(self.number);
    }
}

impl Calls {
    /// Sends one call, and repeats it within a command's timeout if its outcome is unknown.
    pub(crate) async fn call_idempotent<T>(
        &self,
        resource: &Resource,
        call: impl Fn(&Resource, ReplyKey) -> Call,
        read: impl Fn(Value) -> Result<T, Unexpected>,
    ) -> Result<T, Error> {
        // CANCEL: the next call takes over the key. If the cancelled call arrives later still, it
        // does nothing.
        let key = ReplyKeyNumber::take(self);
        let (name, id) = (&resource.name, format!("{}:{}", self.client_id, key.number));
        // Longer than the last repetition can take, and longer than a first call may be delayed.
        let kept = LATE.max(4 * self.settings.command_timeout);
        let call = call(resource, reply_key(resource, &id, self.next_id(), kept));
        let limit = Instant::now() + self.settings.command_timeout;
        let mut retry = Retry::brief(self.settings.command_timeout).until(limit);
        let failed = |retry: &Retry, error: CallError| {
            // The outcome stays unknown whatever error a repetition returns: the first call may
            // have been executed.
            let in_doubt = retry.is_in_doubt();
            let error = if in_doubt {
                CallError::Unknown(error.into_fault())
            } else {
                error
            };
            Error::from_call(name, Duration::ZERO, error)
        };
        loop {
            let outage = self.outages.next();
            let reply = if self.life.is_closed() {
                Err(CallError::Closed)
            } else {
                // CANCEL: the call takes effect or it does not. Either way nothing is held.
                self.call(Lane::Caller, call.clone()).await
            };
            let error = match reply {
                Ok(value) => return read(value).map_err(|reply| Error::unexpected(name, &reply)),
                Err(error) => error,
            };
            let paused = retry.pause(error.clone(), outage).await;
            paused.map_err(|error| failed(&retry, error))?;
            // The process may have stalled for so long that Redis no longer keeps the first reply.
            if retry.is_in_doubt() && Instant::now() > limit + self.settings.command_timeout {
                return Err(failed(&retry, error));
            }
        }
    }
}

// Turns outcomes of the transport into errors. Nothing else does that.

impl Error {
    /// The caller's error for an outcome of the transport.
    pub(crate) fn from_call(name: &Arc<str>, lease: Duration, error: CallError) -> Self {
        let name = name.clone();
        match error {
            CallError::NotApplied(fault) => Error::Unavailable {
                name,
                cause: Cause::new(fault.0),
            },
            CallError::Unknown(fault) => Error::Unknown {
                name,
                lease,
                cause: Cause::new(fault.0),
            },
            CallError::Refused(fault) => Error::Protocol {
                name,
                refused: Refused::of(&fault),
                detail: fault.0,
            },
            CallError::NotDurable {
                wanted,
                acknowledged,
            } => Error::NotDurable {
                name,
                wanted,
                acknowledged,
            },
            CallError::Closed => Error::Closed,
            CallError::Forked => Error::Forked,
        }
    }

    pub(crate) fn unexpected(name: &Arc<str>, reply: &Unexpected) -> Self {
        let detail = format!("a reply that no script gives: {:?}", reply.0);
        Error::Protocol {
            name: name.clone(),
            refused: Refused::Other,
            detail,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::{Fault, sort_error_reply};

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

    fn mapped(reply: &str) -> Error {
        Error::from_call(
            &Arc::from("n"),
            Duration::from_secs(30),
            sort_error_reply(reply),
        )
    }

    #[test]
    fn temporary_errors_are_unavailable() {
        for reply in [
            "LOADING Redis is loading the dataset in memory",
            "READONLY You can't write against a read only replica.",
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "BUSY Redis is busy running a script.",
            "OOM command not allowed when used memory > 'maxmemory'.",
            "NOAUTH Authentication required.",
            "ERR max number of clients reached",
        ] {
            let error = mapped(reply);
            assert!(
                matches!(error, Error::Unavailable { .. }),
                "{reply}: {error}"
            );
            assert!(error.is_retryable() && !error.may_be_held(), "{reply}");
        }
    }

    #[test]
    fn errors_that_need_a_person_are_protocol_errors() {
        for reply in [
            "WRONGPASS invalid username-password pair or user is disabled.",
            "NOPERM this user has no permissions to run the 'evalsha' command",
            "WRONGTYPE Operation against a key holding the wrong kind of value",
            "ERR unknown command",
        ] {
            let error = mapped(reply);
            assert!(
                matches!(&error, Error::Protocol { detail, .. } if detail == reply),
                "{error}"
            );
            assert!(!error.is_retryable() && !error.may_be_held(), "{reply}");
        }
    }

    #[test]
    fn only_a_lost_reply_may_be_held() {
        let name = Arc::from("n");
        let lost = CallError::Unknown(Fault("cut".into()));
        let error = Error::from_call(&name, Duration::from_secs(30), lost);
        assert!(error.may_be_held() && error.is_retryable());
        assert!(error.to_string().contains("cause=`cut`"), "{error}");
        // A report of the whole chain does not say it twice.
        assert!(std::error::Error::source(&error).is_none());
        assert!(matches!(
            Error::from_call(&name, Duration::ZERO, CallError::Closed),
            Error::Closed
        ));
    }
}
