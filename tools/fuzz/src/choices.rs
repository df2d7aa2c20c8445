//! Turns the bytes of an input into values that a caller might pass.

use std::time::Duration;

use arbitrary::{Arbitrary as _, Result, Unstructured};
use leasehold::Lease;

use crate::world::{NOW, ms, secs};

/// A duration: often a limit value, else any.
pub(crate) fn duration(u: &mut Unstructured<'_>) -> Result<Duration> {
    let tick = Duration::from_nanos(1);
    let edges = [
        NOW,
        tick,
        ms(1),
        ms(9),
        ms(10),
        ms(99),
        ms(100),
        ms(100) + tick,
        ms(999),
        secs(1),
        secs(30),
        secs(60),
        secs(60) + tick,
        Lease::MAX,
        Lease::MAX + tick,
        Duration::from_millis(u64::MAX),
        secs(i64::MAX.cast_unsigned()),
        secs(u64::MAX),
        Duration::MAX,
    ];
    match u.int_in_range(0..=3)? {
        0 => Ok(Duration::new(
            u.arbitrary()?,
            u.int_in_range(0..=999_999_999)?,
        )),
        1 => Ok(ms(u.int_in_range(0..=100_000)?)),
        _ => u.choose(&edges).copied(),
    }
}

pub(crate) fn lease(u: &mut Unstructured<'_>) -> Result<Lease> {
    Ok(match u.int_in_range(0..=2)? {
        0 => Lease::Renewed,
        1 => Lease::Fixed(duration(u)?),
        _ => Lease::RenewedFor(duration(u)?),
    })
}

pub(crate) fn count(u: &mut Unstructured<'_>) -> Result<u32> {
    let signed_max = i32::MAX.cast_unsigned();
    let edges = [
        0,
        1,
        2,
        3,
        999,
        1000,
        1001,
        signed_max - 1,
        signed_max,
        signed_max + 1,
    ];
    match u.int_in_range(0..=3)? {
        0 => u.arbitrary(),
        1 => u.choose(&[u32::MAX, u32::MAX - 1]).copied(),
        _ => u.choose(&edges).copied(),
    }
}

pub(crate) fn signed(u: &mut Unstructured<'_>) -> Result<i64> {
    let edges = [
        0,
        1,
        -1,
        i64::from(i32::MAX),
        i64::from(i32::MIN),
        i64::from(u32::MAX),
        1 << 53,
        i64::MAX,
        i64::MIN,
    ];
    if u.ratio(1, 3)? {
        u.arbitrary()
    } else {
        u.choose(&edges).copied()
    }
}

/// A text of the given pieces, some of them repeated many times.
pub(crate) fn pieces(u: &mut Unstructured<'_>, of: &[&str], most: usize) -> Result<String> {
    let mut text = String::new();
    for _ in 0..u.int_in_range(0..=most)? {
        if u.ratio(1, 6)? {
            text.push(char::arbitrary(u)?);
        } else {
            text.push_str(u.choose(of)?);
        }
    }
    if u.ratio(1, 24)? {
        let length = *u.choose(&[64, 255, 256, 257, 1023, 1024, 1025, 65_536, 1 << 20])?;
        let times = length / text.len().max(1);
        text = if text.is_empty() {
            "n".repeat(length)
        } else {
            text.repeat(times)
        };
    }
    Ok(text)
}

/// All remaining bytes as text.
pub(crate) fn rest(u: &mut Unstructured<'_>) -> Result<String> {
    let bytes = u.bytes(u.len())?;
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

/// A text with a few changes.
pub(crate) fn changed(u: &mut Unstructured<'_>, text: &str) -> Result<String> {
    let mut letters: Vec<char> = text.chars().collect();
    for _ in 0..u.int_in_range(1..=4)? {
        let at = u.int_in_range(0..=letters.len())?;
        match u.int_in_range(0..=4)? {
            0 => letters.insert(at, char::arbitrary(u)?),
            1 => letters.truncate(at),
            2 => drop(letters.splice(at..at, text.chars())),
            _ if at == letters.len() => letters.push(*u.choose(&[' ', '\n', '0', ':', '\0'])?),
            3 => letters[at] = *u.choose(&[' ', '0', 'f', 'F', ':', '-', '\u{fffd}'])?,
            _ => drop(letters.remove(at)),
        }
    }
    Ok(letters.into_iter().collect())
}
