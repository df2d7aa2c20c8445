//! Sends the calls of [`leasehold`](https://docs.rs/leasehold) to Redis or Valkey, and receives replies and messages.
//!
//! This crate is an internal part of `leasehold` and promises no stability of its own. Use
//! `leasehold` instead.
//!
//! The transport knows nothing about locks. A [`Transport`] connects to a [`Deployment`]: one
//! server, the primary that Sentinel names, or a cluster. A [`StreamDialer`] replaces the sockets
//! by streams that a function opens. The server behind such a stream may run in this process.
//!
//! # Outcomes
//!
//! A call has exactly one of three outcomes: a reply, *certainly not applied*, or *unknown*. The
//! transport sends each call once. The caller decides whether to repeat it. Every wait in this
//! crate has a timeout.
//!
//! # Lanes
//!
//! The server executes the calls of one lane in the order in which they were sent, as long as the
//! lane's connection lives. If a call's future is dropped, the server executes the call at its
//! place in that order, or not at all.
//!
//! [`Transport::epoch`] changes whenever the lane's connection for a key was lost, or another node
//! may have been asked for the key. While the epoch stays the same, a call whose future was dropped
//! is settled before any call for the same key that is sent later.
//!
//! # Files
//!
//! | file | what it is |
//! | --- | --- |
//! | `transport` | the connections to a deployment, as the caller sees them |
//! | `call`, `script`, `call_error` | calls, their replies, and their errors |
//! | `redirect`, `keyslot` | the error of a node that does not serve a slot, and the slot of a key |
//! | `deployment`, `endpoint`, `host_port`, `url` | parse and validate URLs |
//! | `sentinel` | finds the current primary |
//! | `cluster` | finds the node that serves a key |
//! | `node_calls` | calls to a chosen node, and which keys fit in one call |
//! | `node` | three connections to one server |
//! | `node/supervisor` | opens a connection, watches it, and replaces it |
//! | `slot`, `subscriptions` | the current connection, as callers and subscribers see it |
//! | `connection` | one ledger, one outbox, one driver |
//! | `connection/delivery` | the outcomes of requests, and who is told |
//! | `ledger` | requests without a reply, and which of them were certainly not sent |
//! | `request` | the requests of a connection, and the notifications that end them |
//! | `handshake`, `identity` | the first commands on a stream, and the server that answered them |
//! | `grace` | the moment after a change of server in which nothing is taken there |
//! | `abilities`, `protocol` | what the servers can do |
//! | `pacer` | the pauses between attempts |
//! | `control` | a connection for single commands |
//! | `address_map` | where servers are reached that announce other addresses |
//! | `setup`, `remote` | settings shared by all connections, and how to reach one server |
//! | `credentials`, `login` | credentials, and how a login is renewed |
//! | `codec`, `encode` | RESP3 and RESP2 |
//! | `dial`, `stream`, `tls` | a stream of bytes to the server |
//! | `sync`, `process` | locks and wake-ups, and the process that made a client; `leasehold` uses both |
//!
//! A lost connection is replaced, never repaired, and no request moves to the next connection. A
//! call either finds a connection or fails at once. The one exception is a cluster: if a node
//! answers that it has not run a call, the call is sent again to another node.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod abilities;
mod address_map;
mod call;
mod call_error;
mod cluster;
mod codec;
mod config_error;
mod connection;
mod control;
mod credentials;
mod deployment;
mod dial;
mod encode;
mod endpoint;
mod grace;
mod handshake;
mod host_port;
mod identity;
mod keyslot;
mod ledger;
mod login;
mod node;
mod node_calls;
mod pacer;
mod process;
mod protocol;
mod redirect;
mod remote;
mod request;
mod script;
mod sentinel;
mod setup;
mod slot;
mod stream;
mod subscriptions;
pub mod sync;
mod task;
#[cfg(test)]
mod tests;
pub mod timer;
#[cfg(feature = "tls")]
mod tls;
mod transport;
mod url;

use std::fmt::Display;
use std::time::Duration;

