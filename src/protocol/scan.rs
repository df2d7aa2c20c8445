//! The search for locks: one step of it, and what it finds.

use std::sync::Arc;
use std::time::Duration;

use super::keys::{FAIR_QUEUE, FENCE_COUNTER};
use super::kind::Kind;
use super::script::LOCKS_SCAN;
use super::{Arg, Call, Unexpected, Value};

/// A lock as a search finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) key: String,
    pub(crate) kind: Kind,
    /// `None`: the key has no expiry.
    pub(crate) left: Option<Duration>,
    /// Waiters in the queue of a fair lock.
    pub(crate) queue: u64,
    /// Owner field and count.
    pub(crate) holds: Vec<(String, u64)>,
}

/// Where a search goes on; `0` at first and at the end.
pub(crate) type Cursor = Arc<str>;

pub(crate) fn step(cursor: &Cursor, pattern: &str, count: i64) -> Call {
    let prefixes = [FAIR_QUEUE, FENCE_COUNTER].map(Arg::from);
    let args = [Arg::Text(cursor.clone()), Arg::from(pattern), Arg::Int(count)];
    Call {
        script: &LOCKS_SCAN,
        keys: vec![Arc::from("leasehold_scan")],
        args: args.into_iter().chain(prefixes).collect(),
    }
}

/// The reply of [`step`]: where to go on, and what looks like a lock.
pub(crate) fn found(reply: Value) -> Result<(Cursor, Vec<Found>), Unexpected> {
    let Value::Array(parts) = &reply else { return Err(Unexpected(reply)) };
    let Some((Value::Text(cursor), keys)) = parts.split_first() else {
        return Err(Unexpected(reply));
    };
    let cursor = Arc::from(cursor.as_str());
    // A key that is not a lock is none of our business.
    Ok((cursor, keys.iter().filter_map(lock).collect()))
}

fn lock(value: &Value) -> Option<Found> {
    let Value::Array(parts) = value else { return None };
    let [
        Value::Text(key),
        Value::Text(form),
        Value::Int(left),
        Value::Int(queue),
        token,
        rest @ ..,
    ] = parts.as_slice()
    else {
        return None;
    };
    let texts: Vec<&str> = rest.iter().filter_map(text).collect();
    let (kind, holds) = if form == "hash" {
        match hash(&texts)? {
            (Kind::Lock, holds) if *token == Value::Int(1) => (Kind::Fenced, holds),
            (Kind::Lock, holds) if *queue > 0 => (Kind::Fair, holds),
            found => found,
        }
    } else {
        let token = texts.first().copied().filter(|token| is_owner(token))?;
        (Kind::String, vec![(token.to_owned(), 1)])
    };
    let left = u64::try_from(*left).ok().map(Duration::from_millis);
    let queue = u64::try_from(*queue).ok()?;
    Some(Found { key: key.clone(), kind, left, queue, holds })
}

fn hash(parts: &[&str]) -> Option<(Kind, Vec<(String, u64)>)> {
    let mut mode = None;
    let mut holds: Vec<(String, u64)> = Vec::new();
    for pair in parts.chunks(2) {
        match pair {
            ["mode", value] => mode = Some(*value),
            [owner, count] if is_owner(owner) => {
                holds.push(((*owner).to_owned(), count.parse().ok()?));
            }
            _ => return None,
        }
    }
    let fair = |owner: &str| owner.rsplit(':').next().is_some_and(|number| number.len() == 19);
    let kind = match mode {
        Some("read") => Kind::Read,
        Some("write") => Kind::Write,
        Some(_) => return None,
        None if holds.iter().any(|(owner, _)| fair(owner)) => Kind::Fair,
        None => Kind::Lock,
    };
    (!holds.is_empty()).then_some((kind, holds))
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

/// `<uuid>:<number>`, perhaps with `:write`: nothing else is taken for a lock.
fn is_owner(text: &str) -> bool {
    let Some((client, rest)) = text.split_once(':') else { return false };
    let number = rest.strip_suffix(":write").unwrap_or(rest);
    uuid::Uuid::try_parse(client).is_ok() && number.parse::<i64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(form: &str, numbers: [i64; 3], rest: &[&str]) -> Value {
        let text = |text: &str| Value::Text(text.into());
        let mut parts = vec![text("k"), text(form)];
        parts.extend(numbers.map(Value::Int));
        parts.extend(rest.iter().map(|part| text(part)));
        Value::Array(parts)
    }

    #[test]
    fn what_is_found_is_a_lock_or_nothing() {
        let owner = "0b4e4b9c-9a1f-4c0e-8f6a-0c5f9d6b0f11:57";
        let writer = format!("{owner}:write");
        let kind = |value: &Value| lock(value).map(|found| found.kind);
        assert_eq!(kind(&entry("hash", [1000, 0, 0], &[owner, "2"])), Some(Kind::Lock));
        assert_eq!(kind(&entry("hash", [1000, 3, 0], &[owner, "1"])), Some(Kind::Fair));
        assert_eq!(kind(&entry("hash", [1000, 0, 1], &[owner, "1"])), Some(Kind::Fenced));
        let write = ["mode", "write", &*writer, "1"];
        assert_eq!(kind(&entry("hash", [1000, 0, 0], &write)), Some(Kind::Write));
        assert_eq!(kind(&entry("string", [-1, 0, 0], &[owner])), Some(Kind::String));
        assert_eq!(kind(&entry("string", [-1, 0, 0], &["some text"])), None);
        assert_eq!(kind(&entry("hash", [-1, 0, 0], &["name", "Ada"])), None);
        let found = lock(&entry("hash", [1000, 0, 0], &[owner, "2"])).expect("a lock");
        assert_eq!(found.holds, vec![(owner.to_owned(), 2)]);
        assert_eq!(found.left, Some(Duration::from_secs(1)));
    }
}
