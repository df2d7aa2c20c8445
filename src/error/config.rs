//! Settings and arguments that cannot be used: found before anything is sent.

/// A setting or an argument that cannot be used. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The URL cannot be used. The text says why and never repeats a password.
    #[error("unusable url: {reason}")]
    Url {
        /// What is wrong with it and what would be right.
        reason: String,
    },
    /// A configuration of fred that is not for one server.
    #[cfg(feature = "fred")]
    #[error("unusable configuration of fred: {reason}")]
    Fred {
        /// What is wrong with it and what would be right.
        reason: &'static str,
    },
    /// A value outside its range.
    #[error("{what} is out of range: given=`{given}`, allowed=`{allowed}`")]
    OutOfRange {
        /// The setting or argument.
        what: &'static str,
        /// The value that was given.
        given: String,
        /// The values that are allowed.
        allowed: String,
    },
    /// A lock name that cannot be used.
    #[error("unusable lock name: {reason}, name=`{name}`")]
    Name {
        /// The name, cut if it is long.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Locks that cannot be one lock.
    #[error("not a lock of several: {reason}")]
    Members {
        /// What is wrong with them.
        reason: &'static str,
    },
    /// Connecting outside a tokio runtime, which drives the connections.
    #[error(
        "no tokio runtime: connect within one, for example in `#[tokio::main]` or `Runtime::block_on`"
    )]
    NoRuntime,
    /// A text that no [`LockGuard::hand_on`](crate::LockGuard::hand_on) of this lock gave.
    #[error("not a hold that was handed on: {reason}; pass the text of `hand_on` on as it is")]
    HandOnText {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A call for a single lock, on several taken as one.
    #[error("`{call}` is for a single lock, not for several as one: call it for each of them")]
    Several {
        /// The call.
        call: &'static str,
    },
    /// A hold that has other guards was to be handed on.
    #[error("a hold with other guards cannot be handed on: unlock those first, name=`{name}`")]
    OtherGuards {
        /// The lock.
        name: String,
    },
    /// The guard that was shown is of another lock, or of another client.
    #[error("the guard given to `within` is of another lock or client: name=`{name}`")]
    OtherLock {
        /// The lock that was to be taken.
        name: String,
    },
    /// A text that is not the id of a permit.
    #[error(
        "not the id of a permit: pass 32 lower-case hex digits, as `ExpirablePermit::id` gives them"
    )]
    PermitId,
}
