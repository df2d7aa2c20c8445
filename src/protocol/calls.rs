//! The calls of every kind of lock and what their replies mean.
//!
//! Each kind has scripts of its own where its keys differ; what they are told and what they answer
//! is the same for all, so that the session knows of kinds only what [`Kind`] says.

use std::sync::Arc;
use std::time::Duration;

use super::kind::Kind;
use super::place::Place;
use super::script::{
    FAIR_ACQUIRE, FAIR_BEAT, FAIR_FORCE_RELEASE, FAIR_RELEASE, FENCED_ACQUIRE, FENCED_TAKE_OVER,
    KEYS_EXIST, LATCH_ASK, LOCK_ACQUIRE, LOCK_FORCE_RELEASE, LOCK_INSPECT, LOCK_REENTER,
    LOCK_RELEASE, LOCK_RENEW, LOCK_TAKE_OVER, MULTI_ACQUIRE, PERMIT_ACQUIRE, PERMIT_RELEASE,
    PERMIT_RENEW, READ_ACQUIRE, READ_EXTEND, READ_RELEASE, READ_RENEW, RW_FORCE_RELEASE,
    SEMAPHORE_ACQUIRE, SEMAPHORE_RELEASE, SEMAPHORE_RENEW, STRING_ACQUIRE, STRING_EXTEND,
    STRING_FORCE_RELEASE, STRING_INSPECT, STRING_RELEASE, STRING_RENEW, STRING_TAKE_OVER, Script,
    WRITE_ACQUIRE, WRITE_RELEASE,
};
use super::{Arg, Call, Unexpected, Value};

/// What an acquisition is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    /// With the token of a fenced lock.
    Yes(Option<i64>),
    /// Somebody else holds it; `None` if nothing but a message will tell when that ends.
    HeldFor(Option<Duration>),
}

/// What a hand-over is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakenOver {
    /// Neither hold is there.
    Gone,
    /// With the token of a fenced lock.
    Held(Option<i64>),
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

/// Whether an acquisition of a fair lock waits in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queueing {
    Not,
    AtTheEnd,
    /// Its place was kept in time, but it is gone.
    AtTheFront,
}

/// One question for a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) field: &'a Arc<str>,
    pub(crate) lease: Duration,
    pub(crate) queueing: Queueing,
    /// How long a place in the queue is kept.
    pub(crate) claim: Duration,
    /// The write hold under which a read hold is taken.
    pub(crate) writer: Option<&'a Arc<str>>,
}

/// What has become of a place in the queue of a fair lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spot {
    Gone,
    Waits,
    /// It is its turn.
    Next,
}

pub(crate) fn ms(span: Duration) -> Arg {
    Arg::Int(i64::try_from(span.as_millis()).unwrap_or(i64::MAX))
}

fn call(script: &'static Script, keys: Vec<Arc<str>>, args: Vec<Arg>) -> Call {
    Call { script, keys, args }
}

/// What tells in the hash of a read/write lock which side holds it; no field of a holder.
const MODE: &str = "mode";

/// Is it the field of a writer?
fn is_write(field: &str) -> bool {
    field.ends_with(":write")
}

/// The length of the id of a permit: 16 bytes in hex.
pub(crate) const ID_LENGTH: usize = 32;

/// The number of a field in the queue of a fair lock: 19 digits, by which the scripts know it.
const FAIR_NUMBER: u64 = 4_000_000_000_000_000_000;

impl Place {
    /// A field that no other acquisition ever uses, made of a number that none other has.
    ///
    /// Redisson's form, `<client uuid>:<number>`, with what its scripts or ours put behind it.
    pub(crate) fn field(&self, client: uuid::Uuid, number: u64, permits: u32) -> Arc<str> {
        Arc::from(match self.kind {
            Kind::Fair => format!("{client}:{}", FAIR_NUMBER + number),
            Kind::Write => format!("{client}:{number}:write"),
            Kind::Semaphore => format!("{client}:{number}:{permits}"),
            Kind::Permit => {
                // The ids of one acquisition follow each other; the next has another number.
                let first = client.as_u128() ^ (u128::from(number) << 32);
                let id = |id| format!("{:032x}", first ^ u128::from(id));
                (0..permits).map(id).collect::<Vec<_>>().concat()
            }
            _ => format!("{client}:{number}"),
        })
    }

    /// May a hold of this kind be called so? The sides of a read/write lock share a hash, in which
    /// a text of the other side, or the mode, would be found.
    pub(crate) fn may_be_field(&self, text: &str) -> bool {
        match self.kind {
            Kind::String => true,
            Kind::Write => is_write(text),
            Kind::Read => !is_write(text) && text != MODE,
            _ => text != MODE,
        }
    }

