//! The members of several locks as one: their order, and the sets that are refused.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::SingleLock;
use super::{Lock, LockSet};
use crate::error::ConfigError;
use crate::protocol::kind::Kind;

/// The largest set: one script takes all members, and Redis does nothing else meanwhile.
const MEMBERS_MAX: usize = 1024;

/// Why these locks cannot be combined.
///
/// A member that can never be taken is refused here. Later it would look like a server that is
/// down, and a quorum would continue without it.
pub(super) fn set_error_of(members: &[Lock]) -> Option<ConfigError> {
    let reason = if members.is_empty() {
        "no lock was given"
    } else if members.iter().flat_map(Lock::singles).count() > MEMBERS_MAX {
        "more than 1024 locks were given"
    } else if has_duplicates(members) {
        "the same lock was given twice"
    } else {
        return None;
    };
    Some(ConfigError::Members { reason })
}

/// Whether the same lock of one client is there twice, directly or in nested sets.
fn has_duplicates(locks: &[Lock]) -> bool {
    let singles = locks.iter().flat_map(Lock::singles);
    let mut keys = singles.filter_map(|single| {
        let key = &single.resource.as_ref().ok()?.key;
        Some((Arc::as_ptr(&single.handle.session), key))
    });
    let mut seen = HashSet::new();
    !keys.all(|key| seen.insert(key))
}

/// Whether two clients of one server ask for the same lock. The server grants it to both only if
/// both read.
pub(super) fn conflicts_on_a_server(locks: &[Lock]) -> bool {
    let mut seen = HashMap::new();
    locks.iter().filter_map(Lock::single).any(|single| {
        let Ok(resource) = &single.resource else {
            return false;
        };
        let server = single.handle.calls().transport.server();
        let before = seen.insert((server, &resource.key), resource.kind);
        before.is_some_and(|kind| kind != Kind::Read || resource.kind != Kind::Read)
    })
}

impl Lock {
    /// The single locks of the set; a single lock is a set of one.
    fn singles(&self) -> Vec<&SingleLock> {
        self.set.singles()
    }

    pub(super) fn single(&self) -> Option<&SingleLock> {
        match &self.set {
            LockSet::Single(single) => Some(single),
            LockSet::Multi(_) => None,
        }
    }

    /// The locks that must all be held: the members of a set, or the lock itself. A quorum and a
    /// refused set stay as they are.
    pub(super) fn into_members(self) -> Vec<Lock> {
        match self.set {
            LockSet::Multi(multi) if !multi.quorum && multi.check().is_ok() => {
                multi.members.clone()
            }
            set => vec![Lock::of(set)],
        }
    }

    /// Why the lock can never be taken.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        match &self.set {
            LockSet::Single(single) => single.resource().map(|_| ()),
            LockSet::Multi(multi) => multi.check(),
        }
    }

    /// The position in the order in which members are taken: by key, then by server.
    pub(super) fn rank(&self) -> Option<(Arc<str>, String)> {
        match &self.set {
            LockSet::Single(single) => {
                let key = single.resource.as_ref().ok()?.key.clone();
                Some((key, single.handle.calls().transport.server()))
            }
            LockSet::Multi(multi) => multi.members.iter().filter_map(Lock::rank).min(),
        }
    }
}

impl LockSet {
    /// The single locks of the set; a single lock is a set of one.
    pub(super) fn singles(&self) -> Vec<&SingleLock> {
        match self {
            LockSet::Single(single) => vec![single],
            LockSet::Multi(multi) => multi.members.iter().flat_map(Lock::singles).collect(),
        }
    }
}
