//! Names of locks, as people read and type them.
//!
//! A key of Redis is a sequence of bytes. It is printed as text, with escapes for what is no UTF-8,
//! for what the terminal would not show, and for the backslash that begins an escape. Commands take
//! what is printed, so that a name can be copied from the output of one command to the next.

use std::ffi::OsStr;
use std::fmt;
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt as _;

use clap::builder::{OsStringValueParser, TypedValueParser};
use serde::{Serialize, Serializer};

use crate::output::harmless;

/// The key of a lock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name(Vec<u8>);

/// The name of a lock that this program takes or changes. The library's names are UTF-8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextName(String);

/// Parses an argument.
pub(crate) fn any_name() -> impl TypedValueParser<Value = Name> {
    OsStringValueParser::new().try_map(|typed| Name::parse(&typed))
}

/// Parses an argument, which must be UTF-8.
pub(crate) fn text_name() -> impl TypedValueParser<Value = TextName> {
    let text = |name: Name| match String::from_utf8(name.0) {
        Ok(text) => Ok(TextName(text)),
        Err(_) => Err("it is not UTF-8: such a name can only be listed, shown and broken"),
    };
    any_name().try_map(text)
}

impl Name {
    pub(crate) fn new(bytes: impl Into<Vec<u8>>) -> Name {
        Name(bytes.into())
    }

    fn parse(typed: &OsStr) -> Result<Name, String> {
        let (mut name, mut rest) = (Vec::new(), typed.as_bytes());
        while let Some((first, after)) = rest.split_first() {
            if *first != b'\\' {
                name.push(*first);
                rest = after;
                continue;
            }
            let (decoded, after) = escape(after).ok_or(
                r"a backslash is written `\\`; the escapes are \xff, \u{202e}, \n, \r and \t",
            )?;
            name.extend(decoded);
            rest = after;
        }
        Ok(Name(name))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// `None` if the bytes are not UTF-8.
    pub(crate) fn text(&self) -> Option<&str> {
        str::from_utf8(&self.0).ok()
    }
}

/// Decodes what follows a backslash, and returns what follows the escape.
fn escape(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (kind, rest) = text.split_first()?;
    match kind {
        b'\\' => Some((vec![b'\\'], rest)),
        b'n' => Some((vec![b'\n'], rest)),
        b'r' => Some((vec![b'\r'], rest)),
        b't' => Some((vec![b'\t'], rest)),
        b'x' => {
            let (digits, rest) = rest.split_at_checked(2)?;
            Some((vec![u8::try_from(hex(digits)?).ok()?], rest))
        }
        b'u' => {
            let rest = rest.strip_prefix(b"{")?;
            let end = rest.iter().position(|byte| *byte == b'}')?;
            let letter = char::from_u32(hex(&rest[..end])?)?;
            Some((letter.to_string().into_bytes(), &rest[end + 1..]))
        }
        _ => None,
    }
}

fn hex(digits: &[u8]) -> Option<u32> {
    // A sign would be parsed too.
    let are_digits = digits.iter().all(u8::is_ascii_hexdigit);
    let digits = str::from_utf8(digits).ok().filter(|_| are_digits)?;
    u32::from_str_radix(digits, 16).ok()
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            f.write_str(&harmless(&chunk.valid().replace('\\', r"\\")))?;
            for byte in chunk.invalid() {
                write!(f, r"\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl TextName {
    /// The same name, for a look at it.
    pub(crate) fn key(&self) -> Name {
        Name::new(self.0.as_str())
    }
}

impl Deref for TextName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for TextName {
    fn as_ref(&self) -> &str {
        self
    }
}

impl fmt::Display for TextName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_was_printed() {
        for (bytes, printed) in [
            (&b"orders:42 \xc3\xa9"[..], "orders:42 é"),
            (b"evil\xe2\x80\xaejob", r"evil\u{202e}job"),
            (b"bad\xff\xfe\xc3", r"bad\xff\xfe\xc3"),
            (b"\xe2\x80", r"\xe2\x80"),
            (br"a\xff", r"a\\xff"),
            (br"\\", r"\\\\"),
            (b"\0\t\r\n\x1b", r"\u{0}\t\r\n\u{1b}"),
            (b"\xef\xbf\xbd", "\u{fffd}"),
            (b"", ""),
        ] {
            let name = Name::new(bytes);
            assert_eq!(name.to_string(), printed, "{bytes:?}");
            assert_eq!(Name::parse(OsStr::new(printed)), Ok(name), "{printed}");
        }
    }

    #[test]
    fn bytes_and_unusual_escapes_are_taken_too() {
        for (typed, bytes) in [
            (&b"bad\xff"[..], &b"bad\xff"[..]),
            (br"\x41\u{42}\u{00e9}", "ABé".as_bytes()),
        ] {
            let name = Name::parse(OsStr::from_bytes(typed)).expect("a name");
            assert_eq!(name.bytes(), bytes);
        }
    }

    #[test]
    fn what_is_no_escape_is_refused() {
        for typed in [
            r"a\",
            r"\b",
            r"\x",
            r"\xf",
            r"\xfg",
            r"\x+f",
            r"\u",
            r"\u{}",
            r"\u{41",
            r"\u{+41}",
            r"\u{d800}",
            r"\u{110000}",
            r"\u0041",
            r"\N",
        ] {
            assert!(Name::parse(OsStr::new(typed)).is_err(), "{typed}");
        }
    }
}
