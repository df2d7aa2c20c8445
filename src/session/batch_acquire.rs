//! Takes several locks of one client by one call: all of them or none.

use std::sync::Arc;

use super::Handle;
use super::attempt::Attempt;
use super::hold_share::HoldShare;
use super::holds::Holds;
use super::proofs::OwnerRelation;
use super::request::Request;
use crate::error::Error;
use crate::protocol::multi;
use crate::stats::count;
use crate::transport::{CallError, Lane};

/// Asks once for all locks. `None` if one of them is held, or if one call cannot take them all.
///
/// This function does not wait. A caller that waits takes the locks one after another.
pub(crate) async fn acquire_batch(
    handle: &Arc<Handle>,
    requests: &[Request],
) -> Result<Option<Vec<HoldShare>>, Error> {
    let holds = handle.holds();
    for Request { resource, wait, .. } in requests {
        holds
            .own_releases_over(&resource.key, wait.deadline())
            .await;
    }
    if holds.calls.life.is_closed() {
        return Err(Error::Closed);
    }
    if !fits_one_call(holds, requests) {
        return Ok(None);
    }
    // The lock that would stay longest stands for all of them in errors and limits.
    let Some(longest) = requests.iter().max_by_key(|one| one.terms.first_lease()) else {
        return Ok(None);
    };
    let mut attempts: Vec<_> = requests
        .iter()
        .map(|request| Attempt::new(holds, request))
        .collect();
    let sent = holds.calls.now();
    let Some(tokens) = ask_for_all(holds, &mut attempts, longest).await? else {
        return Ok(None);
    };
    let mut shares = Vec::with_capacity(requests.len());
    let mut late = None;
    for ((attempt, request), token) in attempts.iter_mut().zip(requests).zip(tokens) {
        match attempt.grant(sent, token) {
            Ok(hold) => shares.push(HoldShare::granted(handle, request, &hold)),
            // An attempt whose grant came too late undoes itself. The drop of the shares releases
            // the other locks.
            Err(error) => late = Some(request.failed(error)),
        }
    }
    if let Some(error) = late {
        return Err(error);
    }
    let closed = shares
        .iter()
        .filter(|share| holds.lose_if_closed(share.hold()));
    if closed.count() > 0 {
        return Err(Error::Closed);
    }
    count(&holds.calls.counters.acquired_at_once);
    Ok(Some(shares))
}

/// True if Redis can run one call with all the keys, and no waiter or owner of this client is in
/// the way.
fn fits_one_call(holds: &Holds, requests: &[Request]) -> bool {
    let keys = requests.iter().map(|request| &*request.resource.key);
    let is_free = |request: &Request| {
        matches!(request.relation(), OwnerRelation::Unrelated)
            && !holds.queues.is_occupied(&request.resource)
    };
    holds.calls.transport.run_as_one(keys) && requests.iter().all(is_free)
}

/// The fencing tokens of all locks. `None` if one of the locks is held.
async fn ask_for_all(
    holds: &Holds,
    attempts: &mut [Attempt<'_>],
    longest: &Request,
) -> Result<Option<Vec<Option<i64>>>, Error> {
    let questions: Vec<_> = attempts.iter_mut().map(Attempt::acquire_call).collect();
    let Some(call) = multi::acquire(&questions) else {
        return Ok(None);
    };
    let key = &longest.resource.key;
    let before = holds.calls.epoch_if_durable(Lane::Caller, key);
    // Begin before testing `is_closed`: either shutdown waits for the attempts, or they see that
    // the client is closed (CLEANUP-3).
    attempts.iter_mut().for_each(Attempt::begin);
    if holds.calls.life.is_closed() {
        return Err(Error::Closed);
    }
    // CANCEL: the drop of each attempt queues an undo behind this call.
    let reply = holds
        .calls
        .call_until(longest.limit(&holds.calls), call)
        .await;
    for attempt in &mut *attempts {
        attempt.end(&reply);
    }
    let value = match reply {
        Ok(value) => value,
        Err(CallError::Refused(fault)) if fault.is_cross_slot() => {
            holds.calls.transport.note_one_slot_only();
            return Ok(None);
        }
        Err(error) => return Err(longest.failed(error)),
    };
    let tokens = multi::tokens(value, attempts.len()).map_err(|unexpected| {
        // Some locks may be taken: the drop of each attempt undoes them.
        attempts.iter_mut().for_each(Attempt::is_not_understood);
        longest.failed(unexpected.into())
    })?;
    if before.is_some() && tokens.is_some() {
        // CANCEL: the drop of each attempt undoes its field.
        attempts.iter_mut().for_each(Attempt::begin);
        let durable = holds.calls.made_durable(Lane::Caller, key, before).await;
        for attempt in attempts {
            attempt.settle_durable(&durable);
        }
        durable.map_err(|error| longest.failed(error))?;
    }
    Ok(tokens)
}
