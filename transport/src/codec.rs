//! The decoder. It reads the replies of a server from a buffer.
//!
//! The types of RESP2 are a part of those of RESP3, so one decoder reads both. RESP2 has no type
//! for messages: `resp2.rs` tells them from replies.
//!
//! `boundary.rs` finds where a reply ends and enforces the limits. Only then does `resp-rs` parse
//! the reply, once and completely. So a reply that arrives in a thousand pieces is parsed once, and
//! the parser never sees a reply that is too big, too deep or incomplete.
//!
//! Attributes are skipped. Streamed types (`$?`, `*?`), which no server sends, are malformed.
//!
//! # Bounds
//!
//! The reader decodes every whole frame before it reads again. The rest of its buffer is less than
//! one reply, and a reply that announces more than [`REPLY_BYTES`] is malformed before it has
//! arrived. So a buffer holds at most [`REPLY_BYTES`], one line and one read. An announced length
//! reserves no memory.

mod boundary;
mod resp2;

#[cfg(test)]
mod tests;

use bytes::{Bytes, BytesMut};
use resp_rs::resp3::{Frame, parse_frame};

use self::boundary::Boundary;
pub(crate) use self::resp2::pong;
use crate::call::Value;

/// The size limit of a reply, in encoded bytes. Far more than any script of ours returns.
const REPLY_BYTES: usize = 64 << 20;

/// The depth limit of nested arrays. The parser and the drop of its result recurse, so this limits
/// the stack.
const DEPTH: usize = 32;

/// How many elements a reply may announce, at all depths together. An element has at least 3
/// encoded bytes and up to 64 in memory: without this bound, 64 MiB would become more than a
/// gigabyte.
const ELEMENTS: usize = 1 << 20;

/// A frame from the server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Incoming {
    /// The reply to the oldest unanswered command. `Err` has the text of an error reply, or of an
    /// error within an array.
    Reply(Result<Value, String>),
    /// A message, the confirmation of a subscription, or another push. The first value is its kind.
    Push(Vec<Value>),
}

/// Bytes that are neither RESP3 nor RESP2, or a reply beyond the limits. Nobody knows where the
/// next reply begins, so the connection must be given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) String);

/// Decodes frames from the bytes of one connection.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    boundary: Boundary,
    pushes: Pushes,
}

/// How a server marks a frame that is no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pushes {
    /// By its type.
    #[default]
    Typed,
    /// By its first word, on a connection with subscriptions in RESP2.
    Named,
}

impl Decoder {
    pub(crate) fn new(pushes: Pushes) -> Self {
        Decoder {
            boundary: Boundary::default(),
            pushes,
        }
    }

    /// The next frame, if the buffer holds all of it.
    ///
    /// Until there is one, the buffer may only be appended to.
    pub(crate) fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Incoming>, Malformed> {
        let Some(end) = self.boundary.find(buffer)? else {
            return Ok(None);
        };
        let incoming = match parse(buffer.split_to(end).freeze())? {
            Frame::Push(items) => Incoming::Push(values(items).map_err(Unfit::in_push)?),
            frame => Incoming::Reply(match value(frame) {
                Ok(value) if self.pushes == Pushes::Named => return Ok(Some(resp2::named(value))),
                Ok(value) => Ok(value),
                Err(Unfit::Error(text)) => Err(text),
                Err(Unfit::Streamed) => return Err(streamed()),
            }),
        };
        Ok(Some(incoming))
    }
}

/// Parses `bytes` as exactly one frame, and drops its attributes.
fn parse(mut bytes: Bytes) -> Result<Frame, Malformed> {
    loop {
        match parse_frame(bytes) {
            Ok((Frame::Attribute(_), rest)) => bytes = rest,
            Ok((frame, rest)) if rest.is_empty() => return Ok(frame),
            Ok(_) => return Err(Malformed("a reply that ends too early".to_owned())),
            Err(error) => return Err(Malformed(format!("not RESP3: {error}"))),
        }
    }
}

/// Why a frame cannot become a value.
enum Unfit {
    /// The frame is an error or contains one.
    Error(String),
    /// A piece of a streamed reply. The boundary refuses streamed replies before the parser sees
    /// them.
    Streamed,
}

impl Unfit {
    fn in_push(self) -> Malformed {
        match self {
            Unfit::Error(text) => Malformed(format!("an error in a push: {text}")),
            Unfit::Streamed => streamed(),
        }
    }
}

fn streamed() -> Malformed {
    Malformed("a streamed reply".to_owned())
}

fn value(frame: Frame) -> Result<Value, Unfit> {
    Ok(match frame {
        Frame::Integer(number) => Value::Int(number),
        Frame::Boolean(truth) => Value::Int(truth.into()),
        Frame::Null | Frame::BulkString(None) | Frame::Array(None) => Value::Nil,
        Frame::BulkString(Some(bytes))
        | Frame::SimpleString(bytes)
        | Frame::BigNumber(bytes)
        | Frame::SpecialFloat(bytes) => Value::Text(text(&bytes)),
        Frame::VerbatimString { payload } => {
            // The first four bytes are its format, as in `txt:`.
            Value::Text(text(payload.get(4..).unwrap_or_default()))
        }
        Frame::Double(number) => Value::Text(number.to_string()),
        Frame::Array(Some(items)) | Frame::Set(items) | Frame::Push(items) => {
            Value::Array(values(items)?)
        }
        Frame::Map(pairs) => Value::Array(values(
            pairs.into_iter().flat_map(|(key, item)| [key, item]),
        )?),
        Frame::Error(bytes) | Frame::BlobError(bytes) => return Err(Unfit::Error(text(&bytes))),
        // Attributes, and the parts of streams. No server sends them unasked.
        _ => return Err(Unfit::Streamed),
    })
}

fn values(frames: impl IntoIterator<Item = Frame>) -> Result<Vec<Value>, Unfit> {
    frames.into_iter().map(value).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
