//! Encodes commands as arrays of bulk strings.

use bytes::{BufMut as _, BytesMut};

use super::request::{ConnectionRequest, KeyForm, ScriptForm};
use crate::call::{Arg, Call};
use crate::pubsub::PubSub;

/// Encodes a request. `next_ping` returns the number for a PING.
pub(super) fn request(
    out: &mut BytesMut,
    request: &ConnectionRequest,
    next_ping: impl FnOnce() -> u64,
) {
    match request {
        ConnectionRequest::Call(request) => call(out, &request.call, request.form, request.keys),
        ConnectionRequest::Command(request) => {
            let words: Vec<_> = request.words.iter().map(Vec::as_slice).collect();
            command(out, &words);
        }
        ConnectionRequest::Subscribe(request) => {
            let name: &[u8] = match request.pubsub {
                PubSub::Plain => b"SUBSCRIBE",
                PubSub::Sharded => b"SSUBSCRIBE",
            };
            command(out, &[name, request.channel.as_bytes()]);
        }
        ConnectionRequest::Unsubscribe(channel, PubSub::Plain) => {
            command(out, &[b"UNSUBSCRIBE", channel.as_bytes()]);
        }
        ConnectionRequest::Unsubscribe(channel, PubSub::Sharded) => {
            command(out, &[b"SUNSUBSCRIBE", channel.as_bytes()]);
            // INVARIANT LEDGER-5: the reply to this PING shows that SUNSUBSCRIBE was handled.
            command(out, &[b"PING"]);
        }
        ConnectionRequest::Ping(_) => command(out, &[b"PING", next_ping().to_string().as_bytes()]),
    }
}

/// Encodes EVALSHA, or EVAL if the server does not know the script.
pub(super) fn call(out: &mut BytesMut, call: &Call, form: ScriptForm, keys: KeyForm) {
    if keys == KeyForm::Asking {
        command(out, &[b"ASKING"]);
    }
    head(out, b'*', 3 + call.keys.len() + call.args.len());
    match form {
        ScriptForm::Hash => {
            bulk(out, b"EVALSHA");
            bulk(out, call.script.sha1().as_bytes());
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

pub(super) fn command(out: &mut BytesMut, words: &[&[u8]]) {
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
    out.put_u8(kind);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    out.extend_from_slice(b"\r\n");
}
