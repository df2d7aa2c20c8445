//! The replies of the scripts, and their meaning.

use std::time::Duration;

use super::calls::{MODE, is_write};
use super::description::tell_all;
use super::kind::Kind;
use super::resource::Resource;
use super::{Unexpected, Value};
use crate::holder::Holder;

/// The reply to an acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    /// Granted, with the token of a fenced lock.
    Yes(Option<i64>),
    /// Another owner holds the lock. `None` if only a message will tell when that ends.
    HeldFor(Option<Duration>),
    /// The same, and a release may hand it over to this owner.
    Listed(Option<Duration>),
    /// The same, but so many others are listed that this owner is not.
    NoRoom(Option<Duration>, Crowd),
    /// A fair lock: the place that this owner should keep is gone. It may ask for another one.
    PlaceGone,
    /// A fair lock: another owner holds it, and Redisson may wake this one, on its own channel.
    WokenByOthers,
    /// A semaphore never has that many permits: its limit, or `None` if it has no number at all.
    Never(Option<u32>),
}

/// The other waiters of a lock that has a full list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crowd {
    /// How often in a row a release has handed the lock over to a waiter.
    pub(crate) streak: u32,
    /// How many clients listen; zero if that is not known.
    pub(crate) clients: u32,
}

/// The reply to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    /// The hold does not exist (any more).
    Absent,
    /// The count was lowered, and the owner still holds the lock.
    StillHeld,
    /// The hold ended. `receivers` subscribers received the message.
    Free { receivers: i64 },
    /// The hold ended, and a waiter of another client has the lock.
    HandedOver,
    /// The hold ended. Waiters are listed, and those that found no room in the list go first.
    FreeForUnlisted,
}

/// Who holds a lock, according to Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inspected {
    /// `None` if the key has no expiry.
    pub(crate) left: Option<Duration>,
    pub(crate) holders: Vec<Holder>,
}

pub(crate) fn acquired(reply: Value) -> Result<Acquired, Unexpected> {
    match reply {
        Value::Nil => Ok(Acquired::Yes(None)),
        Value::Int(-2) => Ok(Acquired::PlaceGone),
        Value::Int(-3) => Ok(Acquired::WokenByOthers),
        Value::Int(left) => Ok(Acquired::HeldFor(span(left))),
        other => match listed(&other).or_else(|| never(&other)) {
            Some(acquired) => Ok(acquired),
            None => token(other).map(|token| Acquired::Yes(Some(token))),
        },
    }
}

