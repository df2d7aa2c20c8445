//! One guard's share in a hold.
//!
//! A share is an obligation: [`HoldShare::release`] gives it back, or its drop queues the same
//! release.

use super::holds::Holds;
use std::fmt;
use std::sync::Arc;

use super::Handle;
use super::attendance::PassedOver;
use super::caller::Caller;
use super::hold::{Hold, HoldTerms, Left};
use super::holds::release::departure::hand_over;
use super::holds::release::lowering::lost_before_its_release;
use super::holds::release::pending::PendingRelease;
use super::local_queue::FreeFor;
use super::request::Request;
use crate::error::Error;
use crate::timer;

pub(crate) struct HoldShare {
    handle: Arc<Handle>,
    hold: Arc<Hold>,
    terms: HoldTerms,
    /// The share was given back.
    spent: bool,
}

impl HoldShare {
    pub(crate) fn new(handle: Arc<Handle>, hold: Arc<Hold>, terms: HoldTerms) -> Self {
        HoldShare {
            handle,
            hold,
            terms,
            spent: false,
        }
    }

    /// The first share in a new hold. Enters the hold in the watchdog's table.
    pub(super) fn granted(handle: &Arc<Handle>, request: &Request, hold: &Arc<Hold>) -> Self {
        let share = HoldShare::new(handle.clone(), hold.clone(), request.terms);
        hold.observe(&handle.holds().calls.settings.telemetry);
        handle.holds().watchdog.arm(hold, None);
        handle.holds().describe(hold, request.description.as_ref());
        share
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// The caller gets its guard.
    pub(crate) fn given_to_caller(&self) {
        self.hold.set_taken_by(Caller::current());
    }

    pub(super) fn terms(&self) -> HoldTerms {
        self.terms
    }

    /// Returns the share unless the client was shut down in the meantime. In that case the hold is
    /// lost.
    pub(crate) fn unless_closed(self) -> Result<Self, Error> {
        if self.handle.holds().lose_if_closed(&self.hold) {
            return Err(Error::Closed);
        }
        Ok(self)
    }

    /// Gives the share back immediately. The returned future waits for Redis to confirm the
    /// release.
    ///
    /// CANCEL: a future that is not polled to its end leaves the release to the background task.
    pub(crate) fn release(mut self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let (handle, hold) = (self.handle.clone(), self.hold.clone());
        let attend =
            |release: PendingRelease| handle.session.attendance.attend_now(release.carry_out());
        let under_way = self.leave().map(|release| release.map(attend));
        async move {
            let Some(release) = under_way? else {
                return Ok(());
            };
            match release.await {
                Ok(done) => done,
                // A caller that stops polling leaves the release to the background.
                Err(PassedOver) => settled_elsewhere(handle.holds(), &hold).await,
            }
        }
    }

    /// Removes the guard from the hold. Returns the release that Redis must still see, if any, or
    /// an error if the hold was lost.
    fn leave(&mut self) -> Result<Option<PendingRelease>, Error> {
        self.spent = true;
        let (handle, hold) = (&self.handle, &self.hold);
        // Keeps the session alive until the release is pending (CLEANUP-3).
        let _pending = handle.holds().cleanups.expect_one();
        match hold.leave(self.terms) {
            Left::Lost(reason) => {
                handle.holds().lose(hold, reason.clone());
                Err(Error::lost(&hold.resource.name, reason))
            }
            Left::Inner => Ok(Some(PendingRelease::of_one_guard(handle, hold))),
            Left::Last if hand_over(handle.holds(), hold, self.terms) => Ok(None),
            Left::Last => Ok(Some(PendingRelease::of_all(handle, hold))),
        }
    }

    /// Leaves the field to its lease: this client no longer renews or releases it.
    ///
    /// False, and the share is released, if the hold is lost or has other guards.
    pub(crate) fn let_go(mut self) -> bool {
        let harness = &self.handle.calls().settings.telemetry.harness;
        let let_go = self.hold.forget(harness);
        if let_go {
            self.spent = true;
            self.handle.holds().watchdog.disarm(&self.hold);
            self.handle
                .holds()
                .queues
                .vacate(&self.hold, FreeFor::NOBODY);
        }
        let_go
    }
}

/// Waits for a release that continues in the background.
async fn settled_elsewhere(holds: &Holds, hold: &Arc<Hold>) -> Result<(), Error> {
    lost_before_its_release(hold)?;
    let limit = holds.calls.settings.command_timeout;
    if let Ok(done) = timer::timeout(limit, hold.settled()).await {
        return done;
    }
    let fault = holds.calls.lost("it goes on in the background").await;
    Err(Error::from_call(
        &hold.resource.name,
        hold.longest_lease(),
        fault,
    ))
}

impl Drop for HoldShare {
    /// Never blocks, spawns or panics, and needs no runtime: it only posts to the session.
    fn drop(&mut self) {
        if !self.spent {
            drop(self.leave());
        }
    }
}

impl fmt::Debug for HoldShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HoldShare")
            .field("hold", &self.hold)
            .finish_non_exhaustive()
    }
}
