//! Writes replies and messages as Redis does.
//!
//! In RESP3, some commands reply with other types than in scripts: HGETALL with a map, a score as a
//! double. Here they reply as in scripts.

use bytes::BytesMut;

use crate::reply::{ErrorReply, Outcome, Reply};
use crate::store::Message;

pub(crate) const SERVER_VERSION: &str = "7.0.15";

pub(super) fn outcome(out: &mut BytesMut, outcome: &Outcome) {
    match outcome {
        Err(ErrorReply(text)) => line(out, '-', &text.replace(['\r', '\n'], " ")),
        Ok(Reply::Nil) => nil(out),
        Ok(Reply::Int(number)) => line(out, ':', &number.to_string()),
        Ok(Reply::Status(text)) => line(out, '+', text),
        Ok(Reply::Bulk(text)) => bulk(out, text),
        Ok(Reply::Array(items)) => {
            line(out, '*', &items.len().to_string());
            for item in items {
                self::outcome(out, item);
            }
        }
    }
}

pub(super) fn message(out: &mut BytesMut, message: &Message) {
    line(out, '>', "3");
    bulk(out, b"message");
    bulk(out, &message.channel);
    bulk(out, &message.payload);
}

/// Confirms one channel, or that there was nothing to unsubscribe from.
pub(super) fn confirmation(out: &mut BytesMut, verb: &str, channel: Option<&[u8]>, left: usize) {
    line(out, '>', "3");
    bulk(out, verb.as_bytes());
    match channel {
        Some(channel) => bulk(out, channel),
        None => nil(out),
    }
    line(out, ':', &left.to_string());
}

/// The reply to HELLO.
pub(super) fn welcome(out: &mut BytesMut, id: u64) {
    line(out, '%', "7");
    let texts = |out: &mut BytesMut, name: &str, text: &str| {
        bulk(out, name.as_bytes());
        bulk(out, text.as_bytes());
    };
    texts(out, "server", "redis");
    texts(out, "version", SERVER_VERSION);
    bulk(out, b"proto");
    line(out, ':', "3");
    bulk(out, b"id");
    line(out, ':', &id.to_string());
    texts(out, "mode", "standalone");
    texts(out, "role", "master");
    bulk(out, b"modules");
    line(out, '*', "0");
}

fn nil(out: &mut BytesMut) {
    out.extend_from_slice(b"_\r\n");
}

fn bulk(out: &mut BytesMut, text: &[u8]) {
    line(out, '$', &text.len().to_string());
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

fn line(out: &mut BytesMut, kind: char, text: &str) {
    out.extend_from_slice(format!("{kind}{text}\r\n").as_bytes());
}
