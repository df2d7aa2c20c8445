//! Settings and arguments that are not allowed. They are refused before anything is sent.

use std::fmt;

use crate::transport;

/// A setting or an argument that is not allowed. Nothing was sent, and the message says what is
/// allowed.
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
/// let refused = lock.try_lock_now(Lease::Fixed(Duration::ZERO)).await;
/// assert!(matches!(refused, Err(Error::Config(ConfigError::OutOfRange { what: "lease", .. }))));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The URL cannot be used. The text says why, and never contains a password.
    #[error("unusable url: {reason}")]
    Url {
        /// What is wrong, and what is allowed.
        reason: String,
    },
    /// The TLS options cannot be used: a file or key cannot be read, the certificate and key do not
    /// match, or the URL is not `rediss://`. The text never contains part of a key.
    #[error("unusable TLS options: {reason}")]
    Tls {
        /// What is wrong, and in which file.
        reason: String,
    },
    /// The target does not take credentials: it has its own, or it has no users.
    #[error("unusable credentials: {reason}")]
    Credentials {
        /// What is wrong, and what is allowed.
        reason: &'static str,
    },
    /// The address map has an entry that is no address, or the URL is for a single server.
    #[error("unusable address map: {reason}")]
    AddressMap {
        /// What is wrong, and in which entry.
        reason: String,
    },
    /// The value is out of range.
    #[error("{what} is out of range: given=`{given}`, allowed=`{allowed}`")]
    OutOfRange {
        /// The setting or the argument.
        what: &'static str,
        /// The given value.
        given: String,
        /// The allowed values.
        allowed: String,
    },
    /// This kind of lock does not have the setting.
    #[error("`{setting}` does not apply to a {kind}: {reason}")]
    Setting {
        /// The method that sets it.
        setting: &'static str,
        /// The kind of the lock.
        kind: String,
        /// The reason, or what to use instead.
        reason: &'static str,
    },
    /// The name of a lock is not allowed.
    #[error("unusable lock name: {reason}, name=`{name}`")]
    Name {
        /// The name, shortened if it is long.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The members cannot be combined into one lock: see [`Lock::multi`](crate::Lock::multi) and
    /// [`Lock::quorum`](crate::Lock::quorum).
    #[error("these locks cannot be combined: {reason}")]
    Members {
        /// What is wrong with the members.
        reason: &'static str,
    },
    /// There is no tokio runtime to drive the connections.
    #[error(
        "no tokio runtime: connect within one, for example in `#[tokio::main]` or \
         `Runtime::block_on`"
    )]
    NoRuntime,
    /// The tokio runtime was built without timers or without I/O. Build it with
    /// [`enable_all`](tokio::runtime::Builder::enable_all).
    #[error("the tokio runtime has no {what}: build it with `enable_all`")]
    RuntimeLacks {
        /// What is missing: `timers`, or `I/O`.
        what: &'static str,
    },
    /// The method is for a single lock, and was called on several locks as one.
    #[error("`{call}` needs a single lock: call it on each member")]
    Several {
        /// The method.
        call: &'static str,
    },
    /// The guard given to [`Acquire::within`](crate::Acquire::within) belongs to another lock or
    /// client.
    #[error("the guard given to `within` belongs to another lock or client: name=`{name}`")]
    OtherLock {
        /// The lock of the acquisition.
        name: String,
    },
    /// The text is not the id of a permit.
    #[error(
        "not the id of a permit: pass 32 lower-case hex digits, as `ExpirablePermit::id` gives them"
    )]
    PermitId,
}

impl ConfigError {
    /// What the transport refuses. No `From`: that would make the transport a part of the public
    /// API.
    pub(crate) fn of_transport(error: transport::SettingError) -> Self {
        match error {
            transport::SettingError::Url { reason } => ConfigError::Url { reason },
            transport::SettingError::Tls { reason } => ConfigError::Tls { reason },
            transport::SettingError::AddressMap { reason } => ConfigError::AddressMap { reason },
        }
    }

    pub(crate) fn out_of_range(
        what: &'static str,
        given: impl fmt::Display,
        allowed: impl Into<String>,
    ) -> Self {
        ConfigError::OutOfRange {
            what,
            given: given.to_string(),
            allowed: allowed.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_transport_refuses_says_what_is_unusable() {
        let reason = || "because".to_owned();
        let url = transport::SettingError::Url { reason: reason() };
        let tls = transport::SettingError::Tls { reason: reason() };
        let map = transport::SettingError::AddressMap { reason: reason() };
        let texts = [url, tls, map].map(|error| ConfigError::of_transport(error).to_string());
        let expected = [
            "unusable url: because",
            "unusable TLS options: because",
            "unusable address map: because",
        ];
        assert_eq!(texts, expected);
    }
}
