//! A deployment: which node has a key, and the connections to the nodes.

use std::sync::Arc;

use tokio::time::Duration;

use crate::cluster::Cluster;
use crate::deployment::Deployment;
use crate::node::{Node, answer};
use crate::request::KeyForm;
use crate::sentinel::Sentinel;
use crate::setup::Setup;
use crate::{Call, CallError, DeploymentKind, Epoch, Fault, Lane, PubSub, Value};

/// The time-outs of the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// For the answer to one call.
    pub command: Duration,
    /// For one connection attempt, from name resolution to the answer to the first command.
    pub connect: Duration,
}

/// What a client does whose server cannot be reached when the client is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfUnreachable {
    /// Making the client fails.
    Fail,
    /// The client connects in the background.
    RetryLater,
}

/// A deployment: which node a key belongs to, and the connections to the nodes.
#[derive(Debug)]
pub struct Transport(Connected);

#[derive(Debug)]
enum Connected {
    /// One server, or an engine in this process.
    Single(Node),
    Sentinel(Sentinel),
    Cluster(Cluster),
}

/// The nodes: one for all keys, or several for some keys each.
pub(crate) enum Nodes<'a> {
    One(&'a Node),
    Many(&'a Cluster),
}

impl Transport {
    /// Connects: to an engine of this process without an await.
    ///
    /// # Errors
    ///
    /// No server can be reached, or the server refuses the client.
    pub async fn connect(
        deployment: Deployment,
        setup: Setup,
        if_unreachable: IfUnreachable,
    ) -> Result<Transport, CallError> {
        let connected = match deployment {
            Deployment::Single(endpoint) => {
                let remote = setup.server(&endpoint)?;
                Connected::Single(if remote.back().is_some() {
                    Node::open(Ok(Arc::new(remote)), setup, Arc::default())
                } else {
                    Node::connect(remote, setup, if_unreachable).await?
                })
            }
            Deployment::Sentinel(deployment) => {
                Connected::Sentinel(Sentinel::connect(deployment, setup, if_unreachable).await?)
            }
            Deployment::Cluster(deployment) => {
                Connected::Cluster(Cluster::connect(deployment, setup, if_unreachable).await?)
            }
        };
        Ok(Transport(connected))
    }

    pub(crate) fn nodes(&self) -> Nodes<'_> {
        match &self.0 {
            Connected::Single(node) => Nodes::One(node),
            Connected::Sentinel(sentinel) => Nodes::One(&sentinel.node),
            Connected::Cluster(cluster) => Nodes::Many(cluster),
        }
    }

    /// How many requests wait for their answer, if one node serves all keys.
    #[cfg(feature = "test-util")]
    pub fn calls_under_way(&self) -> usize {
        if let Nodes::One(node) = self.nodes() {
            node.calls_under_way()
        } else {
            0
        }
    }

    /// Runs a script once. If the future is dropped the call is executed all the same.
    ///
    /// # Errors
    ///
    /// It has no reply of its script.
    pub async fn call(&self, lane: Lane, call: Call) -> Result<Value, CallError> {
        let node = match self.nodes() {
            Nodes::One(node) => node,
            // Boxed, so that the futures for a single server stay small.
            Nodes::Many(cluster) => return Box::pin(cluster.shared.call(lane, call)).await,
        };
        let sent = node.send(lane, call, KeyForm::Declared)?;
        answer(sent).await.map_err(not_a_cluster_client)
    }

    /// What the sentinels answer to `SENTINEL <question> <name of the primary>`: those that are connected, and
    /// none if there are no sentinels.
    pub async fn sentinels(&self, question: &str) -> Vec<Value> {
        match &self.0 {
            Connected::Sentinel(sentinel) => sentinel.answers(question).await,
            _ => Vec::new(),
        }
    }

    /// Whether another server may take over that lacks the last writes, and this client learns of it.
    pub fn may_fail_over(&self) -> bool {
        matches!(self.0, Connected::Sentinel(_) | Connected::Cluster(_))
    }

    /// What the locks live on.
    pub fn kind(&self) -> DeploymentKind {
        match &self.0 {
            Connected::Single(node) if node.is_embedded() => DeploymentKind::Embedded,
            Connected::Single(_) => DeploymentKind::Single,
            Connected::Sentinel(_) => DeploymentKind::Sentinel,
            Connected::Cluster(_) => DeploymentKind::Cluster,
        }
    }

    /// What carries the calls for a key at present.
    pub fn epoch(&self, lane: Lane, key: &str) -> Epoch {
        match self.nodes() {
            Nodes::One(node) => Epoch {
                connection: node.epoch(lane),
                ..Epoch::default()
            },
            Nodes::Many(cluster) => cluster.epoch(lane, key),
        }
    }

    /// Subscribes to a channel of a key. When this returns `Ok` the server has confirmed it: every message
    /// published later reaches [`TransportEvents::message`](crate::TransportEvents::message), or
    /// [`TransportEvents::missed`](crate::TransportEvents::missed) is called.
    /// Subscriptions outlive reconnects. If the future is dropped the channel may or may not be
    /// subscribed.
    ///
    /// # Errors
    ///
    /// The server has not confirmed it.
    pub async fn subscribe(&self, channel: &Arc<str>, key: &str) -> Result<(), CallError> {
        match self.nodes() {
            Nodes::One(node) => node.subscribe(channel, PubSub::Plain).await,
            Nodes::Many(cluster) => cluster.subscribe(channel, key).await,
        }
    }

    /// Unsubscribes from a channel; ordered after earlier calls of [`subscribe`](Self::subscribe).
    pub fn unsubscribe(&self, channel: &Arc<str>) {
        match self.nodes() {
            Nodes::One(node) => node.unsubscribe(channel),
            Nodes::Many(cluster) => cluster.unsubscribe(channel),
        }
    }

    /// PUBLISH, or SPUBLISH where Redisson would use it: by which a script with this key publishes there.
    pub fn publish_command(&self, channel: &str, key: &str) -> &'static str {
        match self.nodes() {
            Nodes::One(_) => PubSub::Plain.publish_command(),
            Nodes::Many(cluster) => cluster.shared.pubsub(channel, key).publish_command(),
        }
    }

    /// The server as the configuration names it. Equal texts mean the same server.
    pub fn server(&self) -> String {
        match &self.0 {
            Connected::Single(node) => node.server(),
            Connected::Sentinel(sentinel) => sentinel.server(),
            Connected::Cluster(cluster) => cluster.server(),
        }
    }

    /// How often a connection was made again.
    pub fn reconnects(&self) -> u64 {
        match self.nodes() {
            Nodes::One(node) => node.reconnects(),
            Nodes::Many(cluster) => cluster.reconnects(),
        }
    }

    /// Closes the connections and ends the tasks; later calls answer [`CallError::Closed`].
    pub async fn close(&self) {
        match &self.0 {
            Connected::Single(node) => node.close().await,
            Connected::Sentinel(sentinel) => sentinel.close().await,
            Connected::Cluster(cluster) => cluster.close().await,
        }
    }
}

/// Explains a redirect from a server that was configured as a single one.
pub(crate) fn not_a_cluster_client(error: CallError) -> CallError {
    match error {
        CallError::Refused(Fault(text))
            if ["MOVED ", "ASK ", "CROSSSLOT "]
                .iter()
                .any(|code| text.starts_with(code)) =>
        {
            CallError::Refused(Fault(format!(
                "{text}: the server is a node of a cluster; connect with redis-cluster://"
            )))
        }
        other => other,
    }
}
