//! How a hold was lost.

/// How a hold was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// Its lease has ended, so others may hold the lock.
    Expired,
    /// Another reason. Nobody knows when it was lost.
    Gone(String),
}
