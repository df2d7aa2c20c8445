//! What each cleanup does until it is settled.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::Cleanup;
use crate::protocol::resource::Resource;
use crate::protocol::{Call, semaphore};
use crate::session::Session;
use crate::session::hold::{Hold, InDoubt};
use crate::session::release::confirm::{Path, confirm, give_up, patient};
use crate::stats::count;
use crate::transport::{CallError, Lane};

pub(super) async fn settle(session: &Session, cleanup: Cleanup) {
    count(&session.counters.releases_queued);
    match cleanup {
        Cleanup::Release(release) => release.in_background(session).await,
        Cleanup::KeepPermits(hold) => keep_permits(session, &hold).await,
        Cleanup::End {
            hold,
            under_way: _under_way,
        } => {
            let call = || session.end_call(&hold);
            end(session, &hold.resource, call, hold.longest_lease(), None).await;
            session.note_end(&hold);
        }
        Cleanup::Undo {
            resource,
            field,
            doubt,
            after,
            under_way: _under_way,
        } => {
            if let Some(after) = after {
                tokio::select! {
                    biased;
                    () = sleep_until(after) => {}
                    // Nobody waits for that: what may yet come ends with its lease.
                    () = session.stopping() => return,
                }
            }
            let call = || session.release_call(&resource, &field, 0);
            end(session, &resource, call, doubt.lease, Some(doubt)).await;
            session.note_release(&resource, &field, doubt.lease);
        }
    }
}

/// Ends what an attempt or a lost hold may have left; what it finds matters to nobody.
async fn end(
    session: &Session,
    resource: &Resource,
    call: impl Fn() -> Call + Send + Sync,
    lease: Duration,
    doubt: Option<InDoubt>,
) {
    let lane = if doubt.is_some() {
        Lane::Caller
    } else {
        Lane::Background
    };
    let path = Path::of_background(lane, lease);
    if let Err(error) = confirm(session, path, resource, || Some(call()), doubt, || {}).await {
        give_up(session, resource, &error, Some(lease));
    }
}

/// Takes permits for good, until that is confirmed or their lease is over.
async fn keep_permits(session: &Session, hold: &Hold) {
    let mut retry = patient().until(Instant::now() + hold.longest_lease());
    loop {
        let outage = session.subscriptions.outage();
        let node = session.transport.group(&hold.resource.key).node();
        let slot = session.cleanups.slot(Lane::Background, node).await;
        let call = semaphore::keep(&hold.resource, &hold.field);
        let reply = session.call(Lane::Background, call).await;
        drop(slot);
        match reply {
            Ok(_) | Err(CallError::Closed) => return,
            Err(error) => {
                if let Err(error) = retry.pause(error, outage).await {
                    give_up(session, &hold.resource, &error, None);
                    return;
                }
            }
        }
    }
}
