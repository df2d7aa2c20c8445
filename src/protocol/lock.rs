//! The calls of the re-entrant lock and what their replies mean.

use std::sync::Arc;
use std::time::Duration;

use super::script::{
    KEYS_EXIST, LOCK_ACQUIRE, LOCK_FORCE_RELEASE, LOCK_INSPECT, LOCK_REENTER, LOCK_RELEASE,
    LOCK_RENEW, LOCK_TAKE_OVER,
};
use super::{Arg, Call, Unexpected, Value};
use crate::mutant::Mutants;

/// What an acquisition is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    Yes,
    /// Somebody else holds it; `None` if their key has no expiry.
    HeldFor(Option<Duration>),
}

/// What a release is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    /// The hold was not there (any more).
    Absent,
    /// Lowered; the owner still holds it.
    StillHeld,
    /// The hold ended and so many subscribers were told.
    Free { told: i64 },
}

/// Who holds a lock, as Redis sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inspected {
    /// `None`: the key has no expiry.
    pub(crate) left: Option<Duration>,
    /// Owner field and count.
    pub(crate) holds: Vec<(String, u64)>,
}

fn ms(span: Duration) -> Arg {
    Arg::Int(i64::try_from(span.as_millis()).unwrap_or(i64::MAX))
}

pub(crate) fn acquire(key: &Arc<str>, owner: &Arc<str>, lease: Duration) -> Call {
    Call {
        script: &LOCK_ACQUIRE,
        keys: vec![key.clone()],
        args: vec![owner.clone().into(), ms(lease)],
    }
}

pub(crate) fn acquired(reply: Value) -> Result<Acquired, Unexpected> {
    match reply {
        Value::Nil => Ok(Acquired::Yes),
        Value::Int(left) => Ok(Acquired::HeldFor(span(left))),
        other => Err(Unexpected(other)),
    }
}

pub(crate) fn reenter(key: &Arc<str>, owner: &Arc<str>, lease: Duration, holds: u32) -> Call {
    Call {
        script: &LOCK_REENTER,
        keys: vec![key.clone()],
        args: vec![owner.clone().into(), ms(lease), Arg::Int(holds.into())],
    }
}

pub(crate) fn take_over(
    key: &Arc<str>,
    from: &Arc<str>,
    owner: &Arc<str>,
    lease: Duration,
) -> Call {
    Call {
        script: &LOCK_TAKE_OVER,
        keys: vec![key.clone()],
        args: vec![from.clone().into(), owner.clone().into(), ms(lease)],
    }
}

/// The reply of [`reenter`] and [`take_over`]: is the hold there?
pub(crate) fn still_held(reply: Value) -> Result<bool, Unexpected> {
    match reply {
        Value::Nil => Ok(false),
        Value::Int(1) => Ok(true),
        other => Err(Unexpected(other)),
    }
}

/// Lowers the count to `holds`; zero ends the hold.
pub(crate) fn release(
    key: &Arc<str>,
    channel: &Arc<str>,
    publish: &'static str,
    holds: u32,
    owner: &Arc<str>,
) -> Call {
    let holds = Arg::Int(holds.into());
    let args = vec![channel.clone().into(), Arg::from(publish), holds, owner.clone().into()];
    Call { script: &LOCK_RELEASE, keys: vec![key.clone()], args }
}

pub(crate) fn released(reply: Value) -> Result<Released, Unexpected> {
    match reply {
        Value::Nil => Ok(Released::Absent),
        Value::Int(-1) => Ok(Released::StillHeld),
        Value::Int(told) if told >= 0 => Ok(Released::Free { told }),
        other => Err(Unexpected(other)),
    }
}

/// One call for many holds: key, owner and the lease to give.
pub(crate) fn renew(holds: &[(Arc<str>, Arc<str>, Duration)]) -> Call {
    Call {
        script: &LOCK_RENEW,
        keys: holds.iter().map(|(key, ..)| key.clone()).collect(),
        args: holds
            .iter()
            .flat_map(|(_, owner, lease)| [owner.clone().into(), ms(*lease)])
            .collect(),
    }
}

/// [`renew`], with the fault of a mutant if there is one.
pub(crate) fn renew_with(mutants: Mutants, holds: &[(Arc<str>, Arc<str>, Duration)]) -> Call {
    let call = renew(holds);
    #[cfg(feature = "test-util")]
    if mutants.has(crate::mutant::Mutant::RenewWithoutOwnerTest) {
        return Call { script: &super::script::MUTANT_RENEW, ..call };
    }
    let _ = mutants;
    call
}

