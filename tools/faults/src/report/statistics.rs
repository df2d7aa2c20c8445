//! Of numbers that differ from seed to seed: what is likely, and what is in the middle.

/// So many standard deviations to each side hold 95 of 100.
const DEVIATIONS: f64 = 1.959_964;

/// The share of which `some` of `all` is a sample, with 95 % confidence: Wilson's interval.
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

/// The one in the middle; the upper one of two.
pub(crate) fn median(values: &[u64]) -> Option<u64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

/// Enough for a picture and for a quotient.
pub(crate) fn approximate(number: u64) -> f64 {
    u32::try_from(number).map_or(f64::from(u32::MAX), f64::from)
}
