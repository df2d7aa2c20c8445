//! The text that a hold leaves its guard as.

use std::fmt;
use std::ops::Deref;

/// A hold as text, on its way to another guard: made by [`LockGuard::hand_on`](crate::LockGuard::hand_on), taken by
/// [`Lock::restore`](crate::Lock::restore).
///
/// It reads as a `str` and becomes a `String`. Its `Debug` form hides the text, because whoever has it can take the hold.
#[derive(Clone, PartialEq, Eq)]
#[must_use = "the hold is in this text, and ends with its lease if nobody restores it"]
pub struct HoldText(String);

impl HoldText {
    pub(super) fn new(text: String) -> Self {
        HoldText(text)
    }
}

impl Deref for HoldText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<HoldText> for String {
    fn from(text: HoldText) -> Self {
        text.0
    }
}

impl fmt::Display for HoldText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl fmt::Debug for HoldText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HoldText(..)")
    }
}
