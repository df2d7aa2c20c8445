//! Writes replies and messages as Redis does, in the protocol of the connection.
//!
//! In RESP3, some commands reply with other types than in scripts: HGETALL with a map, a score as a
//! double. Here they reply as in scripts.

use bytes::BytesMut;

use crate::reply::{ErrorReply, Outcome, Reply};
use crate::server_run::SERVER_VERSION;
use crate::store::Message;

/// The dialect of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Resp2,
    Resp3,
}

impl Protocol {
    fn number(self) -> &'static str {
        match self {
            Protocol::Resp2 => "2",
            Protocol::Resp3 => "3",
        }
    }

    /// What a message begins with: RESP2 has no type for pushes.
    fn push(self) -> char {
        match self {
            Protocol::Resp2 => '*',
            Protocol::Resp3 => '>',
        }
    }
}

pub(super) fn outcome(out: &mut BytesMut, protocol: Protocol, outcome: &Outcome) {
    match outcome {
        Err(ErrorReply(text)) => line(out, '-', &text.replace(['\r', '\n'], " ")),
        Ok(Reply::Nil) => nil(out, protocol),
        Ok(Reply::Int(number)) => line(out, ':', &number.to_string()),
        Ok(Reply::Status(text)) => line(out, '+', text),
        Ok(Reply::Bulk(text)) => bulk(out, text),
        Ok(Reply::Array(items)) => {
            line(out, '*', &items.len().to_string());
            for item in items {
                self::outcome(out, protocol, item);
            }
        }
    }
}

pub(super) fn message(out: &mut BytesMut, protocol: Protocol, message: &Message) {
    line(out, protocol.push(), "3");
    bulk(
        out,
        if message.channel.is_sharded {
            b"smessage"
        } else {
            b"message"
        },
    );
    bulk(out, &message.channel.name);
    bulk(out, &message.payload);
}

/// The reply to PING on a RESP2 connection with subscriptions.
pub(super) fn pong(out: &mut BytesMut, text: &[u8]) {
    line(out, '*', "2");
    bulk(out, b"pong");
    bulk(out, text);
}

/// Confirms one channel, or that there was nothing to unsubscribe from.
pub(super) fn confirmation(
    out: &mut BytesMut,
    protocol: Protocol,
    verb: &str,
    channel: Option<&[u8]>,
    left: usize,
) {
    line(out, protocol.push(), "3");
    bulk(out, verb.as_bytes());
    match channel {
        Some(channel) => bulk(out, channel),
        None => nil(out, protocol),
    }
    line(out, ':', &left.to_string());
}

/// The reply to HELLO. RESP2 has no maps: there, names and values take turns.
pub(super) fn welcome(out: &mut BytesMut, protocol: Protocol, id: u64, mode: &str) {
    match protocol {
        Protocol::Resp2 => line(out, '*', "14"),
        Protocol::Resp3 => line(out, '%', "7"),
    }
    let texts = |out: &mut BytesMut, name: &str, text: &str| {
        bulk(out, name.as_bytes());
        bulk(out, text.as_bytes());
    };
    texts(out, "server", "redis");
    texts(out, "version", SERVER_VERSION);
    bulk(out, b"proto");
    line(out, ':', protocol.number());
    bulk(out, b"id");
    line(out, ':', &id.to_string());
    texts(out, "mode", mode);
    texts(out, "role", "master");
    bulk(out, b"modules");
    line(out, '*', "0");
}

fn nil(out: &mut BytesMut, protocol: Protocol) {
    out.extend_from_slice(match protocol {
        Protocol::Resp2 => b"$-1\r\n",
        Protocol::Resp3 => b"_\r\n",
    });
}

fn bulk(out: &mut BytesMut, text: &[u8]) {
    line(out, '$', &text.len().to_string());
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

fn line(out: &mut BytesMut, kind: char, text: &str) {
    out.extend_from_slice(format!("{kind}{text}\r\n").as_bytes());
}
