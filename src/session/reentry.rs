//! Existing holds that allow an acquisition to re-enter a lock.

use std::cell::RefCell;
use std::sync::Arc;

use tokio::task;

use crate::client_id::ClientId;
use crate::protocol::kind::Kind;
use crate::protocol::resource::Resource;
use crate::session::hold::Hold;

/// The holds that prove that an acquisition belongs to their owner: those of the guard that the
/// caller presented, and of the sections around the call. They outlive the call. Without proofs,
/// each acquisition is an owner of its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proofs(pub(crate) Vec<Arc<Hold>>);

impl Proofs {
    /// A live hold under a key.
    fn live(
        &self,
        client: ClientId,
        key: &Arc<str>,
        is_kind: impl Fn(Kind) -> bool,
    ) -> Option<&Arc<Hold>> {
        self.0.iter().find(|hold| {
            is_kind(hold.resource.kind) && hold.is_under(client, key) && hold.is_live()
        })
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

// Code that runs inside `guard.run(..)` may re-enter the locks of that guard.
//
// While the future of a section is polled, or its closure runs, the section is on a stack of the
// thread. A lock taken inside finds the section's hold there. Tasks that were spawned inside do
// not find it, nor do futures that were made inside and are first polled elsewhere. The hold
// outlives the code inside, because the section borrows the guard.

thread_local! {
    static SECTIONS: RefCell<Vec<Section>> = const { RefCell::new(Vec::new()) };
}

struct Section {
    /// Tasks of a `LocalSet` may be polled while the section is on the stack, but they are not
    /// inside.
    task: Option<task::Id>,
    holds: Arc<[Arc<Hold>]>,
}

/// The thread is inside the section until this is dropped.
pub(crate) struct Inside(());

/// Enters a section for one poll.
pub(crate) fn enter(holds: &Arc<[Arc<Hold>]>) -> Inside {
    let section = Section {
        task: task::try_id(),
        holds: holds.clone(),
    };
    SECTIONS.with_borrow_mut(|sections| sections.push(section));
    Inside(())
}

impl Drop for Inside {
    fn drop(&mut self) {
        let section = SECTIONS.with_borrow_mut(Vec::pop);
        drop(section);
    }
}

/// The holds of all sections around the running future, the innermost first.
pub(crate) fn holds() -> Vec<Arc<Hold>> {
    SECTIONS.with_borrow(|sections| {
        if sections.is_empty() {
            return Vec::new();
        }
        let task = task::try_id();
        let inside = sections.iter().rev().filter(|section| section.task == task);
        inside
            .flat_map(|section| section.holds.iter().cloned())
            .collect()
    })
}

#[cfg(all(test, feature = "embedded"))]
mod tests;
