//! What the replies to a handshake mean.

use crate::abilities::{
    Scripts, is_about_the_command, is_redirect, refuses_our_scripts, repeats_the_command,
};
use crate::call::Value;
use crate::call_error::{CallError, Fault, sort_error_reply};
use crate::identity::line;

/// A script that no server has, and one with a key, which is written as those of locks are. Neither
/// changes anything.
pub(super) const SCRIPT_WITHOUT_KEYS: &[&str] =
    &["EVALSHA", "0000000000000000000000000000000000000000", "0"];
pub(super) const SCRIPT_WITH_KEY: &[&str] = &[
    "EVAL",
    "local key = KEYS[1] return redis.call('exists', key)",
    "1",
    "leasehold_ping",
];

/// The reply to a script without keys.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WithoutKeys {
    Runs,
    Refused,
    /// The server is busy, or the user may get the right later.
    Unknown,
}

pub(super) fn without_keys(reply: &Result<Value, String>) -> WithoutKeys {
    match reply {
        Ok(_) => WithoutKeys::Runs,
        Err(text) if text.starts_with("NOSCRIPT") => WithoutKeys::Runs,
        Err(text) => match sort_error_reply(text) {
            CallError::Refused(fault) if !fault.is_missing_right() => WithoutKeys::Refused,
            _ => WithoutKeys::Unknown,
        },
    }
}

/// Which scripts a server runs that has refused one without keys, by its reply to one with a key.
/// `None` if it does not say: only an error about the command as such says that there are no
/// scripts. A proxy may have other reasons for a while.
pub(super) fn with_key(reply: &Result<Value, String>) -> Option<Scripts> {
    match reply {
        Ok(_) => Some(Scripts::WithKeys),
        // The key belongs to another node, or the user may not use this one.
        Err(text) if is_redirect(text) || Fault(text.clone()).is_missing_right() => {
            Some(Scripts::WithKeys)
        }
        Err(text) if is_about_the_command(text) || refuses_our_scripts(text) => {
            Some(Scripts::None(Fault(text.clone())))
        }
        Err(_) => None,
    }
}

/// Whether an error in reply to HELLO concerns the command, and not the login or the state of the
/// server.
pub(super) fn refuses_hello(text: &str) -> bool {
    let is_lasting = matches!(sort_error_reply(text), CallError::Refused(_));
    // The error for an unknown command repeats its words. Before Redis 6, `ERR invalid password` is
    // a refused login.
    let is_of_login = !repeats_the_command(text)
        && (text.to_lowercase().contains("password") || lacks_login(text));
    is_lasting && !is_of_login
}

/// Whether the command may succeed after a login.
pub(super) fn lacks_login(text: &str) -> bool {
    ["NOAUTH ", "NOPERM ", "WRONGPASS "]
        .iter()
        .any(|code| text.starts_with(code))
}

/// The text of a reply that is one.
pub(super) fn text(reply: Value) -> Option<String> {
    match reply {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

/// The role in a reply to ROLE or `INFO replication`.
pub(super) fn role(reply: &Value) -> Option<Value> {
    match reply {
        Value::Array(parts) => parts.first().cloned(),
        info => line(info, "role:").map(|role| Value::Text(role.to_owned())),
    }
}
