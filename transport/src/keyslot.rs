//! The slot of a key: of its hash tag, or of all of it.

use resp_rs::cluster::{SLOT_COUNT, hash_slot};

/// How many slots a cluster has.
pub(crate) const SLOTS: usize = SLOT_COUNT as usize;

pub(super) fn keyslot(key: &str) -> u16 {
    hash_slot(key.as_bytes())
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
