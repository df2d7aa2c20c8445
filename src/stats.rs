//! What a client has done and what it keeps: plain counters, always on.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// The counters behind [`Stats`].
        #[derive(Debug, Default)]
        pub(crate) struct Counters { $(pub(crate) $name: AtomicU64,)* }

        /// What a client has done since it was made, and what it keeps now.
        ///
        /// A snapshot is not consistent across its fields.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[doc = $doc])* pub $name: u64,)*
            /// Connections that were made again.
            pub reconnects: u64,
            /// Channels subscribed now, those kept warm included.
            pub subscriptions: u64,
            /// Registrations of waiters with channels now.
            pub listeners: u64,
            /// Names held or waited for now.
            pub rooms: u64,
            /// Futures that wait for a lock now.
            pub waiting: u64,
            /// Holds that the watchdog knows now.
            pub holds: u64,
            /// Releases and undos that are not settled now.
            pub releases_pending: u64,
        }

        impl Counters {
            pub(crate) fn snapshot(&self) -> Stats {
                Stats { $($name: self.$name.load(Relaxed),)* ..Stats::default() }
            }
        }
    };
}

counters! {
    /// Acquisitions granted by the first call, with nobody of this client ahead.
    acquired_at_once,
    /// Acquisitions granted after waiting, hand-overs included.
    acquired_after_waiting,
    /// Acquisitions handed over within this client.
    handed_over,
    /// Acquisitions and releases that were woken and not polled, and given up in the caller's place.
    passed_over,
    /// Re-entries.
    reentered,
    /// Acquisitions that ended with a time-out.
    timed_out,
    /// Waiters woken by a message.
    wakes,
    /// Wakes after which the lock was still held by somebody else.
    wakes_in_vain,
    /// Holds that were renewed.
    renewed,
    /// Renewals that got no answer.
    renewals_failed,
    /// Holds lost before they were released.
    lost,
    /// Releases that were left to the background.
    releases_queued,
    /// Releases and undos given up: refused, or without an answer for two leases and 10 s.
    releases_failed,
    /// Script calls.
    calls,
    /// Safety polls sent.
    polls,
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}
