//! A further guard for a caller that presents an existing one.

use std::sync::Arc;

use tokio::time::Instant;

use super::ask_aside;
use crate::error::Error;
use crate::lease::LossReason;
use crate::session::attendance::Patience;
use crate::session::existing_hold::raise;
use crate::session::for_caller::for_caller;
use crate::session::hold::Hold;
use crate::session::proofs::{OwnerRelation, Proofs};
use crate::session::request::Request;
use crate::session::wait::Wait;
use crate::session::{Handle, HoldShare};

/// Adds a share to the hold of `shown`, with the same lease. A read lock takes a hold of its own
/// instead.
pub(crate) async fn reenter(shown: &HoldShare) -> Result<HoldShare, Error> {
    let handle = shown.handle();
    let (holds, resource) = (handle.holds(), shown.hold().resource.clone());
    if !resource.kind.is_lock() {
        let how = "and permits are not re-entrant: acquire more of them";
        return Err(Error::AlreadyHeld {
            name: resource.name.clone(),
            how,
        });
    }
    let mut patience = Patience::FIRST;
    loop {
        let proofs = Proofs(vec![shown.hold().clone()]);
        let wait = Wait::Until(Instant::now() + holds.calls.settings.command_timeout);
        let mut request = Request::new(&holds.calls, resource.clone(), proofs, shown.terms(), wait);
        request.patience = patience;
        match reenter_shown(handle, request, shown.hold().clone()).await {
            // The caller did not poll in time, and polls again now: start over.
            Err(Error::Timeout { .. }) => patience = patience.doubled(),
            done => return done,
        }
    }
}

/// Fails with a timeout only if its caller did not poll it in time.
async fn reenter_shown(
    handle: &Arc<Handle>,
    request: Request,
    shown: Arc<Hold>,
) -> Result<HoldShare, Error> {
    for_caller(handle, request, move |handle, request| {
        let shown = shown.clone();
        async move {
            let again = match request.relation() {
                OwnerRelation::Nested(hold) => raise(&handle, &request, &hold).await?,
                OwnerRelation::Concurrent => ask_aside(&handle, &request).await?,
                OwnerRelation::WouldDeadlock(how) => {
                    return Err(Error::AlreadyHeld {
                        name: request.resource.name.clone(),
                        how,
                    });
                }
                OwnerRelation::Unrelated => None,
            };
            // A re-entry never waits for the lock. Without a share, the presented hold must have
            // been lost.
            let lost = || shown.loss().unwrap_or(LossReason::Gone);
            again
                .ok_or_else(|| Error::lost(&request.resource.name, lost()))?
                .unless_closed()
        }
    })
    .await
}
