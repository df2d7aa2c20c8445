//! What long waiters hold and wait for, in a key that all clients of a deployment share.
//!
//! The waits of one client are one text: a line for the client, then one for each wait, followed by
//! one for each of its holds. Tabs separate the parts of a line.

use std::sync::Arc;
use std::time::Duration;

use super::calls::{call, ms};
use super::description::fitting;
use super::kind::Kind;
use super::resource::NAME_MAX;
use super::script::scripts;
use super::{Arg, Call, Unexpected, Value};
use crate::client_id::{ClientId, is_uuid};

scripts! {
    SAY = "waits_say" from "shared/clock.lua" "waits/say.lua";
    SEEN = "waits_seen" from "shared/clock.lua" "waits/seen.lua";
}

const KEY: &str = "leasehold_waits";

/// How many clients are read. More were not written by this crate.
const MOST_CLIENTS: i64 = 10_000;

/// The longest text of one client. Waits that do not fit are left out.
const MOST_BYTES: usize = 65_536;

/// The lock that a waiter holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HeldLock {
    pub(crate) kind: Kind,
    pub(crate) key: Arc<str>,
    pub(crate) field: Arc<str>,
    pub(crate) purpose: Option<String>,
}

/// A waiter that has waited for long and holds something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LongWait {
    /// Unique within its client.
    pub(crate) id: u64,
    pub(crate) waited: Duration,
    pub(crate) kind: Kind,
    pub(crate) key: Arc<str>,
    pub(crate) holds: Vec<HeldLock>,
}

/// The waits of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientWaits {
    /// The client's uuid.
    pub(crate) client: String,
    pub(crate) name: Option<String>,
    /// Grows each time the client writes its waits.
    pub(crate) number: u64,
    pub(crate) waits: Vec<LongWait>,
}

/// Replaces the waits of a client for `keep`.
pub(crate) fn say(client: ClientId, text: &str, keep: Duration) -> Call {
    let args = vec![Arg::from(&*client.to_string()), Arg::from(text), ms(keep)];
    call(&SAY, vec![Arc::from(KEY)], args)
}

/// Reads the waits of all clients.
pub(crate) fn ask() -> Call {
    call(&SEEN, vec![Arc::from(KEY)], vec![Arg::Int(MOST_CLIENTS)])
}

/// The reply of [`ask`]. Ignores texts that this crate did not write.
pub(crate) fn seen(reply: Value) -> Result<Vec<ClientWaits>, Unexpected> {
    let Value::Array(parts) = &reply else {
        return Err(Unexpected(reply));
    };
    let one = |pair: &[Value]| match pair {
        [Value::Text(client), Value::Text(text)] => decode(client, text),
        _ => None,
    };
    Ok(parts.chunks(2).filter_map(one).collect())
}

/// The text of a client's waits; empty if there are none.
pub(crate) fn encode(name: Option<&str>, number: u64, waits: &[LongWait]) -> String {
    let mut text = String::new();
    for wait in waits {
        let entry = encoded(wait);
        if text.len() + entry.len() <= MOST_BYTES {
            text.push_str(&entry);
        }
    }
    if text.is_empty() {
        return text;
    }
    format!("{number}\t{}{text}", escaped(name.unwrap_or_default()))
}

fn encoded(wait: &LongWait) -> String {
    let (id, waited, kind) = (wait.id, wait.waited.as_millis(), wait.kind.label());
    let holds = wait.holds.iter().map(|hold| {
        let purpose = hold.purpose.as_deref().unwrap_or_default();
        let parts = [hold.kind.label(), &hold.key, &hold.field, purpose].map(escaped);
        format!("\nhold\t{}", parts.join("\t"))
    });
    let key = escaped(&wait.key);
    format!(
        "\nwait\t{id}\t{waited}\t{kind}\t{key}{}",
        holds.collect::<String>()
    )
}

