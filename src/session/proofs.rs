//! Existing holds that allow an acquisition to re-enter a lock.

use std::sync::Arc;

use super::hold::Hold;
use crate::client_id::ClientId;
use crate::protocol::kind::Kind;
use crate::protocol::resource::Resource;

/// The holds that prove that an acquisition belongs to their owner: those of the guard that the caller presented, and of
/// the sections around the call. They outlive the call. Without proofs, each acquisition is an owner of its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proofs(pub(crate) Vec<Arc<Hold>>);

impl Proofs {
    /// A live hold under a key.
    fn live(
        &self,
        client: ClientId,
        key: &Arc<str>,
        of: impl Fn(Kind) -> bool,
    ) -> Option<&Arc<Hold>> {
        self.0
            .iter()
            .find(|hold| of(hold.resource.kind) && hold.is_under(client, key) && hold.is_live())
    }

    /// How the acquisition relates to what its owner holds under the same key.
    pub(super) fn relation(&self, client: ClientId, resource: &Resource) -> OwnerRelation {
        let kind = resource.kind;
        if !kind.is_lock() {
            return OwnerRelation::Unrelated;
        }
        let same = self.live(client, &resource.key, |held| held == kind);
        let Some(first) = same.or_else(|| self.live(client, &resource.key, |_| true)) else {
            return OwnerRelation::Unrelated;
        };
        let reentrant = resource.reentrant;
        match (kind, same) {
            (Kind::Read, Some(_)) if reentrant => OwnerRelation::Concurrent,
            (Kind::Read, None) if self.write_hold(client, resource).is_some() => {
                OwnerRelation::Concurrent
            }
            (_, Some(own)) if reentrant => OwnerRelation::Nested(own.clone()),
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
        self.live(client, &resource.key, |held| held == Kind::Write)
            .cloned()
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
