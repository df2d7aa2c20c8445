//! The commands of a handshake on the stream of a connection, and their replies.

use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::call::Value;
use crate::codec::write_command;
use crate::codec::{Decoder, Incoming};
use crate::stream::{Reader, Writer};

/// A command of the handshake.
pub(super) struct Step {
    pub(super) expected: ExpectedReply,
    words: Vec<Vec<u8>>,
}

impl Step {
    pub(super) fn new(expected: ExpectedReply, words: &[&str]) -> Self {
        let words = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        Step { expected, words }
    }

    pub(super) fn words(&self) -> Vec<&[u8]> {
        self.words.iter().map(Vec::as_slice).collect()
    }
}

/// The expected reply to a command of the handshake.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpectedReply {
    Hello,
    Required,
    Optional,
    /// The identity of the server, if this user may ask for it.
    Identity,
    /// The history of the server's data, if this user may ask for it.
    Replication,
    /// The role of the server, if this user may ask for it.
    Role,
    Script,
    ScriptWithKey,
    /// The run id of the server that ran a script.
    WhoRuns,
    ScriptWithTwoKeys,
}

impl ExpectedReply {
    /// Whether the connection can do without the command.
    pub(super) fn is_optional(self) -> bool {
        matches!(
            self,
            ExpectedReply::Optional
                | ExpectedReply::Identity
                | ExpectedReply::Replication
                | ExpectedReply::Role
        )
    }
}

/// Both halves of a stream, and the bytes that were read.
pub(super) struct Exchange<'a> {
    reader: &'a mut Reader,
    writer: &'a mut Writer,
    decoder: Decoder,
    pub(super) inbox: BytesMut,
    /// The outcome of the last write.
    written: io::Result<()>,
    /// Whether the server has sent any reply.
    pub(super) answered: bool,
}

impl<'a> Exchange<'a> {
    pub(super) fn new(reader: &'a mut Reader, writer: &'a mut Writer) -> Self {
        Exchange {
            reader,
            writer,
            decoder: Decoder::default(),
            inbox: BytesMut::new(),
            written: Ok(()),
            answered: false,
        }
    }

    pub(super) async fn send(&mut self, steps: &[Step]) {
        let mut commands = BytesMut::new();
        for step in steps {
            write_command(&mut commands, &step.words());
        }
        // A server that closes the connection at once may have sent a reason before.
        self.written = match self.writer.write_all(&commands).await {
            Ok(()) => self.writer.flush().await,
            failed => failed,
        };
    }

    /// The error says why no further reply comes.
    pub(super) async fn reply(&mut self) -> Result<Result<Value, String>, String> {
        let closed = |error: io::Error| error.to_string();
        loop {
            match self.decoder.decode(&mut self.inbox) {
                Ok(Some(Incoming::Reply(reply))) => {
                    self.answered = true;
                    return Ok(reply);
                }
                Ok(Some(Incoming::Push(_))) => {}
                Ok(None) => {
                    let read = self.reader.read_buf(&mut self.inbox).await;
                    if read.map_err(closed)? == 0 {
                        std::mem::replace(&mut self.written, Ok(())).map_err(closed)?;
                        return Err("the server closed the connection".into());
                    }
                }
                Err(malformed) => return Err(malformed.0),
            }
        }
    }
}