/// `None` if the text has another form.
fn decode(client: &str, text: &str) -> Option<ClientWaits> {
    let mut lines = text.split('\n');
    let (number, name) = lines.next()?.split_once('\t')?;
    let mut decoded = ClientWaits {
        client: is_uuid(client).then(|| client.to_owned())?,
        name: fitting(&*plain(name)?),
        number: number.parse().ok()?,
        waits: Vec::new(),
    };
    for line in lines {
        let parts = line.split('\t').map(plain).collect::<Option<Vec<_>>>()?;
        let parts: Vec<_> = parts.iter().map(String::as_str).collect();
        match parts[..] {
            ["wait", id, waited, kind, key] => decoded.waits.push(LongWait {
                id: id.parse().ok()?,
                waited: Duration::from_millis(waited.parse().ok()?),
                kind: Kind::labelled(kind)?,
                key: name_of(key)?,
                holds: Vec::new(),
            }),
            ["hold", kind, key, field, purpose] => {
                let hold = HeldLock {
                    kind: Kind::labelled(kind)?,
                    key: name_of(key)?,
                    field: Arc::from(field),
                    purpose: fitting(purpose),
                };
                decoded.waits.last_mut()?.holds.push(hold);
            }
            _ => return None,
        }
    }
    Some(decoded)
}

fn name_of(key: &str) -> Option<Arc<str>> {
    (1..=NAME_MAX).contains(&key.len()).then(|| Arc::from(key))
}

/// Replaces the separators, which a name may contain.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\\")
        .replace('\t', r"\t")
        .replace('\n', r"\n")
}

/// The opposite of [`escaped`]. `None` if a backslash is followed by something else.
fn plain(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            '\\' => match letters.next()? {
                '\\' => '\\',
                't' => '\t',
                'n' => '\n',
                _ => return None,
            },
            letter => letter,
        });
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: &str = "0b4e4b9c-9a1f-4c0e-8f6a-0c5f9d6b0f11";

    fn wait(id: u64, key: &str, held: &[&str]) -> LongWait {
        let lock = |key: &&str| HeldLock {
            kind: Kind::Write,
            key: Arc::from(*key),
            field: Arc::from(format!("{CLIENT}:7:write")),
            purpose: Some("nightly run".to_owned()),
        };
        LongWait {
            id,
            waited: Duration::from_millis(1234),
            kind: Kind::Lock,
            key: Arc::from(key),
            holds: held.iter().map(lock).collect(),
        }
    }

    #[test]
    fn waits_are_read_back() {
        let waits = vec![
            wait(1, "a\tb\nc\\d\\t", &["x", "\n\n", "\\"]),
            wait(2, "wait", &[]),
            wait(9, "ä", &["hold\t"]),
        ];
        let text = encode(Some("billing@pod-7"), 42, &waits);
        let expected = ClientWaits {
            client: CLIENT.to_owned(),
            name: Some("billing@pod-7".to_owned()),
            number: 42,
            waits,
        };
        assert_eq!(decode(CLIENT, &text), Some(expected));
        assert_eq!(encode(None, 1, &[]), "");
    }

    #[test]
    fn a_text_of_others_is_ignored() {
        let good = encode(None, 1, &[wait(1, "a", &["b"])]);
        assert!(decode(CLIENT, &good).is_some());
        assert!(decode("somebody", &good).is_none());
        for bad in [
            "",
            "x\t",
            "1",
            "1\t\nhold\tlock\tk\tf\t",
            "1\t\nwait\t1\t2\tlock",
            "1\t\nwait\t1\t2\tlatch\\k\tk",
            "1\t\nwait\t1\t2\tno kind\tk",
            "1\t\nwait\t-1\t2\tlock\tk",
            "1\t\nwait\t1\t2\tlock\t",
            "1\t\nwait\t1\t2\tlock\tk\tmore",
            "1\t\nwait\t1\t2\tlock\tk\\",
            "1\t\n",
        ] {
            assert_eq!(decode(CLIENT, bad), None, "{bad:?}");
        }
    }

    #[test]
    fn too_many_waits_are_left_out() {
        let long = "k".repeat(NAME_MAX);
        let waits: Vec<_> = (0..1000).map(|id| wait(id, &long, &[&long])).collect();
        let text = encode(None, 1, &waits);
        assert!(text.len() < MOST_BYTES + 100);
        let waits = decode(CLIENT, &text).map_or(0, |decoded| decoded.waits.len());
        assert!((20..40).contains(&waits), "{waits}");
    }
}