    /// How many entries a hold has in Redis: of several, some may be gone alone.
    pub(crate) fn entries(&self, field: &str) -> usize {
        if self.kind == Kind::Permit { field.len() / ID_LENGTH } else { 1 }
    }

    /// This key and those beside it.
    fn keys(&self) -> Vec<Arc<str>> {
        std::iter::once(&self.key).chain(&self.beside).cloned().collect()
    }

    fn told(&self, publish: &'static str) -> Vec<Arg> {
        vec![self.channel.clone().into(), Arg::from(publish)]
    }

    /// What lives as long as a read hold.
    fn lives(&self, field: &str) -> Arc<str> {
        Arc::from(format!("{}:{field}:rwlock_timeout:1", self.beside[0]))
    }

    pub(crate) fn acquire(&self, publish: &'static str, ask: &Ask<'_>) -> Call {
        let owner_and_lease = vec![ask.field.clone().into(), ms(ask.lease)];
        let told = || [self.told(publish), owner_and_lease.clone()].concat();
        match self.kind {
            Kind::Lock | Kind::Spin => call(&LOCK_ACQUIRE, self.keys(), owner_and_lease),
            Kind::Fenced => call(&FENCED_ACQUIRE, self.keys(), owner_and_lease),
            Kind::String => call(&STRING_ACQUIRE, self.keys(), owner_and_lease),
            Kind::Write => call(&WRITE_ACQUIRE, vec![self.key.clone()], owner_and_lease),
            Kind::Semaphore => call(&SEMAPHORE_ACQUIRE, self.keys(), told()),
            Kind::Permit => call(&PERMIT_ACQUIRE, self.keys(), told()),
            Kind::Latch => call(&LATCH_ASK, self.keys(), vec![]),
            Kind::Fair => {
                let line = match ask.queueing {
                    Queueing::Not => 0,
                    Queueing::AtTheEnd => 1,
                    Queueing::AtTheFront => 2,
                };
                let args = [told(), vec![ms(ask.claim), Arg::Int(line)]].concat();
                call(&FAIR_ACQUIRE, self.keys(), args)
            }
            Kind::Read => {
                let keys = vec![self.key.clone(), self.lives(ask.field)];
                let writer = ask.writer.map_or(Arg::from(""), |writer| writer.clone().into());
                call(&READ_ACQUIRE, keys, [owner_and_lease, vec![writer]].concat())
            }
        }
    }

    /// Raises the count of a hold to `holds` and makes its lease at least `lease`.
    pub(crate) fn reenter(&self, field: &Arc<str>, lease: Duration, holds: u32) -> Call {
        let mut args = vec![field.clone().into(), ms(lease)];
        match self.kind {
            Kind::Read => call(&READ_EXTEND, vec![self.key.clone(), self.lives(field)], args),
            Kind::String => call(&STRING_EXTEND, self.keys(), args),
            Kind::Semaphore | Kind::Permit | Kind::Latch => {
                renew(self.kind, &[(self, field, lease)])
            }
            Kind::Lock | Kind::Spin | Kind::Fair | Kind::Fenced | Kind::Write => {
                args.push(Arg::Int(holds.into()));
                call(&LOCK_REENTER, vec![self.key.clone()], args)
            }
        }
    }

    /// Turns the field of a hold that ends into that of the next one.
    pub(crate) fn take_over(&self, from: &Arc<str>, owner: &Arc<str>, lease: Duration) -> Call {
        let args = vec![from.clone().into(), owner.clone().into(), ms(lease)];
        match self.kind {
            Kind::Fenced => call(&FENCED_TAKE_OVER, self.keys(), args),
            Kind::String => call(&STRING_TAKE_OVER, self.keys(), args),
            _ => call(&LOCK_TAKE_OVER, vec![self.key.clone()], args),
        }
    }

    /// Lowers the count to `holds`; zero ends the hold, and a wait in Redis.
    pub(crate) fn release(&self, publish: &'static str, holds: u32, field: &Arc<str>) -> Call {
        let count = Arg::Int(holds.into());
        let counted = || [self.told(publish), vec![count.clone(), field.clone().into()]].concat();
        let whole = || [self.told(publish), vec![field.clone().into()]].concat();
        match self.kind {
            Kind::Lock | Kind::Spin | Kind::Fenced => {
                call(&LOCK_RELEASE, vec![self.key.clone()], counted())
            }
            // Lowered, it is a count in a hash as any other.
            Kind::Fair | Kind::Write if holds > 0 => {
                call(&LOCK_RELEASE, vec![self.key.clone()], counted())
            }
            Kind::Fair => call(&FAIR_RELEASE, self.keys(), whole()),
            Kind::Write => call(&WRITE_RELEASE, self.keys(), whole()),
            Kind::Read => {
                let keys = vec![self.key.clone(), self.lives(field), self.beside[0].clone()];
                call(&READ_RELEASE, keys, whole())
            }
            Kind::String => call(&STRING_RELEASE, self.keys(), vec![count, field.clone().into()]),
            Kind::Semaphore | Kind::Latch => call(&SEMAPHORE_RELEASE, self.keys(), whole()),
            Kind::Permit => {
                call(&PERMIT_RELEASE, self.keys(), [whole(), vec![Arg::Int(0)]].concat())
            }
        }
    }

