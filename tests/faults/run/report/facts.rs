//! What the report says besides the cells.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZero;
use std::thread::available_parallelism;

use serde::{Deserialize, Serialize};

use crate::result::Cell;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Facts {
    /// `2026-11-22`.
    pub(crate) date: String,
    /// Of the repository.
    pub(crate) commit: String,
    /// What runs all of it again.
    pub(crate) command: String,
    pub(crate) seed: u64,
    /// Of everything together.
    pub(crate) seconds: u64,
    pub(crate) machine: Machine,
    /// `Redis 7.0.15`, and what ran on it.
    pub(crate) servers: BTreeMap<String, String>,
    pub(crate) libraries: BTreeMap<String, Library>,
    /// What each fault does, in one sentence.
    pub(crate) faults: BTreeMap<String, String>,
    /// What each workload does, in one sentence.
    pub(crate) workloads: BTreeMap<String, String>,
    /// What did not run, and why; each in a sentence.
    pub(crate) left_out: Vec<String>,
    /// The runs with mixed faults. Their pictures must have names of their own: call the fault `mixed-hour`, say.
    pub(crate) long: Vec<Cell>,
    pub(crate) names: Option<ManyNames>,
    pub(crate) fuzz: Option<Fuzz>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) memory_mib: u64,
    pub(crate) kernel: String,
}

impl Machine {
    /// This one.
    pub(crate) fn read() -> Self {
        let of = |file: &str| fs::read_to_string(file).unwrap_or_default();
        let memory = of("/proc/meminfo");
        let kib = memory.lines().find_map(|line| {
            line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok()
        });
        Self {
            cores: available_parallelism().map_or(0, NonZero::get),
            memory_mib: kib.unwrap_or_default() / 1024,
            kernel: of("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}

/// A library under test.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Library {
    pub(crate) version: String,
    pub(crate) settings: String,
    /// What its documentation says of mutual exclusion and of a lost lock.
    pub(crate) promises: String,
    /// Where that is said.
    pub(crate) documentation: String,
}

/// Very many names, each locked and released: what the run of the names writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ManyNames {
    pub(crate) violations: Vec<String>,
    pub(crate) seed: u64,
    pub(crate) server: String,
    pub(crate) seconds: f64,
    pub(crate) names: u64,
    /// Of these, that two clients wanted at the same time.
    pub(crate) contended: u64,
    /// How often each fault came.
    pub(crate) faults: BTreeMap<String, u64>,
    pub(crate) at_rest: Point,
    pub(crate) left: Left,
    pub(crate) series: Vec<Point>,
}

/// What the clients use after so many names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Point {
    pub(crate) names_done: u64,
    pub(crate) rss_kib: u64,
    pub(crate) descriptors: u64,
    pub(crate) subscriptions: u64,
    pub(crate) listeners: u64,
    pub(crate) local_queues: u64,
    pub(crate) waiting: u64,
    pub(crate) holds: u64,
    pub(crate) releases_pending: u64,
}

impl Point {
    /// Entries of all internal tables.
    pub(crate) fn entries(&self) -> u64 {
        let Self {
            subscriptions, listeners, local_queues, waiting, holds, releases_pending, ..
        } = self;
        subscriptions + listeners + local_queues + waiting + holds + releases_pending
    }
}

/// At the server, after the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Left {
    pub(crate) channels: u64,
    pub(crate) patterns: u64,
    /// Counters of fenced locks, which must stay.
    pub(crate) fence_counters: u64,
    pub(crate) others_total: u64,
}

/// What was fed to the parsers, as their run writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Fuzz {
    pub(crate) targets: Vec<Target>,
    pub(crate) seed: u64,
    pub(crate) engine: String,
}

/// One parser.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) inputs: u64,
    pub(crate) seconds: f64,
    pub(crate) panics: u64,
    pub(crate) hangs: u64,
    /// The most memory that one input took.
    pub(crate) peak_bytes: u64,
}
