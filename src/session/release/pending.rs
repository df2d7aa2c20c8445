//! A guard went: its hold is to be lowered in Redis to the guards that are left, or released.
//!
//! A caller carries the release out and waits for it. A [`PendingRelease`] that is dropped before Redis confirmed
//! it posts itself, and the background carries it out in the same way, with more patience.

use std::sync::Arc;

use super::cleanup::{Cleanup, CleanupPending};
use super::confirm::{Confirmed, Path, confirm, give_up};
use crate::error::Error;
use crate::lease::LossReason;
use crate::protocol::replies::Released;
use crate::session::hold::Hold;
use crate::session::{Handle, Session};
use crate::transport::{CallError, Lane};

/// Lower this hold to this count.
#[derive(Clone, Debug)]
pub(crate) struct Release {
    hold: Arc<Hold>,
    to: Count,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Count {
    /// The number of live guards, read when the call is sent.
    Guards,
    /// The last guard is gone: the hold ends.
    Zero,
}

impl Release {
    /// Ends a hold whose last guard is gone.
    pub(crate) fn of_all(hold: Arc<Hold>) -> Self {
        Release { hold, to: Count::Zero }
    }

    /// Repeats it until Redis confirms it or the lease is certainly over (CLEANUP-1).
    pub(super) async fn in_background(&self, session: &Session) {
        let (hold, lease) = (&self.hold, self.hold.longest_lease());
        let lane = match self.to {
            // Behind re-entries that were sent before.
            Count::Guards => Lane::Caller,
            Count::Zero => Lane::Background,
        };
        let Err(error) = self.carry_out(session, Path::of_background(lane, lease)).await else {
            return;
        };
        match self.to {
            Count::Guards => {
                give_up(session, &hold.resource, &error, None);
                hold.call_in_doubt();
                hold.call_settled();
            }
            Count::Zero => {
                give_up(session, &hold.resource, &error, Some(lease));
                hold.release_failed(Error::from_call(&hold.resource.name, lease, error));
                session.released(hold, 0);
            }
        }
    }

    /// `Ok` when the release is settled, with what its caller is told; else it is still to be done.
    async fn carry_out(
        &self,
        session: &Session,
        path: Path,
    ) -> Result<Result<(), Error>, CallError> {
        match self.to {
            Count::Guards => self.lower(session, path).await,
            Count::Zero => self.end(session, path).await,
        }
    }

    /// The lease stays as it is. The count is for other clients: the last release does not depend on it.
    async fn lower(&self, session: &Session, path: Path) -> Result<Result<(), Error>, CallError> {
        let hold = &self.hold;
        let call = || {
            let guards = hold.guards();
            if guards == 0 || !hold.is_live() {
                // A field with an old count passes to no other owner.
                hold.call_in_doubt();
                return None;
            }
            Some(session.release_call(&hold.resource, &hold.field, guards))
        };
        let Confirmed { released, .. } =
            confirm(session, path, &hold.resource, call, None, || {}).await?;
        hold.call_settled();
        // The release of the last guard may have overtaken this one.
        if released == Released::Absent && !hold.all_guards_left() {
            session.lose(hold, LossReason::Gone);
        }
        Ok(lost_before_its_release(hold))
    }

    async fn end(&self, session: &Session, path: Path) -> Result<Result<(), Error>, CallError> {
        let hold = &self.hold;
        let sent_before = hold.release_sent();
        let in_background = path.in_background();
        let unreachable = || {
            if in_background {
                // The next local waiter may as well watch for itself.
                session.queues.vacate(hold, 0);
            }
        };
        let call = || Some(session.end_call(hold));
        let Confirmed { released, in_doubt, sent } =
            confirm(session, path, &hold.resource, call, None, unreachable).await?;
        let (receivers, ended) = match released {
            Released::Free { receivers } => (receivers, Ok(())),
            // The earlier of two calls released the hold, unless the lease was over.
            Released::StillHeld | Released::Absent
                if (in_doubt || sent_before) && sent < hold.deadline() =>
            {
                (0, Ok(()))
            }
            Released::StillHeld | Released::Absent => {
                session.was_gone(hold);
                let lost = Error::lost(&hold.resource.name, LossReason::Gone);
                hold.release_failed(lost.clone());
                (0, Err(lost))
            }
        };
        session.released(hold, receivers);
        Ok(ended)
    }
}

/// An error if the hold was lost while it had guards.
pub(crate) fn lost_before_its_release(hold: &Hold) -> Result<(), Error> {
    match hold.loss() {
        Some(reason) if !hold.all_guards_left() => Err(Error::lost(&hold.resource.name, reason)),
        _ => Ok(()),
    }
}

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
        Self::new(handle, Release { hold: hold.clone(), to: Count::Guards })
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
        let pending = handle.session.cleanups.expect_one();
        let handle = handle.clone();
        PendingRelease { handle, release, sent: false, settled: false, _pending: pending }
    }

    /// The re-entry has its answer: there is nothing to lower.
    pub(crate) fn not_needed(mut self) {
        self.settled = true;
        self.release.hold.call_settled();
    }

    /// One call, repeated within a command's time-out if it was not applied or its outcome is not known.
    pub(crate) async fn carry_out(mut self) -> Result<(), Error> {
        let session = self.handle.session.clone();
        self.sent = true;
        // CANCEL: the drop of `self` posts the release; repeating it changes nothing.
        match self.release.carry_out(&session, Path::of_caller(&session)).await {
            Ok(done) => {
                self.settled = true;
                done
            }
            Err(error) => {
                let hold = &self.release.hold;
                Err(Error::from_call(&hold.resource.name, hold.longest_lease(), error))
            }
        }
    }
}

impl Drop for PendingRelease {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        if self.sent && self.release.to == Count::Guards {
            self.release.hold.call_in_doubt();
        }
        self.handle.session.cleanups.post(Cleanup::Release(self.release.clone()));
    }
}
