//! What happens to a hold that is there already: re-entered, extended, taken over by another client.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::hold::{Hold, Names};
use super::request::{Outage, Request};
use super::tenancy::{OpenCall, Tenancy};
use super::watchdog::Taken;
use super::{Handle, Session};
use crate::error::Error;
use crate::lease::LossReason;
use crate::protocol::kind::Kind;
use crate::protocol::replies::{self, TakenOver};
use crate::stats::count;
use crate::transport::CallError;

/// Raises the count of a hold; `None` if it turned out to be lost.
pub(super) async fn reenter(
    handle: &Arc<Handle>,
    request: &Request,
    hold: &Arc<Hold>,
) -> Result<Option<Tenancy>, Error> {
    let session = &*handle.session;
    let mut outage = Outage::new();
    loop {
        let Some(guards) = hold.join(request.terms) else { return Ok(None) };
        // CANCEL: the tenancy leaves again and, last, `open` queues the count that is right then.
        let open = OpenCall::new(session, hold);
        let tenancy = Tenancy::new(handle.clone(), hold.clone(), request.terms);
        let limit = request.limit(session);
        match confirm(session, hold, request.terms.lease, guards, limit).await {
            Ok(true) if hold.loss().is_none() => {
                open.settled();
                count(&session.counters.reentered);
                return Ok(Some(tenancy));
            }
            // It is gone, or the answer came when its lease had ended.
            Ok(_) => {
                open.settled();
                return Ok(None);
            }
            Err(error) => {
                drop(tenancy);
                drop(open);
                outage.ride_out(session, request, error).await?;
            }
        }
    }
}

/// Asks Redis for a count and a lease of a hold; false, and it is lost, if it is not there.
async fn confirm(
    session: &Session,
    hold: &Arc<Hold>,
    lease: Duration,
    guards: u32,
    limit: Option<Instant>,
) -> Result<bool, CallError> {
    let sent = Instant::now();
    hold.asks_for(lease);
    let call = hold.place.reenter(&hold.field, lease, guards);
    let there = replies::still_held(session.call_until(limit, call).await?)?;
    if there {
        hold.confirmed(sent, lease);
        session.watchdog.arm(hold, None);
    } else {
        session.lose(hold, LossReason::Gone);
    }
    Ok(there)
}

/// A granted hold becomes known to its owner and to the watchdog.
pub(super) fn settle(handle: &Arc<Handle>, request: &Request, hold: &Arc<Hold>) -> Tenancy {
    let tenancy = Tenancy::new(handle.clone(), hold.clone(), request.terms);
    request.owner.add(hold);
    handle.session.watchdog.arm(hold, None);
    tenancy
}

/// Takes over a hold that another guard let go.
pub(crate) async fn adopt(
    handle: &Arc<Handle>,
    request: &Request,
    field: &str,
) -> Result<Tenancy, Error> {
    let session = &*handle.session;
    if session.is_closed() {
        return Err(Error::Closed);
    }
    let (place, terms) = (&request.place, request.terms);
    let field: Arc<str> = Arc::from(field);
    let sent = Instant::now();
    let owner = request.owner.id();
    let (client, mutants) = (session.client_id, session.mutants);
    let names = Names { place: place.clone(), field: field.clone(), owner, client, mutants };
    let hold = Arc::new(Hold::new(session.next_id(), names, terms, sent));
    session.watchdog.arm_alone(&hold).map_err(|taken| match taken {
        Taken::Held => {
            let how = "by a guard of this client: it was not forgotten";
            Error::AlreadyHeld { name: place.name.clone(), how }
        }
        // What is on its way would free the lock behind our back.
        Taken::Ending => Error::lost(&place.name, LossReason::Gone),
    })?;
    // CANCEL: the hold was given to us; our drop releases it.
    let tenancy = settle(handle, request, &hold);
    if session.lose_if_closed(&hold) {
        return Err(Error::Closed);
    }
    let there = match confirm(session, &hold, terms.lease, 1, None).await {
        Ok(true) if place.kind == Kind::Fenced => learn_token(session, &hold).await,
        answer => answer,
    };
    match (there, hold.loss()) {
        (Ok(true), None) => {
            session.rooms.call_in(place, owner);
            Ok(tenancy)
        }
        // The answer may have come when its lease had ended.
        (Ok(_), loss) => Err(Error::lost(&place.name, loss.unwrap_or(LossReason::Gone))),
        (Err(error), _) => {
            if !matches!(error, CallError::Unknown(_)) {
                // Nothing was done: the hold stays with whoever knows its text.
                tenancy.let_go();
            }
            Err(request.failed(error))
        }
    }
}

/// A hold that is taken over from itself is told its token again; false, and it is lost, if it is
/// not there. An acquisition would be told, too, but one that is dropped may be executed after the
/// release, and would bring the hold back.
async fn learn_token(session: &Session, hold: &Arc<Hold>) -> Result<bool, CallError> {
    let call = hold.place.take_over(&hold.field, &hold.field, hold.longest_lease());
    let reply = session.call_until(None, call).await;
    let there = reply.and_then(|value| replies::taken_over(value).map_err(Into::into))?;
    if let TakenOver::Held(Some(token)) = there {
        hold.set_token(token);
        return Ok(true);
    }
    session.lose(hold, LossReason::Gone);
    Ok(false)
}

/// Makes a hold last at least `lease` from now.
pub(crate) async fn extend(
    handle: &Arc<Handle>,
    hold: &Arc<Hold>,
    lease: Duration,
) -> Result<(), Error> {
    let session = &*handle.session;
    let place = &hold.place;
    if let Some(reason) = hold.loss() {
        return Err(Error::lost(&place.name, reason));
    }
    // CANCEL: the lease is extended or not; a longer one in Redis harms nobody but waiters.
    match confirm(session, hold, lease, hold.guards(), None).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::lost(&place.name, LossReason::Gone)),
        Err(error) => Err(Error::from_call(&place.name, lease, error)),
    }
}
