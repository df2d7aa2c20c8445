//! What a run has shown, for people and for programs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

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
    /// Seeds with which the fault met no holder, so that the cell was run again.
    pub(crate) again: u64,
    /// Grants.
    pub(crate) operations: u64,
    /// Waits that ended because others held the lock all the while.
    pub(crate) timeouts: u64,
    /// Other ends of acquisitions and releases, by kind.
    pub(crate) errors: BTreeMap<String, u64>,
    /// How many of the grants led to what.
    pub(crate) holds: Holds,
    pub(crate) renewals: Renewals,
    pub(crate) met: Met,
    pub(crate) losses: Losses,
    pub(crate) overlaps: Overlaps,
    /// Of the time in which locks were held, thousandths in which a fault would have excused another holder.
    pub(crate) excusable_permille: u64,
    /// Writes that the resource refused.
    pub(crate) refused_writes: u64,
    pub(crate) longest_wait_ms: u64,
    /// From the end of each fault until every lock of the workload was granted again, while nobody held it.
    pub(crate) recovery_ms: Vec<u64>,
    /// The longest time in which a lock that was waited for was held by nobody, since the first fault.
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

/// Of which kinds the holds were; one may be of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holds {
    /// Not longer than a millisecond.
    pub(crate) brief: u64,
    /// Longer than the lease.
    pub(crate) beyond_a_lease: u64,
    /// With a lease that nobody renews.
    pub(crate) fixed: u64,
    pub(crate) extended: u64,
    pub(crate) reentered: u64,
    /// Nobody looked at it for a while.
    pub(crate) paused: u64,
}

/// Prolongations of leases that are not fixed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Renewals {
    /// The holder saw a later deadline, or the driver renewed.
    pub(crate) done: u64,
    /// One was due, and nothing of it was seen in time: it, or its reply, is lost.
    pub(crate) failed: u64,
    /// Holds that ended by a deadline, or by news of a loss, although they were to be renewed.
    pub(crate) lost: u64,
}

/// What faults met; an injection counts at most once for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Met {
    pub(crate) injections: u64,
    /// One of its holders was within reach, between its beginning and its end.
    pub(crate) holders: u64,
    pub(crate) waiters: u64,
    /// A renewal was due.
    pub(crate) renewals: u64,
}

/// Holds that ended before their holder released them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Losses {
    /// A fault can have brought it about.
    pub(crate) with_cause: u64,
    /// Nothing in the history can: violations.
    pub(crate) without_cause: u64,
    /// Someone else was granted the lock; the longest time from then until the holder was told, its own release apart.
    pub(crate) longest_told_ms: u64,
    /// Holders that were asked, and said *held*, while someone else had been granted the lock.
    pub(crate) said_held: u64,
    /// For how long the longest of them said so.
    pub(crate) longest_said_held_ms: u64,
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
}

impl Cell {
    pub(crate) fn is_ours(&self) -> bool {
        self.library == "leasehold"
    }

    pub(crate) fn passes(&self) -> bool {
        self.violations.is_empty()
    }

    /// Whether the fault met what it was for: without a holder nothing can be lost.
    pub(crate) fn is_a_result(&self) -> bool {
        self.met.injections == 0 || self.met.holders > 0
    }
}
