//! The server of a node, and its generations.
//!
//! A node has a *target*: what it connects to, and which server that led to. Another target, another server behind
//! the same one, or a server that does not serve as it did is another *generation*. No connection of an earlier
//! generation carries a call: [`Shared::begin`] takes all of them away at once, and a connection that was being
//! opened meanwhile is refused by its slot. So a former primary that still takes writes grants no lock to this
//! client, and neither does another server beside the one that its holds are on.

use std::sync::Arc;

use super::Node;
use super::shared::{Progress, Shared, Target};
use crate::Fault;
use crate::identity::Identity;
use crate::remote::Remote;
use crate::slot::ConnectionSlot;
use crate::subscriptions::SubscriptionRegistry;

/// After this many connections in a row that led to another server than the live ones, the live ones are given up.
const STRANGERS_MAX: u32 = 8;

/// Why a connection to the previous server is given up.
pub(super) const OTHER_TARGET: &str = "another server serves now";

/// Whether a connection may carry calls.
pub(super) enum Settled {
    /// In this generation.
    In(u64),
    /// It leads to another server than the connections that live.
    Stranger,
    /// The node has another target meanwhile.
    OtherTarget,
}

impl Node {
    /// Gives the node another target. All connections to the former one are given up at once: the epochs
    /// rise, and every call on them gets the outcome that is known, before this returns.
    pub(crate) fn switch(&self, remote: Result<Arc<Remote>, Fault>, fault: &Fault) {
        self.shared.begin(fault, |target| {
            (target.remote, target.server) = (remote, None);
            true
        });
    }
}

impl Shared {
    /// A connection of this generation has reached this server, after so many that were refused here. It may carry
    /// calls in that generation, or in a new one, to whose server all connections move.
    pub(super) fn settle(&self, generation: u64, met: &Identity, refused: u32) -> Settled {
        let is_connected = self.progress.borrow().contains(&Progress::Connected);
        let mut settled = Settled::OtherTarget;
        let moves = self.begin(&Fault(OTHER_TARGET.into()), |target| {
            if target.generation != generation {
                return false;
            }
            let known = target.server.get_or_insert_with(|| met.clone());
            let is_other = met.is_other_than(known);
            if is_other && is_connected && refused < STRANGERS_MAX {
                settled = Settled::Stranger;
                return false;
            }
            settled = Settled::In(generation + u64::from(is_other));
            if is_other {
                *known = met.clone();
            } else {
                known.learn(met);
            }
            is_other
        });
        if moves {
            // No await in between: before another supervisor, on the same thread, has a connection to this server,
            // every hold is uncertain. And only behind the end of those to the former one: a renewal that it
            // answered confirms nothing any more.
            self.setup.events.primary_changed(&|_| true);
        }
        settled
    }

    /// The server of this generation does not serve as it did: all connections are made anew.
    pub(super) fn leave(&self, generation: u64, fault: &Fault) {
        self.begin(fault, |target| target.generation == generation);
    }

    /// Begins another generation, if the target was changed.
    pub(super) fn begin(&self, fault: &Fault, change: impl FnOnce(&mut Target) -> bool) -> bool {
        let mut generation = 0;
        // First, so that what is opened from now on leads to the new target.
        let begins = self.target.send_if_modified(|target| {
            let is_changed = change(target);
            target.generation += u64::from(is_changed);
            generation = target.generation;
            is_changed
        });
        if begins {
            give_up(&self.slots, &self.subscriptions, generation, fault);
        }
        begins
    }
}

/// Takes connections of this generation only, from now on, and ends those of earlier ones.
pub(crate) fn give_up(
    slots: &[ConnectionSlot],
    registry: &SubscriptionRegistry,
    generation: u64,
    fault: &Fault,
) {
    let calls: Vec<_> = slots
        .iter()
        .filter_map(|slot| slot.switched(generation, fault.clone()))
        .collect();
    let messages = registry.switched(generation);
    for connection in calls.into_iter().chain(messages) {
        connection.end(fault, registry);
    }
}
