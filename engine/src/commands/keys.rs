//! Commands for keys of any type, and their expiry.

use super::super::number::int;
use super::super::reply::{Bytes, ErrorReply, Outcome, Reply};
use super::super::store::{Entry, Keys, Store};
use super::{Command, SYNTAX, Words, command, is};

pub(super) const COMMANDS: &[Command] = &[
    command("dbsize", 1, |store, _| {
        Ok(Reply::count(store.live().count()))
    }),
    command("del", -2, |store, words| {
        Ok(Reply::count(
            words[1..].iter().filter(|key| store.remove(key)).count(),
        ))
    }),
    command("exists", -2, |store, words| {
        Ok(Reply::count(
            words[1..]
                .iter()
                .filter(|key| store.entry(key).is_some())
                .count(),
        ))
    }),
    command("expire", -3, |store, words| {
        expire(store, words, "expire", Unit::Seconds)
    }),
    command("flushall", -1, flushall),
    command("keys", 2, |store, words| {
        Ok(Reply::bulks(matching(store, &words[1], None)))
    }),
    command("persist", 2, persist),
    command("pexpire", -3, |store, words| {
        expire(store, words, "pexpire", Unit::Millis)
    }),
    command("pexpireat", -3, |store, words| {
        expire(store, words, "pexpireat", Unit::Epoch)
    }),
    command("pttl", 2, |store, words| {
        Ok(Reply::Int(
            left_ms(store, &words[1]).unwrap_or_else(|no| no),
        ))
    }),
    command("scan", -2, scan),
    command("ttl", 2, |store, words| {
        Ok(Reply::Int(
            left_ms(store, &words[1]).map_or_else(|no| no, |left| (left + 500) / 1000),
        ))
    }),
    command("type", 2, |store, words| {
        let name = store
            .entry(&words[1])
            .map_or("none", |entry| entry.data.type_name());
        Ok(Reply::Status(name.to_owned()))
    }),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Seconds,
    Millis,
    /// Milliseconds since 1970.
    Epoch,
}

/// The remaining milliseconds, or the number that Redis returns instead.
pub(crate) fn left_ms(store: &mut Store, key: &[u8]) -> Result<i64, i64> {
    const NO_KEY: i64 = -2;
    const NO_EXPIRY: i64 = -1;
    let now = store.now_ms();
    let entry = store.entry(key).ok_or(NO_KEY)?;
    Ok((entry.expires_at.ok_or(NO_EXPIRY)? - now).max(0))
}

fn flushall(store: &mut Store, words: Words<'_>) -> Outcome {
    match words {
        [_] => {}
        [_, how] if is(how, "sync") || is(how, "async") => {}
        _ => return Err(SYNTAX.into()),
    }
    store.replace(Keys::new());
    Ok(Reply::ok())
}

#[expect(clippy::unnecessary_wraps, reason = "a command")]
fn persist(store: &mut Store, words: Words<'_>) -> Outcome {
    let had = store
        .entry(&words[1])
        .and_then(|entry| entry.expires_at.take())
        .is_some();
    Ok(Reply::from(had))
}

fn invalid_expire(name: &str) -> ErrorReply {
    ErrorReply(format!("ERR invalid expire time in '{name}' command"))
}

fn expire(store: &mut Store, words: Words<'_>, name: &str, unit: Unit) -> Outcome {
    // Of the conditions of Redis 7, scripts use only this one.
    let only_later = words.get(3).is_some_and(|option| is(option, "gt"));
    if let Some(option) = words.get(if only_later { 4 } else { 3 }) {
        let shown = String::from_utf8_lossy(option);
        return Err(ErrorReply(format!("ERR Unsupported option {shown}")));
    }
    let given = int(&words[2])?;
    let now = store.now_ms();
    let scale = if unit == Unit::Seconds { 1000 } else { 1 };
    let base = if unit == Unit::Epoch { 0 } else { now };
    let deadline = given
        .checked_mul(scale)
        .and_then(|ms| ms.checked_add(base))
        .ok_or_else(|| invalid_expire(name))?;
    let Some(entry) = store.entry(&words[1]) else {
        return Ok(Reply::Int(0));
    };
    // No expiry counts as the latest.
    if only_later && entry.expires_at.is_none_or(|at| deadline <= at) {
        return Ok(Reply::Int(0));
    }
    entry.expires_at = Some(deadline);
    if deadline <= now {
        store.remove(&words[1]);
    }
    Ok(Reply::Int(1))
}

