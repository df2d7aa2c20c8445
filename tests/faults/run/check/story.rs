//! The waits and holds of one workload, and the locks that they are of.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::history::{Event, Mode};

use super::times::Span;

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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitEnd {
    Granted,
    /// Others held the lock all the while.
    TimedOut,
    Failed,
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
    pub(super) granted: u64,
    pub(super) token: Option<i64>,
    /// When it was held for certain.
    pub(super) valid: Vec<Span>,
    /// When its holder had not heard yet that it was not.
    pub(super) stale: Vec<Span>,
    /// When its holder was told, or said itself, that it does not hold the lock any more.
    pub(super) told: Vec<u64>,
    pub(super) writes: Vec<Write>,
    /// No server has it after this.
    pub(super) gone_by: u64,
}

#[derive(Debug)]
pub(super) struct Write {
    pub(super) accepted: bool,
    /// Not sent before this.
    pub(super) sent: u64,
    pub(super) answered: u64,
    pub(super) order: Option<u64>,
}

impl Hold {
    pub(super) fn is_valid(&self, at: u64) -> bool {
        self.valid.iter().any(|span| span.contains(at))
    }

    pub(super) fn told_after(&self, at: u64) -> Option<u64> {
        self.told.iter().copied().filter(|told| *told >= at).min()
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
        self.names.push(Name { text: &event.name, locks });
        self.name_places.insert(&event.name, self.names.len() - 1);
        self.names.len() - 1
    }

    fn lock(&mut self, name: String) -> usize {
        if let Some(&place) = self.lock_places.get(&name) {
            return place;
        }
        self.locks.push(Lock { name: name.clone(), waits: Vec::new(), holds: Vec::new() });
        self.lock_places.insert(name, self.locks.len() - 1);
        self.locks.len() - 1
    }

    pub(super) fn error(&mut self, kind: &'a str, at: u64) {
        self.errors.entry(kind).or_insert(Errors { count: 0, first: at }).count += 1;
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

    pub(super) fn name_of(&self, hold: &Hold) -> &'a str {
        self.names[hold.name].text
    }
}
