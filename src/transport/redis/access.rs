//! How a client gets into the servers of a deployment, whichever they are.

use super::credentials::Provider;
use super::dial::{Dial, StreamDialer, Tls};
use super::endpoint::Endpoint;
use super::node::Remote;
use crate::transport::CallError;

#[derive(Clone, Default)]
pub(crate) struct Access {
    /// There if the deployment needs it.
    pub(crate) tls: Option<Tls>,
    /// In place of the credentials of the URL.
    pub(crate) provider: Option<Provider>,
    /// In place of sockets.
    pub(crate) streams: Option<StreamDialer>,
}

impl Access {
    /// A server that has locks. `name` is shown by CLIENT LIST.
    pub(crate) fn server(&self, endpoint: &Endpoint, name: &str) -> Result<Remote, CallError> {
        Ok(self
            .sentinel(endpoint, name)?
            .log_in_by(self.provider.clone()))
    }

    /// A sentinel: the users of the servers are not known there.
    pub(super) fn sentinel(&self, endpoint: &Endpoint, name: &str) -> Result<Remote, CallError> {
        Ok(Remote::new(self.dial(endpoint)?, endpoint, name))
    }

    fn dial(&self, endpoint: &Endpoint) -> Result<Dial, CallError> {
        match &self.streams {
            Some(streams) => Ok(streams.to(endpoint)),
            None => Dial::to(endpoint, self.tls.as_ref()),
        }
    }
}
