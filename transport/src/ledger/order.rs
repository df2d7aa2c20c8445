//! Whether replies still belong to their requests (LEDGER-6).

use crate::Value;
use crate::request::Request;
use crate::{Fault, PubSub};

/// What PING without a number is answered.
const PONG: &str = "PONG";

/// Each PING has a number, and its reply repeats that number.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// How many PING were sent, and how many of them were answered.
    pings: u64,
    pongs: u64,
    /// Whether PING is answered with its number: so the first one was.
    echoes: Option<bool>,
}

impl Order {
    /// The number of the next PING.
    pub(super) fn next_ping(&mut self) -> u64 {
        self.pings += 1;
        self.pings
    }

    /// An error if the reply answers another request than this, the oldest one. `None` is a call that has timed out.
    pub(super) fn check(
        &mut self,
        request: Option<&Request>,
        reply: &Result<Value, String>,
    ) -> Result<(), Fault> {
        let is_of_another = match (request, reply) {
            (Some(Request::Subscribe(_)), Ok(_)) => {
                let fault = "the server answered SUBSCRIBE without a push";
                return Err(Fault(fault.into()));
            }
            (Some(Request::Ping(_)), reply) => self.is_no_pong(reply),
            (Some(Request::Call(_) | Request::Command(_)) | None, Ok(Value::Text(reply))) => {
                self.echoes == Some(false) && reply == PONG
            }
            (Some(Request::Unsubscribe(_, PubSub::Sharded)), Ok(reply)) => {
                *reply != Value::Text(PONG.into())
            }
            (Some(Request::Command(_)), Err(text)) => text.starts_with("NOSCRIPT"),
            _ => false,
        };
        if is_of_another {
            let fault = "the server left out a reply before this one";
            return Err(Fault(fault.into()));
        }
        Ok(())
    }

    /// The reply to the oldest PING, if it is that.
    fn is_no_pong(&mut self, reply: &Result<Value, String>) -> bool {
        self.pongs += 1;
        match reply {
            Ok(Value::Text(reply)) => {
                let echoes = self.echoes.get_or_insert(reply != PONG);
                *reply
                    != if *echoes {
                        self.pongs.to_string()
                    } else {
                        PONG.to_owned()
                    }
            }
            Ok(_) => true,
            Err(text) => text.starts_with("NOSCRIPT"),
        }
    }
}
