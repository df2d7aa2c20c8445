//! The key of a request, and what it is the key of.

use std::fmt::Write as _;

use http::header::CONTENT_TYPE;
use http::request::Parts;
use leasehold_tower::original_uri;
use sha2::{Digest as _, Sha256};

use crate::KEY_MAX;

const HEADER: &str = "idempotency-key";

/// The key of a request, without the quotes of a structured field. `None` if there is not exactly
/// one, or if it is not allowed.
pub(crate) fn of(parts: &Parts) -> Option<&str> {
    let mut values = parts.headers.get_all(HEADER).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    let text = value.to_str().ok()?;
    let quoted = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    let key = quoted.unwrap_or(text);
    let fits = |letter: u8| letter.is_ascii_graphic() && !b"\"\\".contains(&letter);
    ((1..=KEY_MAX).contains(&key.len()) && key.bytes().all(fits)).then_some(key)
}

/// What stands for a caller and its key in names: neither is part of them.
pub(crate) fn digest(caller: &[u8], key: &str) -> String {
    hash(&[caller, key.as_bytes()])
}

/// What makes two requests with one key the same request.
pub(crate) fn fingerprint(parts: &Parts, body: &[u8]) -> String {
    let target = original_uri(parts)
        .path_and_query()
        .map_or("", |target| target.as_str());
    let kind = parts.headers.get(CONTENT_TYPE);
    let kind = kind.map_or(&b""[..], |kind| kind.as_bytes());
    hash(&[
        parts.method.as_str().as_bytes(),
        target.as_bytes(),
        kind,
        body,
    ])
}

/// The hash of several texts, whose ends count.
fn hash(texts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    }
    let mut hex = String::with_capacity(64);
    for byte in hash.finalize() {
        // Writing to a string cannot fail.
        let _written = write!(hex, "{byte:02x}");
    }
    hex
}
