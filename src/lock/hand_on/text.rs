//! The text form of a hold that moves from one guard to another.

use crate::error::ConfigError;

/// The version of the text form.
const VERSION: &str = "leasehold2";

/// Encodes a hold. The checksum covers the version, the owner and the key. So a text that was cut or changed,
/// or that belongs to another lock, is refused before anything is sent.
pub(super) fn encode(key: &str, field: &str) -> String {
    format!("{VERSION} {} {field}", checksum(key, field))
}

/// Returns the hash field of the hold, which is its owner on the wire.
pub(super) fn decode<'a>(key: &str, text: &'a str) -> Result<&'a str, ConfigError> {
    let refuse = |reason| Err(ConfigError::HandOnText { reason });
    let [version, sum, field] = text.splitn(3, ' ').collect::<Vec<_>>()[..] else {
        return refuse("it has not the three parts version, checksum and owner");
    };
    if version != VERSION {
        return refuse("it is of another version");
    }
    if sum != checksum(key, field) {
        return refuse("its checksum does not fit: it was cut or changed, or is of another lock");
    }
    Ok(field)
}

fn checksum(key: &str, field: &str) -> String {
    let mut sum = sha1_smol::Sha1::new();
    for part in [VERSION, field, key] {
        sum.update(part.as_bytes());
        sum.update(b"\n");
    }
    sum.digest().to_string()[..8].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_survives_as_text() {
        let text = encode("a key with spaces", "0b4e4b9c-9a1f:57");
        assert_eq!(decode("a key with spaces", &text), Ok("0b4e4b9c-9a1f:57"));
    }

    #[test]
    fn every_cut_and_every_changed_byte_and_every_other_lock_is_refused() {
        let text = encode("orders:42", "0b4e4b9c-9a1f:57");
        for cut in 0..text.len() {
            assert!(
                decode("orders:42", &text[..cut]).is_err(),
                "{}",
                &text[..cut]
            );
        }
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1;
            let changed = String::from_utf8(changed).expect("ascii stays ascii");
            assert!(decode("orders:42", &changed).is_err(), "{changed}");
        }
        assert!(decode("orders:43", &text).is_err());
    }
}
