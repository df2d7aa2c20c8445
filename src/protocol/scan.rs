//! The search for locks: one step of it, and what the step finds.
//!
//! One script searches and looks at what it finds. Some servers refuse a script without keys. There, SCAN searches, and
//! a call for each name looks.
//!
//! A key need not be UTF-8. The names of this library and of Redisson are, so such a key was written by another
//! program: see [`bytes`].

pub(crate) mod bytes;

use std::sync::Arc;
use std::time::Duration;

use super::calls::{MODE, call};
use super::description::{DESCRIPTION, tell_all};
use super::keys::{KeyName, slot_fault};
use super::kind::{FAIR_QUEUE, FENCE_COUNTER, Kind, SEMAPHORE_HOLDS, SEMAPHORE_LIMIT};
use super::replies::{count_of, span};
use super::script::scripts;
use super::semaphore::permits_of;
use super::waiters::numsub;
use super::{Arg, Call, Publish, Unexpected, Value};
use crate::client_id::is_uuid;
use crate::holder::Holder;

scripts! {
    LOCKS_SCAN = "locks_scan" from "shared/clock.lua" "shared/may.lua" "shared/type_of.lua" "description/described.lua"
        "waiters/listening.lua" "scan/lock_at.lua" "scan/locks_scan.lua", reads_undeclared_keys;
    LOCK_LOOK = "lock_look" from "shared/clock.lua" "shared/may.lua" "shared/type_of.lua" "description/described.lua"
        "waiters/listening.lua" "scan/lock_at.lua" "scan/lock_look.lua", reads_undeclared_keys;
    KEY_FREE = "key_free" from "shared/type_of.lua" "scan/key_free.lua";
}

/// A lock found by a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) key: Vec<u8>,
    pub(crate) kind: Kind,
    /// The available permits of a semaphore, or the count of a latch.
    pub(crate) number: Option<i64>,
    /// The limit of a semaphore that was applied last.
    pub(crate) limit: Option<u32>,
    /// `None` if the key has no expiry.
    pub(crate) left: Option<Duration>,
    /// Waiters in the queue of a fair lock.
    pub(crate) queue: u64,
    /// The number of clients that listen for its release.
    pub(crate) listening: Option<u64>,
    /// A reader and a holder of permits have their own lease. All other holders have the lease of the key.
    pub(crate) holders: Vec<Holder>,
}

/// Where a search continues; `0` at the beginning and at the end.
pub(crate) type Cursor = Arc<str>;

/// One step of a search. `publish` is the command that publishes releases there.
pub(crate) fn step(cursor: &Cursor, pattern: &str, count: i64, publish: Publish) -> Call {
    let step = [
        Arg::Text(cursor.clone()),
        Arg::from(pattern),
        Arg::Int(count),
    ];
    call(&LOCKS_SCAN, vec![], [names(publish), step.into()].concat())
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
pub(crate) fn found(reply: Value) -> Result<(Cursor, Vec<Found>), Unexpected> {
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
pub(crate) fn scanned(reply: Value) -> Result<(Cursor, Vec<Arc<str>>), Unexpected> {
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

/// A look at one key. `leases` are those of readers, as an earlier look at the key asked for them; without them, this
/// look may ask.
pub(crate) fn look(key: &Arc<str>, publish: Publish, leases: Option<&[Arc<str>]>) -> Call {
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
    call(&LOCK_LOOK, keys, [names(publish), vec![asks]].concat())
}

/// The reply of [`look`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// The key is no lock.
    Data,
    Lock(Found),
    /// The keys of readers' leases, to look again with.
    Again(Vec<Arc<str>>),
}

pub(crate) fn looked(reply: &Value) -> Look {
    if let Value::Array(parts) = reply
        && let [Value::Array(leases)] = parts.as_slice()
    {
        return texts(leases).map_or(Look::Data, Look::Again);
    }
    lock(reply).map_or(Look::Data, Look::Lock)
}

fn lock(value: &Value) -> Option<Found> {
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
            (Kind::Lock, holders) if *counter == 1 => (Kind::Fenced, holders, None),
            (Kind::Lock, holders) if *queue > 0 => (Kind::Fair, holders, None),
            (kind, holders) => (kind, holders, None),
        },
        "string" => (Kind::String, string(held, key_left)?, None),
        form => counted(form, held)?,
    };
    let left = match kind {
        // The lease of a permit is its own, and not that of the number.
        Kind::Semaphore | Kind::Permit => holders.iter().map(|holder| holder.lease).max().flatten(),
        _ => key_left,
    };
    tell_all(&mut holders, said);
    let queue = u64::try_from(*queue).ok()?;
    // Each waiter of a fair lock has its own channel.
    let listening = u64::try_from(*listening)
        .ok()
        .filter(|_| kind != Kind::Fair);
    let limit = u32::try_from(*counter).ok().filter(|limit| *limit > 0);
    Some(Found {
        key: bytes::name(key)?,
        kind,
        number,
        limit: limit.filter(|_| number.is_some()),
        left,
        queue,
        listening,
        holders,
    })
}

