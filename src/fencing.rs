//! The number that a fenced lock hands out with each acquisition.

use std::fmt;

/// A number that grows with every acquisition of a fenced lock.
///
/// The resource remembers the highest token that it has seen and refuses lower ones. Then a holder
/// that was paused beyond its lease can do no harm. [Fencing](crate::guide::fencing) has patterns
/// for SQL and for object stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(i64);

impl FencingToken {
    /// Makes a token from its number, for code that got the number from the holder. The number is
    /// not checked.
    pub fn from_value(value: i64) -> Self {
        FencingToken(value)
    }

    /// The number. For a token from a lock, it is at least 1.
    pub fn value(self) -> i64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