pub use abilities::{Abilities, Scripts, Servers};
pub use address_map::AddressMap;
pub use call::{Arg, Call, Value};
pub use call_error::{CallError, Fault, sort_error_reply};
pub use config_error::ConfigError;
pub use credentials::{
    Credentials, CredentialsFuture, CredentialsProvider, Provider, without_secret,
};
pub use deployment::Deployment;
pub use dial::{StreamDialer, Tls};
pub use grace::refused_until;
pub use process::Process;
pub use protocol::Protocol;
pub use script::Script;
pub use setup::{Runtimes, Setup};
pub use task::AbortOnDrop;
#[cfg(feature = "tls")]
pub use tls::TlsOptions;
pub use transport::{IfUnreachable, Sent, Timing, Transport};

/// The connection that carries a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Driven by the caller's runtime. This is the fastest lane for a call whose caller waits.
    Caller,
    /// Driven by the library's own thread. Renewals and releases use this lane, so that a blocked
    /// runtime of the caller does not delay them.
    Background,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Calls(Lane),
    Messages,
}

/// The commands that publish to a channel and subscribe to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PubSub {
    /// PUBLISH and SUBSCRIBE. In a cluster, every node receives the message.
    Plain,
    /// SPUBLISH and SSUBSCRIBE. Only the node that serves the channel's slot receives the message.
    Sharded,
}

/// How a cluster publishes the releases of locks: within the shard (`SPUBLISH`), or to all nodes
/// (`PUBLISH`). See `ClientBuilder::sharded_pubsub`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShardedPubSub {
    /// Within the shard if the servers support that: Redis from 7.0, and all versions of Valkey.
    #[default]
    Auto,
    /// Within the shard.
    On,
    /// To all nodes.
    Off,
}

impl PubSub {
    pub(crate) fn publish_command(self) -> &'static str {
        match self {
            PubSub::Plain => "PUBLISH",
            PubSub::Sharded => "SPUBLISH",
        }
    }
}

/// Identifies the connection that carries the calls for a key on one lane. While the epoch stays
/// the same, so does the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epoch {
    /// How many connections the lane's node has lost.
    pub connection: u64,
    pub(crate) node: u32,
    /// How often the node that gets calls for the key's slot has changed.
    pub(crate) served: u32,
}

/// A node of the deployment, by its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

/// The channels on which messages may have been missed.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "it has a function")]
pub enum Missed<'a> {
    /// On every channel.
    All,
    /// On this channel.
    Channel(&'a str),
    /// On every channel for which this function returns true.
    Where(&'a dyn Fn(&str) -> bool),
}

/// Receives messages and events of the connections. Each is ignored by default. No method may block.
pub trait TransportEvents: Send + Sync + 'static {
    /// A server has answered the handshake of a connection, after this time.
    fn greeted(&self, _after: Duration) {}
    /// A message arrived on a subscribed channel.
    fn message(&self, _channel: &str, _payload: &[u8]) {}
    /// Messages may have been missed, because of a reconnect or a full queue.
    fn missed(&self, _what: Missed<'_>) {}
    /// The server has refused a channel that was to be restored. It is not asked for again until somebody subscribes.
    fn refused(&self, _channel: &str) {}
    /// A connection to this server was lost. `_why` is the reason.
    fn disconnected(&self, _server: &dyn Display, _why: &dyn Display) {}
    /// The connection that carries the renewals of the keys for which `_concerns` returns true was lost. Their server may be
    /// another one by now.
    fn out_of_reach(&self, _concerns: &dyn Fn(&str) -> bool) {}
    /// A connection to this server has replaced a lost one.
    fn reconnected(&self, _server: &dyn Display) {}
    /// The lane has a connection again after a loss, to the server of the keys for which `_concerns` returns true. The
    /// server may have restarted without its data.
    fn restored(&self, _lane: Lane, _concerns: &dyn Fn(&str) -> bool) {}
    /// Another server now serves the keys for which `_concerns` returns true. It may lack the last
    /// writes of the previous server.
    fn primary_changed(&self, _concerns: &dyn Fn(&str) -> bool) {}
}

/// The kind of deployment that stores the locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeploymentKind {
    /// One server, or a deployment that looks like one behind a proxy or a load balancer.
    Single,
    /// The primary that Sentinel names.
    Sentinel,
    /// A cluster.
    Cluster,
    /// The in-memory engine in this process.
    Embedded,
}
