//! The calls of every kind of lock; [`replies`](super::replies) has what they answer.
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
    PERMIT_RENEW, READ_ACQUIRE, READ_EXTEND, READ_RELEASE, READ_RENEW, READ_TAKE_OVER,
    RW_FORCE_RELEASE, SEMAPHORE_ACQUIRE, SEMAPHORE_RELEASE, SEMAPHORE_RENEW, STRING_ACQUIRE,
    STRING_EXTEND, STRING_FORCE_RELEASE, STRING_INSPECT, STRING_RELEASE, STRING_RENEW,
    STRING_TAKE_OVER, Script, WRITE_ACQUIRE, WRITE_RELEASE,
};
use super::{Arg, Call};

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

pub(crate) fn ms(span: Duration) -> Arg {
    Arg::Int(i64::try_from(span.as_millis()).unwrap_or(i64::MAX))
}

fn call(script: &'static Script, keys: Vec<Arc<str>>, args: Vec<Arg>) -> Call {
    Call { script, keys, args }
}

/// What tells in the hash of a read/write lock which side holds it; no field of a holder.
pub(super) const MODE: &str = "mode";

/// Is it the field of a writer?
pub(super) fn is_write(field: &str) -> bool {
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
            Kind::Read => {
                let keys = vec![self.key.clone(), self.lives(from), self.lives(owner)];
                call(&READ_TAKE_OVER, keys, args)
            }
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

/// One call that asks for all of these locks, and takes them all or none; `None` if one of them cannot
/// be asked for so.
pub(crate) fn acquire_all(questions: &[Call]) -> Option<Call> {
    let lease = questions.first()?.args.get(1)?;
    let (mut keys, mut args) = (vec![], vec![lease.clone()]);
    for question in questions {
        let [owner, _] = question.args.as_slice() else { return None };
        keys.extend_from_slice(&question.keys);
        args.extend([Arg::Int(question.script.number_in_multi()?), owner.clone()]);
    }
    Some(call(&MULTI_ACQUIRE, keys, args))
}

/// Asks which of these keys are missing.
pub(crate) fn keys_exist(keys: Vec<Arc<str>>) -> Call {
    Call { script: &KEYS_EXIST, keys, args: vec![] }
}
