//! Keys that are no text.
//!
//! The keys of a [`Call`](super::Call) are texts. So the session sends the bytes of such a key itself, with a script and
//! its arguments.

use super::{KEY_FREE, LOCK_LOOK, names};
use crate::protocol::string::INSPECT;
use crate::protocol::{Arg, Publish, Script, Value};

/// A script for a key that is no text, and its arguments after the key.
pub(crate) type OnBytes = (&'static Script, Vec<Arg>);

/// A [look](super::look) at such a key.
pub(crate) fn look(publish: Publish) -> OnBytes {
    (&LOCK_LOOK, [names(publish), vec![Arg::Int(0)]].concat())
}

/// The holder of a string lock at such a key.
pub(crate) fn string() -> OnBytes {
    (&INSPECT, vec![])
}

/// Frees a lock at such a key, if this owner holds it. An empty owner stands for any text of a string.
pub(crate) fn free(owner: &str) -> OnBytes {
    (&KEY_FREE, vec![Arg::from(owner)])
}

/// A name: its text, or an array with its bytes in hex.
pub(super) fn name(value: &Value) -> Option<Vec<u8>> {
    let hex = match value {
        Value::Text(text) => return Some(text.clone().into_bytes()),
        Value::Array(parts) => match parts.as_slice() {
            [Value::Text(hex)] => hex,
            _ => return None,
        },
        _ => return None,
    };
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let byte = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
        _ => None,
    };
    hex.as_bytes().chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_no_text_comes_in_hex() {
        assert_eq!(
            name(&Value::Text("a\u{fffd}".into())).as_deref(),
            Some("a\u{fffd}".as_bytes())
        );
        let hex = |hex: &str| name(&Value::Array(vec![Value::Text(hex.into())]));
        assert_eq!(hex("61ff00").as_deref(), Some(&b"a\xff\0"[..]));
        for bad in ["f", "61f", "xy", "+1"] {
            assert_eq!(hex(bad), None, "{bad}");
        }
        assert_eq!(name(&Value::Nil), None);
    }
}
