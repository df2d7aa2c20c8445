//! Several locks of one client by one call: all of them or none.

use std::sync::Arc;

use super::Handle;
use super::attempt::Attempt;
use super::hold_share::HoldShare;
use super::request::{OwnerRelation, Request};
use crate::error::Error;
use crate::protocol::multi;
use crate::stats::count;
use crate::transport::Lane;

/// Asks once for all; `None` if one of them is in the way, or if this form does not fit.
///
/// It does not wait: a caller that waits takes them one after another.
pub(crate) async fn acquire_batch(
    handle: &Arc<Handle>,
    requests: &[Request],
) -> Result<Option<Vec<HoldShare>>, Error> {
    let session = &*handle.session;
    if session.is_closed() {
        return Err(Error::Closed);
    }
    let keys = requests.iter().map(|request| &*request.resource.key);
    if !session.transport.run_as_one(keys) {
        return Ok(None);
    }
    let fits = |request: &Request| {
        matches!(request.relation(), OwnerRelation::Unrelated)
            && !session.queues.is_occupied(&request.resource)
    };
    let Some(first) = requests.first().filter(|_| requests.iter().all(fits)) else {
        return Ok(None);
    };
    let mut attempts: Vec<_> = requests
        .iter()
        .map(|request| Attempt::new(session, request))
        .collect();
    let questions: Vec<_> = attempts.iter_mut().map(Attempt::acquire_call).collect();
    let Some(call) = multi::acquire(&questions) else {
        return Ok(None);
    };
    // Of all that one call may have taken, what stays longest counts.
    let longest = requests
        .iter()
        .max_by_key(|one| one.terms.first_lease())
        .unwrap_or(first);
    let key = &first.resource.key;
    let before = session.epoch_if_durable(Lane::Caller, key);
    let sent = session.clock.now();
    attempts.iter_mut().for_each(Attempt::begin);
    if session.is_closed() {
        return Err(Error::Closed);
    }
    // CANCEL: the drop of each attempt queues an undo behind this call.
    let reply = session.call_until(first.limit(session), call).await;
    for attempt in &mut attempts {
        attempt.end(&reply);
    }
    let number = requests.len();
    let value = reply.map_err(|error| longest.failed(error))?;
    let tokens = match multi::tokens(value, number) {
        Ok(Some(tokens)) => tokens,
        Ok(None) => return Ok(None),
        Err(unexpected) => {
            // Some of them may be taken: the drop of each attempt undoes it.
            attempts.iter_mut().for_each(Attempt::is_not_understood);
            return Err(longest.failed(unexpected.into()));
        }
    };
    if before.is_some() {
        // CANCEL: the drop of each attempt undoes its field.
        attempts.iter_mut().for_each(Attempt::begin);
        let durable = session.made_durable(Lane::Caller, key, before).await;
        for attempt in &mut attempts {
            attempt.settle_durable(&durable);
        }
        durable.map_err(|error| longest.failed(error))?;
    }
    let mut shares = Vec::with_capacity(number);
    let mut late = None;
    for ((attempt, request), token) in attempts.iter_mut().zip(requests).zip(tokens) {
        match attempt.grant(sent, token) {
            Ok(hold) => shares.push(HoldShare::granted(handle, request, &hold)),
            // One that comes too late undoes itself; the others are released by their drop.
            Err(error) => late = Some(request.failed(error)),
        }
    }
    if let Some(error) = late {
        return Err(error);
    }
    let closed = shares
        .iter()
        .filter(|share| session.lose_if_closed(share.hold()));
    if closed.count() > 0 {
        return Err(Error::Closed);
    }
    count(&session.counters.acquired_at_once);
    Ok(Some(shares))
}
