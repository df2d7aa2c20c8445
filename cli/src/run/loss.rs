//! How a hold ended.

/// How a hold ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// Its lease is over: others may hold the lock.
    Expired,
    /// Another reason, at any time.
    Gone(String),
}
