//! The node that serves each slot, and how often it changed.
//!
//! # Invariants
//!
//! - **MAP-1** `changes` of a slot rises before another node is asked for the slot: before its
//!   owner is replaced, and before a call follows an ASK. So while it stays the same, every call
//!   for the slot goes to the same node.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::keyslot::SLOTS;

pub(super) struct SlotMap(Box<[SlotOwner]>);

#[derive(Default)]
struct SlotOwner {
    /// The number of the node; zero if none is known.
    owner: AtomicU32,
    changes: AtomicU32,
}

impl SlotMap {
    pub(super) fn new() -> Self {
        SlotMap((0..SLOTS).map(|_| SlotOwner::default()).collect())
    }

    pub(super) fn owner(&self, slot: u16) -> Option<u32> {
        let owner = self.at(slot).owner.load(Ordering::Acquire);
        (owner != 0).then_some(owner)
    }

    pub(super) fn changes(&self, slot: u16) -> u32 {
        self.at(slot).changes.load(Ordering::Acquire)
    }

    /// Records that a call for the slot is about to be sent to a node that is not its owner.
    pub(super) fn detour(&self, slot: u16) {
        self.at(slot).changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Assigns the slot to a node. False if the node is its owner already.
    pub(super) fn give(&self, slot: u16, owner: u32) -> bool {
        let at = self.at(slot);
        let is_new = at.owner.load(Ordering::Acquire) != owner;
        if is_new {
            // INVARIANT MAP-1: count the change before another task can see the new owner.
            at.changes.fetch_add(1, Ordering::AcqRel);
            at.owner.store(owner, Ordering::Release);
        }
        is_new
    }

    pub(super) fn owners(&self) -> std::collections::BTreeSet<u32> {
        let owners = self.0.iter().map(|slot| slot.owner.load(Ordering::Acquire));
        owners.filter(|owner| *owner != 0).collect()
    }

    fn at(&self, slot: u16) -> &SlotOwner {
        &self.0[usize::from(slot)]
    }
}
