//! The transport over connections of our own to a deployment: one server, Sentinel, a cluster, or the engine of this
//! process.
//!
//! | file | what it is |
//! | --- | --- |
//! | `deployment`, `endpoint`, `url` | the URL of a deployment, and of a server, checked |
//! | `sentinel` | which server is the primary now |
//! | `cluster` | which node serves a key now |
//! | `group` | which keys can be in one call |
//! | `node` | three connections to one server |
//! | `node/supervisor` | opens a connection, watches it, makes the next |
//! | `slot`, `subscriptions` | what callers and subscribers see of the present connection |
//! | `connection` | one ledger, one outbox, one driver |
//! | `ledger` | the requests without a reply, and which of them were surely not sent |
//! | `request` | the requests of a connection, and the notifications that end them |
//! | `handshake`, `identity` | the first commands on a stream, and which server it leads to |
//! | `pacer` | the pauses between attempts |
//! | `setup`, `remote` | what the connections of a client have in common, and how one server is reached |
//! | `credentials`, `login` | who logs in, and how a login is renewed |
//! | `codec`, `encode` | RESP3 |
//! | `dial`, `stream`, `tls` | a stream of bytes to the server |
//! | `fred` | a stream whose commands the client `fred` sends |
//!
//! A connection is never repaired, and no request moves from one connection to the next: a call either
//! finds a connection or fails at once, and is sent once. Only a cluster sends a call again, to another
//! node, when the first answered that it has not run it.

mod cluster;
pub(crate) mod codec;
mod connection;
mod control;
pub(crate) mod credentials;
pub(crate) mod deployment;
pub(crate) mod dial;
mod encode;
pub(crate) mod endpoint;
#[cfg(feature = "fred")]
pub(crate) mod fred;
mod group;
mod handshake;
mod identity;
mod ledger;
mod login;
mod node;
mod pacer;
mod remote;
mod request;
mod sentinel;
pub(crate) mod setup;
mod slot;
pub(crate) mod stream;
mod subscriptions;
mod task;
#[cfg(feature = "tls")]
pub(crate) mod tls;
mod url;

use std::sync::Arc;

use tokio::time::Duration;

use self::cluster::Cluster;
use self::deployment::Deployment;
use self::node::{Node, answer};
use self::request::KeyForm;
use self::sentinel::Sentinel;
use self::setup::Setup;
use super::{CallError, DeploymentKind, Epoch, Fault, Lane, PubSub};
use crate::protocol::{Call, Value};

/// The time-outs of the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timing {
    /// For the answer to one call.
    pub(crate) command: Duration,
    /// For one connection attempt, from name resolution to the answer to the first command.
    pub(crate) connect: Duration,
}

/// What a client does whose server cannot be reached when the client is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfUnreachable {
    Fail,
    RetryLater,
}

/// A deployment: which node a key belongs to, and the connections to the nodes.
#[derive(Debug)]
pub(crate) enum Transport {
    /// One server, or the engine of this process.
    Single(Node),
    Sentinel(Sentinel),
    Cluster(Cluster),
}

