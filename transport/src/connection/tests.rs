//! Access for tests to the requests without an answer, and to the bytes that the kernel has not
//! taken.

use super::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backlog {
    pub(crate) waiting: usize,
    pub(crate) in_flight: usize,
    pub(crate) bytes: usize,
}

impl Backlog {
    pub(crate) fn unsent(self) -> usize {
        self.waiting + self.bytes
    }
}

impl Connection {
    pub(crate) fn backlog(&self) -> Backlog {
        let outbox = self.outbox.lock();
        let ledger = self.ledger.lock();
        let bytes = outbox.bytes.len();
        Backlog {
            waiting: ledger.waiting(),
            in_flight: ledger.in_flight(),
            bytes,
        }
    }
}
