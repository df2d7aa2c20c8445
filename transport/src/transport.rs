//! The transport to one deployment. It picks the node for each key and owns the connections to the
//! nodes.

use std::future::ready;
use std::sync::Arc;

use futures_util::TryFutureExt as _;
use futures_util::future::Either;
use tokio::sync::oneshot;

use crate::abilities::{Abilities, Known, SHARDED_MESSAGES, Scripts, Servers, is_of_a_cluster};
use crate::call::{Call, Value};
use crate::call_error::{CallError, Fault};
use crate::cluster::Cluster;
use crate::deployment::{Deployment, DeploymentKind};
use crate::grace::Former;
use crate::lane::{Epoch, Lane, NodeId};
use crate::node::{Node, answer};
use crate::pubsub::PubSub;
use crate::redirect::not_run;
use crate::request::{CallOutcome, KeyForm};
use crate::sentinel::Sentinel;
use crate::setup::{IfUnreachable, Setup};
use crate::task::rarely;
use crate::timer::Instant;

/// The transport to one deployment.
#[derive(Debug)]
pub struct Transport {
    connected: Connected,
    pub(crate) servers: Servers,
}

#[derive(Debug)]
enum Connected {
    /// One server, or an engine in this process.
    Single(Arc<Node>),
    Sentinel(Sentinel),
    Cluster(Cluster),
}

/// A call that was passed to a connection. Dropping this does not stop the call.
#[derive(Debug)]
pub struct Sent(oneshot::Receiver<CallOutcome>);

impl Sent {
    /// Waits for the outcome.
    ///
    /// # Errors
    ///
    /// Fails if no reply of the script arrived.
    pub async fn outcome(self) -> Result<Value, CallError> {
        answer(self.0).await.map_err(not_run)
    }
}

