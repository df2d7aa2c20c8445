//! Sends the calls of one release until Redis confirms it.

use std::time::Duration;

use super::early::Early;
use super::under_way::ReleaseUnderWay;
use crate::protocol::read_write;
use crate::protocol::replies::{self, Released};
use crate::protocol::resource::Resource;
use crate::protocol::{Call, Value};
use crate::session::calls::Calls;
use crate::session::hold::InDoubt;
use crate::session::holds::Holds;
use crate::session::retry::Retry;
use crate::stats::count;
use crate::timer::{Instant, sleep_until};
use crate::transport::{CallError, Lane};

const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Added to two leases: without any reply for that long, nothing is left to release.
const GIVE_UP_SLACK: Duration = Duration::from_secs(10);

/// How often one release asks for readers. Each call of the script looks at eight of them at least.
const TIDY_MAX: u32 = 16;

/// The pauses of the background task.
pub(super) fn patient() -> Retry {
    Retry::growing(PAUSE_FIRST, PAUSE_MAX)
}

/// The lane of a release, and how long it is repeated.
pub(super) struct Path {
    lane: Lane,
    retry: Retry,
    /// Each call waits for a slot, so that thousands of releases do not delay renewals.
    slots: bool,
    /// The first call, which is on its way.
    early: Option<Early>,
}

impl Path {
    /// A release that its caller waits for.
    pub(super) fn of_caller(calls: &Calls) -> Self {
        let retry = Retry::brief(calls.settings.command_timeout);
        Path {
            lane: Lane::Caller,
            retry,
            slots: false,
            early: None,
        }
    }

    /// A release that nobody waits for. It is repeated for as long as the lease may last
    /// (CLEANUP-1).
    pub(super) fn of_background(lane: Lane, lease: Duration) -> Self {
        let limit = Instant::now() + 2 * lease + GIVE_UP_SLACK;
        Path {
            lane,
            retry: patient().until(limit),
            slots: true,
            early: None,
        }
    }

    pub(super) fn after(self, early: Option<Early>) -> Self {
        Path { early, ..self }
    }

    pub(super) fn in_background(&self) -> bool {
        self.slots
    }

    /// Sends the call once, or waits for the one that is on its way. `None` if there is nothing to
    /// send.
    async fn send(
        &mut self,
        holds: &Holds,
        key: &str,
        call: &(impl Fn() -> Option<Call> + Send + Sync),
    ) -> Option<(Instant, Result<Value, CallError>)> {
        if let Some(early) = self.early.take() {
            return Some((early.sent, Box::pin(early.outcome()).await));
        }
        let slot = if self.slots {
            let node = holds.calls.transport.node_of(key);
            // Boxed, because the release of a caller would keep space for it.
            Some(Box::pin(holds.cleanups.slot(self.lane, node)).await)
        } else {
            None
        };
        let sent = Instant::now();
        // Build the call only now: guards may have come and gone while this release waited for its
        // slot.
        let reply = holds.calls.call(self.lane, call()?).await;
        drop(slot);
        Some((sent, reply))
    }
}

/// The reply that settles a release.
pub(super) struct Confirmed {
    pub(super) released: Released,
    /// An earlier call of the same release got no reply, and may have been executed.
    pub(super) in_doubt: bool,
    /// When the confirmed call was sent.
    pub(super) sent: Instant,
}

/// Sends `call` until its reply settles the release (CLEANUP-2). Ends without a release if `call`
/// returns `None`.
///
/// Calls `unreachable` after each failure.
pub(super) async fn confirm(
    holds: &Holds,
    path: &mut Path,
    resource: &Resource,
    call: impl Fn() -> Option<Call> + Send + Sync,
    doubt: Option<(InDoubt, &ReleaseUnderWay)>,
    mut unreachable: impl FnMut() + Send,
) -> Result<Confirmed, CallError> {
    let mut answered_since = None;
    loop {
        let outage = holds.calls.outages.next();
        let sent = path.send(holds, &resource.key, &call).await;
        let (now, Path { lane, retry, .. }) = (Instant::now(), &mut *path);
        let Some((sent, reply)) = sent else {
            return Ok(Confirmed {
                released: Released::StillHeld,
                in_doubt: retry.is_in_doubt(),
                sent: now,
            });
        };
        let confirmed = |released, in_doubt| Confirmed {
            released,
            in_doubt,
            sent,
        };
        if let Ok(reply @ Value::Array(_)) = &reply {
            Box::pin(tidy(holds, *lane, resource, reply.clone())).await;
        }
        match reply.and_then(|value| replies::released(value).map_err(Into::into)) {
            Ok(released) => {
                let settled = doubt.is_none_or(|(doubt, _)| {
                    holds.calls.transport.epoch(*lane, &resource.key) == doubt.epoch
                        || now >= *answered_since.get_or_insert(now) + doubt.lease
                });
                if settled {
                    return Ok(confirmed(released, retry.is_in_doubt()));
                }
                // The last repetition comes when the lease of a late attempt has certainly ended.
                let over = doubt
                    .zip(answered_since)
                    .map(|((doubt, under_way), since)| {
                        under_way.is_waited_for_no_more();
                        since + doubt.lease
                    });
                let next = now + retry.next_pause();
                Box::pin(sleep_until(over.map_or(next, |over| next.min(over)))).await;
            }
            // A key of another type cannot be what the attempt took.
            Err(CallError::Refused(fault)) if doubt.is_some() && fault.is_wrong_type() => {
                return Ok(confirmed(Released::Absent, retry.is_in_doubt()));
            }
            Err(error) => {
                unreachable();
                Box::pin(retry.pause(error, outage)).await?;
            }
        }
    }
}

/// Looks at the other readers of a lock, if the release could not.
///
/// CANCEL: the hold has ended. If this future is dropped, or a call fails, readers that have died count until a later
/// release, or until the key expires.
async fn tidy(holds: &Holds, lane: Lane, resource: &Resource, mut reply: Value) {
    let publish = holds.calls.publish_command(resource);
    for _ in 0..TIDY_MAX {
        let Some(call) = read_write::tidy(resource, publish, &reply) else {
            return;
        };
        let Ok(next) = holds.calls.call(lane, call).await else {
            return;
        };
        reply = next;
    }
}

/// The release is not repeated any more. If a server refused it, the field may stay in Redis for
/// `lease`.
pub(super) fn give_up(
    holds: &Holds,
    resource: &Resource,
    error: &CallError,
    lease: Option<Duration>,
) {
    if *error == CallError::Closed {
        return;
    }
    count(&holds.calls.counters.releases_failed);
    holds
        .calls
        .settings
        .telemetry
        .gave_up(resource.kind.label(), &resource.name);
    if let (CallError::Refused(fault), Some(lease)) = (error, lease)
        && !fault.is_wrong_type()
    {
        holds.cleanups.was_refused(Instant::now() + lease);
    }
}
