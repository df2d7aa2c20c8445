//! The waits and holds of one workload, with their names and locks.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use leasehold_testbed::keyslot;

use crate::history::{Event, Mode};
use crate::result::Holds;

use super::times::Span;

/// A hold shorter than this is brief: its worker had time to find that there is nothing to do, and
/// for nothing else.
const BRIEF: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WorkerId {
    pub(super) process: u32,
    pub(super) worker: u32,
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {} of process {}", self.worker, self.process)
    }
}

#[derive(Debug)]
pub(super) struct Wait {
    pub(super) worker: WorkerId,
    /// Index into [`Trace::names`].
    pub(super) name: usize,
    pub(super) asked: u64,
    pub(super) ended: u64,
    pub(super) end: WaitEnd,
    /// The lease that was asked for.
    pub(super) lease: u64,
    /// The hold on the wire, if it is known.
    pub(super) field: Option<String>,
}

impl Wait {
    /// Whether nobody releases the lock that this wait may have been granted.
    pub(super) fn is_orphan(&self) -> bool {
        matches!(self.end, WaitEnd::Killed | WaitEnd::Forbidden)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitEnd {
    Granted,
    /// Others held the lock all the time.
    TimedOut,
    Failed,
    /// A server refused the call. It may also have refused to release what it had granted.
    Forbidden,
    /// The process reported that all workers have ended, but this wait had not.
    Unanswered,
    /// The process died.
    Killed,
}

#[derive(Debug)]
pub(super) struct Hold {
    pub(super) worker: WorkerId,
    /// Index into [`Trace::names`].
    pub(super) name: usize,
    pub(super) mode: Mode,
    pub(super) lease: u64,
    /// Whether the lease is fixed, so that nobody renews it.
    pub(super) is_fixed: bool,
    pub(super) granted: u64,
    pub(super) token: Option<i64>,
    /// When the lock was certainly held.
    pub(super) valid: Vec<Span>,
    /// When the lock was not certainly held any more, but the holder did not yet know.
    pub(super) stale: Vec<Span>,
    /// When the holder noticed that it may not hold the lock any more.
    pub(super) noticed: Vec<u64>,
    /// When the holder began to release the lock, or the last event of its killed process.
    pub(super) left_at: Option<u64>,
    /// The last event of the process, if it was killed before the release.
    pub(super) died_at: Option<u64>,
    /// The grant, and each later answer that the lock is held.
    pub(super) confirmations: Vec<Confirmation>,
    /// Sorted by time. The first one is the grant.
    pub(super) lease_updates: Vec<LeaseUpdate>,
    /// Whether the history shows each renewal: by a later deadline, or as an event of the driver.
    pub(super) shows_renewals: bool,
    /// How many of the lease updates are renewals.
    pub(super) renewed: u64,
    /// How many of the lease updates were not followed by a renewal in time.
    pub(super) failed: u64,
    pub(super) loss_notices: Vec<LossNotice>,
    pub(super) actions: Actions,
    pub(super) writes: Vec<Write>,
    /// No server has the hold after this time.
    pub(super) gone_by: u64,
    /// Whether nobody releases it, so that it ends with its lease.
    pub(super) is_orphan: bool,
}

/// The library answered that the lock is held, until the deadline if it named one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Confirmation {
    pub(super) at: u64,
    pub(super) deadline: Option<u64>,
}

/// A server set the end of the lease: by the grant, or by extending it later.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeaseUpdate {
    /// The call was not sent before this.
    pub(super) earliest: u64,
    /// The call was done by then, because its effect was seen.
    pub(super) latest: u64,
    pub(super) until: u64,
}

impl LeaseUpdate {
    pub(super) fn span(self) -> Span {
        Span {
            from: self.earliest,
            to: self.latest,
        }
    }
}

/// The holder noticed that its hold has ended, or may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct LossNotice {
    pub(super) at: u64,
    /// When the worker looked. If the deadline passed unseen, this is later than `at`. The lease
    /// may have been renewed in between.
    pub(super) seen: u64,
    pub(super) by: NoticeSource,
    /// The last lease update before it.
    pub(super) update: LeaseUpdate,
    /// Whether the library later answered again that the lock is held.
    pub(super) is_retracted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoticeSource {
    /// The deadline passed.
    Deadline,
    Library,
}

/// What the worker did with the hold.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Actions {
    pub(super) extended: bool,
    pub(super) reentered: bool,
    pub(super) paused: bool,
}

/// A write to the fenced resource.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) accepted: bool,
    pub(super) answered: u64,
}

impl Hold {
    pub(super) fn is_valid(&self, at: u64) -> bool {
        self.valid.iter().any(|span| span.contains(at))
    }

    pub(super) fn noticed_after(&self, at: u64) -> Option<u64> {
        self.noticed
            .iter()
            .copied()
            .filter(|noticed| *noticed >= at)
            .min()
    }

    /// The deadline that was known at this time.
    pub(super) fn deadline_at(&self, at: u64) -> Option<u64> {
        self.confirmations
            .iter()
            .rfind(|confirmation| confirmation.at <= at)
            .and_then(|confirmation| confirmation.deadline)
    }

