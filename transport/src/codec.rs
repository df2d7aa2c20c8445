//! The decoder. It reads the replies of a server from a buffer.
//!
//! The types of RESP2 are a part of those of RESP3, so one decoder reads both. RESP2 has no type
//! for messages: `resp2.rs` tells them from replies.
//!
//! [`Boundary`] finds where a reply ends and enforces the limits. Only then does `resp-rs` parse
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

mod resp2;
#[cfg(test)]
mod tests;

use bytes::{BufMut as _, Bytes, BytesMut};
use resp_rs::resp3::{Frame, MAX_LINE_LENGTH, parse_frame};

pub(crate) use self::resp2::pong;
use crate::call::{Arg, Call, Value};
use crate::pubsub::PubSub;
use crate::request::{ConnectionRequest, KeyForm, ScriptForm};

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

// Finds where a reply ends, and refuses a reply beyond the limits.
//
// The search continues where it stopped, so it reads each byte once. Only the type byte, the line
// and the length of each element are read: the parser interprets them.

/// How far the first reply in a buffer was searched.
#[derive(Debug, Default)]
struct Boundary {
    /// Where the first incomplete element begins.
    next: usize,
    /// The line of that element does not end before this position.
    searched: usize,
    /// The buffer must have this length before that element can be complete.
    wanted: usize,
    /// How many elements were announced so far.
    elements: usize,
    /// How many elements are missing at each depth. The outermost element is the reply itself.
    missing: Vec<usize>,
}

