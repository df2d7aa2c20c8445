//! The settings that all connections of a client share.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::runtime::Handle;

use super::abilities::Servers;
use super::credentials::Provider;
use super::dial::{Dial, StreamDialer, Tls};
use super::endpoint::Endpoint;
use super::login::Login;
use super::remote::Remote;
use super::stream::SHARED;
use super::timing::Timing;
use crate::call_error::CallError;
use crate::events::TransportEvents;
use crate::pubsub::ShardedPubSub;

/// How a client reaches its servers, and the observer of its events.
#[derive(Clone)]
#[expect(
    missing_debug_implementations,
    reason = "it has functions of its maker"
)]
pub struct Setup {
    /// Shown by CLIENT LIST.
    pub name: String,
    /// Set if the deployment needs TLS.
    pub tls: Option<Tls>,
    /// Replaces the credentials of the URL.
    pub provider: Option<Provider>,
    /// Replaces sockets.
    pub streams: Option<StreamDialer>,
    /// The timeouts.
    pub timing: Timing,
    /// Receives messages and connection events.
    pub events: Arc<dyn TransportEvents>,
    /// The runtimes for the client's tasks.
    pub runtimes: Runtimes,
    /// How releases are published in a cluster.
    pub sharded_pubsub: ShardedPubSub,
    /// What is known about the servers.
    pub servers: Servers,
}

/// The runtimes of a client's tasks.
#[derive(Clone, Debug)]
pub struct Runtimes {
    /// Drives the caller's lane and messages.
    pub caller: Handle,
    /// The library's own runtime, on its own thread.
    pub own: Handle,
}

/// What to do if no server can be reached when the client is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfUnreachable {
    /// Fail with an error.
    Fail,
    /// Create the client, and connect in the background.
    RetryLater,
}

impl Setup {
    /// A server with locks.
    pub(super) fn server(&self, endpoint: &Endpoint) -> Result<Remote, CallError> {
        let mut remote = self.sentinel(endpoint)?;
        if let Some(provider) = &self.provider {
            remote.handshake.login = Login::Provider(provider.clone());
        }
        remote.known().gets_scripts();
        Ok(remote)
    }

    /// Waits until one of these servers has an address, because a look-up does not count towards
    /// the time for connecting.
    pub(super) async fn first_resolved(&self, endpoints: impl IntoIterator<Item = &Endpoint>) {
        let own = &self.runtimes.own;
        let resolved = async |remote: Remote| remote.resolve(own, None, SHARED).await;
        let remotes = endpoints
            .into_iter()
            .filter_map(|endpoint| self.sentinel(endpoint).ok());
        let mut all: FuturesUnordered<_> = remotes.map(resolved).collect();
        while let Some(Err(_)) = all.next().await {}
    }

    /// A sentinel. It does not know the users of the servers.
    pub(super) fn sentinel(&self, endpoint: &Endpoint) -> Result<Remote, CallError> {
        let dial = match &self.streams {
            Some(streams) => streams.to(endpoint),
            None => Dial::to(endpoint, self.tls.as_ref())?,
        };
        let mut remote = Remote::new(dial, endpoint, &self.name);
        remote.handshake.known = self.servers.at(endpoint);
        Ok(remote)
    }
}
