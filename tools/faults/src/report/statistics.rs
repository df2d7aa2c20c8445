//! Confidence intervals and medians of numbers that vary from seed to seed.

/// 95 % of a normal distribution is within this many standard deviations of its mean.
const DEVIATIONS: f64 = 1.959_964;

/// Wilson's 95 % confidence interval of a share, from a sample in which `some` of `all` counted.
pub(crate) fn wilson(some: u64, all: u64) -> (f64, f64) {
    if all == 0 {
        return (0.0, 1.0);
    }
    let (some, all) = (approximate(some), approximate(all));
    let (share, square) = (some / all, DEVIATIONS * DEVIATIONS);
    let middle = share + square / (2.0 * all);
    let spread = DEVIATIONS * (share * (1.0 - share) / all + square / (4.0 * all * all)).sqrt();
    let whole = 1.0 + square / all;
    (
        ((middle - spread) / whole).max(0.0),
        ((middle + spread) / whole).min(1.0),
    )
}

/// `3 of 10 (11–60 %)`.
pub(crate) fn share(some: u64, all: u64) -> String {
    let (low, high) = wilson(some, all);
    format!("{some} of {all} ({:.0}–{:.0} %)", low * 100.0, high * 100.0)
}

/// The median. Of an even number of values, it is the upper one of the two in the middle.
pub(crate) fn median(values: &[u64]) -> Option<u64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

/// Converts without loss up to `u32::MAX`, and returns that for larger numbers. Enough for a
/// picture or a quotient.
pub(crate) fn approximate(number: u64) -> f64 {
    u32::try_from(number).map_or(f64::from(u32::MAX), f64::from)
}
