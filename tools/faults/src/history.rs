//! The history of a run: one event per line, as JSON. Clients of all languages write this format.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};

use leasehold_specification::trace::Entry;
use serde::{Deserialize, Serialize};

/// What a client process writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Line {
    /// A step of the protocol, by leasehold only.
    Step {
        step: Entry,
    },
    Event(Event),
}

/// Something that a process observed or did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Event {
    /// Time in nanoseconds of `CLOCK_MONOTONIC`, which all processes of the machine share.
    pub(crate) at: u64,
    /// Time in nanoseconds of the wall clock, which a fault may have stepped.
    pub(crate) wall: u64,
    /// 0 is the program that injects the faults; clients are numbered from 1.
    #[serde(default)]
    pub(crate) process: u32,
    /// The number of the worker in its process. A worker has at most one hold at a time.
    #[serde(default)]
    pub(crate) worker: u32,
    /// `WORKLOAD:NUMBER`, or `multi:0+1` for a multi lock. Empty if the event concerns no lock.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) what: What,
}

/// The mode in which a lock is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    #[default]
    Exclusive,
    /// A read lock, shared with other readers.
    Shared,
    /// One permit of several.
    Permit,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum What {
    /// The client is connected.
    Started { pid: u32, library: String },
    /// The worker asks for the lock and waits.
    Asked {
        mode: Mode,
        /// The lease if it is fixed. Otherwise the library or its driver renews it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fixed_ms: Option<u64>,
        /// The renewed lease if it differs from the usual one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        renewed_ms: Option<u64>,
    },
    /// The worker has got the lock. `until` is the time of the monotonic clock until which the lock
    /// is certainly held, if the library knows it.
    Granted {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<i64>,
        /// The hold on the wire, by which its calls are found among the steps of the protocol. Of
        /// leasehold only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        field: Option<String>,
    },
    /// The worker did not get the lock. `timeout` is true if the wait ended because another holder
    /// kept the lock.
    Refused { error: String, timeout: bool },
    /// The worker has checked the hold, and the library reports that the lock is held.
    Held {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<u64>,
    },
    /// The worker has checked the hold, and the library reports that the lock is lost or may be
    /// lost.
    Doubted,
    /// The resource has answered a write. The worker sends it right after `Held` or `Granted`.
    Wrote { accepted: bool },
    /// The worker did something else with its hold, and how that ended.
    Did {
        what: Doing,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// The library reports, without being asked, that the lock is lost.
    Lost { reason: String },
    /// The release is about to be called.
    Releasing,
    /// The release has ended, with an error if it failed.
    Released {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// The resource usage of the process.
    Sample {
        rss_kib: u64,
        descriptors: u64,
        threads: u64,
    },
    /// A timer of the process was late by this, because the machine did not schedule the process.
    Stalled { millis: u64 },
    /// All workers have ended. `counts` are the counters of the library, if it has any.
    Ended {
        counts: BTreeMap<String, u64>,
        /// The error of the shutdown, if it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// A fault begins or ends (process 0). `detail` describes what was done, and to which process
    /// or server.
    Fault {
        fault: String,
        on: bool,
        detail: String,
        #[serde(default, skip_serializing_if = "Scope::is_all")]
        scope: Scope,
    },
}

/// What a fault can have affected. If both lists are empty: everything. Otherwise: all locks of
/// these processes, and the locks in these slots for all processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Scope {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) processes: Vec<u32>,
    /// Ranges of cluster slots, from first to last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) slots: Vec<(u16, u16)>,
}

impl Scope {
    pub(crate) fn is_all(&self) -> bool {
        self.processes.is_empty() && self.slots.is_empty()
    }
}

/// What a worker can do with a hold besides checking it and writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Doing {
    /// The driver extended the lease, because its library does not renew leases.
    Renewed,
    /// The worker extended a fixed lease once.
    Extended,
    /// The holder took the lock again and released it once.
    Reentered,
    /// The worker did not check the hold until its end.
    Paused,
}

impl Event {
    /// The locks that the event concerns.
    pub(crate) fn locks(&self) -> impl Iterator<Item = String> + use<'_> {
        let (workload, numbers) = self.name.split_once(':').unwrap_or((&self.name, ""));
        numbers
            .split('+')
            .map(move |number| format!("{workload}:{number}"))
    }
}

pub(crate) fn write(out: &mut impl Write, line: &impl Serialize) -> std::io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

/// Reads all events, sorted by time, and all steps of the protocol.
pub(crate) fn read(from: impl BufRead) -> Result<(Vec<Event>, Vec<Entry>), String> {
    let (mut events, mut steps) = (Vec::new(), Vec::new());
    for line in from.lines() {
        let line = line.map_err(|error| error.to_string())?;
        match serde_json::from_str(&line).map_err(|error| format!("{error}: {line}"))? {
            Line::Event(event) => events.push(event),
            Line::Step { step } => steps.push(step),
        }
    }
    events.sort_by_key(|event: &Event| event.at);
    Ok((events, steps))
}
