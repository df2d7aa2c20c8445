//! Parses commands in the form that clients send: arrays of bulk strings.
//!
//! # Bounds
//!
//! The same as those of Redis. An announced length does not reserve memory.

use bytes::{Buf as _, BytesMut};

use crate::number::parse_int;
use crate::reply::Bytes;

const WORDS_MAX: usize = 1 << 20;
const WORD_MAX: usize = 512 << 20;
const LINE_MAX: usize = 64 << 10;

/// Takes the command at the front of a buffer, if it has arrived completely. After an error, the
/// beginning of the next command is unknown.
pub(super) fn command(buffer: &mut BytesMut) -> Result<Option<Vec<Bytes>>, String> {
    let mut rest = &buffer[..];
    let Some(words) = words(&mut rest)? else {
        return Ok(None);
    };
    let words = words.into_iter().map(<[u8]>::to_vec).collect();
    let length = buffer.len() - rest.len();
    buffer.advance(length);
    Ok(Some(words))
}

/// Starts over when more bytes have arrived. That is cheap, because it skips over the words.
fn words<'a>(bytes: &mut &'a [u8]) -> Result<Option<Vec<&'a [u8]>>, String> {
    let Some(count) = number(bytes, b'*', WORDS_MAX)? else {
        return Ok(None);
    };
    let mut words = Vec::new();
    for _ in 0..count {
        let Some(length) = number(bytes, b'$', WORD_MAX)? else {
            return Ok(None);
        };
        let Some((word, rest)) = bytes.split_at_checked(length) else {
            return Ok(None);
        };
        let Some((end, rest)) = rest.split_at_checked(2) else {
            return Ok(None);
        };
        if end != b"\r\n" {
            return Err(format!("expected the end of a word after {length} bytes"));
        }
        words.push(word);
        *bytes = rest;
    }
    Ok(Some(words))
}

/// The number on a line that begins with `letter`.
fn number(bytes: &mut &[u8], letter: u8, max: usize) -> Result<Option<usize>, String> {
    match bytes.first() {
        None => return Ok(None),
        Some(first) if *first != letter => {
            let [letter, first] = [letter, *first].map(char::from);
            return Err(format!("expected '{letter}', got '{first}'"));
        }
        Some(_) => {}
    }
    let Some(end) = bytes
        .windows(2)
        .take(LINE_MAX)
        .position(|pair| pair == b"\r\n")
    else {
        let is_too_long = bytes.len() > LINE_MAX;
        return if is_too_long {
            Err("too long a line".to_owned())
        } else {
            Ok(None)
        };
    };
    let number = parse_int(&bytes[1..end]).and_then(|number| usize::try_from(number).ok());
    let number = number
        .filter(|number| *number <= max)
        .ok_or("invalid length")?;
    *bytes = &bytes[end + 2..];
    Ok(Some(number))
}
