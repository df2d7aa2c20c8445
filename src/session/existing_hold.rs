//! Operations on a hold that already exists: re-enter, extend, restore.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Handle;
use super::for_caller::for_caller;
use super::hold::{Hold, HoldIdentity};
use super::hold_share::HoldShare;
use super::holds::Holds;
use super::holds::release::pending::PendingRelease;
use super::holds::watchdog::Taken;
use super::request::{Request, outage_retry};
use crate::error::Error;
use crate::lease::LossReason;
use crate::protocol::replies;
use crate::stats::count;
use crate::transport::CallError;

/// Raises the count of a hold. `None` if the hold turns out to be lost.
pub(super) async fn raise(
    handle: &Arc<Handle>,
    request: &Request,
    hold: &Arc<Hold>,
) -> Result<Option<HoldShare>, Error> {
    let holds = handle.holds();
    let mut retry = outage_retry();
    loop {
        let Some(guards) = hold.join(request.terms) else {
            return Ok(None);
        };
        // CANCEL: dropped in this order, `share` leaves the hold, and `open` then queues the count
        // that is right without it.
        let open = PendingRelease::of_reentry(handle, hold);
        let share = HoldShare::new(handle.clone(), hold.clone(), request.terms);
        let limit = request.limit(&holds.calls);
        request.observer.asks();
        match confirm(holds, hold, request.terms.first_lease(), guards, limit).await {
            Ok(true) if hold.loss().is_none() => {
                open.not_needed();
                count(&holds.calls.counters.reentered);
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
                request.ride_out(&holds.calls, &mut retry, error).await?;
            }
        }
    }
}

/// Asks Redis for a count and a lease of a hold. If the hold is gone, marks it as lost and returns
/// false.
async fn confirm(
    holds: &Holds,
    hold: &Arc<Hold>,
    lease: Duration,
    guards: u32,
    limit: Option<Instant>,
) -> Result<bool, CallError> {
    let sent = holds.calls.now();
    hold.asks_for(lease);
    let call = hold.resource.reenter(&hold.field, lease, guards);
    let there = replies::still_held(holds.calls.call_until(limit, call).await?)?;
    if there {
        hold.confirmed(&holds.calls.settings.telemetry.harness, sent, lease);
        holds.watchdog.arm(hold, None);
    } else {
        holds.lose(hold, LossReason::Gone);
    }
    Ok(there)
}

/// Makes a guard for a hold of a string lock from its value. Two programs that restore the same value both have the
/// hold.
pub(crate) async fn restore(
    handle: &Arc<Handle>,
    request: Request,
    field: Arc<str>,
) -> Result<HoldShare, Error> {
    for_caller(handle, request, move |handle, request| {
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
    let holds = handle.holds();
    let (resource, terms) = (&request.resource, request.terms);
    // Announce the release before testing `is_closed`: either a shutdown waits for it, or it sees
    // the shutdown.
    let _pending = holds.cleanups.expect_one();
    if holds.calls.life.is_closed() {
        return Err(Error::Closed);
    }
    let identity = HoldIdentity {
        resource: resource.clone(),
        field,
        client: holds.calls.client_id,
    };
    let (id, clock) = (holds.calls.next_id(), &holds.calls.settings.clock);
    let hold = Arc::new(Hold::new(id, identity, terms, clock, clock.now()));
    holds
        .watchdog
        .arm_alone(&hold)
        .map_err(|taken| match taken {
            Taken::Held => {
                let how = "by a guard of this client: it was not forgotten";
                Error::AlreadyHeld {
                    name: resource.name.clone(),
                    how,
                }
            }
            // The release that is on the wire would free the lock without this guard knowing.
            Taken::UnderRelease => Error::NotOwner {
                name: resource.name.clone(),
            },
        })?;
    let harness = &holds.calls.settings.telemetry.harness;
    harness.handed_on((&resource.key, &hold.field));
    // CANCEL: the value gave the hold to this client, so dropping the share releases it.
    let share = HoldShare::granted(handle, request, &hold).unless_closed()?;
    request.observer.asks();
    let there = confirm(holds, &hold, terms.first_lease(), 1, None).await;
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
    let holds = handle.holds();
    let resource = &hold.resource;
    if let Some(reason) = hold.loss() {
        return Err(Error::lost(&resource.name, reason));
    }
    // CANCEL: the lease is extended or it is not. A longer lease in Redis only delays waiters.
    match confirm(holds, hold, lease, hold.guards(), None).await {
        Ok(true) => Ok(()),
        Ok(false) => {
            let reason = hold.loss().unwrap_or(LossReason::Gone);
            Err(Error::lost(&resource.name, reason))
        }
        Err(error) => Err(Error::from_call(&resource.name, lease, error)),
    }
}
