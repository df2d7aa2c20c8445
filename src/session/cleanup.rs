//! Carries out one cleanup.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use crate::protocol::resource::Resource;
use crate::protocol::{Call, semaphore};
use crate::session::calls::End;
use crate::session::cleanup_queue::Cleanup;
use crate::session::core::Holds;
use crate::session::deadline::InDoubt;
use crate::session::hold::Hold;
use crate::session::in_flight_release::ReleaseUnderWay;
use crate::session::release::{Path, confirm, give_up, patient};
use crate::stats::count;
use crate::timer::Instant;
use crate::transport::{CallError, Lane};

pub(super) async fn settle(holds: &Holds, cleanup: Cleanup) {
    count(&holds.calls.counters.releases_queued);
    match cleanup {
        Cleanup::Release { release, early } => release.in_background(holds, early).await,
        Cleanup::KeepPermits(hold) => keep_permits(holds, &hold).await,
        Cleanup::End {
            hold,
            under_way: _under_way,
        } => {
            let call = || holds.end_call(&hold);
            end(holds, &hold.resource, call, hold.longest_lease(), None).await;
        }
        Cleanup::Undo {
            resource,
            field,
            doubt,
            under_way,
        } => {
            let call = || holds.release_to_waiters(&resource, &field);
            let doubt = (doubt, &under_way);
            end(holds, &resource, call, doubt.0.lease, Some(doubt)).await;
        }
    }
}

/// Ends what an attempt or a lost hold may have left behind. The result does not matter.
async fn end(
    holds: &Holds,
    resource: &Resource,
    call: impl Fn() -> Call + Send + Sync,
    lease: Duration,
    doubt: Option<(InDoubt, &ReleaseUnderWay)>,
) {
    let lane = if doubt.is_some() {
        Lane::Caller
    } else {
        Lane::Background
    };
    let mut path = Path::of_background(lane, lease);
    if let Err(error) = confirm(holds, &mut path, resource, || Some(call()), doubt, || {}).await {
        give_up(holds, resource, &error, Some(lease));
    }
}

/// Takes permits for good, until Redis confirms that or their lease is over.
async fn keep_permits(holds: &Holds, hold: &Hold) {
    let mut retry = patient().until(Instant::now() + hold.longest_lease());
    loop {
        let outage = holds.calls.outages.next();
        let node = holds.calls.transport.node_of(&hold.resource.key);
        let slot = holds.cleanups.slot(Lane::Background, node).await;
        let call = semaphore::keep(&hold.resource, &hold.field);
        let reply = holds.calls.call(Lane::Background, call).await;
        drop(slot);
        match reply {
            Ok(_) | Err(CallError::Closed) => return,
            Err(error) => {
                if let Err(error) = retry.pause(error, outage).await {
                    give_up(holds, &hold.resource, &error, None);
                    return;
                }
            }
        }
    }
}

/// Settles cleanups until the session is stopping and nothing is left to settle.
pub(crate) async fn run(holds: &Holds) -> End {
    let cleanups = &holds.cleanups;
    let Some(mut queue) = cleanups.receiver.lock().take() else {
        return End::Unsettled;
    };
    let mut working = FuturesUnordered::new();
    let mut stopping = false;
    loop {
        tokio::select! {
            biased;
            // Work before the queue: each new cleanup is then polled while the task has cooperative
            // budget left. Without budget, every cleanup would be polled again and again in vain.
            Some(()) = working.next() => {
                cleanups.queued.fetch_sub(1, Relaxed);
            }
            cleanup = queue.recv() => {
                if let Some(cleanup) = cleanup {
                    working.push(settle(holds, cleanup));
                }
            }
            () = holds.calls.life.stopping(), if !stopping => stopping = true,
            () = cleanups.expected.fewer.notified(), if stopping => {}
        }
        // Read `expected` before testing the queue: an expected cleanup is posted first and
        // unexpected afterwards, so if none is expected, all are in the queue.
        let expected = cleanups.expected.number.load(SeqCst);
        if stopping && expected == 0 && working.is_empty() && queue.is_empty() {
            return if cleanups.may_have_left_holds() {
                End::Unsettled
            } else {
                End::Settled
            };
        }
    }
}
