//! The waits and holds of one workload, and the locks that they are of.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use leasehold_testbed::keyslot;

use crate::history::{Event, Mode};
use crate::result::Holds;

use super::times::Span;

/// So long takes it to find out that there is nothing to do.
const BRIEF: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Who {
    pub(super) process: u32,
    pub(super) worker: u32,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {} of process {}", self.worker, self.process)
    }
}

#[derive(Debug)]
pub(super) struct Wait {
    pub(super) who: Who,
    /// Its place in [`Story::names`].
    pub(super) name: usize,
    pub(super) asked: u64,
    pub(super) ended: u64,
    pub(super) end: WaitEnd,
    /// What was asked for.
    pub(super) lease: u64,
}

impl Wait {
    /// Nobody gives back what it may have been granted.
    pub(super) fn is_orphan(&self) -> bool {
        matches!(self.end, WaitEnd::Vanished | WaitEnd::Forbidden)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitEnd {
    Granted,
    /// Others held the lock all the while.
    TimedOut,
    Failed,
    /// A server refused it, and perhaps to give back what it had granted.
    Forbidden,
    /// The process says that all has ended, but this has not.
    Left,
    /// With its process.
    Vanished,
}

#[derive(Debug)]
pub(super) struct Hold {
    pub(super) who: Who,
    /// Its place in [`Story::names`].
    pub(super) name: usize,
    pub(super) mode: Mode,
    pub(super) lease: u64,
    /// Nobody renews it.
    pub(super) is_fixed: bool,
    pub(super) granted: u64,
    pub(super) token: Option<i64>,
    /// When it was held for certain.
    pub(super) valid: Vec<Span>,
    /// When its holder had not heard yet that it was not.
    pub(super) stale: Vec<Span>,
    /// When its holder was told that it does not hold the lock any more.
    pub(super) told: Vec<u64>,
    /// When it began to release the lock, or gave its last sign of life.
    pub(super) left: Option<u64>,
    /// Its process died before it had released the lock, and gave its last sign of life then.
    pub(super) died: Option<u64>,
    /// What the library said of it, from the grant on.
    pub(super) answers: Vec<Answer>,
    /// In the order of their times.
    pub(super) signatures: Vec<Signature>,
    /// Whether each renewal can be seen: by a later deadline, or because the driver does it.
    pub(super) shows_renewals: bool,
    /// How many signatures are renewals.
    pub(super) renewed: u64,
    /// How many signatures were followed by none in time.
    pub(super) failed: u64,
    pub(super) alarms: Vec<Alarm>,
    pub(super) did: Did,
    pub(super) writes: Vec<Write>,
    /// No server has it after this.
    pub(super) gone_by: u64,
    /// Nobody gives it back before.
    pub(super) is_orphan: bool,
}

/// The library said that the lock is held.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) at: u64,
    pub(super) until: Option<u64>,
}

/// A server carried out what makes the lease run until some deadline: the grant, or what prolongs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signature {
    /// It was not sent earlier.
    pub(super) from: u64,
    /// It was seen to be done.
    pub(super) by: u64,
    pub(super) until: u64,
}

impl Signature {
    pub(super) fn span(self) -> Span {
        Span {
            from: self.from,
            to: self.by,
        }
    }
}

/// The holder was told that its hold is over, or may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alarm {
    pub(super) at: u64,
    /// When the worker looked: later than a deadline that passed meanwhile, and was perhaps a later one.
    pub(super) seen: u64,
    pub(super) by: Teller,
    /// The last one before it.
    pub(super) signature: Signature,
    /// Later the library said again that the lock is held.
    pub(super) is_taken_back: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Teller {
    /// A deadline that passed.
    Deadline,
    Library,
}

/// What its worker did with it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Did {
    pub(super) extend: bool,
    pub(super) reenter: bool,
    pub(super) pause: bool,
}

#[derive(Debug)]
pub(super) struct Write {
    pub(super) accepted: bool,
    pub(super) answered: u64,
}

impl Hold {
    pub(super) fn is_valid(&self, at: u64) -> bool {
        self.valid.iter().any(|span| span.contains(at))
    }

    pub(super) fn told_after(&self, at: u64) -> Option<u64> {
        self.told.iter().copied().filter(|told| *told >= at).min()
    }

