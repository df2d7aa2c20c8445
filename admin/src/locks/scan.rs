//! The search for locks: one step of it, and what the step finds.
//!
//! One script searches and looks at what it finds. Some servers refuse a script without keys.
//! There, SCAN searches, and a call for each name looks.
//!
//! A key need not be UTF-8. The names of this library and of Redisson are, so such a key was
//! written by another program: see [`in_hex`].

use std::sync::Arc;
use std::time::Duration;

use leasehold::inspect::Holder;
use leasehold::parts::{
    self, DESCRIPTION, FAIR_QUEUE, FENCE_COUNTER, KeyName, SEMAPHORE_HOLDS, SEMAPHORE_LIMIT,
    count_of, is_uuid, numsub, permits_of, slot_fault, tell_all,
};
use leasehold_transport::{Arg, Call, Script, Value};

use super::{LockInfo, LockKind, in_hex, span};
use crate::scripts::scripts;

scripts! {
    LOCKS_SCAN = "locks_scan" from [
        parts::CLOCK_LUA, parts::MAY_LUA, parts::TYPE_OF_LUA, parts::DESCRIBED_LUA,
        parts::LISTENING_LUA, include_str!("lock_at.lua"), include_str!("locks_scan.lua"),
    ], reads_undeclared_keys;
    LOCK_LOOK = "lock_look" from [
        parts::CLOCK_LUA, parts::MAY_LUA, parts::TYPE_OF_LUA, parts::DESCRIBED_LUA,
        parts::LISTENING_LUA, include_str!("lock_at.lua"), include_str!("lock_look.lua"),
    ], reads_undeclared_keys;
}

/// The entry in the hash of a read/write lock that says which side holds it.
const MODE: &str = "mode";

/// The command by which a script publishes: PUBLISH or SPUBLISH.
pub(super) type Publish = &'static str;

/// A reply that no script of this crate sends.
pub(super) struct Unexpected(pub(super) Value);

/// Where a search continues; `0` at the beginning and at the end.
pub(super) type Cursor = Arc<str>;

/// One step of a search. `publish` is the command that publishes releases there.
pub(super) fn step(cursor: &Cursor, pattern: &str, count: i64, publish: Publish) -> Call {
    let step = [
        Arg::Text(cursor.clone()),
        Arg::from(pattern),
        Arg::Int(count),
    ];
    Call::new(&LOCKS_SCAN, [], [names(publish), step.into()].concat())
}

/// The names of keys and commands, for both scripts.
fn names(publish: Publish) -> Vec<Arg> {
    let names = [
        FAIR_QUEUE,
        FENCE_COUNTER,
        DESCRIPTION,
        numsub(publish),
        SEMAPHORE_HOLDS,
        SEMAPHORE_LIMIT,
    ];
    names.map(Arg::from).into()
}

/// The reply of [`step`]: where to continue, and the locks found.
pub(super) fn found(reply: Value) -> Result<(Cursor, Vec<LockInfo>), Unexpected> {
    let Value::Array(parts) = &reply else {
        return Err(Unexpected(reply));
    };
    let Some((Value::Text(cursor), keys)) = parts.split_first() else {
        return Err(Unexpected(reply));
    };
    let cursor = Arc::from(cursor.as_str());
    // Skips keys that are not locks.
    Ok((cursor, keys.iter().filter_map(lock).collect()))
}

/// The reply of SCAN: where to continue, and keys.
pub(super) fn scanned(reply: Value) -> Result<(Cursor, Vec<Arc<str>>), Unexpected> {
    if let Value::Array(parts) = &reply
        && let [Value::Text(cursor), Value::Array(found)] = &parts[..]
        && let Some(keys) = texts(found)
    {
        return Ok((Arc::from(cursor.as_str()), keys));
    }
    Err(Unexpected(reply))
}

fn texts(values: &[Value]) -> Option<Vec<Arc<str>>> {
    let text = |value: &Value| match value {
        Value::Text(text) => Some(Arc::from(text.as_str())),
        _ => None,
    };
    values.iter().map(text).collect()
}