impl Boundary {
    /// The length of the first reply in `bytes`, if the reply is complete.
    ///
    /// If it is not, the caller must pass the same bytes and more next time. After a length was
    /// returned, it must pass the bytes after that reply.
    pub(super) fn find(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        if self.missing.is_empty() {
            self.missing.push(1);
        }
        while bytes.len() >= self.wanted {
            let Some(end) = self.element(bytes)? else {
                return Ok(None);
            };
            self.next = end;
            while self.missing.last() == Some(&0) {
                self.missing.pop();
            }
            if self.missing.is_empty() {
                (self.next, self.searched, self.wanted, self.elements) = (0, 0, 0, 0);
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    /// The end of the element at `next`. An array ends before its first element.
    fn element(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        let Some(&letter) = bytes.get(self.next) else {
            return Ok(None);
        };
        let kind = ElementKind::of(letter)?;
        let Some(line_end) = self.line_end(bytes)? else {
            return Ok(None);
        };
        let line = &bytes[self.next + 1..line_end];
        let (end, children) = match kind {
            ElementKind::Line => (line_end + 2, 0),
            ElementKind::Text => {
                let text_end = length(letter, line)?.map(|bytes| bytes.saturating_add(2));
                ((line_end + 2).saturating_add(text_end.unwrap_or(0)), 0)
            }
            ElementKind::Items => (line_end + 2, length(letter, line)?.unwrap_or(0)),
            ElementKind::Pairs | ElementKind::Attribute => (
                line_end + 2,
                length(letter, line)?.unwrap_or(0).saturating_mul(2),
            ),
        };
        if end > REPLY_BYTES {
            return Err(Malformed(format!(
                "a reply of more than {REPLY_BYTES} bytes"
            )));
        }
        if end > bytes.len() {
            self.wanted = end;
            return Ok(None);
        }
        // An attribute precedes an element and does not count as one.
        if let (false, Some(missing)) = (kind == ElementKind::Attribute, self.missing.last_mut()) {
            *missing -= 1;
        }
        self.open(children)?;
        Ok(Some(end))
    }

    fn line_end(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        let begin = self.next + 1;
        let from = self.searched.max(begin);
        let until = bytes.len().min(begin + MAX_LINE_LENGTH + 2);
        if let Some(at) = bytes[from..until]
            .windows(2)
            .position(|pair| pair == b"\r\n")
        {
            return Ok(Some(from + at));
        }
        if until == begin + MAX_LINE_LENGTH + 2 {
            return Err(Malformed(format!(
                "a line of more than {MAX_LINE_LENGTH} bytes"
            )));
        }
        // The last byte may be the first half of the line break.
        self.searched = begin.max(until - 1);
        Ok(None)
    }

    fn open(&mut self, children: usize) -> Result<(), Malformed> {
        self.elements = self.elements.saturating_add(children);
        if self.elements > ELEMENTS {
            return Err(Malformed(format!(
                "a reply of more than {ELEMENTS} elements"
            )));
        }
        if children > 0 {
            // BOUND: one entry for each depth, and one for the reply itself.
            if self.missing.len() > DEPTH {
                return Err(Malformed(format!(
                    "a reply with more than {DEPTH} nested arrays"
                )));
            }
            self.missing.push(children);
        }
        Ok(())
    }
}

/// What follows the type byte of an element.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ElementKind {
    /// A line, which is the whole element.
    Line,
    /// A line with the length of a text, and the text.
    Text,
    /// A line with a number, and that many elements.
    Items,
    /// A line with a number, and that many pairs.
    Pairs,
    /// Like pairs, followed by the element that they belong to.
    Attribute,
}

impl ElementKind {
    fn of(letter: u8) -> Result<ElementKind, Malformed> {
        Ok(match letter {
            b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => ElementKind::Line,
            b'$' | b'!' | b'=' => ElementKind::Text,
            b'*' | b'~' | b'>' => ElementKind::Items,
            b'%' => ElementKind::Pairs,
            b'|' => ElementKind::Attribute,
            b';' | b'.' => return Err(streamed()),
            _ => {
                return Err(Malformed(format!(
                    "a reply that begins with byte 0x{letter:02x}"
                )));
            }
        })
    }
}

/// The number on a line. `None` for a null (`$-1` and `*-1`).
fn length(letter: u8, line: &[u8]) -> Result<Option<usize>, Malformed> {
    match line {
        b"-1" if matches!(letter, b'$' | b'*') => Ok(None),
        b"?" => Err(streamed()),
        _ => {
            let number = str::from_utf8(line)
                .ok()
                .and_then(|digits| digits.parse().ok());
            number.map(Some).ok_or_else(|| {
                let line = String::from_utf8_lossy(&line[..line.len().min(20)]);
                Malformed(format!("a length of {line:?}"))
            })
        }
    }
}

// Encodes commands as arrays of bulk strings.

/// Encodes a request. `next_ping` returns the number for a PING.
pub(super) fn write_request(
    out: &mut BytesMut,
    request: &ConnectionRequest,
    next_ping: impl FnOnce() -> u64,
) {
    match request {
        ConnectionRequest::Call(request) => {
            write_call(out, &request.call, request.form, request.keys);
        }
        ConnectionRequest::Command(request) => {
            let words: Vec<_> = request.words.iter().map(Vec::as_slice).collect();
            write_command(out, &words);
        }
        ConnectionRequest::Subscribe(request) => {
            let name: &[u8] = match request.pubsub {
                PubSub::Plain => b"SUBSCRIBE",
                PubSub::Sharded => b"SSUBSCRIBE",
            };
            write_command(out, &[name, request.channel.as_bytes()]);
        }
        ConnectionRequest::Unsubscribe(channel, PubSub::Plain) => {
            write_command(out, &[b"UNSUBSCRIBE", channel.as_bytes()]);
        }
        ConnectionRequest::Unsubscribe(channel, PubSub::Sharded) => {
            write_command(out, &[b"SUNSUBSCRIBE", channel.as_bytes()]);
            // INVARIANT LEDGER-5: the reply to this PING shows that SUNSUBSCRIBE was handled.
            write_command(out, &[b"PING"]);
        }
        ConnectionRequest::Ping(_) => {
            write_command(out, &[b"PING", next_ping().to_string().as_bytes()]);
        }
    }
}

/// Encodes EVALSHA, or EVAL if the server does not know the script.
pub(super) fn write_call(out: &mut BytesMut, call: &Call, form: ScriptForm, keys: KeyForm) {
    if keys == KeyForm::Asking {
        write_command(out, &[b"ASKING"]);
    }
    head(out, b'*', 3 + call.keys.len() + call.args.len());
    match form {
        ScriptForm::Hash => {
            out.extend_from_slice(b"$7\r\nEVALSHA\r\n$40\r\n");
            out.extend_from_slice(call.script.sha1().as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        ScriptForm::Text => {
            bulk(out, b"EVAL");
            bulk(out, call.script.text.as_bytes());
        }
    }
    number(out, call.keys.len());
    for key in &call.keys {
        bulk(out, key.as_bytes());
    }
    for argument in &call.args {
        match argument {
            Arg::Int(given) => number(out, *given),
            Arg::Text(text) => bulk(out, text.as_bytes()),
        }
    }
}

pub(super) fn write_command(out: &mut BytesMut, words: &[&[u8]]) {
    head(out, b'*', words.len());
    for word in words {
        bulk(out, word);
    }
}

fn number(out: &mut BytesMut, number: impl itoa::Integer) {
    bulk(out, itoa::Buffer::new().format(number).as_bytes());
}

fn bulk(out: &mut BytesMut, word: &[u8]) {
    head(out, b'$', word.len());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

fn head(out: &mut BytesMut, kind: u8, number: usize) {
    // Most lengths have one digit or two.
    match u8::try_from(number) {
        Ok(number @ ..10) => out.extend_from_slice(&[kind, b'0' + number, b'\r', b'\n']),
        Ok(number @ 10..100) => {
            let [tens, ones] = [number / 10, number % 10].map(|digit| b'0' + digit);
            out.extend_from_slice(&[kind, tens, ones, b'\r', b'\n']);
        }
        _ => {
            out.put_u8(kind);
            out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
}
