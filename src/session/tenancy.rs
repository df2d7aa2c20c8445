//! One guard's share in a hold, and the one release path of all kinds.
//!
//! A tenancy is an obligation: it ends in [`Tenancy::release`], or its drop queues the same release.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::hold::{Hold, Left, Terms};
use super::releases::Chore;
use super::room::Departure;
use super::{Handle, Session};
use crate::error::Error;
use crate::lease::LossReason;
use crate::mutant::Mutant;
use crate::protocol::replies::{self, Released};
use crate::transport::{CallError, Lane};

pub(crate) struct Tenancy {
    handle: Arc<Handle>,
    hold: Arc<Hold>,
    terms: Terms,
    /// The share was already given back.
    spent: bool,
}

impl Tenancy {
    pub(crate) fn new(handle: Arc<Handle>, hold: Arc<Hold>, terms: Terms) -> Self {
        Tenancy { handle, hold, terms, spent: false }
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// Gives the share back and waits for Redis to confirm it.
    ///
    /// CANCEL: once this is polled, the release is settled in the background if it is dropped.
    pub(crate) async fn release(mut self) -> Result<(), Error> {
        self.spent = true;
        let session = &*self.handle.session;
        match self.hold.leave(self.terms) {
            Left::Lost(reason) => {
                session.lose(&self.hold, reason);
                Err(Error::lost(&self.hold.place.name, reason))
            }
            Left::Inner(_) if session.mutants.has(Mutant::InnerReleaseEnds) => {
                release_hold(session, &self.hold).await
            }
            Left::Inner(guards) => lower(session, &self.hold, guards).await,
            Left::Last => match depart(&self.handle, &self.hold, self.terms) {
                Departure::HandedOver => Ok(()),
                Departure::Release => release_hold(session, &self.hold).await,
            },
        }
    }

    /// Leaves the field to its lease: nothing renews or releases it any more.
    ///
    /// False, and the share is released, if other guards of the hold live.
    pub(crate) fn let_go(mut self) -> bool {
        if self.hold.guards() > 1 {
            return false;
        }
        self.spent = true;
        if self.hold.lose(LossReason::HandedOn) {
            self.handle.session.watchdog.disarm(&self.hold);
            self.handle.session.rooms.vacate(&self.hold, 0);
        }
        true
    }
}

impl Drop for Tenancy {
    /// Never blocks, spawns or panics, and needs no runtime: it posts to the session.
    fn drop(&mut self) {
        let session = &*self.handle.session;
        if self.spent || session.mutants.has(Mutant::DropForgotten) {
            return;
        }
        match self.hold.leave(self.terms) {
            Left::Lost(reason) => session.lose(&self.hold, reason),
            Left::Inner(_) => {
                self.hold.call_sent();
                session.releases.post(Chore::Lower(self.hold.clone()));
            }
            Left::Last => match depart(&self.handle, &self.hold, self.terms) {
                Departure::HandedOver => {}
                Departure::Release => session.releases.post(Chore::Release(self.hold.clone())),
            },
        }
    }
}

impl fmt::Debug for Tenancy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenancy").field("hold", &self.hold).finish_non_exhaustive()
    }
}

/// The last guard is gone: out of the watchdog's table, then to the next local waiter if may be.
fn depart(handle: &Arc<Handle>, hold: &Arc<Hold>, terms: Terms) -> Departure {
    let session = &*handle.session;
    hold.ends(session.watchdog.ending(&hold.place, &hold.field));
    if !session.mutants.has(Mutant::DisarmAfterRelease) {
        session.watchdog.disarm(hold);
    }
    session.rooms.depart(hold, terms, |owner, next| {
        let passed = Arc::new(hold.handed_over(session.next_id(), owner, next));
        session.watchdog.arm(&passed, None);
        hold.has_ended();
        Tenancy::new(handle.clone(), passed, next)
    })
}

