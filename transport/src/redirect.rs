//! The errors of a node that does not serve the slot of a call. The call was not run.

use crate::call_error::{CallError, Fault};
use crate::host_port::HostPort;
use crate::keyslot::SLOTS;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Redirect {
    /// Another node serves the slot.
    Moved(u16, HostPort),
    /// Another node is taking the slot over, and has the key already or would create it.
    Ask(HostPort),
    /// Some of the keys have moved already. Later, the node that takes the slot over will have all
    /// of them.
    TryAgain,
    /// Like `TryAgain`, but a script has noticed it at an undeclared key. The script may have
    /// written before. It can be repeated.
    InAScript,
}

impl Redirect {
    pub(crate) fn of(error: &CallError) -> Option<Self> {
        let (CallError::Refused(Fault(text)) | CallError::NotApplied(Fault(text))) = error else {
            return None;
        };
        if text.contains("non local key") {
            return Some(Redirect::InAScript);
        }
        let mut words = text.split(' ');
        match words.next()? {
            "TRYAGAIN" => Some(Redirect::TryAgain),
            "MOVED" => {
                let slot = words
                    .next()?
                    .parse()
                    .ok()
                    .filter(|slot| usize::from(*slot) < SLOTS)?;
                Some(Redirect::Moved(slot, address(words.next()?)?))
            }
            "ASK" => {
                let _slot = words.next()?;
                address(words.next()?).map(Redirect::Ask)
            }
            _ => None,
        }
    }
}

/// A redirect that nobody follows: the call was not run, or only its beginning.
pub(crate) fn not_run(error: CallError) -> CallError {
    match (Redirect::of(&error), error) {
        (Some(Redirect::InAScript), CallError::Refused(fault)) => CallError::Unknown(fault),
        (Some(_), CallError::Refused(fault)) => CallError::NotApplied(fault),
        (_, error) => error,
    }
}

/// Parses `host:port`. The port follows the last colon, because an IPv6 address contains others.
fn address(text: &str) -> Option<HostPort> {
    let (host, port) = text.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port != 0)?;
    Some(HostPort::new(if host == "?" { "" } else { host }, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sort_error_reply;

    fn read(text: &str) -> Option<Redirect> {
        Redirect::of(&sort_error_reply(text))
    }

    fn at(host: &str, port: u16) -> HostPort {
        HostPort::new(host, port)
    }

    #[test]
    fn redirects_of_every_form() {
        let moved = |address| Some(Redirect::Moved(3_999, address));
        assert_eq!(
            read("MOVED 3999 127.0.0.1:6381"),
            moved(at("127.0.0.1", 6381))
        );
        assert_eq!(read("MOVED 3999 fe80::1:6381"), moved(at("fe80::1", 6381)));
        assert_eq!(read("MOVED 3999 :6381"), moved(at("", 6381)));
        assert_eq!(read("MOVED 3999 ?:6381"), moved(at("", 6381)));
        assert_eq!(
            read("ASK 1 redis-1.local:7"),
            Some(Redirect::Ask(at("redis-1.local", 7)))
        );
        assert_eq!(
            read("TRYAGAIN Multiple keys request during rehashing of slot"),
            Some(Redirect::TryAgain)
        );
        let script = "ERR Script attempted to access a non local key in a cluster node script: f";
        assert_eq!(read(script), Some(Redirect::InAScript));
    }

    #[test]
    fn a_redirected_call_was_not_run_unless_its_script_had_begun() {
        let outcome = |text| not_run(sort_error_reply(text));
        let moved = "MOVED 3999 127.0.0.1:6381";
        assert_eq!(outcome(moved), CallError::NotApplied(Fault(moved.into())));
        let begun = "ERR Script attempted to access a non local key in a cluster node script: f";
        assert_eq!(outcome(begun), CallError::Unknown(Fault(begun.into())));
        let other = "WRONGTYPE Operation against a key";
        assert_eq!(outcome(other), CallError::Refused(Fault(other.into())));
    }

    #[test]
    fn other_errors_are_no_redirects() {
        for text in [
            "MOVED",
            "MOVED x h:1",
            "MOVED 16384 h:1",
            "MOVED 1 h:0",
            "ASK 1 h",
            "MOVEDX 1 h:1",
            "ERR MOVED",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