fn listed(reply: &Value) -> Option<Acquired> {
    match reply {
        Value::Array(parts) => match parts.as_slice() {
            [Value::Int(left), Value::Int(1)] => Some(Acquired::Listed(span(*left))),
            [Value::Int(left), Value::Int(streak), Value::Int(clients)] => {
                let streak = u32::try_from(*streak).ok()?;
                let clients = u32::try_from(*clients).unwrap_or(0);
                Some(Acquired::NoRoom(span(*left), Crowd { streak, clients }))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Why a semaphore does not grant an acquisition however long it waits.
fn never(reply: &Value) -> Option<Acquired> {
    let Value::Array(parts) = reply else {
        return None;
    };
    match parts.as_slice() {
        [Value::Int(-1)] => Some(Acquired::Never(None)),
        [Value::Int(limit)] => u32::try_from(*limit)
            .ok()
            .map(|limit| Acquired::Never(Some(limit))),
        _ => None,
    }
}

fn token(reply: Value) -> Result<i64, Unexpected> {
    let number = match &reply {
        Value::Array(parts) => match parts.as_slice() {
            [Value::Text(token)] => token.parse().ok(),
            _ => None,
        },
        _ => None,
    };
    number.filter(|token| *token > 0).ok_or(Unexpected(reply))
}

/// The reply of [`Resource::reenter`]: true if the hold exists.
pub(crate) fn still_held(reply: Value) -> Result<bool, Unexpected> {
    match reply {
        Value::Nil => Ok(false),
        Value::Int(1) => Ok(true),
        other => renewed(other, 1).map(|there| there[0]),
    }
}

pub(crate) fn released(reply: Value) -> Result<Released, Unexpected> {
    match reply {
        // The other parts are for `read_write::tidy`.
        Value::Array(parts) if matches!(parts.first(), Some(Value::Int(0..))) => {
            released(parts.into_iter().next().unwrap_or(Value::Nil))
        }
        Value::Nil => Ok(Released::Absent),
        Value::Int(-1) => Ok(Released::StillHeld),
        Value::Int(-2) => Ok(Released::HandedOver),
        Value::Int(-3) => Ok(Released::FreeForUnlisted),
        Value::Int(receivers) if receivers >= 0 => Ok(Released::Free { receivers }),
        other => Err(Unexpected(other)),
    }
}

/// One result for each hold, in order: true if it still exists. The reply says how many do, and
/// which do not.
pub(crate) fn renewed(reply: Value, holds: usize) -> Result<Vec<bool>, Unexpected> {
    each_renewed(&reply, holds).ok_or(Unexpected(reply))
}

fn each_renewed(reply: &Value, holds: usize) -> Option<Vec<bool>> {
    let Value::Array(numbers) = reply else {
        return None;
    };
    let as_number = |value: &Value| match value {
        Value::Int(number) => usize::try_from(*number).ok(),
        _ => None,
    };
    let mut renewed = vec![true; holds];
    let (number, gone) = numbers.split_first()?;
    for gone in gone {
        let at = as_number(gone)?.checked_sub(1)?;
        *renewed.get_mut(at)? = false;
    }
    let is_whole = renewed.iter().filter(|renewed| **renewed).count() == as_number(number)?;
    is_whole.then_some(renewed)
}

impl Resource {
    /// The reply of [`Resource::inspect`]. `None` if nobody holds the lock.
    pub(crate) fn inspected(&self, reply: Value) -> Result<Option<Inspected>, Unexpected> {
        let Some(mut seen) = seen(reply)? else {
            return Ok(None);
        };
        match self.kind {
            Kind::Read => seen.holders.retain(|holder| !is_write(&holder.owner)),
            Kind::Write => seen.holders.retain(|holder| is_write(&holder.owner)),
            _ => return Ok(Some(seen)),
        }
        Ok((!seen.holders.is_empty()).then_some(seen))
    }
}

/// The count in the field of a holder. What may follow it lists waiters, see `lock/waiters.lua`.
pub fn count_of(value: &str) -> Option<u64> {
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    let (count, waiters) = value.split_at(digits);
    let is_count = waiters.is_empty() || waiters.starts_with(';');
    count.parse().ok().filter(|_| is_count)
}

/// All holders of an inspected lock of any kind. `None` if there are none.
pub(crate) fn seen(reply: Value) -> Result<Option<Inspected>, Unexpected> {
    let Value::Array(parts) = &reply else {
        return Err(Unexpected(reply));
    };
    let [Value::Int(left), Value::Array(said), holds @ ..] = parts.as_slice() else {
        return Err(Unexpected(reply));
    };
    if *left == -2 {
        return Ok(None);
    }
    let lease = span(*left);
    // A string lock may have an owner with this text, but then the value is a number.
    let mode = |pair: &&[Value]| match pair {
        [Value::Text(field), Value::Text(value)] => field == MODE && value.parse::<u64>().is_err(),
        _ => false,
    };
    let holds = holds
        .chunks(2)
        .filter(|pair| !mode(pair))
        .map(|pair| match pair {
            [Value::Text(owner), Value::Text(count)] => {
                let (owner, holds) = (owner.clone(), count_of(count)?);
                Some(Holder {
                    owner,
                    holds,
                    lease,
                    ..Holder::default()
                })
            }
            _ => None,
        });
    let Some(mut holders) = holds.collect::<Option<Vec<_>>>() else {
        return Err(Unexpected(reply));
    };
    tell_all(&mut holders, said);
    Ok(Some(Inspected {
        left: lease,
        holders,
    }))
}

/// Decodes a reply of yes or no.
pub(crate) fn yes_or_no(reply: Value) -> Result<bool, Unexpected> {
    match reply {
        Value::Int(answer @ (0 | 1)) => Ok(answer == 1),
        other => Err(Unexpected(other)),
    }
}

/// Decodes PTTL. `None` for a key without expiry.
pub(super) fn span(left_ms: i64) -> Option<Duration> {
    u64::try_from(left_ms).ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_decoded() {
        let second = Some(Duration::from_secs(1));
        assert_eq!(acquired(Value::Nil), Ok(Acquired::Yes(None)));
        let token = |text: &str| Value::Array(vec![Value::Text(text.into())]);
        assert_eq!(acquired(token("7")), Ok(Acquired::Yes(Some(7))));
        let large = token("9007199254740993");
        assert_eq!(acquired(large), Ok(Acquired::Yes(Some((1 << 53) + 1))));
        assert_eq!(acquired(Value::Int(1000)), Ok(Acquired::HeldFor(second)));
        assert_eq!(acquired(Value::Int(-1)), Ok(Acquired::HeldFor(None)));
        let never = |number| acquired(Value::Array(vec![Value::Int(number)]));
        assert_eq!(never(-1), Ok(Acquired::Never(None)));
        assert_eq!(never(2), Ok(Acquired::Never(Some(2))));
        assert_eq!(released(Value::Nil), Ok(Released::Absent));
        assert_eq!(released(Value::Int(-1)), Ok(Released::StillHeld));
        assert_eq!(released(Value::Int(-2)), Ok(Released::HandedOver));
        assert_eq!(released(Value::Int(-3)), Ok(Released::FreeForUnlisted));
        assert_eq!(released(Value::Int(0)), Ok(Released::Free { receivers: 0 }));
        let numbers = |all: &[i64]| Value::Array(all.iter().copied().map(Value::Int).collect());
        assert_eq!(acquired(numbers(&[1000, 1])), Ok(Acquired::Listed(second)));
        let crowd = |streak, clients| Acquired::NoRoom(second, Crowd { streak, clients });
        assert_eq!(acquired(numbers(&[1000, 3, 64])), Ok(crowd(3, 64)));
        assert_eq!(acquired(numbers(&[1000, 0, -1])), Ok(crowd(0, 0)));
        assert_eq!(renewed(numbers(&[2]), 2), Ok(vec![true, true]));
        assert_eq!(renewed(numbers(&[1, 2]), 2), Ok(vec![true, false]));
        assert_eq!(renewed(numbers(&[0, 1]), 1), Ok(vec![false]));
        assert_eq!(still_held(numbers(&[1])), Ok(true));
        assert_eq!(still_held(numbers(&[0, 1])), Ok(false));
        let text = |text: &str| Value::Text(text.into());
        let nothing = || Value::Array(vec![]);
        let holder = Value::Array(vec![Value::Int(1000), nothing(), text("a:1"), text("2")]);
        let holders = vec![Holder {
            owner: "a:1".into(),
            holds: 2,
            lease: second,
            ..Holder::default()
        }];
        assert_eq!(
            seen(holder),
            Ok(Some(Inspected {
                left: second,
                holders
            }))
        );
        assert_eq!(
            seen(Value::Array(vec![Value::Int(-2), nothing()])),
            Ok(None)
        );
    }

    #[test]
    fn a_reply_of_the_wrong_shape_is_refused() {
        assert!(acquired(Value::Text("x".into())).is_err());
        for token in ["0", "-1", "1.5", "x"] {
            assert!(
                acquired(Value::Array(vec![Value::Text(token.into())])).is_err(),
                "{token}"
            );
        }
        assert!(acquired(Value::Array(vec![Value::Int(-2)])).is_err());
        assert!(released(Value::Int(-4)).is_err());
        for numbers in [
            &[] as &[i64],
            &[1],
            &[3],
            &[1, 0],
            &[1, 3],
            &[2, 1],
            &[0, 1, 1],
            &[-1],
        ] {
            let reply = Value::Array(numbers.iter().copied().map(Value::Int).collect());
            assert!(renewed(reply, 2).is_err(), "{numbers:?}");
        }
        assert!(still_held(Value::Int(0)).is_err());
        assert!(seen(Value::Array(vec![Value::Int(5), Value::Nil, Value::Nil])).is_err());
        let nothing = Value::Array(vec![]);
        assert!(
            seen(Value::Array(vec![
                Value::Int(5),
                nothing,
                Value::Nil,
                Value::Nil
            ]))
            .is_err()
        );
    }
}