/// A look at one key. `leases` are those of readers, as an earlier look at the key asked for them;
/// without them, this look may ask.
pub(super) fn look(key: &Arc<str>, publish: Publish, leases: Option<&[Arc<str>]>) -> Call {
    // The keys beside a name that no lock with several keys can have may be in other slots.
    let beside = if slot_fault(key).is_some() {
        vec![]
    } else {
        [
            KeyName::Prefixed(FAIR_QUEUE),
            KeyName::Prefixed(FENCE_COUNTER),
            KeyName::Ours(DESCRIPTION),
            KeyName::Ours(SEMAPHORE_HOLDS),
            KeyName::Ours(SEMAPHORE_LIMIT),
            KeyName::Suffixed("timeout"),
        ]
        .map(|name| name.of(key))
        .into()
    };
    let key = std::slice::from_ref(key);
    let keys = [key, &*beside, leases.unwrap_or_default()].concat();
    let asks = Arg::Int(leases.is_none().into());
    Call::new(&LOCK_LOOK, keys, [names(publish), vec![asks]].concat())
}

/// A look at a key that is no text, and which cannot be the key of a call: the script, and its
/// arguments.
pub(super) fn look_at_bytes(publish: Publish) -> (&'static Script, Vec<Arg>) {
    (&*LOCK_LOOK, [names(publish), vec![Arg::Int(0)]].concat())
}

/// The reply of [`look`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// The key is no lock.
    Data,
    Lock(LockInfo),
    /// The keys of readers' leases, to look again with.
    Again(Vec<Arc<str>>),
}

pub(super) fn looked(reply: &Value) -> Look {
    if let Value::Array(parts) = reply
        && let [Value::Array(leases)] = parts.as_slice()
    {
        return texts(leases).map_or(Look::Data, Look::Again);
    }
    lock(reply).map_or(Look::Data, Look::Lock)
}

fn lock(value: &Value) -> Option<LockInfo> {
    let Value::Array(parts) = value else {
        return None;
    };
    let [
        key,
        Value::Text(form),
        Value::Int(left),
        Value::Int(queue),
        Value::Int(counter),
        Value::Array(said),
        Value::Int(listening),
        held @ ..,
    ] = parts.as_slice()
    else {
        return None;
    };
    let key_left = span(*left);
    let (kind, mut holders, number) = match form.as_str() {
        "hash" => match hash(held)? {
            (LockKind::Lock, holders) if *counter == 1 => (LockKind::Fenced, holders, None),
            (LockKind::Lock, holders) if *queue > 0 => (LockKind::Fair, holders, None),
            (kind, holders) => (kind, holders, None),
        },
        "string" => (LockKind::String, string(held, key_left)?, None),
        form => counted(form, held)?,
    };
    tell_all(&mut holders, said);
    let has_permits = matches!(kind, LockKind::Semaphore | LockKind::Permits);
    let limit = u32::try_from(*counter).ok().filter(|limit| *limit > 0);
    Some(LockInfo {
        // The lease of a permit is its own, and not that of the number.
        lease: if has_permits {
            holders.iter().map(|holder| holder.lease).max().flatten()
        } else {
            key_left
        },
        holders,
        available: number.filter(|_| has_permits),
        count: number.filter(|_| !has_permits),
        limit: limit.filter(|_| number.is_some()),
        queue: u64::try_from(*queue).ok()?,
        // Each waiter of a fair lock has its own channel.
        listening: u64::try_from(*listening)
            .ok()
            .filter(|_| kind != LockKind::Fair),
        ..LockInfo::new(in_hex::name(key)?, kind)
    })
}

pub(super) fn holder(owner: &str, holds: u64, lease: Option<Duration>) -> Holder {
    let mut holder = Holder::default();
    owner.clone_into(&mut holder.owner);
    (holder.holds, holder.lease) = (holds, lease);
    holder
}

fn string(held: &[Value], left: Option<Duration>) -> Option<Vec<Holder>> {
    match held {
        [Value::Text(owner)] if is_owner(owner) => Some(vec![holder(owner, 1, left)]),
        _ => None,
    }
}

/// A semaphore or latch: its number, and the holders of permits.
fn counted(form: &str, held: &[Value]) -> Option<(LockKind, Vec<Holder>, Option<i64>)> {
    let (Value::Text(number), held) = held.split_first()? else {
        return None;
    };
    let kind = match form {
        "semaphore" => LockKind::Semaphore,
        "permits" => LockKind::Permits,
        "latch" => LockKind::Latch,
        _ => return None,
    };
    Some((kind, permits(kind, held), Some(number.parse().ok()?)))
}

