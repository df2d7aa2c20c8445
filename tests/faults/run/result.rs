//! What a run has shown, for people and for programs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One workload under one fault on one deployment, by one library.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) library: String,
    pub(crate) version: String,
    pub(crate) workload: String,
    pub(crate) fault: String,
    pub(crate) deployment: String,
    pub(crate) server: String,
    pub(crate) seed: u64,
    pub(crate) seconds: u64,
    /// Grants.
    pub(crate) operations: u64,
    /// Waits that ended because others held the lock all the while.
    pub(crate) timeouts: u64,
    /// Other ends of acquisitions and releases, by kind.
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) overlaps: Overlaps,
    /// Writes that the resource refused.
    pub(crate) refused_writes: u64,
    pub(crate) longest_wait_ms: u64,
    /// From the end of each fault until every lock of the workload was granted again; where masters change, the
    /// outage.
    pub(crate) recovery_ms: Vec<u64>,
    /// The longest time in which a lock that was waited for was granted to nobody, since the first fault.
    #[serde(default)]
    pub(crate) outage_ms: u64,
    /// Holds that were granted out of turn (fair).
    pub(crate) out_of_turn: u64,
    /// Waits of more than a second while nobody held the lock and no fault was on.
    pub(crate) idle_waits: u64,
    /// Keys that were left two leases after the end.
    pub(crate) keys_left: Vec<String>,
    /// What must not be, each in a sentence.
    pub(crate) violations: Vec<String>,
    /// What the guarantee of the deployment does not exclude, each in a sentence.
    pub(crate) explained: Vec<String>,
}

/// Two holds of one lock at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Overlaps {
    /// Both were told that they hold it, and nothing excuses that: violations.
    pub(crate) valid: u64,
    /// Both were told so, and the deployment's guarantee does not exclude it.
    pub(crate) excused: u64,
    /// One of both knew, or could have known by its deadline, that its hold was over.
    pub(crate) invalid: u64,
    /// The longest time until one of two valid holders was told.
    pub(crate) longest_told_ms: u64,
}

impl Cell {
    pub(crate) fn is_ours(&self) -> bool {
        self.library == "leasehold"
    }

    pub(crate) fn passes(&self) -> bool {
        self.violations.is_empty()
    }
}