/// A partial release. The lease stays as it is.
async fn lower(session: &Session, hold: &Arc<Hold>, guards: u32) -> Result<(), Error> {
    let place = &hold.place;
    let call = session.release_call(place, &hold.field, guards);
    let open = OpenCall::new(session, hold);
    // CANCEL: `open` queues a repetition.
    let reply = session.call(Lane::Caller, call).await;
    match reply.and_then(|value| replies::released(value).map_err(Into::into)) {
        Ok(Released::Absent) => {
            open.settled();
            session.lose(hold, LossReason::Gone);
            Err(Error::lost(&place.name, LossReason::Gone))
        }
        Ok(Released::StillHeld | Released::Free { .. }) => {
            open.settled();
            Ok(())
        }
        Err(error) => Err(Error::from_call(&place.name, hold.longest_lease(), error)),
    }
}

/// A re-entry or a partial release on the wire.
pub(crate) struct OpenCall<'a> {
    session: &'a Session,
    hold: &'a Arc<Hold>,
    settled: bool,
}

impl<'a> OpenCall<'a> {
    pub(crate) fn new(session: &'a Session, hold: &'a Arc<Hold>) -> Self {
        hold.call_sent();
        OpenCall { session, hold, settled: false }
    }

    pub(crate) fn settled(mut self) {
        self.settled = true;
    }
}

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        if self.settled {
            self.hold.call_settled();
        } else {
            self.hold.call_in_doubt();
            self.session.releases.post(Chore::Lower(self.hold.clone()));
        }
    }
}

/// The pause before a release whose outcome is not known is repeated.
const REPEAT_PAUSE: Duration = Duration::from_millis(10);

/// A release on the wire; dropped before it is settled, the background settles it.
struct Leaving<'a> {
    session: &'a Session,
    hold: &'a Arc<Hold>,
    settled: bool,
}

impl Leaving<'_> {
    fn settled(&mut self, told: i64) {
        self.settled = true;
        self.session.released(self.hold, told);
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.session.releases.post(Chore::Release(self.hold.clone()));
        }
    }
}

/// Ends the hold in Redis: one call, repeated within a command's time-out if its outcome is not
/// known or if it was not applied.
async fn release_hold(session: &Session, hold: &Arc<Hold>) -> Result<(), Error> {
    let place = &hold.place;
    let mut leaving = Leaving { session, hold, settled: false };
    let mut in_doubt = false;
    let mut repeat_until = None;
    loop {
        let sent = Instant::now();
        // CANCEL: `leaving` posts the release; repeating it changes nothing.
        let reply = session.call(Lane::Caller, session.end_call(hold)).await;
        match reply.and_then(|value| replies::released(value).map_err(Into::into)) {
            Ok(Released::Free { told }) => {
                leaving.settled(told);
                return Ok(());
            }
            // The first of two releases did it, unless the lease was over.
            Ok(_) if in_doubt && sent < hold.deadline() => {
                leaving.settled(0);
                return Ok(());
            }
            Ok(_) => {
                leaving.settled(0);
                session.count_loss();
                return Err(Error::lost(&place.name, LossReason::Gone));
            }
            Err(error @ (CallError::Unknown(_) | CallError::NotApplied(_))) => {
                let now = Instant::now();
                let limit = session.settings.command_timeout;
                let repeat_until = *repeat_until.get_or_insert(now + limit);
                in_doubt |= matches!(error, CallError::Unknown(_));
                if now >= repeat_until {
                    let error = if in_doubt { error.in_doubt() } else { error };
                    return Err(Error::from_call(&place.name, hold.longest_lease(), error));
                }
                // A lost connection is in use for a moment longer.
                let left = repeat_until - now;
                let pause = if in_doubt { left.min(REPEAT_PAUSE) } else { left };
                session.wakes.restored_within(pause).await;
            }
            Err(error) => return Err(Error::from_call(&place.name, hold.longest_lease(), error)),
        }
    }
}
