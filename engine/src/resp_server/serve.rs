//! The task of one connection: reads commands, runs them, and sends the output.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Poll, ready};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWrite as _};

use super::decode;
use super::server_connection::{Phase, ServerConnection};
use super::stream::{ReadHalf, WriteHalf};
use crate::engine::Engine;
use crate::faults::{Activity, Direction};

/// The amount that Redis reads at once.
const READ_MAX: usize = 16 * 1024;
/// With less free space than this, the buffer grows.
const READ_MIN: usize = 1024;

/// Its drop ends the stream and removes the connection from the engine.
pub(super) struct ServerTask {
    engine: Weak<Engine>,
    connection: Arc<ServerConnection>,
    reader: ReadHalf,
    writer: WriteHalf,
    read: BytesMut,
    sending: BytesMut,
}

impl ServerTask {
    pub(super) fn new(engine: &Arc<Engine>, connection: Arc<ServerConnection>) -> Self {
        ServerTask {
            engine: Arc::downgrade(engine),
            reader: connection.stream.reader(Direction::Requests),
            writer: connection.stream.writer(Direction::Replies),
            connection,
            read: BytesMut::new(),
            sending: BytesMut::new(),
        }
    }

    pub(super) async fn serve(mut self) {
        loop {
            let Some(activity) = self.engine.upgrade().map(|engine| engine.activity()) else {
                return;
            };
            match self.connection.phase() {
                Phase::Aborted | Phase::Ended => return,
                // A paused server neither reads nor writes.
                _ if activity == Activity::Paused => self.connection.woken().await,
                Phase::Draining if !self.connection.has_unsent() => return,
                Phase::Draining => {
                    tokio::select! {
                        biased;
                        () = self.connection.woken() => {}
                        () = send(&mut self.writer, &self.connection, &mut self.sending) => {}
                    }
                }
                Phase::Open if self.connection.is_waiting() => {
                    tokio::select! {
                        biased;
                        () = send(&mut self.writer, &self.connection, &mut self.sending),
                            if self.connection.has_unsent() => {}
                        () = self.connection.waits() => {}
                    }
                    if let Some(engine) = self.engine.upgrade() {
                        self.connection.end_wait(&engine);
                    }
                }
                Phase::Open if self.run_next() => {
                    its_turn_is_over().await;
                }
                Phase::Open => {
                    if self.wait().await == More::Ended {
                        return;
                    }
                }
            }
        }
    }

    /// Runs the next command, if it has arrived completely.
    fn run_next(&mut self) -> bool {
        let Some(engine) = self.engine.upgrade() else {
            return false;
        };
        match decode::command(&mut self.read) {
            Ok(None) => return false,
            Ok(Some(words)) => self.connection.run(&engine, &words),
            Err(why) => self.protocol_error(&why),
        }
        true
    }

    fn protocol_error(&self, why: &str) {
        let text = format!("ERR Protocol error: {why}");
        self.connection.answer(&Err(text.as_str().into()));
        self.connection.with(|state| state.end(Phase::Draining));
    }

    /// Waits for more bytes or for a wake-up. Requests are read even if the client does not read
    /// its replies.
    async fn wait(&mut self) -> More {
        let has_unsent = self.connection.has_unsent();
        tokio::select! {
            biased;
            () = self.connection.woken() => More::Perhaps,
            () = send(&mut self.writer, &self.connection, &mut self.sending), if has_unsent => {
                More::Perhaps
            }
            more = read(&mut self.reader, &mut self.read) => more,
            () = self.connection.login_ends() => More::Ended,
        }
    }
}

impl Drop for ServerTask {
    fn drop(&mut self) {
        self.connection.with(|state| state.end(Phase::Ended));
        if let Some(engine) = self.engine.upgrade() {
            engine.remove_connection(self.connection.id);
        }
    }
}

/// Yields after one command, so that connections take turns in the order of their commands. Not
/// `yield_now`: of several tasks that yield, tokio runs the last one first.
async fn its_turn_is_over() {
    let mut is_over = false;
    poll_fn(|context| {
        if std::mem::replace(&mut is_over, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Whether the client may still send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum More {
    Perhaps,
    Ended,
}

async fn read(reader: &mut ReadHalf, into: &mut BytesMut) -> More {
    if into.capacity() - into.len() < READ_MIN {
        into.reserve(READ_MAX);
    }
    match reader.read_buf(into).await {
        Ok(0) | Err(_) => More::Ended,
        Ok(_) => More::Perhaps,
    }
}

/// Sends all output. Dropping the future loses nothing.
async fn send(writer: &mut WriteHalf, connection: &ServerConnection, sending: &mut BytesMut) {
    poll_fn(|context| {
        loop {
            connection.fetch(sending);
            if sending.is_empty() {
                return Poll::Ready(());
            }
            match ready!(Pin::new(&mut *writer).poll_write(context, sending)) {
                Ok(taken) => {
                    sending.advance(taken);
                    connection.has_sent(taken);
                }
                Err(error) => unreachable!("BUG: a server's bytes vanish silently: {error}"),
            }
        }
    })
    .await;
}
