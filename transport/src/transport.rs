//! The transport to one deployment. It picks the node for each key and owns the connections to the
//! nodes.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::abilities::{Servers, is_of_a_cluster};
use crate::call::{Call, Value};
use crate::call_error::{CallError, Fault};
use crate::cluster::Cluster;
use crate::deployment::{Deployment, DeploymentKind};
use crate::epoch::Epoch;
use crate::grace::Former;
use crate::lane::Lane;
use crate::node::{Node, answer};
use crate::pubsub::PubSub;
use crate::redirect::not_run;
use crate::request::{CallOutcome, KeyForm};
use crate::sentinel::Sentinel;
use crate::setup::{IfUnreachable, Setup};
use crate::task::rarely;

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

    /// Runs a script once. Dropping the future does not stop a call that was sent.
    ///
    /// # Errors
    ///
    /// Fails if no reply of the script arrived.
    pub async fn call(&self, lane: Lane, call: Call) -> Result<Value, CallError> {
        let node = match self.nodes() {
            Nodes::One(node) => node,
            Nodes::Many(cluster) => return rarely(cluster.shared.call(lane, call)).await,
        };
        let sent = node.send(lane, call, KeyForm::Plain)?;
        answer(sent).await.map_err(not_a_cluster_client)
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
