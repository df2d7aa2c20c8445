//! The slot of a key in a cluster.

/// The number of slots.
pub const SLOTS: u16 = 16_384;

/// The slot of a key: of the non-empty part in the first pair of braces, otherwise of the whole
/// key.
pub fn keyslot(key: &str) -> u16 {
    let inside = key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'));
    let hashed = inside
        .map(|(tag, _)| tag)
        .filter(|tag| !tag.is_empty())
        .unwrap_or(key);
    crc16(hashed.as_bytes()) % SLOTS
}

/// XMODEM: polynomial 0x1021, initial value 0.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 {
                crc << 1
            } else {
                (crc << 1) ^ 0x1021
            }
        })
    })
}
