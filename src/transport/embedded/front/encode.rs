//! Answers and messages as bytes, as Redis writes them.
//!
//! What has another type in RESP3 where a command answers by itself (the fields of HGETALL as a map,
//! a score as a double) is written as scripts see it: this crate's calls are scripts.

use bytes::BytesMut;

use crate::transport::embedded::reply::{ErrorReply, Outcome, Reply};
use crate::transport::embedded::store::Message;

/// What was agreed on with HELLO. Of RESP2 as much as a handshake needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Resp2,
    Resp3,
}

const VERSION: &str = "7.0.15";

pub(super) fn outcome(out: &mut BytesMut, dialect: Dialect, outcome: &Outcome) {
    match outcome {
        Err(ErrorReply(text)) => line(out, '-', &text.replace(['\r', '\n'], " ")),
        Ok(Reply::Nil) => nil(out, dialect),
        Ok(Reply::Int(number)) => line(out, ':', &number.to_string()),
        Ok(Reply::Status(text)) => line(out, '+', text),
        Ok(Reply::Bulk(text)) => bulk(out, text),
        Ok(Reply::Array(items)) => {
            line(out, '*', &items.len().to_string());
            for item in items {
                self::outcome(out, dialect, item);
            }
        }
    }
}

pub(super) fn message(out: &mut BytesMut, dialect: Dialect, message: &Message) {
    push(out, dialect);
    bulk(out, b"message");
    bulk(out, &message.channel);
    bulk(out, &message.payload);
}

/// Confirms one channel, or that there is none to leave.
pub(super) fn confirmation(
    out: &mut BytesMut,
    dialect: Dialect,
    verb: &str,
    channel: Option<&[u8]>,
    left: usize,
) {
    push(out, dialect);
    bulk(out, verb.as_bytes());
    match channel {
        Some(channel) => bulk(out, channel),
        None => nil(out, dialect),
    }
    line(out, ':', &left.to_string());
}

/// The answer to HELLO.
pub(super) fn welcome(out: &mut BytesMut, dialect: Dialect, id: u64) {
    let proto = match dialect {
        Dialect::Resp2 => {
            line(out, '*', "14");
            "2"
        }
        Dialect::Resp3 => {
            line(out, '%', "7");
            "3"
        }
    };
    let texts = |out: &mut BytesMut, name: &str, text: &str| {
        bulk(out, name.as_bytes());
        bulk(out, text.as_bytes());
    };
    texts(out, "server", "redis");
    texts(out, "version", VERSION);
    bulk(out, b"proto");
    line(out, ':', proto);
    bulk(out, b"id");
    line(out, ':', &id.to_string());
    texts(out, "mode", "standalone");
    texts(out, "role", "master");
    bulk(out, b"modules");
    line(out, '*', "0");
}

fn push(out: &mut BytesMut, dialect: Dialect) {
    let kind = if dialect == Dialect::Resp3 { '>' } else { '*' };
    line(out, kind, "3");
}

fn nil(out: &mut BytesMut, dialect: Dialect) {
    out.extend_from_slice(if dialect == Dialect::Resp3 { b"_\r\n" } else { b"$-1\r\n" });
}

fn bulk(out: &mut BytesMut, text: &[u8]) {
    line(out, '$', &text.len().to_string());
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

fn line(out: &mut BytesMut, kind: char, text: &str) {
    out.extend_from_slice(format!("{kind}{text}\r\n").as_bytes());
}