fn holder(owner: &str, holds: u64, lease: Option<Duration>) -> Holder {
    Holder {
        owner: owner.to_owned(),
        holds,
        lease,
        ..Holder::default()
    }
}

fn string(held: &[Value], left: Option<Duration>) -> Option<Vec<Holder>> {
    match held {
        [Value::Text(owner)] if is_owner(owner) => Some(vec![holder(owner, 1, left)]),
        _ => None,
    }
}

/// A semaphore or latch: its number, and the holders of permits.
fn counted(form: &str, held: &[Value]) -> Option<(Kind, Vec<Holder>, Option<i64>)> {
    let (Value::Text(number), held) = held.split_first()? else {
        return None;
    };
    let kind = match form {
        "semaphore" => Kind::Semaphore,
        "permits" => Kind::Permit,
        "latch" => Kind::Latch,
        _ => return None,
    };
    Some((kind, permits(kind, held), Some(number.parse().ok()?)))
}

/// The holders of permits. Leaves out what no client of this library or of Redisson has written.
fn permits(kind: Kind, held: &[Value]) -> Vec<Holder> {
    let one = |pair: &[Value]| match pair {
        [Value::Text(owner), Value::Int(left)] => {
            let permits = match kind {
                Kind::Semaphore => permits_of(owner)?,
                _ => 1,
            };
            Some(holder(owner, permits.into(), span(*left)))
        }
        _ => None,
    };
    held.chunks(2).filter_map(one).collect()
}

fn hash(parts: &[Value]) -> Option<(Kind, Vec<Holder>)> {
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
        Some("read") => Kind::Read,
        Some("write") => Kind::Write,
        Some(_) => return None,
        None if holders.iter().any(|holder| fair(&holder.owner)) => Kind::Fair,
        None => Kind::Lock,
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
        assert_eq!(kind(&entry("hash", [1000, 0, 0], &once)), Some(Kind::Lock));
        assert_eq!(kind(&entry("hash", [1000, 3, 0], &once)), Some(Kind::Fair));
        assert_eq!(
            kind(&entry("hash", [1000, 0, 1], &once)),
            Some(Kind::Fenced)
        );
        let write = [field(MODE, "write", 1000), field(&writer, "1", 1000)].concat();
        assert_eq!(
            kind(&entry("hash", [1000, 0, 0], &write)),
            Some(Kind::Write)
        );
        assert_eq!(
            kind(&entry("string", [-1, 0, 0], &[text(owner)])),
            Some(Kind::String)
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
        assert_eq!((found.number, found.limit), (Some(2), Some(3)));
        let read = [field(MODE, "read", 1000), field(owner, "2", 500)].concat();
        let found = lock(&entry("hash", [1000, 0, 0], &read)).expect("a lock");
        let left = Some(Duration::from_millis(500));
        assert_eq!(found.holders, [holder(owner, 2, left)]);
        assert_eq!(
            (found.kind, found.left),
            (Kind::Read, Some(Duration::from_secs(1)))
        );
    }
}
