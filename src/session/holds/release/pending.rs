//! A release that is owed because a guard is gone.
//!
//! A caller carries the release out and waits for it. A [`PendingRelease`] that is dropped before
//! Redis has confirmed it posts itself, and the background task carries it out in the same way,
//! with more patience.

use std::sync::Arc;

use super::cleanup::{Cleanup, CleanupPending};
use super::confirm::Path;
use super::lowering::Release;
use crate::error::Error;
use crate::session::Handle;
use crate::session::hold::Hold;

/// A release that is still to be confirmed. Its drop sends it, and leaves the rest to the background
/// task.
///
/// A re-entry that is in flight has one as well: if its outcome is unknown, the count must be
/// lowered again.
pub(crate) struct PendingRelease {
    handle: Arc<Handle>,
    release: Release,
    /// A call that changes the count may be in flight.
    sent: bool,
    settled: bool,
    /// Keeps the session alive until the release is settled or posted (CLEANUP-3).
    _pending: CleanupPending,
}

impl PendingRelease {
    /// One of several guards is gone.
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
        let pending = handle.holds().cleanups.expect_one();
        let handle = handle.clone();
        PendingRelease {
            handle,
            release,
            sent: false,
            settled: false,
            _pending: pending,
        }
    }

    /// The re-entry got its reply, so nothing has to be lowered.
    pub(crate) fn not_needed(mut self) {
        self.settled = true;
        self.release.hold().call_settled();
    }

    /// Sends the release, and repeats it within a command's timeout if it was not executed or its
    /// outcome is unknown.
    pub(crate) async fn carry_out(mut self) -> Result<(), Error> {
        let handle = self.handle.clone();
        let holds = handle.holds();
        self.sent = true;
        // CANCEL: the drop of `self` posts the release. Executing it twice changes nothing.
        match self
            .release
            .carry_out(holds, &mut Path::of_caller(&holds.calls))
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
        let (holds, release) = (self.handle.holds(), self.release.clone());
        let early = release.send_early(holds);
        holds.cleanups.post(Cleanup::Release { release, early });
    }
}
