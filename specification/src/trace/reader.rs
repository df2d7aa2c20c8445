//! Reads what one client passed on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::harness::{Arg, Call, CallError, Field, Value};

use super::{Answer, Asked, Entry, FOR_EVER, Said};
use crate::plain::Span;

/// Reads what one client of one server passes on.
#[derive(Debug)]
pub(super) struct Reader {
    client: u32,
    server: u32,
    /// The zero of the clock that all clients share.
    zero: Instant,
    /// The calls that are not answered yet.
    calls: BTreeMap<u64, (Reply, Vec<Arc<str>>)>,
    /// The keys of locks and semaphores that were asked for.
    keys: BTreeSet<Arc<str>>,
    /// The names of semaphores, by the keys of their holds.
    semaphores: BTreeMap<Arc<str>, Arc<str>>,
}

/// The ends of the names of scripts that change holds and are not modelled.
const UNMODELLED: [&str; 6] = [
    "force_release",
    "_rest",
    "semaphore_keep",
    "permit_update",
    "permit_expire",
    "count_set",
];

/// In nanoseconds: longer than any run.
const LONGEST_TRUST: u64 = FOR_EVER as u64 / 2 * 1_000_000;

/// How the reply of a script is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    /// Of an acquisition: nothing or a token if it was granted.
    Grant,
    /// Of an acquisition of permits: nothing if they were granted.
    Permits,
    /// Of a renewal: how many holds are there, and the number of each that is gone.
    Each,
    /// Nothing if the hold is gone.
    There,
}

/// What a call asks for about one key.
struct Ask {
    key: Arc<str>,
    kind: Asked,
    field: Arc<str>,
    lease: Span,
    /// The write hold under which it reads, or nothing.
    under: Arc<str>,
}

impl Reader {
    /// Of this client and this server.
    pub(super) fn new(client: u32, server: u32, zero: Instant) -> Self {
        Reader {
            client,
            server,
            zero,
            calls: BTreeMap::new(),
            keys: BTreeSet::new(),
            semaphores: BTreeMap::new(),
        }
    }

    /// A call is sent.
    pub(super) fn on_sent(&mut self, at: Instant, number: u64, call: &Call) -> Vec<Entry> {
        let text = |arg: &Arg| match arg {
            Arg::Int(number) => Arc::from(number.to_string()),
            Arg::Text(text) => text.clone(),
        };
        let args: Vec<Arc<str>> = call.args.iter().map(text).collect();
        let said = self.sent(number, (call.script.name, &call.keys, &args));
        self.entries(at, said)
    }

    /// What became of a call.
    pub(super) fn on_reply(
        &mut self,
        at: Instant,
        call: u64,
        reply: &Result<Value, CallError>,
    ) -> Vec<Entry> {
        let said = match reply {
            Ok(reply) => self.answered(call, reply),
            Err(CallError::NotApplied(_) | CallError::Closed) => self.not_run(call),
            // A script that fails may have written before.
            Err(_) => Vec::new(),
        };
        self.entries(at, said)
    }

    /// A hold is trusted until then.
    pub(super) fn on_local_deadline(
        &self,
        (key, field): Field<'_>,
        hold: u64,
        at: Instant,
        until: Instant,
    ) -> Vec<Entry> {
        let latest = self.nanos(at) + LONGEST_TRUST;
        let trusted = Said::Trusted {
            hold,
            field: field.to_string(),
            until: self.nanos(until).min(latest),
        };
        self.entries(at, self.of_lock(key, trusted))
    }

    /// A hold is forgotten or restored.
    pub(super) fn on_hand_on(&self, at: Instant, (key, field): Field<'_>) -> Vec<Entry> {
        let field = field.to_string();
        self.entries(at, [(key.to_string(), Said::HandedOn { field })])
    }

    /// A release has granted the lock to a waiter, at some time since its place was last kept: like
    /// a call that it sent then.
    pub(super) fn on_handover_by_message(
        &self,
        at: Instant,
        number: u64,
        (key, field): Field<'_>,
        (since, lease): (Instant, Duration),
    ) -> Vec<Entry> {
        let call = number_of(number, 0);
        let sent = Said::Sent {
            call,
            kind: Asked::Acquire,
            field: field.to_string(),
            lease: span(&lease.as_millis().to_string()),
            under: String::new(),
        };
        let answer = Answer::Yes;
        let granted = Said::Answered { call, answer };
        let mut entries = self.entries(since, self.of_lock(key, sent));
        entries.extend(self.entries(at, self.of_lock(key, granted)));
        entries
    }

