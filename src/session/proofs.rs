//! Existing holds that allow an acquisition to re-enter a lock.

use std::sync::Arc;

use super::hold::Hold;
use super::owner::Owner;
use crate::client_id::ClientId;
use crate::protocol::kind::Kind;
use crate::protocol::resource::Resource;

/// What proves that an acquisition belongs to the owner of existing holds. Without proofs, each
/// acquisition is an owner of its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proofs {
    /// Holds of the guard that the caller presented, and of the sections around the call. They
    /// outlive the call.
    pub(crate) holds: Vec<Arc<Hold>>,
    pub(crate) owner: Option<Owner>,
}

impl Proofs {
    /// A live hold of one kind under a key.
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

    /// A live hold of any kind under a key.
    fn any(&self, client: ClientId, key: &Arc<str>) -> Option<Arc<Hold>> {
        let live = |hold: &&Arc<Hold>| hold.is_under(client, key) && hold.is_live();
        let of_owner = |owner: &Owner| owner.any(client, key);
        self.holds
            .iter()
            .find(live)
            .cloned()
            .or_else(|| self.owner.as_ref().and_then(of_owner))
    }

    /// How the acquisition relates to what its owner holds under the same key.
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

    /// The write hold under which this read hold is taken, if any.
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

/// How an acquisition relates to the holds of its owner.
#[derive(Debug)]
pub(super) enum OwnerRelation {
    /// The owner holds nothing there, or it does not matter.
    Unrelated,
    /// The owner holds the lock, so this acquisition raises the count of that hold.
    Nested(Arc<Hold>),
    /// The owner holds the lock in a way that allows another hold at once.
    Concurrent,
    /// The acquisition would wait for its own owner. The text completes the error message.
    WouldDeadlock(&'static str),
}
