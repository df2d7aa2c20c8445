//! Settings and arguments that cannot be used. They are refused before anything is sent.

/// A setting or an argument that cannot be used. Nothing was sent; the message says what would be right.
///
/// # Examples
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// use std::time::Duration;
///
/// use leasehold::{Client, ConfigError, Error, Lease};
///
/// let lock = Client::embedded().lock("orders:42");
/// let refused = lock.try_lock_now(Lease::fixed(Duration::ZERO)).await;
/// assert!(matches!(refused, Err(Error::Config(ConfigError::OutOfRange { what: "lease", .. }))));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A URL that cannot be used. The text says why and never repeats a password.
    #[error("unusable url: {reason}")]
    Url {
        /// What is wrong and what would be right.
        reason: String,
    },
    /// TLS options that cannot be used: a file or a key that cannot be read, a certificate and a key that do
    /// not belong together, options for a URL that is not `rediss://`. The text never has a part of a key.
    #[error("unusable TLS options: {reason}")]
    Tls {
        /// What is wrong, and in which file.
        reason: String,
    },
    /// Credentials for a target that has its own.
    #[error("unusable credentials: {reason}")]
    Credentials {
        /// What is wrong and what would be right.
        reason: &'static str,
    },
    /// A configuration of fred that is not for one server.
    #[cfg(feature = "fred")]
    #[error("unusable configuration of fred: {reason}")]
    Fred {
        /// What is wrong and what would be right.
        reason: &'static str,
    },
    /// A value outside its range.
    #[error("{what} is out of range: given=`{given}`, allowed=`{allowed}`")]
    OutOfRange {
        /// The setting or the argument.
        what: &'static str,
        /// The value that was given.
        given: String,
        /// The values that are allowed.
        allowed: String,
    },
    /// A setting that means nothing for this kind of lock.
    #[error("`{setting}` is not for a {kind}: {reason}")]
    Setting {
        /// The call that made the setting.
        setting: &'static str,
        /// The kind of the lock.
        kind: String,
        /// Why not, or what to take instead.
        reason: &'static str,
    },
    /// A lock name that cannot be used.
    #[error("unusable lock name: {reason}, name=`{name}`")]
    Name {
        /// The name, cut if it is long.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Members that cannot be one lock: see [`Lock::multi`](crate::Lock::multi) and
    /// [`Lock::quorum`](crate::Lock::quorum).
    #[error("these locks cannot be one lock: {reason}")]
    Members {
        /// What is wrong with the members.
        reason: &'static str,
    },
    /// Connecting outside a tokio runtime, which drives the connections.
    #[error(
        "no tokio runtime: connect within one, for example in `#[tokio::main]` or `Runtime::block_on`"
    )]
    NoRuntime,
    /// A text that is not from [`LockGuard::hand_on`](crate::LockGuard::hand_on) of this lock.
    #[error(
        "not the text of a hold that was handed on: {reason}; pass the text of `hand_on` on as it is"
    )]
    HandOnText {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A call for a single lock, made on several locks as one.
    #[error("`{call}` is for a single lock, not for several locks as one: call it for each member")]
    Several {
        /// The call.
        call: &'static str,
    },
    /// A hold cannot be handed on while it has other guards, or if its owner also took the read lock.
    #[error(
        "a hold with other guards or read locks in it cannot be handed on: unlock them first, name=`{name}`"
    )]
    OtherGuards {
        /// The lock.
        name: String,
    },
    /// A guard given to [`Acquire::within`](crate::Acquire::within) that is of another lock or client.
    #[error("the guard given to `within` is of another lock or client: name=`{name}`")]
    OtherLock {
        /// The lock of the acquisition.
        name: String,
    },
    /// A text that is not the id of a permit.
    #[error(
        "not the id of a permit: pass 32 lower-case hex digits, as `ExpirablePermit::id` gives them"
    )]
    PermitId,
}
