//! How a client reaches the engine: it dials, and the engine serves the connection.

use std::io;
use std::sync::Arc;

use tokio::runtime::Handle;

use super::link::{Link, LinkConnection};
use super::serve::ServerTask;
use super::server_connection::ServerConnection;
use crate::transport::embedded::EmbeddedRedis;
use crate::transport::embedded::engine::Engine;
use crate::transport::embedded::faults::Direction;
use crate::transport::redis::Remote;
use crate::transport::redis::dial::Dial;
use crate::transport::redis::endpoint::Endpoint;
use crate::transport::redis::stream::{Reader, Writer};

impl EmbeddedRedis {
    /// How one client reaches the engine. The server's tasks run on `runtime`.
    pub(crate) fn remote(&self, runtime: &Handle, name: &str) -> Remote {
        // The texts sort as the numbers do.
        let url = format!("redis://embedded-{:020}", self.engine.number);
        let endpoint = Endpoint::parse(&url).expect("BUG: a good URL");
        let dialer = self.dialer(runtime);
        let back = dialer.link.back.clone();
        Remote::new(Dial::Memory(Arc::new(move || dialer.dial())), &endpoint, name).back_at(back)
    }

    pub(super) fn dialer(&self, runtime: &Handle) -> Dialer {
        let (engine, link) = (self.engine.clone(), self.engine.add_link());
        Dialer { engine, link, runtime: runtime.clone() }
    }
}

/// The client is gone when this is.
pub(super) struct Dialer {
    engine: Arc<Engine>,
    link: Arc<Link>,
    runtime: Handle,
}

impl Dialer {
    pub(super) fn dial(&self) -> io::Result<(Reader, Writer)> {
        let stream = self.link.open()?;
        let accepted = self.engine.accept(|id| Arc::new(ServerConnection::new(id, stream.clone())));
        let server = accepted.ok_or(io::ErrorKind::ConnectionRefused)?;
        self.link.add(LinkConnection { stream: stream.clone(), server: server.clone() });
        self.runtime.spawn(ServerTask::new(&self.engine, server).serve());
        let reader = stream.reader(Direction::Replies);
        let writer = stream.writer(Direction::Requests);
        Ok((Box::new(reader), Box::new(writer)))
    }
}

impl Drop for Dialer {
    fn drop(&mut self) {
        self.link.with(|state| state.is_alive = false);
    }
}
