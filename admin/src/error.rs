//! A deployment that gives less than is required.

use std::fmt;

use leasehold::Error;

/// Why [`Admin::require`](crate::Admin::require) failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The deployment gives less than is required.
    ///
    /// An operator must check the servers, or the program must ask for less.
    #[error("the deployment does not meet the requirements: {}", list(unmet))]
    Unmet {
        /// The requirements that are not met, server by server.
        unmet: Vec<Unmet>,
    },
    /// The servers could not be checked.
    #[error(transparent)]
    NotChecked(#[from] Error),
}

/// A requirement that a server does not meet; see [`Refusal::Unmet`].
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

fn list(unmet: &[Unmet]) -> String {
    let texts: Vec<_> = unmet.iter().map(ToString::to_string).collect();
    texts.join("; ")
}
