//! The outcomes of a call without a reply.

use std::fmt;

/// Why a call has no reply of its script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The call was certainly not applied: it was never sent, or the server refused it before
    /// running it.
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
    /// Turns *unknown* into *not applied*, for a call that takes no lock: whether it ran does not
    /// matter.
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
    #[must_use = "it returns the error"]
    pub fn reworded(self, reword: impl FnOnce(String) -> String) -> Self {
        match self {
            CallError::NotApplied(Fault(text)) => CallError::NotApplied(Fault(reword(text))),
            CallError::Unknown(Fault(text)) => CallError::Unknown(Fault(reword(text))),
            CallError::Refused(Fault(text)) => CallError::Refused(Fault(reword(text))),
            other @ (CallError::NotDurable { .. } | CallError::Closed | CallError::Forked) => other,
        }
    }

    /// Turns *not applied* into *unknown*, if an earlier call of the same request has an unknown
    /// outcome.
    #[must_use = "it returns the error"]
    pub fn in_doubt(self) -> Self {
        match self {
            CallError::NotApplied(fault) => CallError::Unknown(fault),
            other => other,
        }
    }
}

/// What went wrong, in words. Never contains a password or a URL with one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(pub String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Fault {
    /// True if this user may not use the command, the key or the channel, or a script of this user.
    pub fn is_missing_right(&self) -> bool {
        // In a script: Redis 7.2 and later and Valkey, and those before.
        let in_scripts = [
            "ACL failure in script: ",
            "The user executing the script can't ",
        ];
        self.0.starts_with("NOPERM ") || in_scripts.iter().any(|pattern| self.0.contains(pattern))
    }

    /// True if a script found a key of another type. Up to Redis 6.2, the text begins with the line
    /// of the script.
    pub fn is_wrong_type(&self) -> bool {
        self.0.starts_with("WRONGTYPE ")
            || self.0.starts_with("ERR Error running script") && self.0.contains(": WRONGTYPE ")
    }
}

/// Sorts an error reply of the server: `LOADING …`, `WRONGTYPE …`.
///
/// An error is *not applied* if it is temporary: the server is starting, failing over or
/// overloaded. Then the script was not run, or stopped before its first write. All other errors are
/// *refused*: somebody has to change something. Then the script may have written before, because a
/// missing permission is noticed only by the command that needs it.
pub fn sort_error_reply(text: &str) -> CallError {
    let fault = Fault(text.to_owned());
    // Up to Redis 6.2, an error inside a script follows the line of the script where it occurred:
    // `ERR Error running script (call to f_…): @user_script:2: -READONLY You can't write …`. If the
    // script caught the error: `@user_script: 2: -READONLY You can't write …`.
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
