//! Checks that replies still belong to their requests (LEDGER-6).

use crate::call::Value;
use crate::call_error::Fault;
use crate::codec;
use crate::pubsub::PubSub;
use crate::request::ConnectionRequest;

/// The reply to PING without a number.
const PONG: &str = "PONG";

/// The number before the first PING: so high that no script returns it. A reply with the number of
/// a PING that is not its turn yet can then only be the reply to that PING.
pub(super) const BEFORE_FIRST: u64 = 1 << 62;

/// Numbers the PINGs, and checks that each reply repeats its number.
#[derive(Debug)]
pub(super) struct Order {
    /// The number of the last PING that was sent.
    pings: u64,
    /// The number of the last PING that was answered.
    pongs: u64,
    /// Whether PING is answered with its number, as seen at the first one.
    echoes: Option<bool>,
}

impl Default for Order {
    fn default() -> Self {
        Order {
            pings: BEFORE_FIRST,
            pongs: BEFORE_FIRST,
            echoes: None,
        }
    }
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
        request: Option<&ConnectionRequest>,
        reply: &Result<Value, String>,
    ) -> Result<(), Fault> {
        let is_of_another = match (request, reply) {
            (Some(ConnectionRequest::Subscribe(_)), Ok(_)) => {
                let fault = "the server answered SUBSCRIBE without a push";
                return Err(Fault(fault.into()));
            }
            (Some(ConnectionRequest::Ping(_)), reply) => self.is_no_pong(reply),
            // Preflight sends PING as a command.
            (Some(ConnectionRequest::Command(command)), Ok(_)) if command.words == [b"PING"] => {
                false
            }
            (
                Some(ConnectionRequest::Call(_) | ConnectionRequest::Command(_)) | None,
                Ok(Value::Text(reply)),
            ) => self.is_early_pong(reply),
            (Some(ConnectionRequest::Unsubscribe(_, PubSub::Sharded)), Ok(reply)) => {
                *reply != Value::Text(PONG.into())
            }
            (Some(ConnectionRequest::Command(_)), Err(text)) => text.starts_with("NOSCRIPT"),
            _ => false,
        };
        if is_of_another {
            let fault = "the server left out a reply before this one";
            return Err(Fault(fault.into()));
        }
        Ok(())
    }

    /// True if this answers a PING that was sent after the oldest request. A proxy whose server is
    /// dead may answer PING itself, and nothing else.
    fn is_early_pong(&self, reply: &str) -> bool {
        let is_number = reply
            .parse()
            .is_ok_and(|number: u64| number > self.pongs && number <= self.pings);
        let is_plain = reply == PONG && self.echoes != Some(true);
        is_number || is_plain && (self.echoes.is_some() || self.pings > self.pongs)
    }

    /// True if the reply cannot answer the oldest PING.
    fn is_no_pong(&mut self, reply: &Result<Value, String>) -> bool {
        self.pongs += 1;
        let reply = match reply {
            Ok(Value::Text(reply)) => Some(reply.as_str()),
            Ok(Value::Array(items)) => codec::pong(items),
            Ok(_) => None,
            Err(text) => return text.starts_with("NOSCRIPT"),
        };
        reply.is_none_or(|reply| {
            let echoes = self.echoes.get_or_insert(reply != PONG);
            reply
                != if *echoes {
                    self.pongs.to_string()
                } else {
                    PONG.to_owned()
                }
        })
    }
}
