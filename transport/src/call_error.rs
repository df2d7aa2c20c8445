//! The outcomes of a call without a reply.

use std::fmt;

/// Why a call has no reply of its script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The call was certainly not applied: it was never sent, or the server refused it before running it.
    NotApplied(Fault),
    /// The call may have been applied: it was sent, and no reply came.
    Unknown(Fault),
    /// The server answered with an error that would come again.
    Refused(Fault),
    /// The call was applied, but too few servers have a copy of its writes.
    NotDurable {
        /// How many copies the caller asked for.
        wanted: u32,
        /// How many servers acknowledged one.
        acknowledged: u32,
    },
    /// The transport was closed.
    Closed,
    /// This process is a fork of the one that made the transport. Nothing was sent.
    Forked,
}

impl CallError {
    /// For a call that takes nothing: an unknown outcome leaves nothing in doubt.
    #[must_use = "it returns the error"]
    pub fn took_nothing(self) -> Self {
        match self {
            CallError::Unknown(fault) => CallError::NotApplied(fault),
            other => other,
        }
    }

    /// The text of the error.
    pub fn into_fault(self) -> Fault {
        Fault(match self {
            CallError::NotApplied(fault)
            | CallError::Unknown(fault)
            | CallError::Refused(fault) => {
                return fault;
            }
            CallError::NotDurable { .. } => "too few copies".into(),
            CallError::Closed => "the client was closed".into(),
            CallError::Forked => "the client was made before a fork".into(),
        })
    }

    /// The same error with another text.
    pub(crate) fn reworded(self, words: impl FnOnce(String) -> String) -> Self {
        match self {
            CallError::NotApplied(Fault(text)) => CallError::NotApplied(Fault(words(text))),
            CallError::Unknown(Fault(text)) => CallError::Unknown(Fault(words(text))),
            CallError::Refused(Fault(text)) => CallError::Refused(Fault(words(text))),
            other @ (CallError::NotDurable { .. } | CallError::Closed | CallError::Forked) => other,
        }
    }

    /// The same error, if the outcome of an earlier call of the same request is unknown.
    #[must_use = "it returns the error"]
    pub fn in_doubt(self) -> Self {
        match self {
            CallError::NotApplied(fault) => CallError::Unknown(fault),
            other => other,
        }
    }
}

/// What went wrong, in words; never a password or a URL with one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(pub String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Fault {
    /// A script met a key of another type. Up to Redis 6.2 the text begins with the line of the script.
    pub fn is_wrong_type(&self) -> bool {
        self.0.starts_with("WRONGTYPE ")
            || self.0.starts_with("ERR Error running script") && self.0.contains(": WRONGTYPE ")
    }
}

/// Sorts an error reply of the server: `LOADING …`, `WRONGTYPE …`.
///
/// *Not applied* is a condition that passes by itself (a starting, failing-over or overloaded server):
/// the script was not run, or it stopped before its first write. *Refused* is a condition that a person
/// has to change: the script may have written before, as a missing permission is noticed only by the
/// command that needs it.
pub fn sort_error_reply(text: &str) -> CallError {
    let fault = Fault(text.to_owned());
    // Up to Redis 6.2 an error that a script met stands behind the line where the script met it:
    // `ERR Error running script (call to f_…): @user_script:2: -READONLY You can't write …`, or,
    // where the script caught it, `@user_script: 2: -READONLY You can't write …`.
    let met = text
        .strip_prefix("ERR Error running script")
        .or_else(|| text.strip_prefix("@user_script:"))
        .and_then(|rest| {
            rest.split_whitespace()
                .find_map(|word| word.strip_prefix('-'))
        });
    let code = met
        .unwrap_or(text)
        .split([' ', ':'])
        .next()
        .unwrap_or_default();
    match code {
        "LOADING" | "MASTERDOWN" | "BUSY" | "READONLY" | "OOM" | "CLUSTERDOWN" | "TRYAGAIN"
        | "MISCONF" | "NOREPLICAS" | "NOSCRIPT" | "UNBLOCKED" | "NOAUTH" => {
            CallError::NotApplied(fault)
        }
        // The primary was demoted during WAIT, or before it.
        _ if text.starts_with("ERR WAIT") && text.contains("used with replica instances") => {
            CallError::NotApplied(fault)
        }
        _ if text.starts_with("ERR max number of clients") => CallError::NotApplied(fault),
        _ => CallError::Refused(fault),
    }
}

#[cfg(test)]
mod tests;
