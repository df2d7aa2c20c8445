//! What happened: one event a line, as JSON. Clients of all languages write the same.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};

use serde::{Deserialize, Serialize};

/// Something that a process saw or did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Event {
    /// Nanoseconds of `CLOCK_MONOTONIC`, which all processes of the machine share.
    pub(crate) at: u64,
    /// Nanoseconds of the wall clock, which may have been stepped.
    pub(crate) wall: u64,
    /// 0 is the program that injects the faults; clients are numbered from 1.
    #[serde(default)]
    pub(crate) process: u32,
    /// Of the process. A worker has one hold at a time.
    #[serde(default)]
    pub(crate) worker: u32,
    /// `WORKLOAD:NUMBER`; of several locks as one `multi:0+1`; empty if it is of no lock.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) what: What,
}

/// How a lock is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    #[default]
    Exclusive,
    /// A reader, beside other readers.
    Shared,
    /// One permit of several.
    Permit,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum What {
    /// A client is connected.
    Started { pid: u32, library: String },
    /// A worker asks for the lock, and waits.
    Asked {
        mode: Mode,
        /// Its lease, if that is fixed. If not it is renewed, by the library or by its driver.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fixed_ms: Option<u64>,
        /// Its lease, if that is renewed and another one than most have.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        renewed_ms: Option<u64>,
    },
    /// It is told that it holds the lock, until then for certain (of the monotonic clock), if the library says so.
    Granted {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<i64>,
    },
    /// It is told that it does not hold the lock; `timeout` if somebody else held it all the while.
    Refused { error: String, timeout: bool },
    /// Asked again, the library says that the lock is held.
    Held {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<u64>,
    },
    /// Asked again, the library says that the lock may be lost, or is.
    Doubted,
    /// The resource has answered a write that was sent right after `Held` or `Granted`.
    Wrote { accepted: bool },
    /// What a worker does with its hold beside looking and writing, and how that ended.
    Did {
        what: Doing,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// The library says by itself that the lock is lost.
    Lost { reason: String },
    /// The release is about to be called.
    Releasing,
    /// What the release said: nothing, if all was well.
    Released {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// What the process uses.
    Sample {
        rss_kib: u64,
        descriptors: u64,
        threads: u64,
    },
    /// A timer of the process was late by this: the machine had no time for it.
    Stalled { millis: u64 },
    /// All workers have ended; what the library counts, if it counts.
    Ended {
        counts: BTreeMap<String, u64>,
        /// What the shutdown said: nothing, if all was given back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// A fault begins or ends (process 0). `detail` says what was done to whom.
    Fault {
        fault: String,
        on: bool,
        detail: String,
        #[serde(default, skip_serializing_if = "Scope::is_all")]
        scope: Scope,
    },
}

/// Whom a fault can have met: everybody, if it names nobody; else these processes with all their locks, and all
/// processes with these locks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Scope {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) processes: Vec<u32>,
    /// Of a cluster, from first to last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) slots: Vec<(u16, u16)>,
}

impl Scope {
    pub(crate) fn is_all(&self) -> bool {
        self.processes.is_empty() && self.slots.is_empty()
    }
}

/// What can be done with a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Doing {
    /// The driver of a library that does not renew prolongs the lease.
    Renewed,
    /// The lease is made longer, once.
    Extended,
    /// Taken again by its holder, and released again once.
    Reentered,
    /// Nobody looks at it for this time.
    Paused,
}

impl Event {
    /// The locks that it is about.
    pub(crate) fn locks(&self) -> impl Iterator<Item = String> + use<'_> {
        let (workload, numbers) = self.name.split_once(':').unwrap_or((&self.name, ""));
        numbers
            .split('+')
            .map(move |number| format!("{workload}:{number}"))
    }
}

pub(crate) fn write(out: &mut impl Write, event: &Event) -> std::io::Result<()> {
    serde_json::to_writer(&mut *out, event)?;
    out.write_all(b"\n")
}

/// All events of a file, in the order of their time.
pub(crate) fn read(from: impl BufRead) -> Result<Vec<Event>, String> {
    let parse = |line: std::io::Result<String>| {
        let line = line.map_err(|error| error.to_string())?;
        serde_json::from_str(&line).map_err(|error| format!("{error}: {line}"))
    };
    let mut events: Vec<Event> = from.lines().map(parse).collect::<Result<_, _>>()?;
    events.sort_by_key(|event| event.at);
    Ok(events)
}
