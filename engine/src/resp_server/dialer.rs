//! How a client reaches the engine: it dials, and the engine serves the connection.

use std::fmt;
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional, join};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::link::{Link, LinkConnection};
use super::serve::ServerTask;
use super::server_connection::ServerConnection;
use super::stream::{ReadHalf, WriteHalf};
use crate::engine::Engine;
use crate::faults::Direction;

impl Engine {
    /// Makes a dialer for one client. The server's ends of its connections are tasks on `runtime`.
    pub fn dialer(self: &Arc<Self>, runtime: &Handle) -> Dialer {
        Dialer {
            engine: self.clone(),
            link: self.add_link(),
            runtime: runtime.clone(),
        }
    }
}

/// Makes the connections of one client. Dropping the dialer removes the client.
pub struct Dialer {
    engine: Arc<Engine>,
    link: Arc<Link>,
    runtime: Handle,
}

impl Dialer {
    /// Connects. Returns the halves of a stream of bytes. The server speaks RESP3 until HELLO asks
    /// for another protocol, because clients of this process need no handshake.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::ConnectionRefused`] while the engine or the client is cut off, or because
    /// of its faults.
    pub fn dial(&self) -> io::Result<(ReadHalf, WriteHalf)> {
        let stream = self.link.open()?;
        let accepted = self
            .engine
            .accept(|id| Arc::new(ServerConnection::new(id, stream.clone())));
        let server = accepted.ok_or(io::ErrorKind::ConnectionRefused)?;
        self.link.add(LinkConnection {
            stream: stream.clone(),
            server: server.clone(),
        });
        self.runtime
            .spawn(ServerTask::new(&self.engine, server).serve());
        let (reader, writer) = (Direction::Replies, Direction::Requests);
        Ok((stream.reader(reader), stream.writer(writer)))
    }

    /// Serves a client that brings its own stream, such as a TCP connection, until the stream ends.
    ///
    /// # Errors
    ///
    /// If no connection can be made ([`dial`](Self::dial)) or one of the two streams breaks.
    pub async fn serve(
        &self,
        mut stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    ) -> io::Result<()> {
        let (reader, writer) = self.dial()?;
        copy_bidirectional(&mut stream, &mut join(reader, writer))
            .await
            .map(drop)
    }

    /// The id of the present run of the engine, as INFO has it.
    pub fn run_id(&self) -> String {
        self.engine.run_id()
    }

    /// Notified whenever connections can be made again.
    pub fn reachable(&self) -> Arc<Notify> {
        self.link.back.clone()
    }
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer")
            .field("client", &self.link.id)
            .finish_non_exhaustive()
    }
}

impl Drop for Dialer {
    fn drop(&mut self) {
        self.link.with(|state| state.is_alive = false);
    }
}
