//! A guard went: its hold is to be lowered in Redis to the guards that are left, or released.
//!
//! A caller carries the release out and waits for it. A [`PendingRelease`] that is dropped before Redis confirmed
//! it posts itself, and the background carries it out in the same way, with more patience.

use std::sync::Arc;

use super::cleanup::{Cleanup, CleanupPending};
use super::confirm::Path;
use super::lowering::Release;
use crate::error::Error;
use crate::session::Handle;
use crate::session::hold::Hold;

/// A release that nobody has carried out yet; its drop leaves it to the background.
///
/// A re-entry on the wire has one as well: if its outcome is not known, the count is to be lowered again.
pub(crate) struct PendingRelease {
    handle: Arc<Handle>,
    release: Release,
    /// A call that changes the count is, or may be, on the wire.
    sent: bool,
    settled: bool,
    /// The session does not end before the release is settled or posted (CLEANUP-3).
    _pending: CleanupPending,
}

impl PendingRelease {
    /// An inner guard is gone.
    pub(crate) fn of_one_guard(handle: &Arc<Handle>, hold: &Arc<Hold>) -> Self {
        hold.call_sent();
        Self::new(handle, Release::of_one_guard(hold.clone()))
    }

    /// A call that raises the count is about to be sent.
    pub(crate) fn of_reentry(handle: &Arc<Handle>, hold: &Arc<Hold>) -> Self {
        let mut pending = Self::of_one_guard(handle, hold);
        pending.sent = true;
        pending
    }

    /// The last guard is gone.
    pub(crate) fn of_all(handle: &Arc<Handle>, hold: &Arc<Hold>) -> Self {
        Self::new(handle, Release::of_all(hold.clone()))
    }

    fn new(handle: &Arc<Handle>, release: Release) -> Self {
        let pending = handle.session.holds.cleanups.expect_one();
        let handle = handle.clone();
        PendingRelease {
            handle,
            release,
            sent: false,
            settled: false,
            _pending: pending,
        }
    }

    /// The re-entry has its answer: there is nothing to lower.
    pub(crate) fn not_needed(mut self) {
        self.settled = true;
        self.release.hold().call_settled();
    }

    /// One call, repeated within a command's time-out if it was not applied or its outcome is not known.
    pub(crate) async fn carry_out(mut self) -> Result<(), Error> {
        let handle = self.handle.clone();
        let holds = &handle.session.holds;
        self.sent = true;
        // CANCEL: the drop of `self` posts the release; repeating it changes nothing.
        match self
            .release
            .carry_out(holds, Path::of_caller(&holds.calls))
            .await
        {
            Ok(done) => {
                self.settled = true;
                done
            }
            Err(error) => {
                let hold = self.release.hold();
                Err(Error::from_call(
                    &hold.resource.name,
                    hold.longest_lease(),
                    error,
                ))
            }
        }
    }
}

impl Drop for PendingRelease {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        if self.sent {
            self.release.is_in_doubt();
        }
        self.handle
            .session
            .holds
            .cleanups
            .post(Cleanup::Release(self.release.clone()));
    }
}
