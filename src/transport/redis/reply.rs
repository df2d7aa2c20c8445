//! From what `fred` says to what the session needs: a value, or one of the outcomes of a call.
//!
//! Commands are sent raw, so that an answer of the server is always `Ok(frame)`, also an error
//! answer, and `Err` always comes from `fred` itself. The two are never told apart by their text.

use fred::error::{Error, ErrorKind};
use fred::types::Resp3Frame;

use crate::protocol::Value;
use crate::transport::{CallError, Fault, sort_error_reply};

/// What `fred` says of a command that never reached a connection. It is pinned to one version; a
/// test shows that these are its words. A text that is not listed counts as possibly sent.
const NEVER_SENT: [&str; 2] = ["Failed to send command to router.", "Failed to route command."];

/// The one place that decides whether a script may have run.
pub(super) fn outcome(answer: Result<Resp3Frame, Error>) -> Result<Value, CallError> {
    match answer {
        Ok(frame) => value(frame).map_err(|text| sort_error_reply(&text)),
        Err(error) => Err(not_answered(&error)),
    }
}

/// Sorts an error of `fred` itself: no answer of the server.
pub(super) fn not_answered(error: &Error) -> CallError {
    let details = error.details();
    if *error.kind() == ErrorKind::Unknown && NEVER_SENT.contains(&details) {
        CallError::NotApplied(Fault(format!("not sent: {details}")))
    } else {
        CallError::Unknown(Fault(format!("no answer: {details}")))
    }
}

/// Sorts the error of a connection attempt. No script was sent.
///
/// Here `fred` mixes its own errors with answers to HELLO and SELECT, so the kind decides.
pub(super) fn not_connected(endpoint: &str, error: &Error) -> CallError {
    let fault = Fault(format!("cannot connect to {endpoint}: {}", error.details()));
    match error.kind() {
        ErrorKind::Auth => CallError::Refused(fault),
        ErrorKind::Unknown | ErrorKind::InvalidArgument | ErrorKind::InvalidCommand
            if is_error_reply(error.details()) =>
        {
            match sort_error_reply(error.details()) {
                CallError::Refused(_) => CallError::Refused(fault),
                _ => CallError::NotApplied(fault),
            }
        }
        _ => CallError::NotApplied(fault),
    }
}

/// Whether a text has the form of an error answer: a code in capitals, a blank, an explanation.
fn is_error_reply(text: &str) -> bool {
    text.split_once(' ').is_some_and(|(code, _)| {
        code.len() > 1 && code.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-')
    })
}

/// The text of an error answer, if the frame is one or holds one.
fn value(frame: Resp3Frame) -> Result<Value, String> {
    Ok(match frame {
        Resp3Frame::Number { data, .. } => Value::Int(data),
        // Hello is only ever sent by a client.
        Resp3Frame::Null | Resp3Frame::Hello { .. } => Value::Nil,
        Resp3Frame::BlobString { data, .. }
        | Resp3Frame::SimpleString { data, .. }
        | Resp3Frame::VerbatimString { data, .. }
        | Resp3Frame::BigNumber { data, .. }
        | Resp3Frame::ChunkedString(data) => Value::Text(text(&data)),
        Resp3Frame::Array { data, .. } | Resp3Frame::Push { data, .. } => {
            Value::Array(data.into_iter().map(value).collect::<Result<_, _>>()?)
        }
        Resp3Frame::Set { data, .. } => {
            Value::Array(data.into_iter().map(value).collect::<Result<_, _>>()?)
        }
        Resp3Frame::Map { data, .. } => {
            let mut flat = Vec::with_capacity(data.len() * 2);
            for (key, item) in data {
                flat.push(value(key)?);
                flat.push(value(item)?);
            }
            Value::Array(flat)
        }
        Resp3Frame::Boolean { data, .. } => Value::Int(data.into()),
        Resp3Frame::Double { data, .. } => Value::Text(data.to_string()),
        Resp3Frame::SimpleError { data, .. } => return Err(data.to_string()),
        Resp3Frame::BlobError { data, .. } => return Err(text(&data)),
    })
}

/// Copied: a slice would keep the whole read buffer alive.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: ErrorKind, details: &'static str) -> Error {
        Error::new(kind, details)
    }

    fn number(data: i64) -> Resp3Frame {
        Resp3Frame::Number { data, attributes: None }
    }

    #[test]
    fn an_error_of_the_client_is_unknown_unless_it_was_surely_not_sent() {
        let table = [
            (ErrorKind::Unknown, "Failed to send command to router.", true),
            (ErrorKind::Unknown, "Failed to route command.", true),
            (ErrorKind::Unknown, "channel closed", false),
            (ErrorKind::Unknown, "Too many failed write attempts.", false),
            (ErrorKind::IO, "Connection closed.", false),
            (ErrorKind::IO, "Failed to route command.", false),
            (ErrorKind::Timeout, "Request timed out.", false),
            (ErrorKind::Canceled, "Canceled.", false),
            (ErrorKind::Protocol, "whatever", false),
        ];
        for (kind, details, never_sent) in table {
            let outcome = not_answered(&error(kind.clone(), details));
            assert_eq!(
                matches!(outcome, CallError::NotApplied(_)),
                never_sent,
                "{kind:?} {details}"
            );
            assert_eq!(matches!(outcome, CallError::Unknown(_)), !never_sent, "{kind:?} {details}");
        }
    }

    #[test]
    fn a_connection_attempt_tells_refusals_from_absence() {
        let table = [
            (ErrorKind::Auth, "WRONGPASS invalid username-password pair", true),
            (ErrorKind::Auth, "NOAUTH HELLO must be called authenticated", true),
            (ErrorKind::Unknown, "NOPERM this user has no permissions", true),
            (ErrorKind::Unknown, "ERR DB index is out of range", true),
            (ErrorKind::Unknown, "ERR max number of clients reached", false),
            (ErrorKind::Unknown, "LOADING Redis is loading the dataset in memory", false),
            (ErrorKind::Unknown, "channel closed", false),
            (ErrorKind::IO, "Os { code: 111, kind: ConnectionRefused }", false),
            (ErrorKind::Timeout, "Request timed out.", false),
        ];
        for (kind, details, refused) in table {
            let outcome = not_connected("redis://h:1", &error(kind.clone(), details));
            assert_eq!(matches!(outcome, CallError::Refused(_)), refused, "{kind:?} {details}");
            assert_eq!(matches!(outcome, CallError::NotApplied(_)), !refused, "{details}");
        }
    }

    #[test]
    fn replies_are_converted_at_any_depth() {
        let bulk = Resp3Frame::BlobString { data: "é".into(), attributes: None };
        let inner = Resp3Frame::Array { data: vec![bulk, Resp3Frame::Null], attributes: None };
        let frame = Resp3Frame::Array { data: vec![number(-3), inner], attributes: None };
        let expected = Value::Array(vec![
            Value::Int(-3),
            Value::Array(vec![Value::Text("é".into()), Value::Nil]),
        ]);
        assert_eq!(outcome(Ok(frame)), Ok(expected));
    }

    #[test]
    fn an_error_inside_an_array_is_an_error() {
        let nested =
            Resp3Frame::SimpleError { data: "WRONGTYPE Operation".into(), attributes: None };
        let frame = Resp3Frame::Array { data: vec![number(1), nested], attributes: None };
        assert!(matches!(outcome(Ok(frame)), Err(CallError::Refused(_))));
    }
}
