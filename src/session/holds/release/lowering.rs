//! Lowers a hold to its remaining guards, or ends it.
//!
//! A caller and the background task do this in the same way. The background task only has more
//! patience.

use std::sync::Arc;

use super::confirm::{Confirmed, Path, confirm, give_up};
use super::early::Early;
use crate::error::Error;
use crate::lease::LossReason;
use crate::protocol::replies::Released;
use crate::session::hold::Hold;
use crate::session::holds::Holds;
use crate::session::local_queue::FreeFor;
use crate::transport::{CallError, Lane};

/// Lower this hold to this count.
#[derive(Clone, Debug)]
pub(crate) struct Release {
    hold: Arc<Hold>,
    to: Count,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Count {
    /// The number of remaining guards, read when the call is sent.
    Guards,
    /// The last guard is gone, so the hold ends.
    Zero,
}

impl Release {
    /// One of several guards is gone.
    pub(super) fn of_one_guard(hold: Arc<Hold>) -> Self {
        Release {
            hold,
            to: Count::Guards,
        }
    }

    /// The last guard is gone.
    pub(crate) fn of_all(hold: Arc<Hold>) -> Self {
        Release {
            hold,
            to: Count::Zero,
        }
    }

    pub(super) fn hold(&self) -> &Hold {
        &self.hold
    }

    /// Sends the first call of a last release.
    pub(super) fn send_early(&self, holds: &Holds) -> Option<Early> {
        match self.to {
            // It frees nothing, so it has time.
            Count::Guards => None,
            Count::Zero => Early::send(holds, &self.hold),
        }
    }

    /// A call was sent and its outcome is unknown.
    pub(super) fn is_in_doubt(&self) {
        if self.to == Count::Guards {
            self.hold.call_in_doubt();
        }
    }

    /// Repeats the release until Redis confirms it or the lease has certainly ended (CLEANUP-1).
    pub(super) async fn in_background(&self, holds: &Holds, early: Option<Early>) {
        let (hold, lease) = (&self.hold, self.hold.longest_lease());
        let lane = match self.to {
            // Behind re-entries that were sent before on the same lane.
            Count::Guards => Lane::Caller,
            Count::Zero => Lane::Background,
        };
        let mut path = Path::of_background(lane, lease).after(early);
        let Err(error) = self.carry_out(holds, &mut path).await else {
            return;
        };
        match self.to {
            Count::Guards => {
                give_up(holds, &hold.resource, &error, None);
                hold.call_in_doubt();
                hold.call_settled();
            }
            Count::Zero => {
                give_up(holds, &hold.resource, &error, Some(lease));
                hold.release_failed(Error::from_call(&hold.resource.name, lease, error));
                holds.released(hold, FreeFor::NOBODY);
            }
        }
    }

    /// The outer result is an error if the release was not confirmed and must be tried again. The
    /// inner result is what the caller of `unlock` gets.
    pub(super) async fn carry_out(
        &self,
        holds: &Holds,
        path: &mut Path,
    ) -> Result<Result<(), Error>, CallError> {
        match self.to {
            Count::Guards => self.lower(holds, path).await,
            Count::Zero => self.end(holds, path).await,
        }
    }

    /// Lowers the count and leaves the lease as it is. Only other clients look at the count; the
    /// last release does not depend on it.
    async fn lower(&self, holds: &Holds, path: &mut Path) -> Result<Result<(), Error>, CallError> {
        let hold = &self.hold;
        let call = || {
            let guards = hold.guards();
            if guards == 0 || !hold.is_live() {
                // Redis may keep an old count, and such a field must not pass to another owner.
                hold.call_in_doubt();
                return None;
            }
            Some(
                holds
                    .calls
                    .release_call(&hold.resource, &hold.field, guards),
            )
        };
        let Confirmed { released, .. } =
            confirm(holds, path, &hold.resource, call, None, || {}).await?;
        hold.call_settled();
        // The release of the last guard may have overtaken this call.
        if released == Released::Absent && !hold.all_guards_left() {
            holds.lose(hold, LossReason::Gone);
        }
        Ok(lost_before_its_release(hold))
    }

    async fn end(&self, holds: &Holds, path: &mut Path) -> Result<Result<(), Error>, CallError> {
        let hold = &self.hold;
        let sent_before = hold.release_sent();
        let in_background = path.in_background();
        let unreachable = || {
            if in_background {
                // Redis cannot be reached. Let the next local waiter ask for itself.
                holds.queues.vacate(hold, FreeFor::NOBODY);
            }
        };
        let call = || Some(holds.end_call(hold));
        let Confirmed {
            released,
            in_doubt,
            sent,
        } = confirm(holds, path, &hold.resource, call, None, unreachable).await?;
        let (told, ended) = match released {
            Released::Free { receivers } => (FreeFor::Others(receivers), Ok(())),
            Released::FreeForOthers => (FreeFor::Unlisted, Ok(())),
            Released::Given => {
                holds.contention.was_met();
                (FreeFor::NOBODY, Ok(()))
            }
            // The first of two calls released the hold, unless its lease had ended by then.
            Released::StillHeld | Released::Absent
                if (in_doubt || sent_before) && sent < hold.deadline() =>
            {
                (FreeFor::NOBODY, Ok(()))
            }
            Released::StillHeld | Released::Absent => {
                let lost = Error::lost(&hold.resource.name, holds.was_gone(hold));
                hold.release_failed(lost.clone());
                (FreeFor::NOBODY, Err(lost))
            }
        };
        holds.released(hold, told);
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
