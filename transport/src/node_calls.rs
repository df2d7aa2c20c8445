//! The nodes of a deployment, and which keys fit in one call.

use std::sync::Arc;

use crate::abilities::{Abilities, Known, SHARDED_MESSAGES, Scripts};
use crate::call::{Call, Value};
use crate::call_error::{CallError, Fault};
use crate::epoch::NodeId;
use crate::lane::Lane;
use crate::node::Node;
use crate::task::rarely;
use crate::timer::Instant;
use crate::transport::{Nodes, Transport};

impl Transport {
    /// Runs a script without keys on a node, once.
    ///
    /// # Errors
    ///
    /// Fails if no reply of the script arrived.
    pub async fn call_node(
        &self,
        node: NodeId,
        lane: Lane,
        call: Call,
    ) -> Result<Value, CallError> {
        match self.nodes() {
            Nodes::One(_) => self.call(lane, call).await,
            Nodes::Many(cluster) => rarely(cluster.call_node(node, lane, call)).await,
        }
    }

    /// Sends a command other than a script to a node.
    ///
    /// # Errors
    ///
    /// Fails if no reply arrived.
    pub async fn command(
        &self,
        node: NodeId,
        lane: Lane,
        words: &[&[u8]],
    ) -> Result<Value, CallError> {
        self.node(node)?.command(lane, words).await
    }

    /// The address of a node.
    pub fn server_of(&self, node: NodeId) -> String {
        let retired = |_| "a node that was retired".to_owned();
        self.node(node).map_or_else(retired, |node| node.server())
    }

    /// Why the calls of a lane about this key have no connection; `None` if they have one.
    pub fn fault(&self, lane: Lane, key: &str) -> Option<Fault> {
        self.node(self.node_of(key)).ok()?.fault(lane)
    }

    /// The end of the grace of the server of this key. `None` if it is over.
    pub fn grace_ends(&self, key: &str) -> Option<Instant> {
        self.node(self.node_of(key)).ok()?.grace_ends()
    }

    /// Whether one call may name keys of several slots. In a cluster it may not. Even keys of one
    /// slot are apart there while it is being moved, and then a call about several of them is not
    /// applied.
    pub fn takes_many_keys(&self) -> bool {
        matches!(self.nodes(), Nodes::One(_)) && !self.servers.any(|server| server.one_slot_only)
    }

    /// The server behind the address accepts only keys of one slot in a call, as a proxy of a
    /// cluster does.
    pub fn note_one_slot_only(&self) {
        if let Nodes::One(node) = self.nodes()
            && let Some(known) = node.known()
        {
            known.takes_one_slot_only();
        }
    }

    /// The reason if a server of the deployment does not run the scripts of this library.
    pub fn why_no_scripts(&self) -> Option<String> {
        self.servers.find(Abilities::why_no_scripts)
    }

    /// Whether a server of the deployment has no messages, so that waiters must ask.
    pub fn has_no_messages(&self) -> bool {
        self.servers.any(|server| server.no_messages.is_some())
    }

    /// Whether a server of the deployment refuses scripts without keys.
    pub fn wants_keys(&self) -> bool {
        self.servers
            .any(|server| server.scripts == Some(Scripts::WithKeys))
    }

    /// Whether a server of the deployment refuses scripts that find their keys themselves.
    pub fn wants_declared_keys(&self) -> bool {
        self.wants_keys() || self.servers.any(|server| server.declared_keys_only)
    }

    /// The server of the node has refused a script that finds its keys itself, and ran one whose
    /// keys are declared.
    pub fn note_search_refused(&self, node: NodeId, fault: &Fault) {
        if let Some(known) = self.known(node) {
            known.search_refused(fault);
        }
    }

    /// Asks the server of a node whether it has messages within a shard, unless that is known.
    pub async fn ask_for_sharded_messages(&self, node: NodeId, lane: Lane) {
        let Some(known) = self.known(node) else {
            return;
        };
        if known.abilities().sharded_messages.is_none() {
            let answer = self.command(node, lane, &SHARDED_MESSAGES).await;
            drop(known.has_sharded_messages(answer));
        }
    }

    /// What is known about the server of a node.
    pub fn abilities(&self, node: NodeId) -> Abilities {
        let known = self.known(node);
        known.map(|known| known.abilities()).unwrap_or_default()
    }

    fn known(&self, node: NodeId) -> Option<Arc<Known>> {
        self.node(node).ok()?.known()
    }

    fn node(&self, node: NodeId) -> Result<Arc<Node>, CallError> {
        match self.nodes() {
            Nodes::One(only) => Ok(only.clone()),
            Nodes::Many(cluster) => cluster.node(node),
        }
    }

    /// The node that serves a key now.
    pub fn node_of(&self, key: &str) -> NodeId {
        self.node_of_bytes(key.as_bytes())
    }

    /// The node that serves a key that need not be a text.
    pub fn node_of_bytes(&self, key: &[u8]) -> NodeId {
        match self.nodes() {
            Nodes::One(_) => NodeId::default(),
            Nodes::Many(cluster) => cluster.node_of(key),
        }
    }

    /// All nodes, for a script that searches their keys.
    pub fn all_nodes(&self) -> Vec<NodeId> {
        match self.nodes() {
            Nodes::One(_) => vec![NodeId::default()],
            Nodes::Many(cluster) => cluster.all_nodes(),
        }
    }
}
