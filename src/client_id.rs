//! The id of a client. The names of all its owners begin with it.

use std::fmt;

/// A version 4 UUID, as Redisson's ids are.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ClientId(u64, u64);

const LENGTH: usize = 36;

impl ClientId {
    /// An id that no other client has. It uses the system's randomness, because two clients with
    /// the same id would share their locks.
    pub(crate) fn random() -> Self {
        let random = || getrandom::u64().expect("the system gives random numbers");
        // The version, and the two bits of the variant.
        let (version, variant) = (0x4000, 0x8000_0000_0000_0000);
        ClientId(
            random() & !0xf000 | version,
            random() & !0xc000_0000_0000_0000 | variant,
        )
    }

    /// The id as a number.
    pub(crate) fn as_u128(&self) -> u128 {
        u128::from(self.0) << 64 | u128::from(self.1)
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ClientId(high, low) = self;
        write!(
            f,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff,
        )
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// True for a UUID of any version in text form. Also used for the ids of other libraries.
pub fn is_uuid(text: &str) -> bool {
    let fits = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == LENGTH && text.bytes().enumerate().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_id_is_another_version_4_uuid() {
        let ids: Vec<_> = (0..1_000).map(|_| ClientId::random()).collect();
        for id in &ids {
            let (id, number) = (&id.to_string(), format!("{:032x}", id.as_u128()));
            assert_eq!(id.replace('-', ""), number);
            assert!(is_uuid(id), "{id}");
            assert_eq!(*id, id.to_lowercase());
            assert_eq!(&id[14..15], "4", "the version of {id}");
            assert!("89ab".contains(&id[19..20]), "the variant of {id}");
        }
        // Every other bit takes both values.
        let ever_set = ids.iter().fold(0, |all, id| all | id.as_u128());
        let ever_clear = ids.iter().fold(0, |all, id| all | !id.as_u128());
        assert_eq!((ever_set & ever_clear).count_ones(), 122);
        let different: std::collections::HashSet<_> = ids.iter().collect();
        assert_eq!(different.len(), ids.len());
    }

    #[test]
    fn other_text_is_no_uuid() {
        assert!(is_uuid("0B4E4b9c-9a1f-1c0e-0f6a-0c5f9d6b0f11"));
        for text in [
            "",
            "0b4e4b9c9a1f4c0e8f6a0c5f9d6b0f11",
            "0b4e4b9c-9a1f-4c0e-8f6a-0c5f9d6b0f1",
            "0b4e4b9c-9a1f-4c0e-8f6a-0c5f9d6b0f111",
            "0b4e4b9c-9a1f-4c0e-8f6a-0c5f9d6b0f1g",
            "0b4e4b9c-9a1f-4c0e-8f6a00c5f9d6b0f11",
            "0b4e4b9c-9a1f-4c0e-8f6a-0c5f9d6b0fé",
        ] {
            assert!(!is_uuid(text), "{text}");
        }
    }
}
