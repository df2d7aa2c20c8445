//! The task of one connection: reads commands, runs them, sends what there is to say.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Poll, ready};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWrite as _};

use super::conversation::{Conversation, Ending};
use super::faults::Direction;
use super::stream::{ReadHalf, WriteHalf};
use crate::protocol::Value;
use crate::transport::embedded::engine::{Activity, Engine};
use crate::transport::embedded::reply::Bytes;
use crate::transport::redis::codec::{Decoder, Incoming};

/// As much as Redis reads at once.
const READ_MAX: usize = 16 * 1024;
/// With less room than that the buffer gets another piece.
const READ_MIN: usize = 1024;

/// The server's end of a connection. Whoever drops it, the stream ends and the engine forgets it.
pub(super) struct Served {
    engine: Weak<Engine>,
    conversation: Arc<Conversation>,
    reader: ReadHalf,
    writer: WriteHalf,
    decoder: Decoder,
    read: BytesMut,
    sending: BytesMut,
}

impl Served {
    pub(super) fn new(engine: &Arc<Engine>, conversation: Arc<Conversation>) -> Self {
        Served {
            engine: Arc::downgrade(engine),
            reader: conversation.stream.reader(Direction::Requests),
            writer: conversation.stream.writer(Direction::Replies),
            conversation,
            decoder: Decoder::default(),
            read: BytesMut::new(),
            sending: BytesMut::new(),
        }
    }

    pub(super) async fn serve(mut self) {
        loop {
            let Some(activity) = self.engine.upgrade().map(|engine| engine.activity()) else {
                return;
            };
            match self.conversation.ending() {
                Ending::HungUp | Ending::Over => return,
                // A server that stands still neither reads nor writes.
                _ if activity == Activity::Paused => self.conversation.woken().await,
                Ending::Farewell if !self.conversation.has_unsent() => return,
                Ending::Farewell => {
                    tokio::select! {
                        biased;
                        () = self.conversation.woken() => {}
                        () = send(&mut self.writer, &self.conversation, &mut self.sending) => {}
                    }
                }
                Ending::GoesOn if self.run_next() => {
                    // One command at a time, so that connections take turns.
                    tokio::task::yield_now().await;
                }
                Ending::GoesOn => {
                    if self.wait().await == More::Ended {
                        return;
                    }
                }
            }
        }
    }

    /// Runs the next command, if all of it has arrived.
    fn run_next(&mut self) -> bool {
        let Some(engine) = self.engine.upgrade() else { return false };
        match self.decoder.decode(&mut self.read) {
            Ok(None) => return false,
            Ok(Some(Incoming::Reply(Ok(Value::Array(items))))) => match words(items) {
                Some(words) => self.conversation.run(&engine, &words),
                None => self.misunderstood("expected '$'"),
            },
            Ok(Some(_)) => self.misunderstood("expected an array"),
            Err(malformed) => self.misunderstood(&malformed.0),
        }
        true
    }

    fn misunderstood(&self, why: &str) {
        let text = format!("ERR Protocol error: {why}");
        self.conversation.answer(&Err(text.as_str().into()));
        self.conversation.with(|state| state.end(Ending::Farewell));
    }

    /// Until there are more bytes, or something else to look at. A client that does not read keeps
    /// nobody from reading what it sends.
    async fn wait(&mut self) -> More {
        let has_unsent = self.conversation.has_unsent();
        tokio::select! {
            biased;
            () = self.conversation.woken() => More::Perhaps,
            () = send(&mut self.writer, &self.conversation, &mut self.sending), if has_unsent => {
                More::Perhaps
            }
            more = read(&mut self.reader, &mut self.read) => more,
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.conversation.with(|state| state.end(Ending::Over));
        if let Some(engine) = self.engine.upgrade() {
            engine.remove_peer(self.conversation.id);
        }
    }
}

/// What the client may still say.
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

/// Sends all there is to say. Nothing is lost if it is dropped.
async fn send(writer: &mut WriteHalf, conversation: &Conversation, sending: &mut BytesMut) {
    poll_fn(|context| {
        loop {
            conversation.fetch(sending);
            if sending.is_empty() {
                return Poll::Ready(());
            }
            match ready!(Pin::new(&mut *writer).poll_write(context, sending)) {
                Ok(taken) => {
                    sending.advance(taken);
                    conversation.has_sent(taken);
                }
                Err(error) => unreachable!("BUG: a server's bytes vanish silently: {error}"),
            }
        }
    })
    .await;
}

fn words(items: Vec<Value>) -> Option<Vec<Bytes>> {
    let word = |item| match item {
        Value::Text(text) => Some(text.into_bytes()),
        Value::Nil | Value::Int(_) | Value::Array(_) => None,
    };
    items.into_iter().map(word).collect()
}
