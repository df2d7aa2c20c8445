//! Exit codes, as documented in `docs/command-line.md`.

use std::fmt::Display;

use leasehold::{Error, Refused};

/// Another owner held the lock for the whole wait.
pub(crate) const NOT_ACQUIRED: u8 = 120;
/// The lock was lost while the command ran, or the enclosing run had lost it.
pub(crate) const LOST: u8 = 121;
/// The server did not answer, or cannot serve the call at present.
pub(crate) const UNREACHABLE: u8 = 122;
/// The server refuses, and will do so again: a key of another type, a missing permission, a wrong
/// password.
pub(crate) const REFUSED: u8 = 123;
/// The arguments, the environment or a file are invalid. Nothing was sent. `EX_USAGE` of
/// `sysexits.h`, as in `flock`: with 124, `timeout` reports that the time was over.
pub(crate) const USAGE: u8 = 64;
/// The operating system refuses, for example to start a process.
pub(crate) const INTERNAL: u8 = 125;
/// The command exists but cannot be executed, as in a shell.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The command does not exist, as in a shell.
pub(crate) const NOT_FOUND: u8 = 127;

/// The error message and the exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(code: u8, text: impl Into<String>) -> Self {
        Failure {
            code,
            text: text.into(),
        }
    }

    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Failure::new(USAGE, text)
    }

    /// Makes a function for `map_err`.
    pub(crate) fn internal<E: Display>(what: &str) -> impl FnOnce(E) -> Failure {
        move |error| Failure::new(INTERNAL, format!("{what}: {error}"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Timeout { .. } => NOT_ACQUIRED,
            Error::Lost { .. } | Error::NotOwner { .. } => LOST,
            Error::Config(_) => USAGE,
            Error::Protocol { .. } => REFUSED,
            error if error.is_retryable() => UNREACHABLE,
            _ => INTERNAL,
        };
        let mut text = error.to_string();
        if let Error::Protocol { refused, .. } = &error
            && matches!(refused, Refused::NoPassword | Refused::Login)
        {
            text += "; a password may also be in LEASEHOLD_PASSWORD or --password-file";
        }
        Failure::new(code, text)
    }
}

/// The exit code of a command that a signal ended, as in a shell.
pub(crate) fn of_signal(signal: nix::sys::signal::Signal) -> u8 {
    128 + u8::try_from(signal as i32).unwrap_or(0)
}