    /// The last lease update that was done by this time.
    pub(super) fn lease_update_at(&self, at: u64) -> Option<LeaseUpdate> {
        let known = self
            .lease_updates
            .iter()
            .rfind(|update| update.latest <= at);
        known.or(self.lease_updates.first()).copied()
    }

    /// The last valid instant.
    pub(super) fn valid_until(&self) -> Option<u64> {
        self.valid.iter().map(|span| span.to).max()
    }

    /// Counts the hold in each kind that it is of.
    pub(super) fn count(&self, lease: u64, counts: &mut Holds) {
        let length = self.left_at.or(self.valid_until()).unwrap_or(self.granted) - self.granted;
        counts.brief += u64::from(length < BRIEF);
        counts.beyond_a_lease += u64::from(length > lease);
        counts.fixed += u64::from(self.is_fixed);
        counts.extended += u64::from(self.actions.extended);
        counts.reentered += u64::from(self.actions.reentered);
        counts.paused += u64::from(self.actions.paused);
    }

    /// The last loss notice, if the library did not retract it. Then the hold is lost.
    pub(super) fn loss(&self) -> Option<&LossNotice> {
        self.loss_notices
            .last()
            .filter(|notice| !notice.is_retracted)
    }
}

/// What workers ask for: one lock, or several that are taken together.
#[derive(Debug)]
pub(super) struct Name<'a> {
    pub(super) text: &'a str,
    /// Indices into [`Trace::locks`].
    pub(super) locks: Vec<usize>,
}

#[derive(Debug)]
pub(super) struct Lock {
    pub(super) name: String,
    pub(super) slot: u16,
    /// Indices into [`Trace::waits`], sorted by the time of asking.
    pub(super) waits: Vec<usize>,
    /// Indices into [`Trace::holds`], sorted by grant.
    pub(super) holds: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Errors {
    pub(super) count: u64,
    pub(super) first: u64,
}

/// Everything that the history contains of one workload.
#[derive(Debug, Default)]
pub(super) struct Trace<'a> {
    pub(super) names: Vec<Name<'a>>,
    pub(super) locks: Vec<Lock>,
    /// Sorted by the time of asking.
    pub(super) waits: Vec<Wait>,
    /// Sorted by grant.
    pub(super) holds: Vec<Hold>,
    pub(super) errors: BTreeMap<&'a str, Errors>,
    /// Violations that the events of a single worker show.
    pub(super) violations: Vec<String>,
    name_indices: HashMap<&'a str, usize>,
    lock_indices: HashMap<String, usize>,
}

impl<'a> Trace<'a> {
    /// The index of the event's name.
    pub(super) fn name(&mut self, event: &'a Event) -> usize {
        if let Some(&index) = self.name_indices.get(event.name.as_str()) {
            return index;
        }
        let locks = event.locks().map(|lock| self.lock(lock)).collect();
        self.names.push(Name {
            text: &event.name,
            locks,
        });
        self.name_indices.insert(&event.name, self.names.len() - 1);
        self.names.len() - 1
    }

    fn lock(&mut self, name: String) -> usize {
        if let Some(&index) = self.lock_indices.get(&name) {
            return index;
        }
        let (slot, waits, holds) = (keyslot(&name), Vec::new(), Vec::new());
        self.locks.push(Lock {
            name: name.clone(),
            slot,
            waits,
            holds,
        });
        self.lock_indices.insert(name, self.locks.len() - 1);
        self.locks.len() - 1
    }

    pub(super) fn error(&mut self, kind: &'a str, at: u64) {
        self.errors
            .entry(kind)
            .or_insert(Errors {
                count: 0,
                first: at,
            })
            .count += 1;
    }

    /// Sorts the waits and holds, once all are known, and assigns them to their locks.
    pub(super) fn complete(&mut self) {
        self.waits.sort_by_key(|wait| wait.asked);
        self.holds.sort_by_key(|hold| hold.granted);
        for (index, wait) in self.waits.iter().enumerate() {
            for &lock in &self.names[wait.name].locks {
                self.locks[lock].waits.push(index);
            }
        }
        for (index, hold) in self.holds.iter().enumerate() {
            for &lock in &self.names[hold.name].locks {
                self.locks[lock].holds.push(index);
            }
        }
    }

    /// The slots of the locks of a name.
    pub(super) fn slots_of(&self, name: usize) -> Vec<u16> {
        self.names[name]
            .locks
            .iter()
            .map(|lock| self.locks[*lock].slot)
            .collect()
    }

    /// The group of each lock. Locks that names take together are one group, directly or through
    /// other locks; its number is the lowest index.
    pub(super) fn groups(&self) -> Vec<usize> {
        let mut groups: Vec<usize> = (0..self.locks.len()).collect();
        for name in self.names.iter().filter(|name| name.locks.len() > 1) {
            let together: Vec<usize> = name.locks.iter().map(|lock| groups[*lock]).collect();
            let first = together.iter().copied().min().unwrap_or(0);
            for group in groups.iter_mut().filter(|group| together.contains(group)) {
                *group = first;
            }
        }
        groups
    }

    pub(super) fn workload_of(&self, wait: &Wait) -> &'a str {
        self.names[wait.name]
            .text
            .split(':')
            .next()
            .unwrap_or_default()
    }

    pub(super) fn name_of(&self, hold: &Hold) -> &'a str {
        self.names[hold.name].text
    }
}
