//! What all connections of a client have in common, wherever they lead.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::Timing;
use super::credentials::Provider;
use super::dial::{Dial, StreamDialer, Tls};
use super::endpoint::Endpoint;
use super::remote::Remote;
use crate::transport::{CallError, ShardedPubSub, TransportEvents};

#[derive(Clone)]
pub(crate) struct Setup {
    /// Shown by CLIENT LIST.
    pub(crate) name: String,
    /// Set if the deployment needs TLS.
    pub(crate) tls: Option<Tls>,
    /// Replaces the credentials of the URL.
    pub(crate) provider: Option<Provider>,
    /// Replaces sockets.
    pub(crate) streams: Option<StreamDialer>,
    pub(crate) timing: Timing,
    pub(crate) events: Arc<dyn TransportEvents>,
    pub(crate) runtimes: Runtimes,
    pub(crate) sharded_pubsub: ShardedPubSub,
}

/// The runtimes of a client's tasks.
#[derive(Clone)]
pub(crate) struct Runtimes {
    /// Drives the caller's lane and messages.
    pub(crate) caller: Handle,
    /// The library's own, on a thread of its own.
    pub(crate) own: Handle,
}

impl Setup {
    /// A server that has locks.
    pub(super) fn server(&self, endpoint: &Endpoint) -> Result<Remote, CallError> {
        let remote = self.sentinel(endpoint)?;
        Ok(remote.log_in_by(self.provider.clone()))
    }

    /// A sentinel: the users of the servers are not known there.
    pub(super) fn sentinel(&self, endpoint: &Endpoint) -> Result<Remote, CallError> {
        let dial = match &self.streams {
            Some(streams) => streams.to(endpoint),
            None => Dial::to(endpoint, self.tls.as_ref())?,
        };
        Ok(Remote::new(dial, endpoint, &self.name))
    }
}
