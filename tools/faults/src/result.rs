//! The result of a run: one [`Cell`] for each workload.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The file with the cells of a run, within the folder of that run.
pub(crate) const CELLS: &str = "cells.json";

/// One workload under one fault on one deployment, by one library.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Cell {
    pub(crate) library: String,
    pub(crate) version: String,
    pub(crate) workload: String,
    pub(crate) fault: String,
    pub(crate) deployment: String,
    pub(crate) server: String,
    pub(crate) seed: u64,
    pub(crate) seconds: u64,
    /// How often the cell was repeated with another seed, because the fault had met no holder.
    pub(crate) again: u64,
    /// Number of grants.
    pub(crate) operations: u64,
    /// Acquisitions that timed out because others held the lock for the whole wait.
    pub(crate) timeouts: u64,
    /// Errors of acquisitions and releases, by kind; timeouts are counted above.
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) holds: Holds,
    pub(crate) renewals: Renewals,
    pub(crate) met: Met,
    pub(crate) losses: Losses,
    pub(crate) overlaps: Overlaps,
    /// The share of the held time in which a fault would have excused a second holder, in
    /// thousandths.
    pub(crate) excusable_permille: u64,
    /// Writes that the protected resource refused because of an old fencing token.
    pub(crate) refused_writes: u64,
    pub(crate) longest_wait_ms: u64,
    /// For each fault: the time from its end until every lock of the workload was granted again.
    pub(crate) recovery_ms: Vec<u64>,
    /// The longest time since the first fault in which a lock had waiters but no holder.
    pub(crate) outage_ms: u64,
    /// Grants of fair locks that were out of turn.
    pub(crate) out_of_turn: u64,
    /// Waits of more than a second for a free lock while no fault was active.
    pub(crate) idle_waits: u64,
    /// Keys that still existed two leases after the end of the run.
    pub(crate) keys_left: Vec<String>,
    /// Broken promises of the library, one sentence each.
    pub(crate) violations: Vec<String>,
    pub(crate) steps: Steps,
    /// Events that the deployment's guarantee permits, one sentence each.
    pub(crate) explained: Vec<String>,
}

/// What the specification says about the steps of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Steps {
    pub(crate) allowed: u64,
    /// Grants among them.
    pub(crate) grants: u64,
    /// Grants that were believed, because two servers may have answered.
    pub(crate) believed: u64,
    /// The most states in which the model could be at a time.
    pub(crate) states: u64,
}

/// Number of holds of each kind. A hold may be of several kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holds {
    /// Held for at most a millisecond.
    pub(crate) brief: u64,
    /// Held for longer than the lease.
    pub(crate) beyond_a_lease: u64,
    /// Taken with a fixed lease, which is not renewed.
    pub(crate) fixed: u64,
    pub(crate) extended: u64,
    pub(crate) reentered: u64,
    /// The worker did not check the hold for a while.
    pub(crate) paused: u64,
}

/// Renewals of leases that are not fixed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Renewals {
    /// The holder saw a later deadline, or the test driver renewed the lease itself.
    pub(crate) done: u64,
    /// A renewal was due, but its effect was not seen in time: the request or the reply was lost.
    pub(crate) failed: u64,
    /// Holds that should have been renewed, but expired or were reported lost.
    pub(crate) lost: u64,
}

/// How many injections of the fault affected what. An injection counts at most once in each field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Met {
    pub(crate) injections: u64,
    /// An affected process held a lock between the beginning and the end of the injection.
    pub(crate) holders: u64,
    /// An affected process waited for a lock.
    pub(crate) waiters: u64,
    /// An affected process had a renewal due.
    pub(crate) renewals: u64,
}

/// Holds that ended before their holder released them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Losses {
    /// A fault can have caused the loss.
    pub(crate) with_cause: u64,
    /// No event of the history explains the loss. Each one is a violation.
    pub(crate) without_cause: u64,
    /// The longest time from another client's grant until the previous holder noticed. A holder
    /// that learns of the loss from its own release does not count.
    pub(crate) longest_notice_ms: u64,
    /// How often a holder reported `Held` after another client had been granted the lock.
    pub(crate) reported_held: u64,
    /// The longest time for which a holder reported that.
    pub(crate) longest_reported_held_ms: u64,
}

/// Two holds of one lock at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Overlaps {
    /// Both had been told that they hold the lock, and no event excuses it. Each one is a
    /// violation.
    pub(crate) valid: u64,
    /// Both had been told that they hold the lock, and the deployment's guarantee permits it.
    pub(crate) excused: u64,
    /// One of the two holders knew that its hold was over, or could see it from its deadline.
    pub(crate) invalid: u64,
}

impl Cell {
    pub(crate) fn is_ours(&self) -> bool {
        self.library == "leasehold"
    }

    pub(crate) fn passes(&self) -> bool {
        self.violations.is_empty()
    }

    /// True unless there were injections and none of them met a holder: without a holder, no lock
    /// can be lost.
    pub(crate) fn is_a_result(&self) -> bool {
        self.met.injections == 0 || self.met.holders > 0
    }
}
