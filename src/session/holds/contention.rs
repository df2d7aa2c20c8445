//! Whether other clients want the plain locks of this one.
//!
//! A release that looks for waiters costs Redis one command more. While nobody else wants the locks of this client, it
//! does not look. If somebody waits all the same, the message to all wakes it, and the next release looks.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The releases that look for waiters after the last sign of another client.
const LOOKS: u32 = 1_000;

#[derive(Debug, Default)]
pub(crate) struct Contention {
    looks: AtomicU32,
}

impl Contention {
    /// Another client holds a lock that this one wants, or waits for one that this client had.
    pub(in crate::session) fn was_met(&self) {
        self.looks.store(LOOKS, Relaxed);
    }

    /// Whether the next release looks for waiters.
    pub(in crate::session) fn looks(&self) -> bool {
        let one_less = |looks: u32| looks.checked_sub(1);
        self.looks.fetch_update(Relaxed, Relaxed, one_less).is_ok()
    }
}
