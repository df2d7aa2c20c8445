//! One guard's share in a hold, and the one release path of all kinds.
//!
//! A tenancy is an obligation: it ends in [`Tenancy::release`], or its drop queues the same release.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::attendance::{Attended, PassedOver};
use super::hold::{Hold, Left, Terms};
use super::rejoin::reenter_shown;
use super::releases::{Chore, Owing};
use super::request::{Proofs, Request, Wait};
use super::room::Departure;
use super::{Handle, Session};
use crate::error::Error;
use crate::lease::LossReason;
use crate::protocol::replies::{self, Released};
use crate::transport::{CallError, Fault, Lane};

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

    /// The share, unless the client was shut down meanwhile: then the hold is lost.
    pub(crate) fn unless_closed(self) -> Result<Self, Error> {
        if self.handle.session.lose_if_closed(&self.hold) {
            return Err(Error::Closed);
        }
        Ok(self)
    }

    /// Gives the share back at once; what it returns waits for Redis to confirm it.
    ///
    /// CANCEL: what is not polled to its end is settled in the background.
    pub(crate) fn release(mut self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        self.spent = true;
        let (handle, hold) = (self.handle.clone(), self.hold.clone());
        // Until it is posted, or in the hands of what is returned.
        let _owing = handle.session.releases.owe();
        let way = match self.hold.leave(self.terms) {
            Left::Lost(reason) => {
                handle.session.lose(&hold, reason);
                Way::Settled(Err(Error::lost(&hold.place.name, reason)))
            }
            Left::Inner(guards) => {
                Way::Lowering(begin(&handle, lower(OpenCall::new(&handle, &hold), guards)))
            }
            Left::Last => match depart(&handle, &hold, self.terms) {
                Departure::HandedOver => Way::Settled(Ok(())),
                Departure::Release => {
                    Way::Ending(begin(&handle, release_hold(Leaving::new(&handle, &hold))))
                }
            },
        };
        async move {
            match way {
                Way::Settled(done) => done,
                Way::Lowering(lowered) => match lowered.await {
                    Ok(done) => done,
                    // It is a nicety, and goes on in the background.
                    Err(PassedOver) => match hold.loss() {
                        Some(reason) if !hold.was_left() => {
                            Err(Error::lost(&hold.place.name, reason))
                        }
                        _ => Ok(()),
                    },
                },
                Way::Ending(ended) => match ended.await {
                    Ok(done) => done,
                    Err(PassedOver) => settled_elsewhere(&handle.session, &hold).await,
                },
            }
        }
    }

    /// A further share in the same hold, with the same terms.
    pub(crate) async fn reenter(&self) -> Result<Tenancy, Error> {
        let (session, place) = (&self.handle.session, self.hold.place.clone());
        if !place.kind.is_lock() {
            let how = "and permits are not re-entrant: acquire more of them";
            return Err(Error::AlreadyHeld { name: place.name.clone(), how });
        }
        loop {
            let proofs = Proofs { holds: vec![self.hold.clone()], owner: None };
            let wait = Wait::Until(Instant::now() + session.settings.command_timeout);
            let request = Request::new(session, place.clone(), proofs, self.terms, wait);
            match reenter_shown(&self.handle, request, self.hold.clone()).await {
                // It was kept without being polled, and is polled again: its time begins again.
                Err(Error::Timeout { .. }) => {}
                done => return done,
            }
        }
    }

    /// Leaves the field to its lease, or to whoever takes it over: nothing renews or releases it any
    /// more.
    ///
    /// False, and the share is released, if other guards of the hold live or it is lost.
    pub(crate) fn let_go(mut self) -> bool {
        let let_go = self.hold.hand_on();
        if let_go {
            self.spent = true;
            self.handle.session.watchdog.disarm(&self.hold);
            self.handle.session.rooms.vacate(&self.hold, 0);
        }
        let_go
    }
}

/// What becomes of a share that was given back.
enum Way<L, E> {
    Settled(Result<(), Error>),
    Lowering(L),
    Ending(E),
}

/// Begins a release; a caller that stops polling leaves the rest to the background.
fn begin<F: Future + Send + 'static>(handle: &Arc<Handle>, work: F) -> Attended<F> {
    handle.session.attendance.attend_now(work)
}

