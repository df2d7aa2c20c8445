//! Waits until enough servers have a copy of a grant or a renewal.

use super::Calls;
use crate::durability::Durability;
use crate::protocol::Value;
use crate::transport::{CallError, Epoch, Lane, NodeId};

impl Calls {
    /// Fails if a server refuses to wait for copies, and this client asks for them. It waits for no replica here.
    pub(crate) async fn may_wait_for_copies(&self) -> Result<(), CallError> {
        if self.settings.durability.is_none() || !self.transport.is_connected() {
            return Ok(());
        }
        let words = Durability::NONE.command();
        let words: Vec<_> = words.iter().map(String::as_bytes).collect();
        match self.command(NodeId::default(), &words).await {
            Err(CallError::Refused(fault)) if !fault.is_missing_right() => {
                Err(CallError::Refused(fault))
            }
            _ => Ok(()),
        }
    }

    /// The epoch that [`made_durable`](Self::made_durable) needs. Take it before sending the call.
    pub(crate) fn epoch_if_durable(&self, lane: Lane, key: &str) -> Option<Epoch> {
        self.settings
            .durability
            .map(|_| self.transport.epoch(lane, key))
    }

    /// If this client asks for copies, waits until there are enough copies of everything written on
    /// the lane for the key. `before` is the lane's epoch before the write was sent. A server can
    /// wait only for writes of the same connection, so a changed epoch means that nothing is known.
    pub(crate) async fn made_durable(
        &self,
        lane: Lane,
        key: &str,
        before: Option<Epoch>,
    ) -> Result<(), CallError> {
        let (Some(durability), Some(before)) = (self.settings.durability, before) else {
            return Ok(());
        };
        let words = durability.command();
        let words: Vec<_> = words.iter().map(String::as_bytes).collect();
        let node = self.transport.node_of(key);
        let reply = self.transport.command(node, lane, &words);
        let reply = self.bounded(reply).await;
        let acknowledged = match reply {
            Ok(Value::Int(copies)) => u32::try_from(copies).unwrap_or(0),
            Err(error @ (CallError::Closed | CallError::Forked)) => return Err(error),
            // The server does not know the command, or the user may not call it: the caller must
            // learn that.
            Err(CallError::Refused(fault)) => return Err(CallError::Refused(fault)),
            Ok(_) | Err(_) => 0,
        };
        let is_same = self.transport.epoch(lane, key) == before;
        let acknowledged = if is_same { acknowledged } else { 0 };
        let wanted = durability.replicas;
        if acknowledged < wanted {
            return Err(CallError::NotDurable {
                wanted,
                acknowledged,
            });
        }
        Ok(())
    }
}