    fn entries(&self, at: Instant, said: impl IntoIterator<Item = (String, Said)>) -> Vec<Entry> {
        let (at, client, server) = (self.nanos(at), self.client, self.server);
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
        if UNMODELLED.iter().any(|end| script.ends_with(end)) {
            let changed = |key: &Arc<str>| (key.to_string(), Said::Unmodelled);
            return keys.iter().map(changed).collect();
        }
        let Some((reply, mut asks)) = asks_of(script, keys, args) else {
            return Vec::new();
        };
        for ask in &mut asks {
            if ask.kind == Asked::Permits {
                self.semaphores.insert(ask.key.clone(), keys[0].clone());
            }
            if let Some(name) = self.semaphores.get(&ask.key) {
                ask.key = name.clone();
            }
        }
        let acquired = asks
            .iter()
            .filter(|ask| !matches!(ask.kind, Asked::Renew | Asked::Release));
        self.keys.extend(acquired.map(|ask| ask.key.clone()));
        let keys = asks.iter().map(|ask| ask.key.clone()).collect();
        self.calls.insert(call, (reply, keys));
        let said = |(at, ask): (usize, Ask)| {
            let sent = Said::Sent {
                call: number_of(call, at),
                kind: ask.kind,
                field: ask.field.to_string(),
                lease: ask.lease,
                under: ask.under.to_string(),
            };
            self.of_lock(&ask.key, sent)
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

    fn not_run(&mut self, call: u64) -> Vec<(String, Said)> {
        let Some((_, keys)) = self.calls.remove(&call) else {
            return Vec::new();
        };
        let not_run = |(at, key)| {
            let call = number_of(call, at);
            self.of_lock(key, Said::NotRun { call })
        };
        keys.iter().enumerate().filter_map(not_run).collect()
    }
}

/// A call may have several fields of one key. Each counts as a call. None has a thousand.
fn number_of(call: u64, at: usize) -> u64 {
    call * 1000 + u64::try_from(at).unwrap_or(0)
}

impl Reply {
    fn read(self, reply: &Value, at: usize) -> Answer {
        let is_yes = match (self, reply) {
            (Reply::Grant, Value::Array(parts)) => matches!(**parts, [Value::Text(_)]),
            (Reply::Grant | Reply::Permits, reply) => *reply == Value::Nil,
            (Reply::Each, Value::Array(numbers)) => {
                let gone = numbers.get(1..).unwrap_or_default();
                let number = i64::try_from(at + 1).unwrap_or(i64::MAX);
                !gone.contains(&Value::Int(number))
            }
            (Reply::There, reply) => *reply != Value::Nil,
            (Reply::Each, _) => true,
        };
        if is_yes { Answer::Yes } else { Answer::No }
    }
}

/// What a script asks for, if it is about holds. `src/protocol` has the scripts.
fn asks_of(script: &str, keys: &[Arc<str>], args: &[Arc<str>]) -> Option<(Reply, Vec<Ask>)> {
    let ask = |key: &Arc<str>, kind, field: usize, lease| Ask {
        key: key.clone(),
        kind,
        field: args[field].clone(),
        lease,
        under: Arc::from(""),
    };
    let takes = |kind, field: usize| {
        (
            Reply::Grant,
            vec![ask(&keys[0], kind, field, span(&args[field + 1]))],
        )
    };
    let extends = || {
        (
            Reply::There,
            vec![ask(&keys[0], Asked::Renew, 0, span(&args[1]))],
        )
    };
    let renews = |keys: Vec<&Arc<str>>| {
        let lease = span(&args[0]);
        let of_hold = |(at, key): (usize, &Arc<str>)| ask(key, Asked::Renew, at + 1, lease);
        (
            Reply::Each,
            keys.into_iter().enumerate().map(of_hold).collect(),
        )
    };
    let releases = |field: usize| (Reply::There, vec![ask(&keys[0], Asked::Release, field, 0)]);
    Some(match script {
        "lock_acquire" | "fenced_acquire" | "string_acquire" => takes(Asked::Acquire, 0),
        "fair_acquire" => takes(Asked::Acquire, 2),
        "write_acquire" => takes(Asked::Write, 0),
        "read_acquire" => {
            let (reply, mut asks) = takes(Asked::Read, 0);
            asks[0].under = args[2].clone();
            (reply, asks)
        }
        "semaphore_acquire" | "permit_acquire" => {
            // Renewals name only the key of the holds.
            let lease = span(&args[3]);
            (
                Reply::Permits,
                vec![ask(&keys[1], Asked::Permits, 2, lease)],
            )
        }
        "lock_reenter" | "string_extend" | "read_extend" => extends(),
        "lock_renew" | "string_renew" | "semaphore_renew" | "permit_renew" => {
            renews(keys.iter().collect())
        }
        "read_renew" => renews(keys.iter().step_by(2).collect()),
        "lock_release" if &*args[2] == "0" => releases(3),
        "string_release" if &*args[0] == "0" => releases(1),
        "fair_release" | "read_release" | "write_release" => releases(2),
        "semaphore_release" | "permit_release" => {
            (Reply::There, vec![ask(&keys[1], Asked::Release, 2, 0)])
        }
        _ => return None,
    })
}

fn span(text: &str) -> Span {
    let millis: u64 = text.parse().expect("a number");
    Span::try_from(millis).map_or(FOR_EVER, |span| span.min(FOR_EVER))
}
