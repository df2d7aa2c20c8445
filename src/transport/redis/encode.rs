//! Commands as bytes: arrays of bulk strings.

use bytes::{BufMut as _, BytesMut};

use super::request::ScriptForm;
use crate::protocol::{Arg, Call};

/// EVALSHA, or EVAL where the server does not know the script.
pub(super) fn call(out: &mut BytesMut, call: &Call, form: ScriptForm) {
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
