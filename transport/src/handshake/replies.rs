//! What the replies to a handshake mean.

use crate::abilities::Scripts;
use crate::identity::line;
use crate::{CallError, Value, sort_error_reply};

/// A script that no server has, and one with a key. Neither does anything.
pub(super) const SCRIPT_WITHOUT_KEYS: &[&str] =
    &["EVALSHA", "0000000000000000000000000000000000000000", "0"];
pub(super) const SCRIPT_WITH_KEY: &[&str] = &["EVAL", "return 1", "1", "leasehold_ping"];

/// Which scripts the server runs, by its reply to one of them. `None` if it does not say: it is busy, or the user may
/// get the right later.
pub(super) fn runs(reply: Result<Value, String>) -> Option<Scripts> {
    let Err(text) = reply else {
        return Some(Scripts::Any);
    };
    // The key belongs to another node.
    if ["NOSCRIPT", "MOVED ", "ASK "]
        .iter()
        .any(|code| text.starts_with(code))
    {
        return Some(Scripts::Any);
    }
    match sort_error_reply(&text) {
        CallError::Refused(fault) if !fault.is_missing_right() => Some(Scripts::None(fault)),
        _ => None,
    }
}

/// Whether an error in reply to HELLO concerns the command, and not the login or the state of the server.
pub(super) fn refuses_hello(text: &str) -> bool {
    let is_lasting = matches!(sort_error_reply(text), CallError::Refused(_));
    // The error for an unknown command repeats its words. Before Redis 6, `ERR invalid password` is a refused login.
    let is_of_login = !text.starts_with("ERR unknown command")
        && (text.to_lowercase().contains("password") || lacks_login(text));
    is_lasting && !is_of_login
}

/// Whether the command may succeed after a login.
pub(super) fn lacks_login(text: &str) -> bool {
    ["NOAUTH ", "NOPERM ", "WRONGPASS "]
        .iter()
        .any(|code| text.starts_with(code))
}

/// The role in a reply to ROLE or `INFO replication`.
pub(super) fn role(reply: &Value) -> Option<Value> {
    match reply {
        Value::Array(parts) => parts.first().cloned(),
        info => line(info, "role:").map(|role| Value::Text(role.to_owned())),
    }
}
