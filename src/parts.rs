//! What `leasehold-admin` needs of a client and of a guard; no promise of stability.
//!
//! [`Client::parts`](crate::Client::parts) is the way in.

use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::holder::Holder;
use crate::lock::LockGuard;
use crate::protocol::Unexpected;
use crate::session::core::Handle;
use crate::transport::{Call, CallError, Lane, NodeId, Transport, Value};

pub use crate::client_id::is_uuid;
pub use crate::protocol::description::{DESCRIPTION, tell_all};
pub use crate::protocol::kind::{
    FAIR_QUEUE, FENCE_COUNTER, Kind, SEMAPHORE_HOLDS, SEMAPHORE_LIMIT,
};
pub use crate::protocol::kind::{KeyName, slot_fault};
pub use crate::protocol::replies::count_of;
pub use crate::protocol::resource::Resource;
pub use crate::protocol::semaphore::permits_of;
pub use crate::protocol::waiters::numsub;

/// The time of day in a script.
pub const CLOCK_LUA: &str = include_str!("protocol/shared/clock.lua");
/// Whether the user may run a command.
pub const MAY_LUA: &str = include_str!("protocol/shared/may.lua");
/// The type of a key.
pub const TYPE_OF_LUA: &str = include_str!("protocol/shared/type_of.lua");
/// The queue of a fair lock: who is next in it, and how a waiter is told. It needs the time of day.
pub const FAIR_LUA: &str = include_str!("protocol/fair/queue.lua");
/// The descriptions of holders.
pub const DESCRIBED_LUA: &str = include_str!("protocol/description/described.lua");
/// How many clients listen on a channel.
pub const LISTENING_LUA: &str = include_str!("protocol/waiters/listening.lua");

/// A client, as it calls its servers. A clone is the same client.
#[derive(Clone, Debug)]
pub struct Parts {
    handle: Arc<Handle>,
}

impl Parts {
    pub(crate) fn of(handle: Arc<Handle>) -> Self {
        Parts { handle }
    }

    /// The client of a guard, and what the guard holds. `None` for several locks as one.
    pub fn of_guard(guard: &LockGuard) -> Option<(Self, Resource)> {
        let share = guard.single()?;
        let parts = Parts::of(share.handle().clone());
        Some((parts, share.hold().resource.as_ref().clone()))
    }

    /// Its connections.
    pub fn transport(&self) -> &Transport {
        &self.handle.calls().transport
    }

    /// The text that is prepended to every name.
    pub fn key_prefix(&self) -> &str {
        &self.handle.calls().settings.key_prefix
    }

    /// The lease of renewed holds.
    pub fn lease(&self) -> Duration {
        self.handle.calls().settings.lease
    }

    /// How long a call may take.
    pub fn command_timeout(&self) -> Duration {
        self.handle.calls().settings.command_timeout
    }

    /// How many replicas must have a grant before it counts.
    pub fn copies(&self) -> Option<u32> {
        let durability = self.handle.calls().settings.durability;
        durability.map(|durability| durability.replicas)
    }

    /// Marks a holder of the lock at a key, if it is this client or even the calling task.
    pub fn mark_own(&self, key: &Arc<str>, holder: &mut Holder) {
        self.handle.core().mark_own(key, holder);
    }

    /// Whether waiters poll because no message would wake them.
    pub fn polls_only(&self) -> bool {
        self.handle.calls().polls_only()
    }

    /// Whether the client was shut down.
    pub fn is_closed(&self) -> bool {
        self.handle.calls().life.is_closed()
    }

    /// Runs a script on the server of its keys.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The server runs the script or not.
    ///
    /// # Errors
    ///
    /// Each [`CallError`] except [`NotDurable`](CallError::NotDurable).
    pub async fn call(&self, lane: Lane, call: Call) -> Result<Value, CallError> {
        self.open()?;
        self.handle.calls().call(lane, call).await
    }

    /// Runs a script without keys on one node.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The server runs the script or not.
    ///
    /// # Errors
    ///
    /// Each [`CallError`] except [`NotDurable`](CallError::NotDurable).
    pub async fn call_node(&self, node: NodeId, call: Call) -> Result<Value, CallError> {
        self.open()?;
        self.handle.calls().call_node(node, call).await
    }

    /// Runs another command than a script on one node.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The server runs the command or not.
    ///
    /// # Errors
    ///
    /// Each [`CallError`] except [`NotDurable`](CallError::NotDurable).
    pub async fn command(&self, node: NodeId, words: &[&[u8]]) -> Result<Value, CallError> {
        self.open()?;
        self.handle.calls().command(node, words).await
    }

    fn open(&self) -> Result<(), CallError> {
        if self.is_closed() {
            return Err(CallError::Closed);
        }
        Ok(())
    }
}

/// The caller's error for a call that failed.
pub fn error(name: &str, error: CallError) -> Error {
    Error::from_call(&Arc::from(name), Duration::ZERO, error)
}

/// The caller's error for a reply that no script gives.
pub fn unexpected(name: &str, reply: Value) -> Error {
    Error::unexpected(&Arc::from(name), &Unexpected(reply))
}
