//! Names that are no text. The client reads replies as UTF-8, so `lock_at.lua` sends such a name in
//! hex.

use leasehold_transport::Value;

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
