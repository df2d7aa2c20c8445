//! Checks that replies still belong to their requests (LEDGER-6).

use crate::Value;
use crate::request::Request;
use crate::{Fault, PubSub};

/// The reply to PING without a number.
const PONG: &str = "PONG";

/// Numbers the PINGs, and checks that each reply repeats its number.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// How many PINGs were sent.
    pings: u64,
    /// How many of them were answered.
    pongs: u64,
    /// Whether PING is answered with its number, as seen at the first one.
    echoes: Option<bool>,
}

impl Order {
    /// The number of the next PING.
    pub(super) fn next_ping(&mut self) -> u64 {
        self.pings += 1;
        self.pings
    }

    /// Fails if the reply cannot answer `request`, the oldest one. `None` stands for a call that
    /// has timed out.
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

    /// True if the reply cannot answer the oldest PING.
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
