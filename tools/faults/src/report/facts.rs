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
    pub(crate) origin: Origin,
    pub(crate) machine: Machine,
    pub(crate) libraries: Vec<Library>,
    /// What each fault does, in one sentence.
    pub(crate) faults: BTreeMap<String, String>,
    /// What each workload does, in one sentence.
    pub(crate) workloads: BTreeMap<String, String>,
    /// What a complete report has, and this one lacks; each in a phrase.
    pub(crate) missing: Vec<String>,
    /// What was not planned, or shows nothing, and why; each in a sentence.
    pub(crate) left_out: Vec<String>,
    /// The runs with mixed faults.
    pub(crate) long: Vec<Cell>,
    pub(crate) names: Option<ManyNames>,
    pub(crate) fuzz: Option<Fuzz>,
    pub(crate) power: Option<Vec<Deliberate>>,
}

/// Where the numbers come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Origin {
    /// The full hash; nothing, if nobody wrote it down at the beginning.
    pub(crate) commit: String,
    /// At the beginning and at the end.
    pub(crate) is_clean: bool,
    /// Seconds since 1970.
    pub(crate) began: u64,
    pub(crate) ended: u64,
    pub(crate) parts: Vec<Part>,
}

/// A command of `tools/faults/publish`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) began: u64,
    pub(crate) ended: u64,
    /// Its exit code.
    pub(crate) code: i32,
    pub(crate) command: String,
}

/// A fault that was put into the library on purpose.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Deliberate {
    pub(crate) name: String,
    pub(crate) fault: String,
    pub(crate) class: String,
    /// Of the fault run.
    pub(crate) arguments: String,
    pub(crate) found: bool,
    /// The violation, or why there is none.
    pub(crate) said: String,
    pub(crate) seconds: f64,
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
            line.strip_prefix("MemTotal:")?
                .trim()
                .strip_suffix(" kB")?
                .parse::<u64>()
                .ok()
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
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) language: String,
    pub(crate) settings: Vec<String>,
    pub(crate) promises: Vec<Promise>,
}

/// What its documentation says, in our words, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Promise {
    pub(crate) says: String,
    pub(crate) source: String,
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
            subscriptions,
            listeners,
            local_queues,
            waiting,
            holds,
            releases_pending,
            ..
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
