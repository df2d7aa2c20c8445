//! Numbers as Redis reads and writes them.

use super::reply::ErrorReply;

/// Decimal, without a plus sign, leading zeros or spaces.
pub(crate) fn parse_int(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let plain = digits == b"0"
        || digits
            .first()
            .is_some_and(|digit| (b'1'..=b'9').contains(digit));
    if !plain || text == b"-0" || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

pub(crate) fn int(text: &[u8]) -> Result<i64, ErrorReply> {
    parse_int(text).ok_or_else(|| "ERR value is not an integer or out of range".into())
}

/// Like `strtod`, within the limits of Redis. Never NaN.
pub(crate) fn parse_float(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let number: f64 = text.parse().ok()?;
    let said_infinite = text.to_ascii_lowercase().contains("inf");
    (!number.is_nan() && (number.is_finite() || said_infinite)).then_some(number)
}

/// C's `%.17g`.
pub(crate) fn format_float(number: f64) -> String {
    const DIGITS: i32 = 17;
    if number.is_nan() {
        // On x86, 0/0 is a negative NaN, and Redis shows the sign.
        return if number.is_sign_negative() {
            "-nan"
        } else {
            "nan"
        }
        .to_owned();
    }
    if number.is_infinite() {
        return if number < 0.0 { "-inf" } else { "inf" }.to_owned();
    }
    let scientific = format!("{number:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("BUG: {:e} writes an e");
    let exponent: i32 = exponent
        .parse()
        .expect("BUG: {:e} writes a number after the e");
    if (-4..DIGITS).contains(&exponent) {
        let decimals = usize::try_from(DIGITS - 1 - exponent).unwrap_or(0);
        return strip_zeros(&format!("{number:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", strip_zeros(mantissa), exponent.abs())
}

fn strip_zeros(text: &str) -> &str {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}
