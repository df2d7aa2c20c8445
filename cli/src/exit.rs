//! What the program ends with: see the table in `docs/command-line.md`.

use std::error::Error as _;
use std::fmt::Display;

use leasehold::Error;

/// Another owner held the lock for all of the wait.
pub(crate) const NOT_ACQUIRED: u8 = 120;
/// The lock was lost while the command ran, or the hold of the enclosing run is gone.
pub(crate) const LOST: u8 = 121;
/// No answer from the server, or it cannot take the call now.
pub(crate) const UNREACHABLE: u8 = 122;
/// The server refuses for good: another type under the key, a missing right, a wrong password.
pub(crate) const REFUSED: u8 = 123;
/// Arguments, environment or files that cannot be used. Nothing was sent.
pub(crate) const USAGE: u8 = 124;
/// This machine refuses: no process could be started.
pub(crate) const INTERNAL: u8 = 125;
/// The command is there and cannot be executed, as in a shell.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// There is no such command, as in a shell.
pub(crate) const NOT_FOUND: u8 = 127;

/// What is told, and the exit code.
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

    /// For `map_err`.
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
            Error::Protocol { .. } | Error::Requirements { .. } => REFUSED,
            error if error.is_retryable() => UNREACHABLE,
            _ => INTERNAL,
        };
        let cause = error
            .source()
            .map(|cause| format!(": {cause}"))
            .unwrap_or_default();
        Failure::new(code, format!("{error}{cause}"))
    }
}

/// As a shell tells that a signal ended a command.
pub(crate) fn of_signal(signal: nix::sys::signal::Signal) -> u8 {
    128 + u8::try_from(signal as i32).unwrap_or(0)
}