/// Returns all keys at once: a cursor would have to survive changes between calls.
fn scan(store: &mut Store, words: Words<'_>) -> Outcome {
    let cursor = std::str::from_utf8(&words[1])
        .ok()
        .and_then(|text| text.parse::<u64>().ok());
    if cursor.is_none() {
        return Err("ERR invalid cursor".into());
    }
    let (mut pattern, mut kind): (&[u8], Option<&[u8]>) = (b"*", None);
    for option in words[2..].chunks(2) {
        match option {
            [name, value] if is(name, "match") => pattern = value,
            [name, value] if is(name, "type") => kind = Some(value),
            [name, value] if is(name, "count") => {
                if int(value)? < 1 {
                    return Err(SYNTAX.into());
                }
            }
            _ => return Err(SYNTAX.into()),
        }
    }
    let found = matching(store, pattern, kind);
    Ok(Reply::Array(vec![
        Ok(Reply::Bulk(b"0".to_vec())),
        Ok(Reply::bulks(found)),
    ]))
}

fn matching(store: &mut Store, pattern: &[u8], kind: Option<&[u8]>) -> Vec<Bytes> {
    let of_kind = |entry: &Entry| kind.is_none_or(|kind| is(kind, entry.data.type_name()));
    store
        .live()
        .filter(|(key, entry)| of_kind(entry) && glob(pattern, key))
        .map(|(key, _)| key.clone())
        .collect()
}

/// Supports `*`, `?`, `[a-c]`, `[^a]` and `\`, as in Redis.
///
/// On a mismatch, only the last star needs to match one byte more: a longer match for an earlier
/// star would leave less text for the same rest. So the time is bounded by the product of both
/// lengths.
pub(crate) fn glob(mut pattern: &[u8], mut text: &[u8]) -> bool {
    // The pattern after the last star, and the text at which to try it next.
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = pattern {
            (pattern, star) = (rest, Some((rest, text)));
            continue;
        }
        if text.is_empty() && pattern.is_empty() {
            return true;
        }
        if let Some(rest) = step(pattern, text) {
            (pattern, text) = (rest, &text[1..]);
            continue;
        }
        let Some((rest, [_, later @ ..])) = star else {
            return false;
        };
        (pattern, text, star) = (rest, later, Some((rest, later)));
    }
}

/// The rest of a pattern after its first element, if that is not a star and matches the first byte.
fn step<'a>(pattern: &'a [u8], text: &[u8]) -> Option<&'a [u8]> {
    let first = text.first()?;
    let (fits, rest) = match pattern {
        [] => return None,
        [b'?', rest @ ..] => (true, rest),
        [b'[', rest @ ..] => class(rest, *first),
        [b'\\', escaped, rest @ ..] => (escaped == first, rest),
        [plain, rest @ ..] => (plain == first, rest),
    };
    fits.then_some(rest)
}

/// Whether the class at the beginning of the pattern contains the byte, and the pattern after the
/// class.
fn class(pattern: &[u8], byte: u8) -> (bool, &[u8]) {
    let (negated, mut rest) = match pattern {
        [b'^', rest @ ..] => (true, rest),
        _ => (false, pattern),
    };
    let mut within = false;
    loop {
        rest = match rest {
            [] => return (within != negated, rest),
            [b']', after @ ..] => return (within != negated, after),
            [b'\\', escaped, after @ ..] => {
                within |= *escaped == byte;
                after
            }
            [from, b'-', to, after @ ..] => {
                within |= (*from.min(to)..=*from.max(to)).contains(&byte);
                after
            }
            [plain, after @ ..] => {
                within |= *plain == byte;
                after
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn patterns_are_those_of_redis() {
        for (pattern, text, fits) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("**", "ab", true),
            ("a*c", "abc", true),
            ("a*c", "abcd", false),
            ("*b*d", "abcbd", true),
            ("a?c", "abc", true),
            ("a?", "a", false),
            ("[a-c]*", "b1", true),
            ("[^a-c]", "b", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("*[", "a", false),
        ] {
            assert_eq!(
                glob(pattern.as_bytes(), text.as_bytes()),
                fits,
                "{pattern} {text}"
            );
        }
    }

    /// The definition, by trying every length for every star.
    fn slowly(pattern: &[u8], text: &[u8]) -> bool {
        match pattern {
            [] => text.is_empty(),
            [b'*', rest @ ..] => (0..=text.len()).any(|skip| slowly(rest, &text[skip..])),
            [first, rest @ ..] => {
                let fits = text
                    .first()
                    .is_some_and(|byte| *first == b'?' || first == byte);
                fits && slowly(rest, &text[1..])
            }
        }
    }

    #[test]
    fn only_the_last_star_is_extended() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut some = |of: &[u8], length: usize| -> Vec<u8> {
            (0..random.usize(0..length))
                .map(|_| of[random.usize(0..of.len())])
                .collect()
        };
        for _ in 0..20_000 {
            let (pattern, text) = (some(b"ab?**", 8), some(b"ab", 10));
            assert_eq!(
                glob(&pattern, &text),
                slowly(&pattern, &text),
                "{pattern:?} {text:?}"
            );
        }
    }

    #[test]
    fn many_stars_take_no_longer_than_one_for_each_byte() {
        // Trying every length for every star would never end.
        let (pattern, text) = ("*a".repeat(200), "a".repeat(199) + "b");
        assert!(!glob(pattern.as_bytes(), text.as_bytes()));
    }
}
