//! The random numbers of scripts: `lrand48` with the initial state of Redis.

#[derive(Debug)]
pub(crate) struct Lrand48(u64);

impl Default for Lrand48 {
    fn default() -> Self {
        Lrand48(0x1234_ABCD_330E)
    }
}

impl Lrand48 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "C takes the seed as an int"
    )]
    pub(crate) fn seeded(seed: f64) -> Self {
        let seed = u64::from((seed as i64 as i32).cast_unsigned());
        Lrand48(seed << 16 | 0x330E)
    }

    /// At least 0 and less than 1.
    #[expect(clippy::cast_precision_loss, reason = "31 bits fit")]
    pub(crate) fn next_part(&mut self) -> f64 {
        const MASK: u64 = (1 << 48) - 1;
        const MAX: u64 = i32::MAX as u64;
        self.0 = self.0.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & MASK;
        (self.0 >> 17) as f64 % MAX as f64 / MAX as f64
    }
}