/// One answer for each hold, in order: is it still there?
pub(crate) fn renewed(reply: Value, holds: usize) -> Result<Vec<bool>, Unexpected> {
    match reply {
        Value::Array(answers)
            if answers.len() == holds && answers.iter().all(|a| matches!(a, Value::Int(0 | 1))) =>
        {
            Ok(answers.into_iter().map(|answer| answer == Value::Int(1)).collect())
        }
        other => Err(Unexpected(other)),
    }
}

pub(crate) fn force_release(key: &Arc<str>, channel: &Arc<str>, publish: &'static str) -> Call {
    Call {
        script: &LOCK_FORCE_RELEASE,
        keys: vec![key.clone()],
        args: vec![channel.clone().into(), Arg::from(publish)],
    }
}

pub(crate) fn force_released(reply: Value) -> Result<bool, Unexpected> {
    match reply {
        Value::Int(was_held @ (0 | 1)) => Ok(was_held == 1),
        other => Err(Unexpected(other)),
    }
}

pub(crate) fn inspect(key: &Arc<str>) -> Call {
    Call { script: &LOCK_INSPECT, keys: vec![key.clone()], args: vec![] }
}

/// `None`: the lock is free.
pub(crate) fn inspected(reply: Value) -> Result<Option<Inspected>, Unexpected> {
    let Value::Array(parts) = &reply else { return Err(Unexpected(reply)) };
    let Some((Value::Int(left), holds)) = parts.split_first() else {
        return Err(Unexpected(reply));
    };
    if *left == -2 {
        return Ok(None);
    }
    let holds = holds.chunks(2).map(|pair| match pair {
        [Value::Text(owner), Value::Text(count)] => Some((owner.clone(), count.parse().ok()?)),
        _ => None,
    });
    match holds.collect() {
        Some(holds) => Ok(Some(Inspected { left: span(*left), holds })),
        None => Err(Unexpected(reply)),
    }
}

pub(crate) fn keys_exist(keys: Vec<Arc<str>>) -> Call {
    Call { script: &KEYS_EXIST, keys, args: vec![] }
}

pub(crate) fn count(reply: Value) -> Result<usize, Unexpected> {
    match reply {
        Value::Int(count) => usize::try_from(count).map_err(|_| Unexpected(reply)),
        other => Err(Unexpected(other)),
    }
}

/// PTTL as a span; `None` for a key without expiry.
fn span(left_ms: i64) -> Option<Duration> {
    u64::try_from(left_ms).ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_as_what_they_mean() {
        let second = Some(Duration::from_secs(1));
        assert_eq!(acquired(Value::Nil), Ok(Acquired::Yes));
        assert_eq!(acquired(Value::Int(1000)), Ok(Acquired::HeldFor(second)));
        assert_eq!(acquired(Value::Int(-1)), Ok(Acquired::HeldFor(None)));
        assert_eq!(released(Value::Nil), Ok(Released::Absent));
        assert_eq!(released(Value::Int(-1)), Ok(Released::StillHeld));
        assert_eq!(released(Value::Int(0)), Ok(Released::Free { told: 0 }));
        assert_eq!(
            renewed(Value::Array(vec![Value::Int(1), Value::Int(0)]), 2),
            Ok(vec![true, false])
        );
        let text = |text: &str| Value::Text(text.into());
        let holder = Value::Array(vec![Value::Int(1000), text("a:1"), text("2")]);
        let seen = Inspected { left: second, holds: vec![("a:1".into(), 2)] };
        assert_eq!(inspected(holder), Ok(Some(seen)));
        assert_eq!(inspected(Value::Array(vec![Value::Int(-2)])), Ok(None));
    }

    #[test]
    fn a_reply_of_the_wrong_shape_is_refused() {
        assert!(acquired(Value::Text("x".into())).is_err());
        assert!(released(Value::Int(-2)).is_err());
        assert!(renewed(Value::Array(vec![Value::Int(1)]), 2).is_err());
        assert!(renewed(Value::Array(vec![Value::Int(7)]), 1).is_err());
        assert!(still_held(Value::Int(0)).is_err());
        assert!(inspected(Value::Array(vec![Value::Int(5), Value::Nil, Value::Nil])).is_err());
    }
}
