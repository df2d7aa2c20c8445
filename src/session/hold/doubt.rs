//! Whether the field of a hold may pass to another owner.

use super::terms::InDoubt;

/// What is on the wire or unknown about the field.
#[derive(Debug)]
pub(super) struct Doubt {
    /// Re-entries and releases of inner guards that are on the wire, or about to be sent.
    open_calls: u32,
    /// An attempt for this field that may still be executed.
    attempt: Option<InDoubt>,
    transfer: Transfer,
}

/// Who may get the field next; it only becomes stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Transfer {
    Anybody,
    /// No other owner of this client without a call: an earlier call about the field had no answer.
    NotInMemory,
    /// Nobody: a read hold was taken under this write hold.
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
        self.attempt
    }

    pub(super) fn set_attempt(&mut self, attempt: Option<InDoubt>) {
        self.attempt = attempt;
    }

    pub(super) fn call_sent(&mut self) {
        self.open_calls += 1;
    }

    pub(super) fn call_settled(&mut self) {
        self.open_calls -= 1;
    }

    /// The outcome of a call is not known.
    pub(super) fn call_in_doubt(&mut self) {
        self.transfer = self.transfer.max(Transfer::NotInMemory);
    }

    pub(super) fn forbid_transfer(&mut self) {
        self.transfer = Transfer::Nobody;
    }

    /// Nobody else ever gets the field.
    pub(super) fn forbids_transfer(&self) -> bool {
        self.transfer == Transfer::Nobody
    }

    /// Everything about the field is known.
    pub(super) fn is_none(&self) -> bool {
        self.open_calls == 0 && self.attempt.is_none() && self.transfer == Transfer::Anybody
    }
}