/// The nodes: one for all keys, or several for some keys each.
pub(crate) enum Nodes<'a> {
    One(&'a Arc<Node>),
    Many(&'a Cluster),
}

impl Transport {
    /// Connects to the deployment. The engine in this process is connected without an await.
    ///
    /// # Errors
    ///
    /// Fails if no server can be reached, or if a server refuses the client.
    pub async fn connect(
        deployment: Deployment,
        setup: Setup,
        if_unreachable: IfUnreachable,
    ) -> Result<Transport, CallError> {
        let servers = setup.servers.clone();
        let connected = match deployment.kind {
            DeploymentKind::Single | DeploymentKind::Embedded => {
                let remote = setup.server(&deployment.endpoints[0])?;
                Connected::Single(Arc::new(if remote.back().is_some() {
                    Node::open(Ok(Arc::new(remote)), Former::Nobody, setup, Arc::default())
                } else {
                    Node::connect(remote, setup, if_unreachable).await?
                }))
            }
            DeploymentKind::Sentinel => {
                Connected::Sentinel(Sentinel::connect(deployment, setup, if_unreachable).await?)
            }
            DeploymentKind::Cluster => {
                Connected::Cluster(Cluster::connect(deployment, setup, if_unreachable).await?)
            }
        };
        Ok(Transport { connected, servers })
    }

    pub(crate) fn nodes(&self) -> Nodes<'_> {
        match &self.connected {
            Connected::Single(node) => Nodes::One(node),
            Connected::Sentinel(sentinel) => Nodes::One(&sentinel.node),
            Connected::Cluster(cluster) => Nodes::Many(cluster),
        }
    }

    /// Runs a script once. It is sent at once, or, in a cluster, by the first poll. Dropping the
    /// future does not stop a call that was sent.
    ///
    /// Not an `async fn`, because its future would keep space for the call, for as long as every
    /// waiter waits for its reply.
    ///
    /// # Errors
    ///
    /// Fails if no reply of the script arrived.
    pub fn call(
        &self,
        lane: Lane,
        call: Call,
    ) -> impl Future<Output = Result<Value, CallError>> + Send {
        match self.nodes() {
            Nodes::One(node) => Either::Left(match node.send(lane, call, KeyForm::Plain) {
                Ok(sent) => Either::Left(answer(sent).map_err(not_a_cluster_client)),
                Err(error) => Either::Right(ready(Err(error))),
            }),
            Nodes::Many(cluster) => Either::Right(rarely(cluster.shared.call(lane, call))),
        }
    }

    /// Passes a call to the connection of the lane, which often writes it to the socket at once.
    /// Never blocks and needs no runtime.
    ///
    /// The call is sent once. If a node of a cluster redirects it, it was not applied.
    ///
    /// # Errors
    ///
    /// Fails if nothing was sent, because there is no connection.
    pub fn send(&self, lane: Lane, call: Call) -> Result<Sent, CallError> {
        let sent = match self.nodes() {
            Nodes::One(node) => node.send(lane, call, KeyForm::Plain),
            Nodes::Many(cluster) => cluster.shared.send(lane, call),
        };
        sent.map(Sent)
    }

    /// The replies of all connected sentinels to `SENTINEL <question> <name of the primary>`. Empty
    /// without Sentinel.
    pub async fn sentinels(&self, question: &str) -> Vec<Value> {
        match &self.connected {
            Connected::Sentinel(sentinel) => sentinel.answers(question).await,
            _ => Vec::new(),
        }
    }

    /// The kind of deployment.
    pub fn kind(&self) -> DeploymentKind {
        match &self.connected {
            Connected::Single(node) if node.is_embedded() => DeploymentKind::Embedded,
            Connected::Single(_) => DeploymentKind::Single,
            Connected::Sentinel(_) => DeploymentKind::Sentinel,
            Connected::Cluster(_) => DeploymentKind::Cluster,
        }
    }

    /// The current epoch of a key on a lane.
    pub fn epoch(&self, lane: Lane, key: &str) -> Epoch {
        match self.nodes() {
            Nodes::One(node) => Epoch {
                connection: node.epoch(lane),
                ..Epoch::default()
            },
            Nodes::Many(cluster) => cluster.epoch(lane, key),
        }
    }

    /// Subscribes to a channel that belongs to a key, or to none if the key is empty. Then the
    /// channel is not sharded. `Ok` means that the server has confirmed the subscription. Every
    /// message published after that reaches
    /// [`TransportEvents::message`](crate::TransportEvents::message), or
    /// [`TransportEvents::missed`](crate::TransportEvents::missed) is called.
    ///
    /// A subscription survives reconnects. If the future is dropped, the channel may or may not be
    /// subscribed.
    ///
    /// # Errors
    ///
    /// Fails if the server has not confirmed the subscription.
    pub async fn subscribe(&self, channel: &Arc<str>, key: &str) -> Result<(), CallError> {
        match self.nodes() {
            Nodes::One(node) => node.subscribe(channel, PubSub::Plain).await,
            Nodes::Many(cluster) => rarely(cluster.subscribe(channel, key)).await,
        }
    }

    /// Unsubscribes from a channel. Takes effect after all earlier calls of
    /// [`subscribe`](Self::subscribe).
    pub fn unsubscribe(&self, channel: &Arc<str>) {
        match self.nodes() {
            Nodes::One(node) => node.unsubscribe(channel),
            Nodes::Many(cluster) => cluster.unsubscribe(channel),
        }
    }

    /// The command with which a script on this key publishes to the channel: PUBLISH, or SPUBLISH
    /// where Redisson would use it.
    pub fn publish_command<'a>(
        &self,
        channel: impl FnOnce() -> &'a str,
        key: &str,
    ) -> &'static str {
        match self.nodes() {
            Nodes::One(_) => PubSub::Plain.publish_command(),
            Nodes::Many(cluster) => cluster.shared.pubsub(channel(), key).publish_command(),
        }
    }

    /// The address from the configuration. Two clients with equal texts use the same deployment.
    pub fn server(&self) -> String {
        match &self.connected {
            Connected::Single(node) => node.server(),
            Connected::Sentinel(sentinel) => sentinel.server(),
            Connected::Cluster(cluster) => cluster.server(),
        }
    }

    /// Whether all connections are open now. In a cluster: those to every node that the layout
    /// names.
    pub fn is_connected(&self) -> bool {
        match self.nodes() {
            Nodes::One(node) => node.is_connected(),
            Nodes::Many(cluster) => cluster.is_connected(),
        }
    }

    /// How many lost connections were replaced.
    pub fn reconnects(&self) -> u64 {
        match self.nodes() {
            Nodes::One(node) => node.reconnects(),
            Nodes::Many(cluster) => cluster.reconnects(),
        }
    }

    /// Closes the connections and ends the tasks. Later calls return [`CallError::Closed`].
    pub async fn close(&self) {
        match &self.connected {
            Connected::Single(node) => node.close().await,
            Connected::Sentinel(sentinel) => sentinel.close().await,
            Connected::Cluster(cluster) => cluster.close().await,
        }
    }
}

/// Explains a redirect from a server that was configured as a single one.
pub(crate) fn not_a_cluster_client(error: CallError) -> CallError {
    match error {
        CallError::Refused(Fault(text)) if is_of_a_cluster(&text) => CallError::Refused(Fault(
            format!("{text}: the server is a node of a cluster; connect with redis-cluster://"),
        )),
        other => other,
    }
}

// The nodes of a deployment, and which keys fit in one call.

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
