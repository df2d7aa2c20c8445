//! Settings, checked once; every later layer may rely on them.

mod builder;
pub(crate) mod endpoint;

pub use builder::{ClientBuilder, LocalHandover};

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
    /// A handle text that was cut or changed.
    #[error("not a lock handle: {reason}")]
    Handle {
        /// What is wrong with it.
        reason: &'static str,
    },
}
