//! Carries out one cleanup.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use crate::protocol::resource::Resource;
use crate::protocol::{Call, semaphore};
use crate::session::calls::ClientEnd;
use crate::session::cleanup_queue::Cleanup;
use crate::session::core::Core;
use crate::session::deadline::InDoubt;
use crate::session::hold::Hold;
use crate::session::in_flight_release::InFlightRelease;
use crate::session::release::{Path, confirm, give_up, patient};
use crate::stats::count;
use crate::timer::Instant;
use crate::transport::{CallError, Lane};

pub(super) async fn settle(core: &Core, cleanup: Cleanup) {
    count(&core.calls.counters.releases_queued);
    match cleanup {
        Cleanup::Release {
            release,
            sent_release,
        } => release.in_background(core, sent_release).await,
        Cleanup::KeepPermits(hold) => keep_permits(core, &hold).await,
        Cleanup::End {
            hold,
            in_flight: _in_flight,
        } => {
            let call = || core.end_call(&hold);
            end(core, &hold.resource, call, hold.longest_lease(), None).await;
        }
        Cleanup::Undo {
            resource,
            field,
            doubt,
            in_flight,
        } => {
            let call = || core.release_to_waiters(&resource, &field);
            let doubt = (doubt, &in_flight);
            end(core, &resource, call, doubt.0.lease, Some(doubt)).await;
        }
    }
}

/// Ends what an attempt or a lost hold may have left behind. The result does not matter.
async fn end(
    core: &Core,
    resource: &Resource,
    call: impl Fn() -> Call + Send + Sync,
    lease: Duration,
    doubt: Option<(InDoubt, &InFlightRelease)>,
) {
    let lane = if doubt.is_some() {
        Lane::Caller
    } else {
        Lane::Background
    };
    let mut path = Path::of_background(lane, lease);
    if let Err(error) = confirm(core, &mut path, resource, || Some(call()), doubt, || {}).await {
        give_up(core, resource, &error, Some(lease));
    }
}

/// Takes permits for good, until Redis confirms that or their lease is over.
async fn keep_permits(core: &Core, hold: &Hold) {
    let mut retry = patient().until(Instant::now() + hold.longest_lease());
    loop {
        let outage = core.calls.outages.next();
        let node = core.calls.transport.node_of(&hold.resource.key);
        let slot = core.cleanups.slot(Lane::Background, node).await;
        let call = semaphore::keep(&hold.resource, &hold.field);
        let reply = core.calls.call(Lane::Background, call).await;
        drop(slot);
        match reply {
            Ok(_) | Err(CallError::Closed) => return,
            Err(error) => {
                if let Err(error) = retry.pause(error, outage).await {
                    give_up(core, &hold.resource, &error, None);
                    return;
                }
            }
        }
    }
}

/// Settles cleanups until the session is stopping and nothing is left to settle.
pub(crate) async fn run(core: &Core) -> ClientEnd {
    let cleanups = &core.cleanups;
    let Some(mut queue) = cleanups.receiver.lock().take() else {
        return ClientEnd::Unsettled;
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
                    working.push(settle(core, cleanup));
                }
            }
            () = core.calls.life.stopping(), if !stopping => stopping = true,
            () = cleanups.expected.fewer.notified(), if stopping => {}
        }
        // Read `expected` before testing the queue: an expected cleanup is posted first and
        // unexpected afterwards, so if none is expected, all are in the queue.
        let expected = cleanups.expected.number.load(SeqCst);
        if stopping && expected == 0 && working.is_empty() && queue.is_empty() {
            return if cleanups.may_have_left_holds() {
                ClientEnd::Unsettled
            } else {
                ClientEnd::Settled
            };
        }
    }
}
