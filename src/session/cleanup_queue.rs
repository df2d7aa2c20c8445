//! Releases and undos that nobody waits for. They come from drops, cancelled attempts and lost
//! replies.
//!
//! # Invariants
//!
//! - **CLEANUP-1** A cleanup is repeated until Redis confirms it, or until the lease that it is
//!   about has certainly ended.
//! - **CLEANUP-2** A reply confirms an undo only if the lane has kept its connection since the
//!   attempt was sent. Otherwise Redis may execute the attempt later, whatever the reply says, and
//!   the undo is repeated for one lease after the first reply.
//! - **CLEANUP-3** A session does not end while an attempt or a guard may still post a cleanup. An
//!   acquisition takes a [`CleanupPending`] before it tests whether the session is closed, and a
//!   hold that ends takes one before it says so.
//!
//! # Bounds
//!
//! There is at most one cleanup for each live guard and each future inside `acquire`. Undos of
//! attempts in doubt stay one lease longer (CLEANUP-2). At most [`AT_ONCE`] calls of each lane are
//! in flight to each node. A cleanup that pauses has no call in flight, so repeated undos do not
//! hold up releases.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;

use crate::protocol::resource::Resource;
use crate::session::calls::Sending;
use crate::session::deadline::InDoubt;
use crate::session::hold::Hold;
use crate::session::in_flight_release::InFlightRelease;
use crate::sync::{Mutex, Notify};
use crate::transport::{Lane, NodeId};

/// Calls in flight at once.
const AT_ONCE: usize = 256;

/// Something to settle in the background.
#[derive(Debug)]
pub(crate) enum Cleanup {
    /// Lowers a hold to its remaining guards, or ends it and lets the next local waiter in.
    Release {
        release: Release,
        /// Its first call, which is on its way.
        sent_release: Option<SentRelease>,
    },
    /// Takes permits of a semaphore for good.
    KeepPermits(Arc<Hold>),
    /// Removes what a hold may have left behind, when nothing about it is in doubt.
    End {
        hold: Arc<Hold>,
        in_flight: InFlightRelease,
    },
    /// Removes whatever an attempt may have taken.
    Undo {
        resource: Arc<Resource>,
        field: Arc<str>,
        doubt: InDoubt,
        in_flight: InFlightRelease,
    },
}

/// Lower this hold to this count.
#[derive(Clone, Debug)]
pub(crate) struct Release {
    pub(super) hold: Arc<Hold>,
    pub(super) to: ReleaseTarget,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReleaseTarget {
    /// The number of remaining guards, read when the call is sent.
    RemainingGuards,
    /// The last guard is gone, so the hold ends.
    NoGuards,
}

/// A release that is on its way.
pub(crate) struct SentRelease {
    pub(super) sent: Instant,
    pub(super) call: Sending,
    /// Like any release of the background, it counts among the calls in flight.
    pub(super) slot: OwnedSemaphorePermit,
}

impl fmt::Debug for SentRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SentRelease")
            .field("sent", &self.sent)
            .finish_non_exhaustive()
    }
}

/// The cleanups of one session.
#[derive(Debug)]
pub(crate) struct Cleanups {
    sender: mpsc::UnboundedSender<Cleanup>,
    pub(super) receiver: Mutex<Option<mpsc::UnboundedReceiver<Cleanup>>>,
    /// Posted and not settled yet.
    pub(super) queued: AtomicU64,
    /// A cleanup holds a permit while its call is in flight. One semaphore per lane and node, so
    /// that a stalled node does not stop the others.
    slots: Mutex<HashMap<(Lane, NodeId), Arc<Semaphore>>>,
    pub(super) expected: Arc<ExpectedCleanups>,
    /// A hold whose release was refused may stay in Redis until this instant.
    refused_until: Mutex<Option<Instant>>,
}

/// Cleanups that may yet be posted.
#[derive(Debug, Default)]
pub(super) struct ExpectedCleanups {
    pub(super) number: AtomicU64,
    pub(super) fewer: Notify,
}

/// A cleanup may have to be posted. Dropped after that, or when nothing has to be posted.
#[derive(Debug)]
pub(crate) struct CleanupPending(Arc<ExpectedCleanups>);

impl Drop for CleanupPending {
    fn drop(&mut self) {
        self.0.number.fetch_sub(1, SeqCst);
        self.0.fewer.notify_one();
    }
}

impl Cleanups {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Cleanups {
            sender,
            receiver: Mutex::new(Some(receiver)),
            queued: AtomicU64::new(0),
            slots: Mutex::default(),
            expected: Arc::default(),
            refused_until: Mutex::default(),
        }
    }

    /// Queues a cleanup. Needs no runtime. Has no effect after the end of the session.
    pub(crate) fn post(&self, cleanup: Cleanup) {
        self.queued.fetch_add(1, Relaxed);
        if self.sender.send(cleanup).is_err() {
            self.queued.fetch_sub(1, Relaxed);
        }
    }

    /// Keeps the session from ending until the cleanup is posted or not needed (CLEANUP-3).
    pub(crate) fn expect_one(&self) -> CleanupPending {
        self.expected.number.fetch_add(1, SeqCst);
        CleanupPending(self.expected.clone())
    }

    /// A release was given up while its lease may still run.
    pub(super) fn record_refusal(&self, until: Instant) {
        let mut refused = self.refused_until.lock();
        *refused = refused.max(Some(until));
    }

    /// True if a hold whose release was refused may still be in Redis.
    pub(crate) fn may_have_left_holds(&self) -> bool {
        self.refused_until
            .lock()
            .is_some_and(|until| Instant::now() < until)
    }

    /// Waits for permission to have one more call in flight to a node.
    pub(super) async fn slot(&self, lane: Lane, node: NodeId) -> OwnedSemaphorePermit {
        let slot = self.slots(lane, node).acquire_owned().await;
        slot.expect("BUG: it is never closed")
    }

    /// The same without waiting. `None` if too many calls are in flight.
    pub(super) fn free_slot(&self, lane: Lane, node: NodeId) -> Option<OwnedSemaphorePermit> {
        self.slots(lane, node).try_acquire_owned().ok()
    }

    fn slots(&self, lane: Lane, node: NodeId) -> Arc<Semaphore> {
        let new = || Arc::new(Semaphore::new(AT_ONCE));
        let mut slots = self.slots.lock();
        slots.entry((lane, node)).or_insert_with(new).clone()
    }

    pub(crate) fn queued(&self) -> u64 {
        self.queued.load(Relaxed)
    }
}
