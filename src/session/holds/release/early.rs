//! The first call of a release that nobody waits for.
//!
//! The drop of the guard itself passes it to the connection, so it often is in the socket before
//! the program ends. The background task waits for its outcome, and repeats it if necessary.

use std::fmt;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::protocol::Value;
use crate::session::calls::Sending;
use crate::session::hold::Hold;
use crate::session::holds::Holds;
use crate::transport::{CallError, Lane};

/// A release that is on its way.
pub(crate) struct Early {
    pub(super) sent: Instant,
    call: Sending,
    /// Like any release of the background, it counts among the calls in flight.
    slot: OwnedSemaphorePermit,
}

impl Early {
    /// Sends the release of a hold whose last guard is gone. `None` if there is no connection, or
    /// too many releases are in flight. Never blocks, and needs no runtime.
    pub(super) fn send(holds: &Holds, hold: &Hold) -> Option<Self> {
        let (calls, key) = (&holds.calls, &hold.resource.key);
        let node = calls.transport.node_of(key);
        let slot = holds.cleanups.free_slot(Lane::Background, node)?;
        let sent = Instant::now();
        let call = calls.send(Lane::Background, holds.end_call(hold)).ok()?;
        Some(Early { sent, call, slot })
    }

    pub(super) async fn outcome(self) -> Result<Value, CallError> {
        let outcome = self.call.outcome().await;
        drop(self.slot);
        outcome
    }
}

impl fmt::Debug for Early {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Early")
            .field("sent", &self.sent)
            .finish_non_exhaustive()
    }
}
