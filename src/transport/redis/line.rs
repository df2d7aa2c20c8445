//! What callers see of a connection: the wire to send on, if there is one, and the epoch.
//!
//! # Invariants
//!
//! - **I1** `epoch` rises in the same critical section in which the wire leaves the slot. Who reads
//!   the epoch and then takes a wire from the slot has a connection of that epoch or a later one.
//! - **I2** A wire never returns to the slot: each is one connection.
//!
//! # Locking
//!
//! `slot`: read to take a wire, written at a loss and after a reconnect. Never across an await.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use tokio::sync::Notify;

use super::wire::Wire;
use crate::protocol::Value;
use crate::transport::{CallError, Fault};

pub(super) struct Line {
    slot: RwLock<Slot>,
    epoch: AtomicU64,
    /// Answers seen: a sign of life that saves a PING.
    answers: AtomicU64,
    /// Rung when a call was answered READONLY.
    read_only: Notify,
}

enum Slot {
    Up(Arc<Wire>),
    /// Not connected, and why.
    Down(Fault),
    Closed,
}

impl Line {
    pub(super) fn new() -> Self {
        Line {
            slot: RwLock::new(Slot::Down(Fault("not connected yet".into()))),
            epoch: AtomicU64::new(0),
            answers: AtomicU64::new(0),
            read_only: Notify::new(),
        }
    }

    /// The wire to send on. Without one nothing is queued: the call is not applied.
    pub(super) fn wire(&self) -> Result<Arc<Wire>, CallError> {
        match &*self.slot.read() {
            Slot::Up(wire) => Ok(wire.clone()),
            Slot::Down(fault) => Err(CallError::NotApplied(fault.clone())),
            Slot::Closed => Err(CallError::Closed),
        }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Learns from the outcome of a call.
    pub(super) fn learn(&self, outcome: &Result<Value, CallError>) {
        match outcome {
            Err(CallError::Unknown(_)) => return,
            Err(CallError::NotApplied(fault)) if fault.0.contains("READONLY") => {
                self.read_only.notify_waiters();
            }
            _ => {}
        }
        self.answers.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits for a call that is answered READONLY from now on.
    pub(super) async fn read_only(&self) {
        self.read_only.notified().await;
    }

    pub(super) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// Takes the lost wire out of the slot; what queues there is not sent.
    pub(super) fn down(&self, fault: Fault) {
        let mut slot = self.slot.write();
        if matches!(*slot, Slot::Closed) {
            return;
        }
        if matches!(*slot, Slot::Up(_)) {
            // INVARIANT I1: before the slot is free for another connection.
            self.epoch.fetch_add(1, Ordering::AcqRel);
        }
        let before = std::mem::replace(&mut *slot, Slot::Down(fault.clone()));
        drop(slot);
        if let Slot::Up(wire) = before {
            wire.close(&CallError::NotApplied(fault));
        }
    }

    /// Puts a new connection in the slot; `false` after [`Line::close`].
    pub(super) fn up(&self, wire: Arc<Wire>) -> bool {
        let mut slot = self.slot.write();
        if matches!(*slot, Slot::Closed) {
            return false;
        }
        *slot = Slot::Up(wire);
        true
    }

    pub(super) fn close(&self) {
        let before = std::mem::replace(&mut *self.slot.write(), Slot::Closed);
        if let Slot::Up(wire) = before {
            wire.close(&CallError::Closed);
        }
    }
}
