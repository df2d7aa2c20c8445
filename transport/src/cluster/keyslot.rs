//! The slot of a key: CRC-16 (XMODEM) of its hash tag, or of all of it.

use crc::{CRC_16_XMODEM, Crc, Table};

/// How many slots a cluster has.
pub(crate) const SLOTS: usize = 16_384;

const CRC: Crc<u16, Table<1>> = Crc::<u16, Table<1>>::new(&CRC_16_XMODEM);

pub(super) fn keyslot(key: &str) -> u16 {
    keyslot_of_bytes(key.as_bytes())
}

/// The hash tag is between the first `{` and the first `}` after it, unless that is empty.
pub(super) fn keyslot_of_bytes(key: &[u8]) -> u16 {
    let find = |brace, text: &[u8]| text.iter().position(|byte| *byte == brace);
    let open = find(b'{', key).map_or(key.len(), |at| at + 1);
    let tag = find(b'}', &key[open..]).map(|length| &key[open..open + length]);
    CRC.checksum(tag.filter(|tag| !tag.is_empty()).unwrap_or(key)) % 16_384
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        // Of CLUSTER KEYSLOT, Redis 7.0.
        for (key, slot) in [
            ("123456789", 12_739),
            ("orders:42", 11_414),
            ("{shop}:orders:42", 3_808),
            ("redisson_lock__channel:{orders:42}", 11_414),
            ("foo{}{bar}", 8_363),
            ("foo{{bar}}zap", 4_015),
            ("foo{bar}{zap}", 5_061),
            ("a}b{c}", 7_365),
            ("", 0),
        ] {
            assert_eq!(keyslot(key), slot, "{key}");
        }
    }
}
