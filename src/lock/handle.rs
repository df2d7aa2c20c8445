//! A hold as text.

use std::fmt;
use std::str::FromStr;

use crate::config::ConfigError;

/// The version of the text form.
const VERSION: &str = "leasehold1";

/// A hold that left its guard, to be taken over by [`Client::adopt`](crate::Client::adopt).
///
/// Its text form carries a checksum, so that a cut or changed text is refused. Whoever has the text
/// can take the lock over: treat it as the right to be in the section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldHandle {
    field: String,
    key: String,
}

impl HoldHandle {
    pub(crate) fn new(key: &str, field: &str) -> Self {
        HoldHandle { field: field.to_owned(), key: key.to_owned() }
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    pub(crate) fn field(&self) -> &str {
        &self.field
    }
}

fn checksum(field: &str, key: &str) -> String {
    let mut sum = sha1_smol::Sha1::new();
    for part in [VERSION, field, key] {
        sum.update(part.as_bytes());
        sum.update(b"\n");
    }
    sum.digest().to_string()[..8].to_owned()
}

impl fmt::Display for HoldHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = checksum(&self.field, &self.key);
        write!(f, "{VERSION} {sum} {} {}", self.field, self.key)
    }
}

impl FromStr for HoldHandle {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = |reason| Err(ConfigError::Handle { reason });
        // The key comes last, as it may contain spaces.
        let parts: Vec<_> = text.splitn(4, ' ').collect();
        let [version, sum, field, key] = parts[..] else {
            return refuse("expected version, checksum, owner and key");
        };
        if version != VERSION {
            return refuse("not a text of this version");
        }
        if sum != checksum(field, key) {
            return refuse("the checksum does not fit: it was cut or changed");
        }
        Ok(HoldHandle::new(key, field))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_survives_as_text() {
        let handle = HoldHandle::new("a key with spaces", "0b4e4b9c-9a1f:57");
        assert_eq!(handle.to_string().parse(), Ok(handle));
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_refused() {
        let text = HoldHandle::new("orders:42", "0b4e4b9c-9a1f:57").to_string();
        for cut in 0..text.len() {
            assert!(text[..cut].parse::<HoldHandle>().is_err(), "{}", &text[..cut]);
        }
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1;
            let changed = String::from_utf8(changed).expect("ascii stays ascii");
            assert!(changed.parse::<HoldHandle>().is_err(), "{changed}");
        }
    }
}
