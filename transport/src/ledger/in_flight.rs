//! A request whose reply is to come.

use tokio::time::Instant;

use crate::PubSub;
use crate::Value;
use crate::request::{KeyForm, Request};

#[derive(Debug)]
pub(super) struct InFlight {
    /// `None`: the call has timed out, and its reply is still to come.
    pub(super) request: Option<Request>,
    pub(super) since: Instant,
    pub(super) first: u64,
    pub(super) length: u32,
    pub(super) before: Before,
}

/// What comes before the reply that ends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    Nothing,
    /// The reply to ASKING (LEDGER-4).
    Asking,
    /// The answer to SUNSUBSCRIBE: a push, an error, or both (LEDGER-5).
    Unsubscribed {
        pushed: bool,
        refused: bool,
    },
}

impl Before {
    pub(super) fn of(request: &Request) -> Self {
        match request {
            Request::Call(call) if call.keys == KeyForm::Asking => Before::Asking,
            Request::Unsubscribe(_, PubSub::Sharded) => Before::Unsubscribed {
                pushed: false,
                refused: false,
            },
            _ => Before::Nothing,
        }
    }
}

impl InFlight {
    /// Whether a reply belongs to what comes before the reply that ends the request.
    pub(super) fn absorbs(&mut self, reply: &Result<Value, String>) -> bool {
        match (&mut self.before, reply) {
            (before @ Before::Asking, _) => {
                // What it answers does not matter: without it the call is redirected.
                *before = Before::Nothing;
                true
            }
            (Before::Unsubscribed { pushed, refused }, Err(text)) => {
                // Behind the server's own push SUNSUBSCRIBE is an error of the slot. Any other error there
                // answers PING, of a server that is busy for example.
                let is_of_slot = ["MOVED ", "CLUSTERDOWN"]
                    .iter()
                    .any(|code| text.starts_with(code));
                let is_first = !std::mem::replace(refused, true);
                is_first && (!*pushed || is_of_slot)
            }
            _ => false,
        }
    }

    /// The number of the byte behind its last.
    pub(super) fn end(&self) -> u64 {
        self.first + u64::from(self.length)
    }
}
