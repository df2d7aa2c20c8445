//! A server: how it is reached, and how a connection to it begins.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::credentials::Provider;
use super::dial::Dial;
use super::endpoint::Endpoint;
use super::handshake::{Greeting, Handshake, not_connected};
use super::login::Login;
use super::stream::{Reader, Writer};
use crate::transport::CallError;

pub(crate) struct Remote {
    pub(super) dial: Dial,
    pub(super) handshake: Handshake,
    /// For messages: without user and password.
    pub(super) endpoint: String,
}

/// A stream to a server, behind its handshake.
pub(super) struct Opened {
    pub(super) reader: Reader,
    pub(super) writer: Writer,
    pub(super) greeting: Greeting,
}

impl Remote {
    /// `name` is shown by CLIENT LIST.
    pub(super) fn new(dial: Dial, endpoint: &Endpoint, name: &str) -> Self {
        let (handshake, endpoint) = (Handshake::new(endpoint, name), endpoint.to_string());
        Remote {
            dial,
            handshake,
            endpoint,
        }
    }

    /// Asks a provider of credentials at each login, if there is one.
    pub(super) fn log_in_by(mut self, provider: Option<Provider>) -> Self {
        if let Some(provider) = provider {
            self.handshake.login = Login::Provider(provider);
        }
        self
    }

    /// A server that is refused unless it is a primary.
    pub(super) fn primary_only(mut self) -> Self {
        self.handshake.primary_only = true;
        self
    }

    /// For an engine of this process: notified when it can be reached again.
    pub(super) fn back(&self) -> Option<&Arc<Notify>> {
        match &self.dial {
            Dial::Stream(streams, _) => streams.back(),
            _ => None,
        }
    }

    /// A stream to the server behind its handshake, to `peer` if that can be reached. The caller limits the
    /// time; what blocks runs on `resolver`.
    pub(super) async fn open(
        &self,
        peer: Option<SocketAddr>,
        resolver: &Handle,
    ) -> Result<Opened, CallError> {
        let dialed = self.dial.connect(peer, resolver).await;
        let (mut reader, mut writer, peer) =
            dialed.map_err(|error| not_connected(&error.to_string()))?;
        let mut greeting = self
            .handshake
            .run(&mut reader, &mut writer, resolver)
            .await?;
        greeting.server.peer = peer;
        Ok(Opened {
            reader,
            writer,
            greeting,
        })
    }

    /// Adds the name of the server to the error of an attempt.
    pub(super) fn cannot_connect(&self, error: CallError) -> CallError {
        let endpoint = &self.endpoint;
        error
            .took_nothing()
            .reworded(|text| format!("cannot connect to {endpoint}: {text}"))
    }
}
