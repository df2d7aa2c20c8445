//! The slot of a lane: the connection on which callers send, if there is one, and the epoch.
//!
//! # Invariants
//!
//! - **SLOT-1** `epoch` rises in the critical section in which the connection leaves the slot, and
//!   before any call of that connection ends. So a caller that reads the epoch first and takes the
//!   connection second gets a connection of that epoch or a later one.
//! - **SLOT-2** A connection never returns to the slot.
//! - **SLOT-3** A connection of an earlier generation than the slot's is refused, because it leads
//!   to a server that is not the target any more.
//!
//! # Locking
//!
//! The mutex `state`, for short times and never across an await.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::connection::Connection;
use crate::call_error::{CallError, Fault};
use crate::sync::{AtomicU64, Mutex};

pub(super) struct ConnectionSlot {
    /// With the generation of the connections that are accepted.
    state: Mutex<(SlotState, u64)>,
    epoch: AtomicU64,
}

enum SlotState {
    Connected(Arc<Connection>),
    /// The fault says why.
    Disconnected(Fault),
    Closed,
}

impl ConnectionSlot {
    pub(super) fn new() -> Self {
        let state = SlotState::Disconnected(Fault("not connected yet".into()));
        ConnectionSlot {
            state: Mutex::new((state, 0)),
            epoch: AtomicU64::new(0),
        }
    }

    /// The connection to send on. Without a connection nothing is queued, and the call is not
    /// applied.
    pub(super) fn connection(&self) -> Result<Arc<Connection>, CallError> {
        match &self.state.lock().0 {
            SlotState::Connected(connection) => Ok(connection.clone()),
            SlotState::Disconnected(fault) => Err(CallError::NotApplied(fault.clone())),
            SlotState::Closed => Err(CallError::Closed),
        }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Removes a lost connection from the slot.
    pub(super) fn disconnected(&self, fault: Fault) {
        self.take(&mut self.state.lock().0, fault);
    }

    /// Updates the reason why there is no connection, if there is none.
    pub(super) fn unreachable(&self, fault: Fault) {
        if let SlotState::Disconnected(why) = &mut self.state.lock().0 {
            *why = fault;
        }
    }

    /// Called when the node gets another target. From now on, the slot accepts only connections of
    /// this generation. Returns the previous connection, which must be ended.
    pub(super) fn switched(&self, generation: u64, fault: Fault) -> Option<Arc<Connection>> {
        let mut guard = self.state.lock();
        guard.1 = generation;
        self.take(&mut guard.0, fault)
    }

    fn take(&self, state: &mut SlotState, fault: Fault) -> Option<Arc<Connection>> {
        if matches!(state, SlotState::Closed) {
            return None;
        }
        match std::mem::replace(state, SlotState::Disconnected(fault)) {
            SlotState::Connected(connection) => {
                // INVARIANT SLOT-1: the epoch rises before `state` is unlocked, so before the slot
                // can get another connection.
                self.epoch.fetch_add(1, Ordering::AcqRel);
                Some(connection)
            }
            SlotState::Disconnected(_) | SlotState::Closed => None,
        }
    }

    /// False if the connection belongs to an earlier generation (SLOT-3).
    pub(super) fn connected(&self, connection: &Arc<Connection>, generation: u64) -> bool {
        let (state, accepted) = &mut *self.state.lock();
        if *accepted != generation {
            return false;
        }
        if !matches!(state, SlotState::Closed) {
            *state = SlotState::Connected(connection.clone());
        }
        true
    }

    pub(super) fn close(&self) {
        self.state.lock().0 = SlotState::Closed;
    }
}
