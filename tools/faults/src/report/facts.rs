//! The facts that the report states besides the results of the cells.

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
    /// What this report lacks to be complete, a phrase for each part.
    pub(crate) missing: Vec<String>,
    /// What did not run, or has no useful result, and why. One sentence each.
    pub(crate) left_out: Vec<String>,
    /// The cells of the long runs, with mixed faults.
    pub(crate) long: Vec<Cell>,
    pub(crate) names: Option<ManyNames>,
    pub(crate) fuzz: Option<Fuzz>,
    pub(crate) power: Option<Vec<PlantedBug>>,
}

/// The commit, the time and the commands that the results come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Origin {
    /// The full hash of the commit.
    pub(crate) commit: String,
    /// Whether the work tree was clean at the beginning and at the end.
    pub(crate) is_clean: bool,
    /// Seconds since 1970, as is `ended`.
    pub(crate) began: u64,
    pub(crate) ended: u64,
    pub(crate) parts: Vec<Part>,
}

/// One command that `tools/faults/publish` ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) began: u64,
    pub(crate) ended: u64,
    /// The exit code.
    pub(crate) code: i32,
    pub(crate) command: String,
}

/// A bug that was put into the library on purpose.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PlantedBug {
    pub(crate) name: String,
    pub(crate) fault: String,
    pub(crate) class: String,
    /// The arguments of the fault run that was to find the bug.
    pub(crate) arguments: String,
    pub(crate) found: bool,
    /// The violation that the run reported, or why there was none.
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
    /// Describes this machine.
    pub(crate) fn read() -> Self {
        let text_of = |file: &str| fs::read_to_string(file).unwrap_or_default();
        let memory = text_of("/proc/meminfo");
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
            kernel: text_of("/proc/sys/kernel/osrelease").trim().to_owned(),
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

/// A promise from the documentation of a library: a paraphrase, and where it was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Promise {
    pub(crate) says: String,
    pub(crate) source: String,
}

/// The result of the run that locks and releases very many names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ManyNames {
    pub(crate) violations: Vec<String>,
    pub(crate) seed: u64,
    pub(crate) server: String,
    pub(crate) seconds: f64,
    pub(crate) names: u64,
    /// How many of the names two clients wanted at the same time.
    pub(crate) contended: u64,
    /// How often each fault was injected.
    pub(crate) faults: BTreeMap<String, u64>,
    pub(crate) at_rest: Point,
    pub(crate) left: Left,
    pub(crate) series: Vec<Point>,
}

/// The resources that the clients use after `names_done` names.
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
    /// The number of entries in all internal tables.
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

/// What is left at the server after the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Left {
    pub(crate) channels: u64,
    pub(crate) patterns: u64,
    /// Token counters of fenced locks, which must remain.
    pub(crate) fence_counters: u64,
    /// Number of all other keys.
    pub(crate) others_total: u64,
}

/// The result of fuzzing the parsers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Fuzz {
    pub(crate) targets: Vec<Target>,
    pub(crate) seed: u64,
    pub(crate) engine: String,
}

/// One fuzzed parser.
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