    pub(crate) fn force_release(&self, publish: &'static str) -> Call {
        let key = vec![self.key.clone()];
        match self.kind {
            Kind::Fair => call(&FAIR_FORCE_RELEASE, self.keys(), self.told(publish)),
            Kind::String => call(&STRING_FORCE_RELEASE, key, vec![]),
            Kind::Read | Kind::Write => {
                let mode = if self.kind == Kind::Read { "read" } else { "write" };
                call(&RW_FORCE_RELEASE, key, [self.told(publish), vec![mode.into()]].concat())
            }
            _ => call(&LOCK_FORCE_RELEASE, key, self.told(publish)),
        }
    }

    pub(crate) fn inspect(&self) -> Call {
        let script = if self.kind == Kind::String { &STRING_INSPECT } else { &LOCK_INSPECT };
        call(script, vec![self.key.clone()], vec![])
    }

    /// The reply of [`Place::inspect`]; `None`: nobody holds it.
    pub(crate) fn inspected(&self, reply: Value) -> Result<Option<Inspected>, Unexpected> {
        let Some(mut seen) = inspected(reply)? else { return Ok(None) };
        match self.kind {
            Kind::Read => seen.holds.retain(|(owner, _)| !is_write(owner)),
            Kind::Write => seen.holds.retain(|(owner, _)| is_write(owner)),
            _ => return Ok(Some(seen)),
        }
        Ok((!seen.holds.is_empty()).then_some(seen))
    }

    /// Keeps the places of these waiters in the queue of a fair lock.
    pub(crate) fn beat(
        &self,
        publish: &'static str,
        claim: Duration,
        fields: impl Iterator<Item = Arc<str>>,
    ) -> Call {
        let head = [self.told(publish), vec![ms(claim)]].concat();
        let args = head.into_iter().chain(fields.map(Arg::Text)).collect();
        call(&FAIR_BEAT, self.keys(), args)
    }
}

