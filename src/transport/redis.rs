//! The transport over connections of our own to a deployment: one server, Sentinel, or a cluster.
//!
//! | file | what it is |
//! | --- | --- |
//! | `deployment`, `endpoint` | the URL of a deployment, and of a server, checked |
//! | `sentinel` | which server is the primary now |
//! | `cluster` | which node serves a key now |
//! | `node` | three connections to one server |
//! | `node/supervisor` | opens a connection, watches it, makes the next |
//! | `slot`, `subscriptions` | what callers and subscribers see of the present connection |
//! | `connection` | one ledger, one outbox, one driver |
//! | `ledger` | the requests without a reply, and which of them were surely not sent |
//! | `request` | the requests of a connection, and the notifications that end them |
//! | `handshake`, `identity` | the first commands on a stream, and which server it leads to |
//! | `pacer` | the pauses between attempts |
//! | `access`, `credentials`, `login` | who logs in, how a login is renewed, and which certificates count |
//! | `codec`, `encode` | RESP3 |
//! | `dial` | which way leads to a server: a stream, or the client `fred` |
//! | `stream`, `tls` | a stream of bytes to the server |
//! | `memory_network` | no network, for tests |
//! | `fred` | another driver: requests go through the client `fred` |
//!
//! A connection is never repaired, and no request moves from one connection to the next: a call either
//! finds a connection or fails at once, and is sent once. Only a cluster sends a call again, to another
//! node, when the first answered that it has not run it.

pub(crate) mod access;
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
mod handshake;
mod identity;
mod ledger;
mod login;
#[cfg(feature = "test-util")]
pub(crate) mod memory_network;
mod node;
mod pacer;
mod request;
mod sentinel;
mod slot;
pub(crate) mod stream;
mod subscriptions;
mod task;
#[cfg(feature = "tls")]
pub(crate) mod tls;

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::time::Duration;

use self::access::Access;
use self::cluster::Cluster;
use self::deployment::{ClusterDeployment, SentinelDeployment};
use self::node::{Node, Runtimes, answer};
use self::request::KeyForm;
use self::sentinel::Sentinel;
use super::{
    CallError, DeploymentKind, Epoch, Fault, Group, Lane, PubSub, ShardedPubSub, TransportEvents,
};
use crate::protocol::{Call, Value};

pub(crate) use self::node::Remote;

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
pub(crate) enum Redis {
    Single(Node),
    Sentinel(Sentinel),
    Cluster(Cluster),
}

