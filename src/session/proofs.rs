//! What lets an acquisition take again what its owner holds already.

use std::sync::Arc;

use super::hold::Hold;
use super::owner::Owner;
use crate::client_id::ClientId;
use crate::protocol::kind::Kind;
use crate::protocol::resource::Resource;

/// What lets an acquisition take again what is held already: an acquisition without any is an owner of
/// its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proofs {
    /// Holds of the guard that was shown, and of the sections around the call: they outlive it.
    pub(crate) holds: Vec<Arc<Hold>>,
    pub(crate) owner: Option<Owner>,
}

impl Proofs {
    /// A live hold of a kind under a key.
    fn newest(&self, client: ClientId, key: &Arc<str>, kind: Kind) -> Option<Arc<Hold>> {
        let live = |hold: &&Arc<Hold>| {
            hold.resource.kind == kind && hold.is_under(client, key) && hold.is_live()
        };
        let of_owner = |owner: &Owner| owner.newest(client, key, kind);
        self.holds
            .iter()
            .find(live)
            .cloned()
            .or_else(|| self.owner.as_ref().and_then(of_owner))
    }

    /// A live hold of whatever kind under a key.
    fn any(&self, client: ClientId, key: &Arc<str>) -> Option<Arc<Hold>> {
        let live = |hold: &&Arc<Hold>| hold.is_under(client, key) && hold.is_live();
        let of_owner = |owner: &Owner| owner.any(client, key);
        self.holds
            .iter()
            .find(live)
            .cloned()
            .or_else(|| self.owner.as_ref().and_then(of_owner))
    }

    /// What the proofs show under the same key decides how it is asked for.
    pub(super) fn relation(&self, client: ClientId, resource: &Resource) -> OwnerRelation {
        let kind = resource.kind;
        if !kind.is_lock() {
            return OwnerRelation::Unrelated;
        }
        if self.is_empty() {
            return OwnerRelation::Unrelated;
        }
        let same = self.newest(client, &resource.key, kind);
        let first = same.clone().or_else(|| self.any(client, &resource.key));
        let Some(first) = first else {
            return OwnerRelation::Unrelated;
        };
        let reentrant = resource.reentrant;
        match (kind, same) {
            (Kind::Read, Some(_)) if reentrant => OwnerRelation::Concurrent,
            (Kind::Read, None) if self.write_hold(client, resource).is_some() => {
                OwnerRelation::Concurrent
            }
            (_, Some(own)) if reentrant => OwnerRelation::Nested(own),
            (_, Some(_)) => OwnerRelation::WouldDeadlock("and it is not re-entrant"),
            (Kind::Write, None) if first.resource.kind == Kind::Read => {
                OwnerRelation::WouldDeadlock(
                    "for reading: an upgrade would wait for the reader's own release",
                )
            }
            (_, None) => OwnerRelation::WouldDeadlock("as another kind of lock"),
        }
    }

    /// The write hold under which this read hold is taken.
    pub(super) fn write_hold(&self, client: ClientId, resource: &Resource) -> Option<Arc<Hold>> {
        if resource.kind != Kind::Read {
            return None;
        }
        self.newest(client, &resource.key, Kind::Write)
    }

    fn is_empty(&self) -> bool {
        self.holds.is_empty() && self.owner.is_none()
    }

    /// A hold was granted.
    pub(super) fn add(&self, hold: &Arc<Hold>) {
        if let Some(owner) = &self.owner {
            owner.add(hold);
        }
    }
}

/// How an acquisition is related to what its owner holds, as its proofs show.
#[derive(Debug)]
pub(super) enum OwnerRelation {
    /// Its owner holds nothing there, or that does not matter.
    Unrelated,
    /// Its owner holds the lock: the count is raised.
    Nested(Arc<Hold>),
    /// Its owner holds the lock in a way that lets it in at once, as a hold of its own.
    Concurrent,
    /// It would wait for its own owner.
    WouldDeadlock(&'static str),
}
