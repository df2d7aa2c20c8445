//! What callers see of a connection: where to send, if there is one, and the epoch.
//!
//! # Invariants
//!
//! - **I1** `epoch` rises in the same critical section in which the connection leaves the slot, and
//!   before anybody is told of its end. Who reads the epoch and then takes a connection from the slot
//!   has one of that epoch or a later one.
//! - **I2** A connection never returns to the slot.
//!
//! # Locking
//!
//! `slot`: read to take a connection, written at a loss and after a reconnect. Never across an await.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::connection::Connection;
use crate::sync::{AtomicU64, RwLock};
use crate::transport::{CallError, Fault};

pub(super) struct Line {
    slot: RwLock<Slot>,
    epoch: AtomicU64,
}

enum Slot {
    Up(Arc<Connection>),
    /// Not connected, and why.
    Down(Fault),
    Closed,
}

impl Line {
    pub(super) fn new() -> Self {
        let slot = RwLock::new(Slot::Down(Fault("not connected yet".into())));
        Line { slot, epoch: AtomicU64::new(0) }
    }

    /// The connection to send on. Without one nothing is queued: the call is not applied.
    pub(super) fn connection(&self) -> Result<Arc<Connection>, CallError> {
        match &*self.slot.read() {
            Slot::Up(connection) => Ok(connection.clone()),
            Slot::Down(fault) => Err(CallError::NotApplied(fault.clone())),
            Slot::Closed => Err(CallError::Closed),
        }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Takes a lost connection out of the slot, or says why there still is none.
    pub(super) fn down(&self, fault: Fault) {
        let mut slot = self.slot.write();
        if matches!(*slot, Slot::Closed) {
            return;
        }
        if matches!(*slot, Slot::Up(_)) {
            // INVARIANT I1: before the slot is free for another connection.
            self.epoch.fetch_add(1, Ordering::AcqRel);
        }
        *slot = Slot::Down(fault);
    }

    pub(super) fn up(&self, connection: &Arc<Connection>) {
        let mut slot = self.slot.write();
        if !matches!(*slot, Slot::Closed) {
            *slot = Slot::Up(connection.clone());
        }
    }

    pub(super) fn close(&self) {
        *self.slot.write() = Slot::Closed;
    }
}