/// The holders of permits. Leaves out what no client of this library or of Redisson has written.
fn permits(kind: LockKind, held: &[Value]) -> Vec<Holder> {
    let one = |pair: &[Value]| match pair {
        [Value::Text(owner), Value::Int(left)] => {
            let permits = match kind {
                LockKind::Semaphore => permits_of(owner)?,
                _ => 1,
            };
            Some(holder(owner, permits.into(), span(*left)))
        }
        _ => None,
    };
    held.chunks(2).filter_map(one).collect()
}

fn hash(parts: &[Value]) -> Option<(LockKind, Vec<Holder>)> {
    let mut mode = None;
    let mut holders: Vec<Holder> = Vec::new();
    for part in parts.chunks(3) {
        let [Value::Text(field), Value::Text(value), Value::Int(left)] = part else {
            return None;
        };
        if field == MODE {
            mode = Some(value.as_str());
        } else if is_owner(field) {
            holders.push(holder(field, count_of(value)?, span(*left)));
        } else {
            return None;
        }
    }
    let fair = |owner: &str| {
        owner
            .rsplit(':')
            .next()
            .is_some_and(|number| number.len() == 19)
    };
    let kind = match mode {
        Some("read") => LockKind::Read,
        Some("write") => LockKind::Write,
        Some(_) => return None,
        None if holders.iter().any(|holder| fair(&holder.owner)) => LockKind::Fair,
        None => LockKind::Lock,
    };
    (!holders.is_empty()).then_some((kind, holders))
}

/// `<uuid>:<number>`, perhaps with `:write`. Nothing else is considered a lock.
fn is_owner(text: &str) -> bool {
    let Some((client, rest)) = text.split_once(':') else {
        return false;
    };
    let number = rest.strip_suffix(":write").unwrap_or(rest);
    is_uuid(client) && number.parse::<i64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    fn entry(form: &str, numbers: [i64; 3], held: &[Value]) -> Value {
        let mut parts = vec![text("k"), text(form)];
        parts.extend(numbers.map(Value::Int));
        parts.extend([Value::Array(vec![]), Value::Int(-1)]);
        parts.extend_from_slice(held);
        Value::Array(parts)
    }

    fn field(field: &str, value: &str, left: i64) -> [Value; 3] {
        [text(field), text(value), Value::Int(left)]
    }

    #[test]
    fn only_locks_are_found() {
        let owner = "0b4e4b9c-9a1f-4c0e-8f6a-0c5f9d6b0f11:57";
        let writer = format!("{owner}:write");
        let kind = |value: &Value| lock(value).map(|found| found.kind);
        let once = field(owner, "1", 1000);
        assert_eq!(
            kind(&entry("hash", [1000, 0, 0], &once)),
            Some(LockKind::Lock)
        );
        assert_eq!(
            kind(&entry("hash", [1000, 3, 0], &once)),
            Some(LockKind::Fair)
        );
        assert_eq!(
            kind(&entry("hash", [1000, 0, 1], &once)),
            Some(LockKind::Fenced)
        );
        let write = [field(MODE, "write", 1000), field(&writer, "1", 1000)].concat();
        assert_eq!(
            kind(&entry("hash", [1000, 0, 0], &write)),
            Some(LockKind::Write)
        );
        assert_eq!(
            kind(&entry("string", [-1, 0, 0], &[text(owner)])),
            Some(LockKind::String)
        );
        assert_eq!(
            kind(&entry("string", [-1, 0, 0], &[text("some text")])),
            None
        );
        assert_eq!(
            kind(&entry("hash", [-1, 0, 0], &field("name", "Ada", -1))),
            None
        );
        let mut limited = vec![text("k"), text("semaphore")];
        limited.extend([-1, 0, 3].map(Value::Int));
        limited.extend([Value::Array(vec![]), Value::Int(0), text("2")]);
        let found = lock(&Value::Array(limited)).expect("a semaphore");
        assert_eq!((found.available, found.limit), (Some(2), Some(3)));
        let read = [field(MODE, "read", 1000), field(owner, "2", 500)].concat();
        let found = lock(&entry("hash", [1000, 0, 0], &read)).expect("a lock");
        let left = Some(Duration::from_millis(500));
        assert_eq!(found.holders, [holder(owner, 2, left)]);
        assert_eq!(
            (found.kind, found.lease),
            (LockKind::Read, Some(Duration::from_secs(1)))
        );
    }
}