pub(crate) fn acquired(reply: Value) -> Result<Acquired, Unexpected> {
    match reply {
        Value::Nil => Ok(Acquired::Yes(None)),
        Value::Int(left) => Ok(Acquired::HeldFor(span(left))),
        other => token(other).map(|token| Acquired::Yes(Some(token))),
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

/// The reply of [`Place::take_over`]: is the hold there, and with which token?
pub(crate) fn taken_over(reply: Value) -> Result<TakenOver, Unexpected> {
    match reply {
        Value::Nil => Ok(TakenOver::Gone),
        Value::Int(1) => Ok(TakenOver::Held(None)),
        other => token(other).map(|token| TakenOver::Held(Some(token))),
    }
}

/// The reply of [`Place::reenter`]: is the hold there?
pub(crate) fn still_held(reply: Value) -> Result<bool, Unexpected> {
    match reply {
        Value::Nil => Ok(false),
        Value::Int(1) => Ok(true),
        other => renewed(other, 1).map(|there| there[0]),
    }
}

pub(crate) fn released(reply: Value) -> Result<Released, Unexpected> {
    match reply {
        Value::Nil => Ok(Released::Absent),
        Value::Int(-1) => Ok(Released::StillHeld),
        Value::Int(told) if told >= 0 => Ok(Released::Free { told }),
        other => Err(Unexpected(other)),
    }
}

/// The script that renews holds of a kind; kinds with the same one share a call.
pub(crate) fn renewal_of(kind: Kind) -> &'static Script {
    match kind {
        Kind::Lock | Kind::Spin | Kind::Fair | Kind::Fenced | Kind::Write => &LOCK_RENEW,
        Kind::Read => &READ_RENEW,
        Kind::String => &STRING_RENEW,
        Kind::Semaphore | Kind::Latch => &SEMAPHORE_RENEW,
        Kind::Permit => &PERMIT_RENEW,
    }
}

/// One call for many holds whose kinds share a script: place, owner and the lease to give.
pub(crate) fn renew(kind: Kind, holds: &[(&Place, &Arc<str>, Duration)]) -> Call {
    let keys = |place: &Place, field: &str| match place.kind {
        Kind::Read => vec![place.key.clone(), place.lives(field)],
        Kind::Semaphore | Kind::Permit => vec![place.beside[0].clone()],
        _ => vec![place.key.clone()],
    };
    Call {
        script: renewal_of(kind),
        keys: holds.iter().flat_map(|(place, field, _)| keys(place, field)).collect(),
        args: holds
            .iter()
            .flat_map(|(_, field, lease)| [Arg::Text((*field).clone()), ms(*lease)])
            .collect(),
    }
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

/// The reply of [`Place::force_release`]: was it held?
pub(crate) fn force_released(reply: Value) -> Result<bool, Unexpected> {
    match reply {
        Value::Int(was_held @ (0 | 1)) => Ok(was_held == 1),
        other => Err(Unexpected(other)),
    }
}

/// `None`: the lock is free.
fn inspected(reply: Value) -> Result<Option<Inspected>, Unexpected> {
    let Value::Array(parts) = &reply else { return Err(Unexpected(reply)) };
    let Some((Value::Int(left), holds)) = parts.split_first() else {
        return Err(Unexpected(reply));
    };
    if *left == -2 {
        return Ok(None);
    }
    // A string may have such an owner: it comes with a number.
    let mode = |pair: &&[Value]| match pair {
        [Value::Text(field), Value::Text(value)] => field == MODE && value.parse::<u64>().is_err(),
        _ => false,
    };
    let holds = holds.chunks(2).filter(|pair| !mode(pair)).map(|pair| match pair {
        [Value::Text(owner), Value::Text(count)] => Some((owner.clone(), count.parse().ok()?)),
        _ => None,
    });
    match holds.collect() {
        Some(holds) => Ok(Some(Inspected { left: span(*left), holds })),
        None => Err(Unexpected(reply)),
    }
}

/// The reply of [`Place::beat`]: until when nothing happens by itself, and what each waiter is told.
pub(crate) fn beaten(
    reply: Value,
    waiters: usize,
) -> Result<(Option<Duration>, Vec<Spot>), Unexpected> {
    let Value::Array(parts) = &reply else { return Err(Unexpected(reply)) };
    let standing = |part: &Value| match part {
        Value::Int(0) => Some(Spot::Gone),
        Value::Int(1) => Some(Spot::Waits),
        Value::Int(2) => Some(Spot::Next),
        _ => None,
    };
    match parts.split_first() {
        Some((Value::Int(left), told)) if told.len() == waiters => {
            let told = told.iter().map(standing).collect::<Option<_>>();
            told.map(|told| (span(*left), told)).ok_or(Unexpected(reply))
        }
        _ => Err(Unexpected(reply)),
    }
}

/// All of these plain locks at once, or none.
pub(crate) fn acquire_all(
    keys: Vec<Arc<str>>,
    fields: impl Iterator<Item = Arc<str>>,
    lease: Duration,
) -> Call {
    let args = std::iter::once(ms(lease)).chain(fields.map(Arg::Text)).collect();
    call(&MULTI_ACQUIRE, keys, args)
}

/// The reply of [`acquire_all`]: which one is in the way, counted from 0; `None` if none is.
pub(crate) fn all_acquired(reply: Value, keys: usize) -> Result<Option<usize>, Unexpected> {
    match reply {
        Value::Nil => Ok(None),
        Value::Int(number) => match usize::try_from(number) {
            Ok(number) if (1..=keys).contains(&number) => Ok(Some(number - 1)),
            _ => Err(Unexpected(reply)),
        },
        other => Err(Unexpected(other)),
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
        assert_eq!(acquired(Value::Nil), Ok(Acquired::Yes(None)));
        let token = |text: &str| Value::Array(vec![Value::Text(text.into())]);
        assert_eq!(acquired(token("7")), Ok(Acquired::Yes(Some(7))));
        assert_eq!(taken_over(token("9007199254740993")), Ok(TakenOver::Held(Some((1 << 53) + 1))));
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
        for token in ["0", "-1", "1.5", "x"] {
            assert!(acquired(Value::Array(vec![Value::Text(token.into())])).is_err(), "{token}");
        }
        assert!(released(Value::Int(-2)).is_err());
        assert!(renewed(Value::Array(vec![Value::Int(1)]), 2).is_err());
        assert!(renewed(Value::Array(vec![Value::Int(7)]), 1).is_err());
        assert!(still_held(Value::Int(0)).is_err());
        assert!(inspected(Value::Array(vec![Value::Int(5), Value::Nil, Value::Nil])).is_err());
    }
}
