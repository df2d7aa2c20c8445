//! What several locks are made of: the order of the members, and sets that make no sense.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::single::SingleLock;
use super::{Lock, Target};
use crate::error::ConfigError;
use crate::protocol::kind::Kind;

/// The most locks that are one: one script takes them all, and Redis does nothing else meanwhile.
const MEMBERS_MAX: usize = 1024;

/// Why these cannot be one lock. One that can never be taken is no member that just happens to be
/// down: a quorum would go on without it, and others would be asked first.
pub(super) fn fault_of(members: &[Lock]) -> Option<ConfigError> {
    if let Some(fault) = members.iter().find_map(Lock::fault) {
        return Some(fault);
    }
    let reason = if members.is_empty() {
        "no lock was given"
    } else if members.iter().flat_map(Lock::ones).count() > MEMBERS_MAX {
        "more than 1024 locks were given"
    } else if repeated(members) {
        "the same lock was given twice"
    } else {
        return None;
    };
    Some(ConfigError::Members { reason })
}

/// Two of the locks, or of those that they are made of, are one lock of one client.
fn repeated(locks: &[Lock]) -> bool {
    let ones = locks.iter().flat_map(Lock::ones);
    let mut keys = ones.filter_map(|one| {
        let key = &one.resource.as_ref().ok()?.key;
        Some((Arc::as_ptr(&one.handle.session), key))
    });
    let mut seen = HashSet::new();
    !keys.all(|key| seen.insert(key))
}

/// Two clients of one server: it would never grant the lock to both, unless both read.
pub(super) fn excluded(locks: &[Lock]) -> bool {
    let mut seen = HashMap::new();
    locks.iter().filter_map(Lock::one).any(|one| {
        let Ok(resource) = &one.resource else { return false };
        let server = one.handle.session.transport.server();
        let before = seen.insert((server, &resource.key), resource.kind);
        before.is_some_and(|kind| kind != Kind::Read || resource.kind != Kind::Read)
    })
}

impl Lock {
    /// The single locks that it is made of.
    fn ones(&self) -> Vec<&SingleLock> {
        self.target.ones()
    }

    pub(super) fn one(&self) -> Option<&SingleLock> {
        match &self.target {
            Target::Single(one) => Some(one),
            Target::Multi(_) => None,
        }
    }

    /// Those without which it is not held.
    pub(super) fn needed(self) -> Vec<Lock> {
        match self.target {
            Target::Multi(multi) if !multi.quorum && multi.fault.is_none() => multi.members.clone(),
            target => vec![Lock::of(target)],
        }
    }

    /// Why it can never be taken.
    fn fault(&self) -> Option<ConfigError> {
        match &self.target {
            Target::Single(one) => one.resource().err(),
            Target::Multi(multi) => multi.fault.clone(),
        }
    }

    /// The order in which members are taken: by key, then by server.
    pub(super) fn rank(&self) -> Option<(Arc<str>, String)> {
        match &self.target {
            Target::Single(one) => {
                let key = one.resource.as_ref().ok()?.key.clone();
                Some((key, one.handle.session.transport.server()))
            }
            Target::Multi(multi) => multi.members.iter().filter_map(Lock::rank).min(),
        }
    }
}

impl Target {
    /// The single locks that it is made of.
    pub(super) fn ones(&self) -> Vec<&SingleLock> {
        match self {
            Target::Single(one) => vec![one],
            Target::Multi(multi) => multi.members.iter().flat_map(Lock::ones).collect(),
        }
    }
}
