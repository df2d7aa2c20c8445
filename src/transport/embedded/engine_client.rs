//! A client as the engine sees it (CLIENT ID): three connections by calls, or one connection by bytes.

use std::sync::Arc;

use super::connections::{Connections, ROLES};
#[cfg(feature = "test-util")]
use super::resp_server::ServerConnection;
use super::store::Message;

#[derive(Clone)]
pub(crate) enum EngineClient {
    Calls(Arc<Connections>),
    #[cfg(feature = "test-util")]
    Bytes(Arc<ServerConnection>),
}

impl EngineClient {
    /// A message for this client left the server.
    pub(crate) fn publish(&self, message: &Message) {
        match self {
            EngineClient::Calls(connections) => connections.publish(message),
            #[cfg(feature = "test-util")]
            EngineClient::Bytes(connection) => connection.publish(message),
        }
    }

    /// The engine was paused or goes on.
    pub(crate) fn wake(&self) {
        match self {
            EngineClient::Calls(connections) => connections.wake(),
            #[cfg(feature = "test-util")]
            EngineClient::Bytes(connection) => connection.wake(),
        }
    }

    /// Breaks its connections.
    pub(crate) fn cut(&self) {
        match self {
            EngineClient::Calls(connections) => connections.cut(&ROLES),
            #[cfg(feature = "test-util")]
            EngineClient::Bytes(connection) => connection.cut(),
        }
    }

    /// Connections by calls come back by themselves; a client by bytes has to dial again.
    pub(crate) fn heal(&self) {
        match self {
            EngineClient::Calls(connections) => connections.heal(&ROLES),
            #[cfg(feature = "test-util")]
            EngineClient::Bytes(_) => {}
        }
    }

    /// The server is gone or was restarted: it has no state of this client any more.
    pub(crate) fn forget(&self) {
        match self {
            EngineClient::Calls(_) => {}
            #[cfg(feature = "test-util")]
            EngineClient::Bytes(connection) => connection.abort(),
        }
    }
}
