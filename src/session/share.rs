//! One guard's share in a hold.
//!
//! A share is an obligation: [`HoldShare::release`] gives it back, or its drop queues the same
//! release.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::Reading;
use crate::error::Error;
use crate::lease::LossReason;
use crate::protocol::replies;
use crate::session::cleanup_queue::{Cleanup, CleanupPending, Release};
use crate::session::core::{Core, Handle};
use crate::session::deadline::{HoldIdentity, HoldTerms};
use crate::session::hold::{Hold, LeaveOutcome};
use crate::session::hold_table::FieldConflict;
use crate::session::poll_watch::{Caller, CancelledAsUnpolled};
use crate::session::release::{Path, hand_over, lost_before_its_release};
use crate::session::request::{Request, run_watched};
use crate::session::waiter::Audience;
use crate::stats::count;
use crate::timer;
use crate::transport::CallError;

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
    pub(super) fn granted(
        handle: &Arc<Handle>,
        request: &Request,
        hold: &Arc<Hold>,
        clock: &Reading,
    ) -> Self {
        let share = HoldShare::new(handle.clone(), hold.clone(), request.terms);
        let telemetry = &handle.core().calls.settings.telemetry;
        hold.observe(telemetry, clock.moment());
        handle.core().hold_table.arm_by(hold, None, clock);
        handle.core().describe(hold, request.description.as_ref());
        share
    }

    /// Takes over a hold that a release handed over in memory. Renewals and re-entry begin only
    /// here, once the caller really has the hold.
    pub(super) fn pick_up(&self, request: &Request) {
        // Pick it up before arming the watchdog, which does not renew it until then. The thread
        // that handed it over may not have noted it in the table yet.
        if self.hold.pick_up() {
            self.handle.core().hold_table.arm(&self.hold, None);
        }
        self.handle
            .core()
            .describe(&self.hold, request.description.as_ref());
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// The caller gets its guard.
    pub(crate) fn record_taker(&self) {
        self.hold.set_taken_by(Caller::current());
    }

    pub(super) fn terms(&self) -> HoldTerms {
        self.terms
    }

    /// Returns the share unless the client was shut down in the meantime. In that case the hold is
    /// lost.
    pub(crate) fn unless_closed(self) -> Result<Self, Error> {
        if self.handle.core().lose_if_closed(&self.hold) {
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
        let watch =
            |release: PendingRelease| handle.session.poll_watch.run_now(release.carry_out());
        let in_flight = self.leave().map(|release| release.map(watch));
        async move {
            let Some(release) = in_flight? else {
                return Ok(());
            };
            match release.await {
                Ok(done) => done,
                // A caller that stops polling leaves the release to the background.
                Err(CancelledAsUnpolled) => settled_elsewhere(handle.core(), &hold).await,
            }
        }
    }

    /// Removes the guard from the hold. Returns the release that Redis must still see, if any, or
    /// an error if the hold was lost.
    fn leave(&mut self) -> Result<Option<PendingRelease>, Error> {
        self.spent = true;
        let (handle, hold) = (&self.handle, &self.hold);
        // Keeps the session alive until the release is pending (CLEANUP-3).
        let pending = handle.core().cleanups.expect_one();
        match hold.leave(self.terms) {
            LeaveOutcome::Lost(reason) => {
                handle.core().lose(hold, reason.clone());
                Err(Error::lost(&hold.resource.name, reason))
            }
            LeaveOutcome::Inner => Ok(Some(PendingRelease::of_one_guard(handle, hold))),
            LeaveOutcome::Last if hand_over(handle.core(), hold, self.terms) => Ok(None),
            LeaveOutcome::Last => Ok(Some(PendingRelease::of_all(handle, hold, pending))),
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
            self.handle.core().hold_table.disarm(&self.hold);
            self.handle
                .core()
                .queues
                .vacate(&self.hold, Audience::NOBODY);
        }
        let_go
    }
}

/// Waits for a release that continues in the background.
async fn settled_elsewhere(core: &Core, hold: &Arc<Hold>) -> Result<(), Error> {
    lost_before_its_release(hold)?;
    let limit = core.calls.settings.command_timeout;
    if let Ok(done) = timer::timeout(limit, hold.settled()).await {
        return done;
    }
    let fault = core.calls.lost("it goes on in the background").await;
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

// A release that is owed because a guard is gone.
//
// A caller carries the release out and waits for it. A [`PendingRelease`] that is dropped before
// Redis has confirmed it posts itself, and the background task carries it out in the same way,
// and tries for longer.

/// A release that is still to be confirmed. Its drop sends it, and leaves the rest to the
/// background task.
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
        let pending = handle.core().cleanups.expect_one();
        Self::new(handle, Release::of_one_guard(hold.clone()), pending)
    }

    /// A call that raises the count is about to be sent.
    pub(crate) fn of_reentry(handle: &Arc<Handle>, hold: &Arc<Hold>) -> Self {
        let mut pending = Self::of_one_guard(handle, hold);
        pending.sent = true;
        pending
    }

    /// The last guard is gone.
    pub(crate) fn of_all(handle: &Arc<Handle>, hold: &Arc<Hold>, pending: CleanupPending) -> Self {
        Self::new(handle, Release::of_all(hold.clone()), pending)
    }

    fn new(handle: &Arc<Handle>, release: Release, pending: CleanupPending) -> Self {
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
        let core = handle.core();
        self.sent = true;
        // CANCEL: the drop of `self` posts the release. Executing it twice changes nothing.
        match self
            .release
            .carry_out(core, &mut Path::of_caller(&core.calls))
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
            self.release.mark_in_doubt();
        }
        let (core, release) = (self.handle.core(), self.release.clone());
        let sent_release = release.send_first_call(core);
        core.cleanups.post(Cleanup::Release {
            release,
            sent_release,
        });
    }
}

