//! What each cleanup does until it is settled.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::Cleanup;
use crate::error::Error;
use crate::lease::LossReason;
use crate::protocol::replies::{self, Released};
use crate::protocol::resource::Resource;
use crate::protocol::{Call, Value, semaphore};
use crate::session::Session;
use crate::session::hold::{Hold, InDoubt};
use crate::session::retry::Retry;
use crate::stats::count;
use crate::transport::{CallError, Lane};

const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Beyond two leases without any answer there is nothing left to release.
const GIVE_UP_SLACK: Duration = Duration::from_secs(10);

pub(super) async fn settle(session: &Session, cleanup: Cleanup) {
    count(&session.counters.releases_queued);
    match cleanup {
        Cleanup::LowerCount(hold) => {
            lower_count(session, &hold).await;
            hold.call_settled();
        }
        Cleanup::Release(hold) => release(session, &hold).await,
        Cleanup::KeepPermits(hold) => keep_permits(session, &hold).await,
        Cleanup::End { hold, under_way: _under_way } => {
            let call = || session.end_call(&hold);
            end(session, &hold.resource, call, hold.longest_lease(), None, || {}).await;
            session.note_end(&hold);
        }
        Cleanup::Undo { resource, field, doubt, after, under_way: _under_way } => {
            if let Some(after) = after {
                tokio::select! {
                    biased;
                    () = sleep_until(after) => {}
                    // Nobody waits for that: what may yet come ends with its lease.
                    () = session.stopping() => return,
                }
            }
            let call = || session.release_call(&resource, &field, 0);
            end(session, &resource, call, doubt.lease, Some(doubt), || {}).await;
            session.note_release(&resource, &field, doubt.lease);
        }
    }
}

/// One call of a cleanup, as soon as there is a slot for it.
async fn send(session: &Session, lane: Lane, call: Call) -> Result<Value, CallError> {
    let _slot = session.cleanups.slot(lane, session.node_of(&call)).await;
    session.call(lane, call).await
}

fn retry() -> Retry {
    Retry::growing(PAUSE_FIRST, PAUSE_MAX)
}

/// Lowers the count until Redis confirms it. It is a nicety for other clients: the last release
/// does not depend on it.
async fn lower_count(session: &Session, hold: &Arc<Hold>) {
    let mut retry = retry();
    loop {
        let node = session.transport.group(&hold.resource.key).node;
        let slot = session.cleanups.slot(Lane::Caller, node).await;
        // Only now: guards may have gone while it waited.
        let guards = hold.guards();
        if guards == 0 || !hold.is_live() {
            // The field with its old count goes to no other owner.
            hold.call_in_doubt();
            return;
        }
        let call = session.release_call(&hold.resource, &hold.field, guards);
        let outage = session.subscriptions.outage();
        // The caller's lane: behind re-entries that were sent before.
        let reply = session.call(Lane::Caller, call).await;
        drop(slot);
        let error = match reply {
            Ok(reply) => {
                if matches!(replies::released(reply), Ok(Released::Absent)) {
                    // Unless its last guard went meanwhile.
                    session.lose(hold, LossReason::Gone);
                }
                return;
            }
            Err(error) => error,
        };
        if retry.pause(error, outage).await.is_err() {
            hold.call_in_doubt();
            give_up(session, &hold.resource);
            return;
        }
    }
}

async fn release(session: &Session, hold: &Arc<Hold>) {
    let sent_before = hold.release_sent();
    let call = || session.end_call(hold);
    let ended = end(session, &hold.resource, call, hold.longest_lease(), None, || {
        // Redis is out of reach: the next waiter may as well watch for itself.
        session.queues.vacate(hold, 0);
    });
    let receivers = match ended.await {
        End::Free { receivers } => receivers,
        End::Gone { in_doubt, sent } => {
            // An earlier release did it, unless the lease was over.
            if !(in_doubt || sent_before) || sent >= hold.deadline() {
                hold.release_failed(Error::lost(&hold.resource.name, LossReason::Gone));
            }
            0
        }
        End::Failed(error) => {
            let lease = hold.longest_lease();
            hold.release_failed(Error::from_call(&hold.resource.name, lease, error));
            0
        }
    };
    session.released(hold, receivers);
}

/// Takes permits for good, until that is confirmed or their lease is over.
async fn keep_permits(session: &Session, hold: &Hold) {
    let mut retry = retry().until(Instant::now() + hold.longest_lease());
    loop {
        let outage = session.subscriptions.outage();
        let call = semaphore::keep(&hold.resource, &hold.field);
        match send(session, Lane::Background, call).await {
            Ok(_) | Err(CallError::Closed) => return,
            Err(error) => {
                if retry.pause(error, outage).await.is_err() {
                    give_up(session, &hold.resource);
                    return;
                }
            }
        }
    }
}

fn give_up(session: &Session, resource: &Resource) {
    count(&session.counters.releases_failed);
    session.settings.telemetry.gave_up(resource.kind.label(), &resource.name);
}

/// How a release of the background ended.
enum End {
    /// Released; so many subscribers received the message.
    Free { receivers: i64 },
    /// The call that was sent then found nothing; perhaps an earlier one did it.
    Gone { in_doubt: bool, sent: Instant },
    /// Given up.
    Failed(CallError),
}

/// Releases a field until that is confirmed (Q1, Q2).
async fn end(
    session: &Session,
    resource: &Resource,
    call: impl Fn() -> Call,
    lease: Duration,
    doubt: Option<InDoubt>,
    mut unreachable: impl FnMut(),
) -> End {
    let lane = if doubt.is_some() { Lane::Caller } else { Lane::Background };
    let mut retry = retry().until(Instant::now() + 2 * lease + GIVE_UP_SLACK);
    let mut answered_since = None;
    loop {
        let outage = session.subscriptions.outage();
        let sent = Instant::now();
        let reply = send(session, lane, call()).await;
        let now = Instant::now();
        match reply.and_then(|value| replies::released(value).map_err(Into::into)) {
            Ok(released) => {
                let settled = doubt.is_none_or(|doubt| {
                    session.transport.epoch(lane, &resource.key) == doubt.epoch
                        || doubt.once && matches!(released, Released::Free { .. })
                        || now >= *answered_since.get_or_insert(now) + doubt.lease
                });
                if settled {
                    let in_doubt = retry.is_in_doubt();
                    return match released {
                        Released::Free { receivers } => End::Free { receivers },
                        Released::StillHeld | Released::Absent => End::Gone { in_doubt, sent },
                    };
                }
                // The last repetition comes when a late attempt's lease is certainly over.
                let over = doubt.zip(answered_since).map(|(doubt, since)| since + doubt.lease);
                let next = now + retry.next_pause();
                sleep_until(over.map_or(next, |over| next.min(over))).await;
            }
            Err(CallError::Closed) => return End::Failed(CallError::Closed),
            Err(error) => {
                unreachable();
                // A key of another type is not what an attempt took, and not ours any more.
                let other_type =
                    matches!(&error, CallError::Refused(fault) if fault.is_wrong_type());
                if other_type && doubt.is_some() {
                    return End::Gone { in_doubt: retry.is_in_doubt(), sent };
                }
                if let Err(error) = retry.pause(error, outage).await {
                    give_up(session, resource);
                    if matches!(error, CallError::Refused(_)) && !other_type {
                        session.cleanups.was_refused(now + lease);
                    }
                    return End::Failed(error);
                }
            }
        }
    }
}
