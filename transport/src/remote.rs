//! A server: how to reach it, and the start of a connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Duration, timeout};

use super::abilities::Known;
use super::dial::Dial;
use super::endpoint::Endpoint;
use super::handshake::{Greeting, Handshake, not_connected};
use super::stream::{LOOK_UP_MAX, Reader, Writer};
use super::task::AbortOnDrop;
use crate::call_error::CallError;

pub(crate) struct Remote {
    pub(super) dial: Dial,
    pub(super) handshake: Handshake,
    /// The name of the server in messages, without user and password.
    pub(super) endpoint: String,
}

/// A stream to a server after the handshake.
pub(super) struct Opened {
    pub(super) reader: Reader,
    pub(super) writer: Writer,
    pub(super) greeting: Greeting,
}

/// Why a stream was not opened.
pub(super) enum OpenError {
    NoRuntime,
    TimedOut(CallError),
    Call(CallError),
}

impl OpenError {
    pub(super) fn into_call(self) -> CallError {
        match self {
            OpenError::NoRuntime => not_connected("the runtime is shut down"),
            OpenError::TimedOut(error) | OpenError::Call(error) => error,
        }
    }
}

impl Remote {
    /// `name` is shown by CLIENT LIST.
    pub(super) fn new(dial: Dial, endpoint: &Endpoint, name: &str) -> Self {
        let (mut handshake, endpoint) = (Handshake::new(endpoint, name), endpoint.to_string());
        handshake.needs_resp3 = dial.needs_resp3();
        Remote {
            dial,
            handshake,
            endpoint,
        }
    }

    /// What is known about the server.
    pub(super) fn known(&self) -> &Arc<Known> {
        &self.handshake.known
    }

    /// Notified when an engine in this process can be reached again. `None` for servers.
    pub(super) fn back(&self) -> Option<&Arc<Notify>> {
        match &self.dial {
            Dial::Stream(streams, _) => streams.back(),
            _ => None,
        }
    }

    /// The addresses of the server, `peer` first if the name still has it: a name may have moved
    /// while the former server goes on, for example as a replica. Resolves the name, unless it was
    /// resolved up to `age_max` ago.
    pub(super) async fn resolve(
        &self,
        resolver: &Handle,
        peer: Option<SocketAddr>,
        age_max: Duration,
    ) -> Result<Vec<SocketAddr>, CallError> {
        let found = timeout(LOOK_UP_MAX, self.dial.addresses(resolver, age_max)).await;
        let found = found.unwrap_or_else(|late| Err(late.into()));
        let failed = |error: io::Error| format!("the name is not resolved: {error}");
        let failed = |error| self.cannot_connect(not_connected(&failed(error)));
        let mut addresses = found.map_err(failed)?;
        // Stable, so the others keep the order of the resolver.
        addresses.sort_by_key(|address| Some(*address) != peer);
        Ok(addresses)
    }

    /// Opens a stream to one of the addresses and performs the handshake. The caller ends the
    /// attempt after `limit`. Blocking work runs on `resolver`.
    pub(super) async fn open(
        &self,
        addresses: &[SocketAddr],
        resolver: &Handle,
        limit: Duration,
    ) -> Result<Opened, CallError> {
        let dialed = self.dial.connect(addresses, resolver, limit).await;
        let failed = |error: io::Error| not_connected(&error.to_string());
        let (mut reader, mut writer, peer) = dialed.map_err(failed)?;
        let greeted = self.handshake.run(&mut reader, &mut writer, resolver).await;
        let mut greeting = greeted?;
        greeting.server.peer = peer;
        Ok(Opened {
            reader,
            writer,
            greeting,
        })
    }

    /// Resolves the name and opens a stream, by a task on `runtime`, within `limit` after the
    /// look-up.
    pub(super) async fn open_on(
        self: &Arc<Self>,
        runtime: &Handle,
        resolver: &Handle,
        peer: Option<SocketAddr>,
        age_max: Duration,
        limit: Duration,
    ) -> Result<Opened, OpenError> {
        let addresses = self.resolve(resolver, peer, age_max).await;
        let addresses = addresses.map_err(OpenError::Call)?;
        let (to, resolver) = (self.clone(), resolver.clone());
        let opening = async move { to.open(&addresses, &resolver, limit).await };
        let mut opening = AbortOnDrop(runtime.spawn(opening));
        let failed = |error| OpenError::Call(self.cannot_connect(error));
        match timeout(limit, &mut opening.0).await {
            Ok(Ok(opened)) => opened.map_err(failed),
            Ok(Err(error)) if error.is_cancelled() => Err(OpenError::NoRuntime),
            Ok(Err(error)) => Err(failed(not_connected(&error.to_string()))),
            Err(_) => {
                let hint = self.dial.hint_at_silence();
                let why = format!("no answer within {} ms{hint}", limit.as_millis());
                Err(OpenError::TimedOut(
                    self.cannot_connect(not_connected(&why)),
                ))
            }
        }
    }

    /// The error before the first attempt has ended.
    pub(super) fn no_answer_yet(&self) -> CallError {
        let hint = self.dial.hint_at_silence();
        self.cannot_connect(not_connected(&format!("no answer yet{hint}")))
    }

    /// Adds the name of the server to the error of an attempt.
    pub(super) fn cannot_connect(&self, error: CallError) -> CallError {
        let endpoint = &self.endpoint;
        error
            .took_nothing()
            .reworded(|text| format!("cannot connect to {endpoint}: {text}"))
    }
}
