//! Turns outcomes of the transport into errors. Nothing else does that.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Cause, Error, Refused};
use crate::protocol::Unexpected;
use crate::transport::CallError;

impl Error {
    /// The caller's error for an outcome of the transport.
    pub(crate) fn from_call(name: &Arc<str>, lease: Duration, error: CallError) -> Self {
        let name = name.clone();
        match error {
            CallError::NotApplied(fault) => Error::Unavailable {
                name,
                cause: Cause::new(fault.0),
            },
            CallError::Unknown(fault) => Error::Unknown {
                name,
                lease,
                cause: Cause::new(fault.0),
            },
            CallError::Refused(fault) => Error::Protocol {
                name,
                refused: Refused::of(&fault),
                detail: fault.0,
            },
            CallError::NotDurable {
                wanted,
                acknowledged,
            } => Error::NotDurable {
                name,
                wanted,
                acknowledged,
            },
            CallError::Closed => Error::Closed,
            CallError::Forked => Error::Forked,
        }
    }

    pub(crate) fn unexpected(name: &Arc<str>, reply: &Unexpected) -> Self {
        let detail = format!("a reply that no script gives: {:?}", reply.0);
        Error::Protocol {
            name: name.clone(),
            refused: Refused::Other,
            detail,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::{Fault, sort_error_reply};

    fn mapped(reply: &str) -> Error {
        Error::from_call(
            &Arc::from("n"),
            Duration::from_secs(30),
            sort_error_reply(reply),
        )
    }

    #[test]
    fn temporary_errors_are_unavailable() {
        for reply in [
            "LOADING Redis is loading the dataset in memory",
            "READONLY You can't write against a read only replica.",
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "BUSY Redis is busy running a script.",
            "OOM command not allowed when used memory > 'maxmemory'.",
            "NOAUTH Authentication required.",
            "ERR max number of clients reached",
        ] {
            let error = mapped(reply);
            assert!(
                matches!(error, Error::Unavailable { .. }),
                "{reply}: {error}"
            );
            assert!(error.is_retryable() && !error.may_be_held(), "{reply}");
        }
    }

    #[test]
    fn errors_that_need_a_person_are_protocol_errors() {
        for reply in [
            "WRONGPASS invalid username-password pair or user is disabled.",
            "NOPERM this user has no permissions to run the 'evalsha' command",
            "WRONGTYPE Operation against a key holding the wrong kind of value",
            "ERR unknown command",
        ] {
            let error = mapped(reply);
            assert!(
                matches!(&error, Error::Protocol { detail, .. } if detail == reply),
                "{error}"
            );
            assert!(!error.is_retryable() && !error.may_be_held(), "{reply}");
        }
    }

    #[test]
    fn only_a_lost_reply_may_be_held() {
        let name = Arc::from("n");
        let lost = CallError::Unknown(Fault("cut".into()));
        let error = Error::from_call(&name, Duration::from_secs(30), lost);
        assert!(error.may_be_held() && error.is_retryable());
        assert!(error.to_string().contains("cause=`cut`"), "{error}");
        // A report of the whole chain does not say it twice.
        assert!(std::error::Error::source(&error).is_none());
        assert!(matches!(
            Error::from_call(&name, Duration::ZERO, CallError::Closed),
            Error::Closed
        ));
    }
}
