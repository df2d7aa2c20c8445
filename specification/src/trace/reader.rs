//! Reads what one client passed on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use leasehold::history::{Event, Value, What};

use super::{Answer, Asked, Entry, Said};
use crate::plain::Span;

/// Reads the events of one client of one server.
#[derive(Debug)]
pub struct Reader {
    client: u32,
    server: u32,
    /// The zero of the clock that all clients share.
    zero: Instant,
    /// The calls that are not answered yet.
    calls: BTreeMap<u64, (Reply, Vec<Arc<str>>)>,
    /// Keys of locks with one holder.
    keys: BTreeSet<Arc<str>>,
}

/// How the reply of a script is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    /// Of an acquisition: nothing or a token if it was granted.
    Grant,
    /// Of an acquisition of several locks: the number of the one that another holder has, or an array.
    Grants,
    /// One number for each hold: 1 if it is there.
    Each,
    /// Nothing if the hold is gone.
    There,
    /// Whatever it is.
    Any,
}

/// A call about some keys: what it asks for, the field and the lease of each key.
type Asks = Vec<(Arc<str>, Asked, Arc<str>, Span)>;

impl Reader {
    /// Of this client and this server.
    pub fn new(client: u32, server: u32, zero: Instant) -> Self {
        Reader {
            client,
            server,
            zero,
            calls: BTreeMap::new(),
            keys: BTreeSet::new(),
        }
    }

    /// What an event says about each key.
    pub fn read(&mut self, event: Event) -> Vec<Entry> {
        let at = self.nanos(event.at);
        let said = match event.what {
            What::Sent {
                call,
                script,
                keys,
                args,
            } => self.sent(call, (script, &keys, &args)),
            What::Answered { call, reply } => self.answered(call, &reply),
            What::NotRun { call } => {
                let (_, keys) = self.calls.remove(&call).unwrap_or((Reply::Any, Vec::new()));
                let not_run = |(at, key)| {
                    let call = number_of(call, at);
                    self.of_lock(key, Said::NotRun { call })
                };
                keys.iter().enumerate().filter_map(not_run).collect()
            }
            What::Trusted {
                hold,
                key,
                field,
                until,
            } => {
                let left = self.nanos(until).saturating_sub(at).div_ceil(1_000_000);
                let trusted = Said::Trusted {
                    hold,
                    field: field.to_string(),
                    left: Span::try_from(left).unwrap_or(Span::MAX),
                };
                self.of_lock(&key, trusted).into_iter().collect()
            }
            What::HandedOn { key, field } => {
                let field = field.to_string();
                let entry = self.of_lock(&key, Said::HandedOn { field });
                entry.into_iter().collect()
            }
        };
        let (client, server) = (self.client, self.server);
        let entry = |(key, said)| Entry {
            at,
            client,
            server,
            key,
            said,
        };
        said.into_iter().map(entry).collect()
    }

    fn nanos(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.zero).as_nanos()).unwrap_or(u64::MAX)
    }

    fn of_lock(&self, key: &Arc<str>, said: Said) -> Option<(String, Said)> {
        self.keys.contains(key).then(|| (key.to_string(), said))
    }

    fn sent(
        &mut self,
        call: u64,
        (script, keys, args): (&'static str, &[Arc<str>], &[Arc<str>]),
    ) -> Vec<(String, Said)> {
        if ["force_release", "linger", "take_over"]
            .iter()
            .any(|end| script.ends_with(end))
        {
            return vec![(keys[0].to_string(), Said::Unmodelled)];
        }
        let Some((reply, asks)) = asks_of(script, keys, args) else {
            return Vec::new();
        };
        // Read/write locks are renewed by the same script.
        let acquired = asks
            .iter()
            .filter(|(_, asked, ..)| *asked == Asked::Acquire);
        self.keys.extend(acquired.map(|(key, ..)| key.clone()));
        let keys = asks.iter().map(|(key, ..)| key.clone()).collect();
        self.calls.insert(call, (reply, keys));
        let said = |(at, (key, kind, field, lease)): (usize, (Arc<str>, Asked, Arc<str>, Span))| {
            let (call, field) = (number_of(call, at), field.to_string());
            let sent = Said::Sent {
                call,
                kind,
                field,
                lease,
            };
            self.of_lock(&key, sent)
        };
        asks.into_iter().enumerate().filter_map(said).collect()
    }

    fn answered(&mut self, call: u64, reply: &Value) -> Vec<(String, Said)> {
        let Some((how, keys)) = self.calls.remove(&call) else {
            return Vec::new();
        };
        let said = |(at, key): (usize, &Arc<str>)| {
            let (call, answer) = (number_of(call, at), how.read(reply, at));
            self.of_lock(key, Said::Answered { call, answer })
        };
        keys.iter().enumerate().filter_map(said).collect()
    }
}