    /// The deadline that was known at this time.
    pub(super) fn deadline_at(&self, at: u64) -> Option<u64> {
        self.answers
            .iter()
            .rfind(|answer| answer.at <= at)
            .and_then(|answer| answer.until)
    }

    /// The last signature that was known at this time.
    pub(super) fn signature_at(&self, at: u64) -> Option<Signature> {
        let known = self.signatures.iter().rfind(|signature| signature.by <= at);
        known.or(self.signatures.first()).copied()
    }

    /// Its last valid instant.
    pub(super) fn valid_until(&self) -> Option<u64> {
        self.valid.iter().map(|span| span.to).max()
    }

    /// Of which kinds it was.
    pub(super) fn count(&self, lease: u64, counts: &mut Holds) {
        let length = self.left.or(self.valid_until()).unwrap_or(self.granted) - self.granted;
        counts.brief += u64::from(length < BRIEF);
        counts.beyond_a_lease += u64::from(length > lease);
        counts.fixed += u64::from(self.is_fixed);
        counts.extended += u64::from(self.did.extend);
        counts.reentered += u64::from(self.did.reenter);
        counts.paused += u64::from(self.did.pause);
    }

    /// The holder was told before it released the lock, and the lock was not held again.
    pub(super) fn loss(&self) -> Option<&Alarm> {
        self.alarms.last().filter(|alarm| !alarm.is_taken_back)
    }
}

#[derive(Debug)]
pub(super) struct Name<'a> {
    pub(super) text: &'a str,
    /// Their places in [`Story::locks`].
    pub(super) locks: Vec<usize>,
}

#[derive(Debug)]
pub(super) struct Lock {
    pub(super) name: String,
    pub(super) slot: u16,
    /// Their places in [`Story::waits`], in the order of asking.
    pub(super) waits: Vec<usize>,
    /// Their places in [`Story::holds`], in the order of their grants.
    pub(super) holds: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Errors {
    pub(super) count: u64,
    pub(super) first: u64,
}

#[derive(Debug, Default)]
pub(super) struct Story<'a> {
    pub(super) names: Vec<Name<'a>>,
    pub(super) locks: Vec<Lock>,
    /// In the order of asking.
    pub(super) waits: Vec<Wait>,
    /// In the order of their grants.
    pub(super) holds: Vec<Hold>,
    pub(super) errors: BTreeMap<&'a str, Errors>,
    /// What can be seen without comparing workers.
    pub(super) violations: Vec<String>,
    name_places: HashMap<&'a str, usize>,
    lock_places: HashMap<String, usize>,
}

impl<'a> Story<'a> {
    /// The place of the event's name.
    pub(super) fn name(&mut self, event: &'a Event) -> usize {
        if let Some(&place) = self.name_places.get(event.name.as_str()) {
            return place;
        }
        let locks = event.locks().map(|lock| self.lock(lock)).collect();
        self.names.push(Name {
            text: &event.name,
            locks,
        });
        self.name_places.insert(&event.name, self.names.len() - 1);
        self.names.len() - 1
    }

    fn lock(&mut self, name: String) -> usize {
        if let Some(&place) = self.lock_places.get(&name) {
            return place;
        }
        let (slot, waits, holds) = (keyslot(&name), Vec::new(), Vec::new());
        self.locks.push(Lock {
            name: name.clone(),
            slot,
            waits,
            holds,
        });
        self.lock_places.insert(name, self.locks.len() - 1);
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

    /// All waits and holds are known: puts them in order.
    pub(super) fn complete(&mut self) {
        self.waits.sort_by_key(|wait| wait.asked);
        self.holds.sort_by_key(|hold| hold.granted);
        for (place, wait) in self.waits.iter().enumerate() {
            for &lock in &self.names[wait.name].locks {
                self.locks[lock].waits.push(place);
            }
        }
        for (place, hold) in self.holds.iter().enumerate() {
            for &lock in &self.names[hold.name].locks {
                self.locks[lock].holds.push(place);
            }
        }
    }

    /// Of the locks of a name.
    pub(super) fn slots_of(&self, name: usize) -> Vec<u16> {
        self.names[name]
            .locks
            .iter()
            .map(|lock| self.locks[*lock].slot)
            .collect()
    }

    /// For each lock, the first of those that it is taken together with.
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
