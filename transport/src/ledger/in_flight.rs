//! A request that waits for its reply.

use tokio::time::Instant;

use crate::call::Value;
use crate::pubsub::PubSub;
use crate::request::{ConnectionRequest, KeyForm};

#[derive(Debug)]
pub(super) struct InFlight {
    /// `None` if the call has timed out and its reply has not come.
    pub(super) request: Option<ConnectionRequest>,
    pub(super) since: Instant,
    pub(super) first: u64,
    pub(super) length: u32,
    pub(super) before: Before,
}

/// The replies that come before the one that ends a request.
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
    pub(super) fn of(request: &ConnectionRequest) -> Self {
        match request {
            ConnectionRequest::Call(call) if call.keys == KeyForm::Asking => Before::Asking,
            ConnectionRequest::Unsubscribe(_, PubSub::Sharded) => Before::Unsubscribed {
                pushed: false,
                refused: false,
            },
            _ => Before::Nothing,
        }
    }
}

impl InFlight {
    /// True if the reply comes before the one that ends the request.
    pub(super) fn absorbs(&mut self, reply: &Result<Value, String>) -> bool {
        match (&mut self.before, reply) {
            (before @ Before::Asking, _) => {
                // The reply does not matter: if ASKING failed, the call will be redirected.
                *before = Before::Nothing;
                true
            }
            (Before::Unsubscribed { pushed, refused }, Err(text)) => {
                // After the server's own push, SUNSUBSCRIBE fails because of the slot. Any other
                // error is the reply to PING, for example of a busy server.
                let is_of_slot = ["MOVED ", "CLUSTERDOWN"]
                    .iter()
                    .any(|code| text.starts_with(code));
                let is_first = !std::mem::replace(refused, true);
                is_first && (!*pushed || is_of_slot)
            }
            _ => false,
        }
    }

    /// The number of the byte after its last one.
    pub(super) fn end(&self) -> u64 {
        self.first + u64::from(self.length)
    }
}
