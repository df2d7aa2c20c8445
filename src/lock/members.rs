//! What several locks are made of: the order of the members, and sets that make no sense.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::one::One;
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
        let key = &one.place.as_ref().ok()?.key;
        Some((Arc::as_ptr(&one.handle.session), key))
    });
    let mut seen = HashSet::new();
    !keys.all(|key| seen.insert(key))
}

/// Two clients of one server: it would never grant the lock to both, unless both read.
pub(super) fn excluded(locks: &[Lock]) -> bool {
    let mut seen = HashMap::new();
    locks.iter().filter_map(Lock::one).any(|one| {
        let Ok(place) = &one.place else { return false };
        let server = one.handle.session.transport.server();
        let before = seen.insert((server, &place.key), place.kind);
        before.is_some_and(|kind| kind != Kind::Read || place.kind != Kind::Read)
    })
}

impl Lock {
    /// The single locks that it is made of.
    fn ones(&self) -> Vec<&One> {
        self.target.ones()
    }

    pub(super) fn one(&self) -> Option<&One> {
        match &self.target {
            Target::One(one) => Some(one),
            Target::Many(_) => None,
        }
    }

    /// Those without which it is not held.
    pub(super) fn needed(self) -> Vec<Lock> {
        match self.target {
            Target::Many(many) if !many.quorum && many.fault.is_none() => many.members.clone(),
            target => vec![Lock::of(target)],
        }
    }

    /// Why it can never be taken.
    fn fault(&self) -> Option<ConfigError> {
        match &self.target {
            Target::One(one) => one.place().err(),
            Target::Many(many) => many.fault.clone(),
        }
    }

    /// The order in which members are taken: by key, then by server.
    pub(super) fn rank(&self) -> Option<(Arc<str>, String)> {
        match &self.target {
            Target::One(one) => {
                let key = one.place.as_ref().ok()?.key.clone();
                Some((key, one.handle.session.transport.server()))
            }
            Target::Many(many) => many.members.iter().filter_map(Lock::rank).min(),
        }
    }
}

impl Target {
    /// The single locks that it is made of.
    pub(super) fn ones(&self) -> Vec<&One> {
        match self {
            Target::One(one) => vec![one],
            Target::Many(many) => many.members.iter().flat_map(Lock::ones).collect(),
        }
    }
}
