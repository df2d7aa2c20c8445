//! Sends the calls of [`leasehold`](https://docs.rs/leasehold) to Redis or Valkey, and receives
//! replies and messages.
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
//! | `transport` | the connections to a deployment, calls to a chosen node, and which keys fit in one call |
//! | `call`, `call_error` | calls, scripts, replies and errors |
//! | `lane`, `pubsub` | which connection carries a call, its epoch, and which command a message |
//! | `events` | what happens on the connections, as their owner is informed |
//! | `redirect`, `keyslot` | the error of a node that does not serve a slot, and the slot of a key |
//! | `deployment`, `endpoint`, `host_port`, `url` | parse and validate URLs |
//! | `sentinel` | finds the current primary |
//! | `cluster` | finds the node that serves a key |
//! | `node` | three connections to one server, and the slot of each: its current connection |
//! | `node/supervisor` | opens a connection, watches it, and replaces it |
//! | `subscriptions` | the channels that a client wants, and the connection that carries them |
//! | `connection` | one ledger, one outbox, one driver |
//! | `connection/driver` | the task that writes requests, and delivers replies and messages |
//! | `ledger` | requests without a reply, and which of them were certainly not sent |
//! | `request` | the requests of a connection, and the notifications that end them |
//! | `handshake`, `identity` | the first commands on a stream, and the server that answered them |
//! | `grace` | the moment after a change of server in which nothing is taken there |
//! | `abilities`, `protocol` | what the servers can do |
//! | `pacer` | the pauses between attempts |
//! | `control` | a connection for single commands |
//! | `address_map` | where servers are reached that announce other addresses |
//! | `setup`, `timing`, `remote` | settings shared by all connections, and how to reach one server |
//! | `setting_error` | errors of settings |
//! | `credentials`, `login` | credentials, and how a login is renewed |
//! | `codec` | encodes and decodes RESP3 and RESP2 |
//! | `dial`, `stream`, `tls` | a stream of bytes to the server |
//! | `sync`, `timer`, `process` | locks, timers, and the process that made a client; `leasehold` uses them |
//! | `task` | tasks that end with their owners |
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
mod connection;
mod control;
mod credentials;
mod deployment;
mod dial;
mod endpoint;
mod events;
mod grace;
mod handshake;
mod host_port;
mod identity;
mod keyslot;
mod lane;
mod ledger;
mod login;
mod node;
mod pacer;
mod process;
mod protocol;
mod pubsub;
mod redirect;
mod remote;
mod request;
mod sentinel;
mod setting_error;
mod setup;
mod stream;
mod subscriptions;
pub mod sync;
mod task;
#[cfg(test)]
mod tests;
pub mod timer;
mod timing;
#[cfg(feature = "tls")]
mod tls;
mod transport;
mod url;

pub use abilities::{Abilities, Scripts, Servers};
pub use address_map::AddressMap;
pub use call::Script;
pub use call::{Arg, Args, Call, Keys, Value};
pub use call_error::{CallError, Fault, sort_error_reply};
pub use credentials::{
    Credentials, CredentialsFuture, CredentialsProvider, Provider, without_secret,
};
pub use deployment::{Deployment, DeploymentKind};
pub use dial::{StreamDialer, Tls};
pub use events::{Missed, TransportEvents};
pub use grace::refused_until;
pub use lane::Lane;
pub use lane::{Epoch, NodeId};
pub use process::Process;
pub use protocol::Protocol;
pub use pubsub::ShardedPubSub;
pub use setting_error::SettingError;
pub use setup::{IfUnreachable, Runtimes, Setup};
pub use task::{AbortOnDrop, rarely};
pub use timing::Timing;
#[cfg(feature = "tls")]
pub use tls::TlsOptions;
pub use transport::{Sent, Transport};
