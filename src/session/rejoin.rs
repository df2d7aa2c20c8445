//! What happens to a hold that is there already: re-entered, extended, taken over by another client.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Handle;
use super::hold::{Hold, Names};
use super::request::{Outage, Request};
use super::tenancy::{OpenCall, Tenancy};
use crate::error::Error;
use crate::lease::LossReason;
use crate::protocol::lock;
use crate::stats::count;
use crate::transport::Lane;

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
        let lease = request.terms.lease;
        let sent = Instant::now();
        let call = lock::reenter(&request.place.key, &hold.field, lease, guards);
        let limit = request.limit(session);
        let reply = session.call_until(limit, call).await;
        match reply.and_then(|value| lock::still_held(value).map_err(Into::into)) {
            Ok(true) => {
                open.settled();
                hold.confirmed(sent, lease);
                session.watchdog.arm(hold, None);
                count(&session.counters.reentered);
                return Ok(Some(tenancy));
            }
            Ok(false) => {
                open.settled();
                session.lose(hold, LossReason::Gone);
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
    let names =
        Names { place: place.clone(), field: field.clone(), owner, mutants: session.mutants };
    let hold = Arc::new(Hold::new(session.next_id(), names, terms, sent));
    // CANCEL: the hold was given to us; our drop releases it.
    let tenancy = settle(handle, request, &hold);
    let call = lock::reenter(&place.key, &field, terms.lease, 1);
    let reply = session.call(Lane::Caller, call).await;
    match reply.and_then(|value| lock::still_held(value).map_err(Into::into)) {
        Ok(true) => Ok(tenancy),
        Ok(false) => {
            session.lose(&hold, LossReason::Gone);
            Err(Error::Lost { name: place.name.clone(), reason: LossReason::Gone })
        }
        Err(error) => Err(request.failed(error)),
    }
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
        return Err(Error::Lost { name: place.name.clone(), reason });
    }
    let sent = Instant::now();
    let call = lock::reenter(&place.key, &hold.field, lease, hold.guards());
    // CANCEL: the lease is extended or not; a longer one in Redis harms nobody but waiters.
    let reply = session.call(Lane::Caller, call).await;
    match reply.and_then(|value| lock::still_held(value).map_err(Into::into)) {
        Ok(true) => {
            hold.confirmed(sent, lease);
            session.watchdog.arm(hold, None);
            Ok(())
        }
        Ok(false) => {
            session.lose(hold, LossReason::Gone);
            Err(Error::Lost { name: place.name.clone(), reason: LossReason::Gone })
        }
        Err(error) => Err(Error::from_call(&place.name, lease, error)),
    }
}
