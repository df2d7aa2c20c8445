//! Whether the field of a hold may pass to another owner.

use super::terms::InDoubt;

/// Calls about the field that are in flight or whose outcome is unknown.
#[derive(Debug)]
pub(super) struct Doubt {
    /// Re-entries and releases of inner guards that are in flight or about to be sent.
    open_calls: u32,
    /// An attempt for this field that Redis may still execute.
    /// Boxed, because most holds have none.
    attempt: Option<Box<InDoubt>>,
    transfer: Transfer,
}

/// Who may get the field next. It only ever becomes stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Transfer {
    Anybody,
    /// Another owner may get it only by a call to Redis, because an earlier call about the field
    /// had no reply.
    NotInMemory,
    /// Nobody may get it, because a read hold was taken under this write hold.
    Nobody,
}

impl Doubt {
    pub(super) fn none() -> Self {
        Doubt {
            open_calls: 0,
            attempt: None,
            transfer: Transfer::Anybody,
        }
    }

    pub(super) fn attempt(&self) -> Option<InDoubt> {
        self.attempt.as_deref().copied()
    }

    pub(super) fn set_attempt(&mut self, attempt: Option<InDoubt>) {
        self.attempt = attempt.map(Box::new);
    }

    pub(super) fn call_sent(&mut self) {
        self.open_calls += 1;
    }

    pub(super) fn call_settled(&mut self) {
        self.open_calls -= 1;
    }

    /// The outcome of a call is unknown.
    pub(super) fn call_in_doubt(&mut self) {
        self.transfer = self.transfer.max(Transfer::NotInMemory);
    }

    pub(super) fn forbid_transfer(&mut self) {
        self.transfer = Transfer::Nobody;
    }

    /// True if no call about the field is in flight or in doubt.
    pub(super) fn is_none(&self) -> bool {
        self.open_calls == 0 && self.attempt.is_none() && self.transfer == Transfer::Anybody
    }
}
