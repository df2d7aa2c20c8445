//! How a client reaches the engine by bytes: it dials, and the engine serves the connection.

use std::io;
use std::sync::Arc;

use tokio::runtime::Handle;

use super::byte_client::{ByteClient, ByteConnection};
use super::control::ByteControl;
use super::faults::Direction;
use super::serve::ServerTask;
use super::server_connection::ServerConnection;
use crate::transport::embedded::EmbeddedRedis;
use crate::transport::embedded::engine::Engine;
use crate::transport::redis::stream::{Reader, Writer};

/// Makes a connection.
pub(crate) type Dialer = Arc<dyn Fn() -> io::Result<(Reader, Writer)> + Send + Sync>;

impl EmbeddedRedis {
    /// The dialer of one client, and the switches of its connections. The server's tasks run on
    /// `runtime`. The client is gone when all copies of its dialer are.
    pub(crate) fn dialer(&self, runtime: &Handle) -> (Dialer, ByteControl) {
        let client = self.engine.add_byte_client(|id| Arc::new(ByteClient::new(id)));
        let control = ByteControl::new(client.clone());
        let dialer = ClientDialer { engine: self.engine.clone(), client, runtime: runtime.clone() };
        (Arc::new(move || dialer.dial()), control)
    }

    /// The URL of the engine, as a configuration would name it.
    pub(crate) fn url(&self) -> String {
        // The texts sort as the numbers do.
        format!("redis://embedded-{:020}", self.engine.number)
    }
}

struct ClientDialer {
    engine: Arc<Engine>,
    client: Arc<ByteClient>,
    runtime: Handle,
}

impl ClientDialer {
    fn dial(&self) -> io::Result<(Reader, Writer)> {
        let stream = self.client.open()?;
        let accepted = self.engine.accept(|id| Arc::new(ServerConnection::new(id, stream.clone())));
        let server = accepted.ok_or(io::ErrorKind::ConnectionRefused)?;
        self.client.add(ByteConnection { stream: stream.clone(), server: server.clone() });
        self.runtime.spawn(ServerTask::new(&self.engine, server).serve());
        let reader = stream.reader(Direction::Replies);
        let writer = stream.writer(Direction::Requests);
        Ok((Box::new(reader), Box::new(writer)))
    }
}

impl Drop for ClientDialer {
    fn drop(&mut self) {
        self.client.with(|state| state.is_alive = false);
    }
}