/// A call may have several fields of one key. Each counts as a call. None has a thousand.
fn number_of(call: u64, at: usize) -> u64 {
    call * 1000 + u64::try_from(at).unwrap_or(0)
}

impl Reply {
    fn read(self, reply: &Value, at: usize) -> Answer {
        let is_yes = match (self, reply) {
            (Reply::Grant, reply) => matches!(reply, Value::Nil | Value::Array(_)),
            (Reply::Grants, reply) => matches!(reply, Value::Array(_)),
            (Reply::Each, Value::Array(each)) => each.get(at) == Some(&Value::Int(1)),
            (Reply::There, reply) => *reply != Value::Nil,
            (Reply::Each | Reply::Any, _) => true,
        };
        if is_yes { Answer::Yes } else { Answer::No }
    }
}

/// What a script asks for, if it is one of a lock with one holder. `src/protocol` has the scripts.
fn asks_of(script: &str, keys: &[Arc<str>], args: &[Arc<str>]) -> Option<(Reply, Asks)> {
    let number = |at: usize| args[at].parse().expect("a number");
    let one =
        |asked, field: usize, lease| vec![(keys[0].clone(), asked, args[field].clone(), lease)];
    let asks = match script {
        "lock_acquire" | "fenced_acquire" | "string_acquire" => {
            (Reply::Grant, one(Asked::Acquire, 0, number(1)))
        }
        "fair_acquire" => (Reply::Grant, one(Asked::Acquire, 2, number(3))),
        "lock_reenter" | "string_extend" => (Reply::There, one(Asked::Renew, 0, number(1))),
        "lock_renew" | "string_renew" => {
            let ask = |(at, key): (usize, &Arc<str>)| {
                let (field, lease) = (args[2 * at].clone(), number(2 * at + 1));
                (key.clone(), Asked::Renew, field, lease)
            };
            (Reply::Each, keys.iter().enumerate().map(ask).collect())
        }
        "lock_release" if &*args[2] == "0" => (Reply::Any, one(Asked::Release, 3, 0)),
        "string_release" if &*args[0] == "0" => (Reply::Any, one(Asked::Release, 1, 0)),
        "fair_release" => (Reply::Any, one(Asked::Release, 2, 0)),
        "multi_acquire" => (Reply::Grants, several(keys, args)),
        _ => return None,
    };
    Some(asks)
}

/// Of `multi_acquire`: the number of the script, the field and the lease of each lock.
fn several(keys: &[Arc<str>], args: &[Arc<str>]) -> Asks {
    let mut at = 0;
    args.chunks_exact(3)
        .filter_map(|lock| {
            let key = keys[at].clone();
            // The fenced lock has two keys, and the last kind is that of writers.
            at += if &*lock[0] == "2" { 2 } else { 1 };
            let lease = lock[2].parse().expect("a number");
            (&*lock[0] != "4").then(|| (key, Asked::Acquire, lock[1].clone(), lease))
        })
        .collect()
}
