//! The slot of a key in a cluster.

/// CRC-16 (XMODEM) of the hash tag, or of the whole key: modulo the number of slots.
pub(crate) fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|begin| {
        let rest = &key[begin + 1..];
        let end = rest.iter().position(|byte| *byte == b'}')?;
        (end > 0).then(|| &rest[..end])
    });
    let crc = tag.unwrap_or(key).iter().fold(0, |crc: u16, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| {
            let shifted = crc << 1;
            if crc & 0x8000 == 0 {
                shifted
            } else {
                shifted ^ 0x1021
            }
        })
    });
    crc % 16_384
}

/// Whether all keys have the same slot.
pub(crate) fn is_one<'a>(keys: impl IntoIterator<Item = &'a Vec<u8>>) -> bool {
    let mut slots = keys.into_iter().map(|key| slot(key));
    let first = slots.next();
    slots.all(|slot| Some(slot) == first)
}

#[cfg(test)]
mod tests {
    use super::slot;

    #[test]
    fn slots_are_those_of_redis() {
        // Of CLUSTER KEYSLOT, Redis 7.0.
        for (key, expected) in [
            ("123456789", 12_739),
            ("{shop}:orders:42", 3_808),
            ("foo{}{bar}", 8_363),
            ("foo{{bar}}zap", 4_015),
            ("a}b{c}", 7_365),
            ("", 0),
        ] {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
    }
}
