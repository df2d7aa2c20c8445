//! One guard's share in a hold.
//!
//! A share is an obligation: it ends in [`HoldShare::release`], or its drop queues the same release.

use std::fmt;
use std::sync::Arc;

use super::attendance::{Attended, PassedOver};
use super::hold::{Heir, Hold, HoldTerms, Left};
use super::local_queue::Departure;
use super::release::cleanup::Cleanup;
use super::release::departure::depart;
use super::release::leaving::{Leaving, release_hold};
use super::release::open_call::{OpenCall, lower_count};
use super::request::Request;
use super::{Handle, Session};
use crate::error::Error;
use crate::transport::{CallError, Fault};

pub(crate) struct HoldShare {
    handle: Arc<Handle>,
    hold: Arc<Hold>,
    terms: HoldTerms,
    /// The share was already given back.
    spent: bool,
}

impl HoldShare {
    pub(crate) fn new(handle: Arc<Handle>, hold: Arc<Hold>, terms: HoldTerms) -> Self {
        HoldShare { handle, hold, terms, spent: false }
    }

    /// The first share in a hold that was granted, which becomes known to the watchdog, and to its `Owner`
    /// if it has one.
    pub(super) fn granted(handle: &Arc<Handle>, request: &Request, hold: &Arc<Hold>) -> Self {
        let share = HoldShare::new(handle.clone(), hold.clone(), request.terms);
        hold.is_told_to(&handle.session.settings.telemetry);
        handle.session.watchdog.arm(hold, None);
        request.proofs.add(hold);
        handle.session.describe(hold, request.description.as_ref());
        share
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// It is given to its caller.
    pub(crate) fn begins_to_linger(&self) {
        if let Some(span) = self.terms.unlock_not_before {
            self.hold.unlock_not_before(span);
        }
    }

    pub(super) fn terms(&self) -> HoldTerms {
        self.terms
    }

    /// The share, unless the client was shut down meanwhile: then the hold is lost.
    pub(crate) fn unless_closed(self) -> Result<Self, Error> {
        if self.handle.session.lose_if_closed(&self.hold) {
            return Err(Error::Closed);
        }
        Ok(self)
    }

    /// Gives the share back at once; the future that it returns waits for Redis to confirm it.
    ///
    /// CANCEL: what is not polled to its end is settled in the background.
    pub(crate) fn release(mut self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        self.spent = true;
        let (handle, hold) = (self.handle.clone(), self.hold.clone());
        // Until it is posted, or in the hands of what is returned.
        let _pending = handle.session.cleanups.expect_one();
        let way = match self.hold.leave(self.terms) {
            Left::Lost(reason) => {
                handle.session.lose(&hold, reason);
                Way::Settled(Err(Error::lost(&hold.resource.name, reason)))
            }
            Left::Inner(guards) => {
                Way::Lowering(begin(&handle, lower_count(OpenCall::new(&handle, &hold), guards)))
            }
            Left::Last => match depart(&handle.session, &hold, self.terms) {
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
                            Err(Error::lost(&hold.resource.name, reason))
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

    /// Leaves the field to its heir: nothing here renews or releases it any more.
    ///
    /// False, and the share is released, if other guards of the hold live or it is lost.
    pub(crate) fn let_go(mut self, to: Heir) -> bool {
        let let_go = self.hold.hand_on(to);
        if let_go {
            self.spent = true;
            self.handle.session.watchdog.disarm(&self.hold);
            self.handle.session.queues.vacate(&self.hold, 0);
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
    Err(Error::from_call(&hold.resource.name, hold.longest_lease(), fault))
}

impl Drop for HoldShare {
    /// Never blocks, spawns or panics, and needs no runtime: it posts to the session.
    fn drop(&mut self) {
        if self.spent {
            return;
        }
        let session = &*self.handle.session;
        let _pending = session.cleanups.expect_one();
        match self.hold.leave(self.terms) {
            Left::Lost(reason) => session.lose(&self.hold, reason),
            Left::Inner(_) => {
                self.hold.call_sent();
                session.cleanups.post(Cleanup::LowerCount(self.hold.clone()));
            }
            Left::Last => match depart(session, &self.hold, self.terms) {
                Departure::HandedOver => {}
                Departure::Release => session.cleanups.post(Cleanup::Release(self.hold.clone())),
            },
        }
    }
}

impl fmt::Debug for HoldShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HoldShare").field("hold", &self.hold).finish_non_exhaustive()
    }
}
