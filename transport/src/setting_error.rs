//! Errors of settings. They are reported before anything is sent.

/// A URL or options that cannot be used. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingError {
    /// The URL cannot be used. The text says why, and never contains a password.
    Url {
        /// What is wrong, and what is allowed.
        reason: String,
    },
    /// The TLS options cannot be used. The text never contains part of a key.
    Tls {
        /// What is wrong, and in which file.
        reason: String,
    },
    /// The address map cannot be used.
    AddressMap {
        /// What is wrong, and in which entry.
        reason: String,
    },
}
