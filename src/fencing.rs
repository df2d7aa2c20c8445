//! The number that a fenced lock gives with each acquisition.

use std::fmt;

/// A number that grows with every acquisition of a fenced lock.
///
/// Let the resource remember the highest one it has seen and refuse lower ones: then a holder that
/// was paused beyond its lease can do no harm. `docs/fencing.md` has patterns for SQL and for object
/// stores; [`Client::set_fenced`](crate::Client::set_fenced) is one for Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(i64);

impl FencingToken {
    /// The token of that number, for code that was given it by the holder. It is not checked.
    pub fn from_value(value: i64) -> Self {
        FencingToken(value)
    }

    /// The number: at least 1, if a lock gave it.
    pub fn value(self) -> i64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