/// What serves the keys: one node all of them, or each node some.
enum Nodes<'a> {
    One(&'a Node),
    Many(&'a Cluster),
}

/// Where a client connects to.
pub(crate) enum Place {
    Server(Remote),
    Sentinel(SentinelDeployment),
    Cluster(ClusterDeployment),
}

/// How the connections of a client are opened, wherever they lead.
#[derive(Clone)]
pub(crate) struct Opening {
    /// For CLIENT LIST.
    pub(crate) name: String,
    pub(crate) access: Access,
    pub(crate) timing: Timing,
    pub(crate) events: Arc<dyn TransportEvents>,
    /// With a thread of its own.
    pub(crate) own_runtime: Handle,
    pub(crate) if_unreachable: IfUnreachable,
    pub(crate) sharded_pubsub: ShardedPubSub,
}

impl Redis {
    /// Must be called on the runtime that is to drive the caller's lane.
    pub(crate) async fn connect(place: Place, opening: Opening) -> Result<Redis, CallError> {
        let own = opening.own_runtime.clone();
        let runtimes = Runtimes { caller: Handle::current(), own };
        Ok(match place {
            Place::Server(remote) => {
                let Opening { timing, events, if_unreachable, .. } = opening;
                let node = Node::connect(remote, timing, events, runtimes, if_unreachable);
                Redis::Single(node.await?)
            }
            Place::Sentinel(deployment) => {
                Redis::Sentinel(Sentinel::connect(deployment, opening, runtimes).await?)
            }
            Place::Cluster(deployment) => {
                Redis::Cluster(Cluster::connect(deployment, opening, runtimes).await?)
            }
        })
    }

    fn nodes(&self) -> Nodes<'_> {
        match self {
            Redis::Single(node) => Nodes::One(node),
            Redis::Sentinel(sentinel) => Nodes::One(&sentinel.node),
            Redis::Cluster(cluster) => Nodes::Many(cluster),
        }
    }

    pub(crate) async fn call(&self, lane: Lane, call: Call) -> Result<Value, CallError> {
        let node = match self.nodes() {
            Nodes::One(node) => node,
            // Boxed, so that callers of one server do not pay for its size.
            Nodes::Many(cluster) => return Box::pin(cluster.call(lane, call)).await,
        };
        let sent = node.send(lane, call, KeyForm::Declared)?;
        answer(sent).await.map_err(not_a_cluster_client)
    }

    pub(crate) async fn call_group(
        &self,
        group: Group,
        lane: Lane,
        call: Call,
    ) -> Result<Value, CallError> {
        match self.nodes() {
            Nodes::One(_) => self.call(lane, call).await,
            Nodes::Many(cluster) => Box::pin(cluster.call_group(group, lane, call)).await,
        }
    }

    /// A command that is no script, to the node of a group.
    pub(crate) async fn command(
        &self,
        group: Group,
        lane: Lane,
        words: &[&[u8]],
    ) -> Result<Value, CallError> {
        match self.nodes() {
            Nodes::One(node) => node.command(lane, words).await,
            Nodes::Many(cluster) => cluster.command(group, lane, words).await,
        }
    }

    pub(crate) async fn sentinels(&self, question: &str) -> Vec<Value> {
        match self {
            Redis::Sentinel(sentinel) => sentinel.answers(question).await,
            Redis::Single(_) | Redis::Cluster(_) => Vec::new(),
        }
    }

    /// The servers of a group, as the deployment names it.
    pub(crate) fn server_of(&self, group: Group) -> String {
        match self.nodes() {
            Nodes::One(node) => node.server(),
            Nodes::Many(cluster) => cluster.server_of(group),
        }
    }

    pub(crate) fn kind(&self) -> DeploymentKind {
        match self {
            Redis::Single(_) => DeploymentKind::Single,
            Redis::Sentinel(_) => DeploymentKind::Sentinel,
            Redis::Cluster(_) => DeploymentKind::Cluster,
        }
    }

    pub(crate) fn group(&self, key: &str) -> Group {
        match self.nodes() {
            Nodes::One(_) => Group::default(),
            Nodes::Many(cluster) => cluster.group(key),
        }
    }

    pub(crate) fn groups(&self) -> Vec<Group> {
        match self.nodes() {
            Nodes::One(_) => vec![Group::default()],
            Nodes::Many(cluster) => cluster.groups(),
        }
    }

    pub(crate) fn run_as_one(&self, keys: &mut dyn Iterator<Item = &str>) -> bool {
        match self.nodes() {
            Nodes::One(_) => true,
            Nodes::Many(_) => cluster::are_of_one_slot(keys),
        }
    }

    pub(crate) fn epoch(&self, lane: Lane, key: &str) -> Epoch {
        match self.nodes() {
            Nodes::One(node) => Epoch { connection: node.epoch(lane), ..Epoch::default() },
            Nodes::Many(cluster) => cluster.epoch(lane, key),
        }
    }

    pub(crate) async fn subscribe(&self, channel: &Arc<str>, key: &str) -> Result<(), CallError> {
        match self.nodes() {
            Nodes::One(node) => node.subscribe(channel, PubSub::Plain).await,
            Nodes::Many(cluster) => cluster.subscribe(channel, key).await,
        }
    }

    pub(crate) fn unsubscribe(&self, channel: &Arc<str>) {
        match self.nodes() {
            Nodes::One(node) => node.unsubscribe(channel),
            Nodes::Many(cluster) => cluster.unsubscribe(channel),
        }
    }

    pub(crate) fn pubsub(&self, channel: &str, key: &str) -> PubSub {
        match self.nodes() {
            Nodes::One(_) => PubSub::Plain,
            Nodes::Many(cluster) => cluster.pubsub(channel, key),
        }
    }

    pub(crate) fn server(&self) -> String {
        match self {
            Redis::Single(node) => node.server(),
            Redis::Sentinel(sentinel) => sentinel.server(),
            Redis::Cluster(cluster) => cluster.server(),
        }
    }

    pub(crate) fn reconnects(&self) -> u64 {
        match self.nodes() {
            Nodes::One(node) => node.reconnects(),
            Nodes::Many(cluster) => cluster.reconnects(),
        }
    }

    pub(crate) async fn close(&self) {
        match self {
            Redis::Single(node) => node.close().await,
            Redis::Sentinel(sentinel) => sentinel.close().await,
            Redis::Cluster(cluster) => cluster.close().await,
        }
    }
}

/// A redirect, from a server that was taken for one by itself.
pub(super) fn not_a_cluster_client(error: CallError) -> CallError {
    match error {
        CallError::Refused(Fault(text))
            if ["MOVED ", "ASK ", "CROSSSLOT "].iter().any(|code| text.starts_with(code)) =>
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