/// The release of a hold went on in the background.
async fn settled_elsewhere(session: &Session, hold: &Arc<Hold>) -> Result<(), Error> {
    let limit = session.settings.command_timeout;
    if let Ok(done) = tokio::time::timeout(limit, hold.settled()).await {
        return done;
    }
    let fault = CallError::Unknown(Fault("it goes on in the background".into()));
    Err(Error::from_call(&hold.place.name, hold.longest_lease(), fault))
}

impl Drop for Tenancy {
    /// Never blocks, spawns or panics, and needs no runtime: it posts to the session.
    fn drop(&mut self) {
        let session = &*self.handle.session;
        if self.spent {
            return;
        }
        let _owing = session.releases.owe();
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
    session.watchdog.disarm(hold);
    if session.is_closed() {
        return Departure::Release;
    }
    let mut passed = None;
    let departure = session.rooms.depart(hold, terms, |next| {
        let next_hold = Arc::new(hold.handed_over(session.next_id(), next));
        session.watchdog.arm(&next_hold, None);
        passed = Some(next_hold.clone());
        Tenancy::new(handle.clone(), next_hold, next)
    });
    // A shutdown meanwhile may have looked for holds before this one was handed over.
    match (&departure, passed) {
        (_, Some(passed)) => {
            // Not before: whoever waits for that end is code of others.
            hold.has_ended();
            session.lose_if_closed(&passed);
        }
        (Departure::HandedOver, None) if session.is_closed() => session.recall(),
        (Departure::HandedOver | Departure::Release, None) => {}
    }
    departure
}

/// A partial release. The lease stays as it is.
async fn lower(open: OpenCall, guards: u32) -> Result<(), Error> {
    let (session, hold) = (open.session().clone(), open.hold.clone());
    let place = &hold.place;
    let call = session.release_call(place, &hold.field, guards);
    // CANCEL: `open` queues a repetition.
    let reply = session.call(Lane::Caller, call).await;
    match reply.and_then(|value| replies::released(value).map_err(Into::into)) {
        // The last guard's release overtook it.
        Ok(Released::Absent) if hold.was_left() => {
            open.settled();
            Ok(())
        }
        Ok(Released::Absent) => {
            open.settled();
            session.lose(&hold, LossReason::Gone);
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
pub(crate) struct OpenCall {
    handle: Arc<Handle>,
    hold: Arc<Hold>,
    settled: bool,
}

impl OpenCall {
    pub(crate) fn new(handle: &Arc<Handle>, hold: &Arc<Hold>) -> Self {
        hold.call_sent();
        OpenCall { handle: handle.clone(), hold: hold.clone(), settled: false }
    }

    fn session(&self) -> &Arc<Session> {
        &self.handle.session
    }

    pub(crate) fn settled(mut self) {
        self.settled = true;
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        if self.settled {
            self.hold.call_settled();
        } else {
            self.hold.call_in_doubt();
            self.handle.session.releases.post(Chore::Lower(self.hold.clone()));
        }
    }
}

/// The pause before a release whose outcome is not known is repeated.
const REPEAT_PAUSE: Duration = Duration::from_millis(10);

/// A release under way; dropped before it is settled, the background settles it.
struct Leaving {
    handle: Arc<Handle>,
    hold: Arc<Hold>,
    settled: bool,
    /// A session does not end before it is settled or posted.
    _owing: Owing,
}

impl Leaving {
    fn new(handle: &Arc<Handle>, hold: &Arc<Hold>) -> Self {
        let owing = handle.session.releases.owe();
        Leaving { handle: handle.clone(), hold: hold.clone(), settled: false, _owing: owing }
    }

    fn settled(&mut self, told: i64) {
        self.settled = true;
        self.handle.session.released(&self.hold, told);
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if !self.settled {
            self.handle.session.releases.post(Chore::Release(self.hold.clone()));
        }
    }
}

/// Ends the hold in Redis: one call, repeated within a command's time-out if its outcome is not
/// known or if it was not applied.
async fn release_hold(mut leaving: Leaving) -> Result<(), Error> {
    let (handle, hold) = (leaving.handle.clone(), leaving.hold.clone());
    let (session, place) = (&*handle.session, &hold.place);
    let mut in_doubt = false;
    let mut repeat_until = None;
    loop {
        let sent = Instant::now();
        let outage = session.wakes.outage();
        hold.release_sent();
        // CANCEL: `leaving` posts the release; repeating it changes nothing.
        let reply = session.call(Lane::Caller, session.end_call(&hold)).await;
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
                outage.over_within(pause).await;
            }
            Err(error) => return Err(Error::from_call(&place.name, hold.longest_lease(), error)),
        }
    }
}
