//! The server of a node, and the switch to another one.
//!
//! A node has a *target*: the address to which it connects, and the server that was found there. A
//! new *generation* begins when the target changes, when the address leads to another server, or
//! when the server has changed its role. No connection of an earlier generation carries a call:
//! [`NodeState::begin`] removes all of them at once, and the slot refuses a connection that was
//! being opened meanwhile. So this client gets no lock from a former primary that still accepts
//! writes, nor from any other server than the one that has its holds.

use std::sync::Arc;

use super::Node;
use super::{NodeState, Progress, Target};
use crate::call_error::Fault;
use crate::grace::Former;
use crate::identity::Identity;
use crate::node::ConnectionSlot;
use crate::remote::Remote;
use crate::subscriptions::SubscriptionRegistry;

/// If this many new connections in a row lead to another server than the living ones, the living
/// ones are given up.
const OTHER_SERVERS_MAX: u32 = 8;

/// Why a connection to the previous server is given up.
pub(super) const OTHER_TARGET: &str = "another server serves now";

/// Whether a new connection may carry calls.
pub(super) enum Settled {
    /// Yes, in this generation.
    In(u64),
    /// No. It leads to another server than the living connections.
    OtherServer,
    /// No. The target of the node has changed meanwhile.
    OtherTarget,
}

impl Node {
    /// Gives the node another target. All connections to the former one are given up at once:
    /// before this returns, the epochs rise, and every call on them gets the outcome that is known.
    pub(crate) fn switch(&self, remote: Result<Arc<Remote>, Fault>, fault: &Fault) {
        self.shared.begin(fault, |target| {
            if let Some(server) = target.server.take() {
                target.former = Former::Known(server);
            } else if target.remote.is_ok() && matches!(target.former, Former::Nobody) {
                target.former = Former::Unknown;
            }
            target.remote = remote;
            true
        });
        self.shared.begins();
    }
}

impl NodeState {
    /// Decides whether a connection of this generation that has reached the server `met` may carry
    /// calls. `refused` is how many connections were refused here before. The connection joins its
    /// generation, or begins a new one to whose server all connections move.
    pub(super) fn settle(&self, generation: u64, met: &Identity, refused: u32) -> Settled {
        let is_connected = self.progress.borrow().contains(&Progress::Connected);
        let carries_calls = self.slots.iter().any(|slot| slot.connection().is_ok());
        let mut settled = Settled::OtherTarget;
        let moves = self.begin(&Fault(OTHER_TARGET.into()), |target| {
            if target.generation != generation {
                return false;
            }
            // While another connection carries calls, the server is that of this connection.
            let may_have_changed = match &target.server {
                Some(known) => !carries_calls && !met.is_same_as(known),
                None => target.former.may_have_more_than(met),
            };
            let known = target.server.get_or_insert_with(|| met.clone());
            let is_other = met.is_other_than(known);
            if is_other && is_connected && refused < OTHER_SERVERS_MAX {
                settled = Settled::OtherServer;
                return false;
            }
            if is_other || may_have_changed {
                // Before any connection to that server carries a call.
                self.grace.begins();
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
            // The order matters. This must come after `begin`, which ended the connections to the
            // former server: from then on, no reply of that server can confirm a hold. No await may
            // come between the two, because every hold must be uncertain before another supervisor
            // on the same thread gets a connection to the new server.
            self.setup.events.primary_changed(&|_| true);
        }
        settled
    }

    /// Replaces all connections, because the server of this generation has changed its role or
    /// forgotten the login.
    pub(super) fn leave(&self, generation: u64, fault: &Fault) {
        self.begin(fault, |target| target.generation == generation);
    }

    /// Changes the target. Begins another generation if `change` returns true.
    pub(super) fn begin(&self, fault: &Fault, change: impl FnOnce(&mut Target) -> bool) -> bool {
        let mut generation = 0;
        // Change the target before giving up connections, so that a connection that is opened in
        // between leads to the new target.
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

/// Accepts only connections of this generation from now on, and ends earlier ones.
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