// Operations on a hold that already exists: re-enter, extend, restore.

/// Raises the count of a hold. `None` if the hold turns out to be lost.
pub(super) async fn raise(
    handle: &Arc<Handle>,
    request: &Request,
    hold: &Arc<Hold>,
) -> Result<Option<HoldShare>, Error> {
    let core = handle.core();
    let mut retry = None;
    loop {
        let Some(guards) = hold.join(request.terms) else {
            return Ok(None);
        };
        // CANCEL: dropped in this order, `share` leaves the hold, and `open` then queues the count
        // that is right without it.
        let open = PendingRelease::of_reentry(handle, hold);
        let share = HoldShare::new(handle.clone(), hold.clone(), request.terms);
        let limit = request.limit(&core.calls);
        request.observer.asks();
        match ask_redis_again(core, hold, request.terms.first_lease(), guards, limit).await {
            Ok(true) if hold.loss().is_none() => {
                open.not_needed();
                count(&core.calls.counters.reentered);
                return Ok(Some(share));
            }
            // The hold is gone, or the reply came after its lease had ended.
            Ok(_) => {
                open.not_needed();
                return Ok(None);
            }
            Err(error) => {
                drop(share);
                drop(open);
                request.ride_out(&core.calls, &mut retry, error).await?;
            }
        }
    }
}

/// Asks Redis for a count and a lease of a hold. If the hold is gone, marks it as lost and returns
/// false.
async fn ask_redis_again(
    core: &Core,
    hold: &Arc<Hold>,
    lease: Duration,
    guards: u32,
    limit: Option<Instant>,
) -> Result<bool, CallError> {
    let sent = core.calls.now();
    hold.asks_for(lease);
    let call = hold.resource.reenter(&hold.field, lease, guards);
    let there = replies::still_held(core.calls.call_until(limit, call).await?)?;
    if there {
        hold.confirmed(&core.calls.settings.telemetry.harness, sent, lease);
        core.hold_table.arm(hold, None);
    } else {
        core.lose(hold, LossReason::Gone);
    }
    Ok(there)
}

/// Makes a guard for a hold of a string lock from its value. Two programs that restore the same
/// value both have the hold.
pub(crate) async fn restore(
    handle: &Arc<Handle>,
    request: Request,
    field: Arc<str>,
) -> Result<HoldShare, Error> {
    run_watched(handle, request, move |handle, request| {
        let field = field.clone();
        async move { restore_once(&handle, &request, field).await }
    })
    .await
}

async fn restore_once(
    handle: &Arc<Handle>,
    request: &Request,
    field: Arc<str>,
) -> Result<HoldShare, Error> {
    let core = handle.core();
    let (resource, terms) = (&request.resource, request.terms);
    // Announce the release before testing `is_closed`: either a shutdown waits for it, or it sees
    // the shutdown.
    let _pending = core.cleanups.expect_one();
    if core.calls.life.is_closed() {
        return Err(Error::Closed);
    }
    let identity = HoldIdentity {
        resource: resource.clone(),
        field,
        client: core.calls.client_id,
    };
    let (id, clock) = (core.calls.next_id(), &core.calls.settings.clock);
    let hold = Arc::new(Hold::new(id, identity, terms, clock, clock.now()));
    core.hold_table
        .arm_alone(&hold)
        .map_err(|taken| match taken {
            FieldConflict::Held => {
                let how = "by a guard of this client: it was not forgotten";
                Error::AlreadyHeld {
                    name: resource.name.clone(),
                    how,
                }
            }
            // The release that is on the wire would free the lock without this guard knowing.
            FieldConflict::UnderRelease => Error::NotOwner {
                name: resource.name.clone(),
            },
        })?;
    let harness = &core.calls.settings.telemetry.harness;
    harness.handed_on((&resource.key, &hold.field));
    // CANCEL: the value gave the hold to this client, so dropping the share releases it.
    let clock = core.calls.read_clock();
    let share = HoldShare::granted(handle, request, &hold, &clock).unless_closed()?;
    request.observer.asks();
    let there = ask_redis_again(core, &hold, terms.first_lease(), 1, None).await;
    match (there, hold.loss()) {
        (Ok(true), None) => Ok(share),
        (Ok(_), None | Some(LossReason::Gone | LossReason::Forced(_))) => Err(Error::NotOwner {
            name: resource.name.clone(),
        }),
        // The reply came after the lease had ended.
        (Ok(_), Some(reason)) => Err(Error::lost(&resource.name, reason)),
        (Err(error), _) => {
            if !matches!(error, CallError::Unknown(_)) {
                // Redis did nothing: the hold stays with those who know its value.
                share.let_go();
            }
            Err(request.failed(error))
        }
    }
}

/// Makes a hold last for at least `lease` from now.
pub(crate) async fn extend(
    handle: &Arc<Handle>,
    hold: &Arc<Hold>,
    lease: Duration,
) -> Result<(), Error> {
    let core = handle.core();
    let resource = &hold.resource;
    if let Some(reason) = hold.loss() {
        return Err(Error::lost(&resource.name, reason));
    }
    // CANCEL: the lease is extended or it is not. A longer lease in Redis only delays waiters.
    match ask_redis_again(core, hold, lease, hold.guards(), None).await {
        Ok(true) => Ok(()),
        Ok(false) => {
            let reason = hold.loss().unwrap_or(LossReason::Gone);
            Err(Error::lost(&resource.name, reason))
        }
        Err(error) => Err(Error::from_call(&resource.name, lease, error)),
    }
}