/// What serves the keys: one node all of them, or each node some.
enum Nodes<'a> {
    One(&'a Node),
    Many(&'a Cluster),
}

impl Transport {
    /// A client of an engine in this process is connected without an await.
    pub(crate) async fn connect(
        deployment: Deployment,
        setup: Setup,
        if_unreachable: IfUnreachable,
    ) -> Result<Transport, CallError> {
        Ok(match deployment {
            Deployment::Single(endpoint) => {
                let remote = setup.server(&endpoint)?;
                Transport::Single(if remote.back().is_some() {
                    Node::open(Ok(Arc::new(remote)), setup, Arc::default())
                } else {
                    Node::connect(remote, setup, if_unreachable).await?
                })
            }
            Deployment::Sentinel(deployment) => {
                Transport::Sentinel(Sentinel::connect(deployment, setup, if_unreachable).await?)
            }
            Deployment::Cluster(deployment) => {
                Transport::Cluster(Cluster::connect(deployment, setup, if_unreachable).await?)
            }
        })
    }

    fn nodes(&self) -> Nodes<'_> {
        match self {
            Transport::Single(node) => Nodes::One(node),
            Transport::Sentinel(sentinel) => Nodes::One(&sentinel.node),
            Transport::Cluster(cluster) => Nodes::Many(cluster),
        }
    }

    /// How many requests wait for their answer, if one node serves all keys.
    #[cfg(feature = "test-util")]
    pub(crate) fn calls_under_way(&self) -> usize {
        if let Nodes::One(node) = self.nodes() {
            node.calls_under_way()
        } else {
            0
        }
    }

    /// Runs a script once. If the future is dropped the call is executed all the same.
    pub(crate) async fn call(&self, lane: Lane, call: Call) -> Result<Value, CallError> {
        let node = match self.nodes() {
            Nodes::One(node) => node,
            // Boxed, so that callers of one server do not pay for its size.
            Nodes::Many(cluster) => return Box::pin(cluster.shared.call(lane, call)).await,
        };
        let sent = node.send(lane, call, KeyForm::Declared)?;
        answer(sent).await.map_err(not_a_cluster_client)
    }

    /// What the sentinels answer to `SENTINEL <question> <name of the primary>`: those that are connected, and
    /// none if there are no sentinels.
    pub(crate) async fn sentinels(&self, question: &str) -> Vec<Value> {
        match self {
            Transport::Sentinel(sentinel) => sentinel.answers(question).await,
            _ => Vec::new(),
        }
    }

    /// Whether another server may take over that lacks the last writes, and this client learns of it.
    pub(crate) fn may_fail_over(&self) -> bool {
        matches!(self, Transport::Sentinel(_) | Transport::Cluster(_))
    }

    pub(crate) fn kind(&self) -> DeploymentKind {
        match self {
            Transport::Single(node) if node.is_embedded() => DeploymentKind::Embedded,
            Transport::Single(_) => DeploymentKind::Single,
            Transport::Sentinel(_) => DeploymentKind::Sentinel,
            Transport::Cluster(_) => DeploymentKind::Cluster,
        }
    }

    /// What carries the calls for a key at present.
    pub(crate) fn epoch(&self, lane: Lane, key: &str) -> Epoch {
        match self.nodes() {
            Nodes::One(node) => Epoch {
                connection: node.epoch(lane),
                ..Epoch::default()
            },
            Nodes::Many(cluster) => cluster.epoch(lane, key),
        }
    }

    /// Subscribes to a channel of a key. When this returns `Ok` the server has confirmed it: every message
    /// published later reaches [`TransportEvents::message`], or [`TransportEvents::missed`] is called.
    /// Subscriptions outlive reconnects. If the future is dropped the channel may or may not be
    /// subscribed.
    pub(crate) async fn subscribe(&self, channel: &Arc<str>, key: &str) -> Result<(), CallError> {
        match self.nodes() {
            Nodes::One(node) => node.subscribe(channel, PubSub::Plain).await,
            Nodes::Many(cluster) => cluster.subscribe(channel, key).await,
        }
    }

    /// Unsubscribes from a channel; ordered after earlier calls of [`subscribe`](Self::subscribe).
    pub(crate) fn unsubscribe(&self, channel: &Arc<str>) {
        match self.nodes() {
            Nodes::One(node) => node.unsubscribe(channel),
            Nodes::Many(cluster) => cluster.unsubscribe(channel),
        }
    }

    /// PUBLISH, or SPUBLISH where Redisson would use it: by which a script with this key publishes there.
    pub(crate) fn publish_command(&self, channel: &str, key: &str) -> &'static str {
        match self.nodes() {
            Nodes::One(_) => PubSub::Plain.publish_command(),
            Nodes::Many(cluster) => cluster.shared.pubsub(channel, key).publish_command(),
        }
    }

    /// The server as the configuration names it. Equal texts mean the same server.
    pub(crate) fn server(&self) -> String {
        match self {
            Transport::Single(node) => node.server(),
            Transport::Sentinel(sentinel) => sentinel.server(),
            Transport::Cluster(cluster) => cluster.server(),
        }
    }

    /// How often a connection was made again.
    pub(crate) fn reconnects(&self) -> u64 {
        match self.nodes() {
            Nodes::One(node) => node.reconnects(),
            Nodes::Many(cluster) => cluster.reconnects(),
        }
    }

    /// Closes the connections and ends the tasks; later calls answer [`CallError::Closed`].
    pub(crate) async fn close(&self) {
        match self {
            Transport::Single(node) => node.close().await,
            Transport::Sentinel(sentinel) => sentinel.close().await,
            Transport::Cluster(cluster) => cluster.close().await,
        }
    }
}

/// A redirect, from a server that was taken for one by itself.
pub(super) fn not_a_cluster_client(error: CallError) -> CallError {
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

#[cfg(test)]
mod tests;
