//! A requirement that a server does not meet.

use std::fmt;

/// A requirement that a server does not meet; see [`Error::Requirements`](crate::Error::Requirements).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unmet {
    /// The server.
    pub server: String,
    /// The requirement.
    pub requirement: String,
    /// What was found, or why it is unknown.
    pub found: String,
}

impl Unmet {
    pub(crate) fn new(server: &str, requirement: &str, found: &str) -> Self {
        let [server, requirement, found] = [server, requirement, found].map(str::to_owned);
        Unmet {
            server,
            requirement,
            found,
        }
    }
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.requirement, self.server, self.found)
    }
}

pub(super) fn list(unmet: &[Unmet]) -> String {
    unmet
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}
