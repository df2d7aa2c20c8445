//! Lowers a hold to its remaining guards, or ends it.
//!
//! A caller and the background task do this in the same way. The background task only tries for
//! longer.

use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::lease::LossReason;
use crate::protocol::replies::{self, Released};
use crate::protocol::resource::Resource;
use crate::protocol::{Call, Value, read_write};
use crate::session::calls::Calls;
use crate::session::cleanup_queue::{Release, ReleaseTarget, SentRelease};
use crate::session::core::Core;
use crate::session::deadline::{HoldTerms, InDoubt};
use crate::session::hold::Hold;
use crate::session::in_flight_release::InFlightRelease;
use crate::session::retry::Retry;
use crate::session::waiter::Audience;
use crate::stats::count;
use crate::timer::{Instant, sleep_until};
use crate::transport::{CallError, Lane, rarely};

impl Release {
    /// One of several guards is gone.
    pub(super) fn of_one_guard(hold: Arc<Hold>) -> Self {
        Release {
            hold,
            to: ReleaseTarget::RemainingGuards,
        }
    }

    /// The last guard is gone.
    pub(crate) fn of_all(hold: Arc<Hold>) -> Self {
        Release {
            hold,
            to: ReleaseTarget::NoGuards,
        }
    }

    pub(super) fn hold(&self) -> &Hold {
        &self.hold
    }

    /// Sends the first call of a last release.
    pub(super) fn send_first_call(&self, core: &Core) -> Option<SentRelease> {
        match self.to {
            // It frees nothing, so it has time.
            ReleaseTarget::RemainingGuards => None,
            ReleaseTarget::NoGuards => SentRelease::send(core, &self.hold),
        }
    }

    /// A call was sent and its outcome is unknown.
    pub(super) fn mark_in_doubt(&self) {
        if self.to == ReleaseTarget::RemainingGuards {
            self.hold.call_in_doubt();
        }
    }

    /// Repeats the release until Redis confirms it or the lease has certainly ended (CLEANUP-1).
    pub(super) async fn in_background(&self, core: &Core, sent_release: Option<SentRelease>) {
        let (hold, lease) = (&self.hold, self.hold.longest_lease());
        let lane = match self.to {
            // Behind re-entries that were sent before on the same lane.
            ReleaseTarget::RemainingGuards => Lane::Caller,
            ReleaseTarget::NoGuards => Lane::Background,
        };
        let mut path = Path::of_background(lane, lease).after(sent_release);
        let Err(error) = self.carry_out(core, &mut path).await else {
            return;
        };
        match self.to {
            ReleaseTarget::RemainingGuards => {
                give_up(core, &hold.resource, &error, None);
                hold.call_in_doubt();
                hold.call_settled();
            }
            ReleaseTarget::NoGuards => {
                give_up(core, &hold.resource, &error, Some(lease));
                hold.release_failed(Error::from_call(&hold.resource.name, lease, error));
                core.released(hold, Audience::NOBODY);
            }
        }
    }

    /// The outer result is an error if the release was not confirmed and must be tried again. The
    /// inner result is what the caller of `unlock` gets.
    pub(super) async fn carry_out(
        &self,
        core: &Core,
        path: &mut Path,
    ) -> Result<Result<(), Error>, CallError> {
        match self.to {
            ReleaseTarget::RemainingGuards => self.lower(core, path).await,
            ReleaseTarget::NoGuards => self.end(core, path).await,
        }
    }

    /// Lowers the count and leaves the lease as it is. Only other clients look at the count; the
    /// last release does not depend on it.
    async fn lower(&self, core: &Core, path: &mut Path) -> Result<Result<(), Error>, CallError> {
        let hold = &self.hold;
        let call = || {
            let guards = hold.guards();
            if guards == 0 || !hold.is_live() {
                // Redis may keep an old count, and such a field must not pass to another owner.
                hold.call_in_doubt();
                return None;
            }
            Some(core.calls.release_call(&hold.resource, &hold.field, guards))
        };
        let Confirmed { released, .. } =
            confirm(core, path, &hold.resource, call, None, || {}).await?;
        hold.call_settled();
        // The release of the last guard may have overtaken this call.
        if released == Released::Absent && !hold.all_guards_left() {
            core.lose(hold, LossReason::Gone);
        }
        Ok(lost_before_its_release(hold))
    }

    async fn end(&self, core: &Core, path: &mut Path) -> Result<Result<(), Error>, CallError> {
        let hold = &self.hold;
        let sent_before = hold.release_sent();
        let in_background = path.in_background();
        let unreachable = || {
            if in_background {
                // Redis cannot be reached. Let the next local waiter ask for itself.
                core.queues.vacate(hold, Audience::NOBODY);
            }
        };
        let call = || Some(core.end_call(hold));
        let Confirmed {
            released,
            in_doubt,
            sent,
        } = confirm(core, path, &hold.resource, call, None, unreachable).await?;
        let (received_by, ended) = match released {
            Released::Free { receivers } => (Audience::Others(receivers), Ok(())),
            Released::FreeForUnlisted => (Audience::Unlisted, Ok(())),
            Released::HandedOver => {
                core.contention.note_other_client();
                (Audience::NOBODY, Ok(()))
            }
            // The first of two calls released the hold, unless its lease had ended by then.
            Released::StillHeld | Released::Absent
                if (in_doubt || sent_before) && sent < hold.deadline() =>
            {
                (Audience::NOBODY, Ok(()))
            }
            Released::StillHeld | Released::Absent => {
                let lost = Error::lost(&hold.resource.name, core.record_gone(hold));
                hold.release_failed(lost.clone());
                (Audience::NOBODY, Err(lost))
            }
        };
        core.released(hold, received_by);
        Ok(ended)
    }
}

/// An error if the hold was lost while it had guards.
pub(crate) fn lost_before_its_release(hold: &Hold) -> Result<(), Error> {
    match hold.loss() {
        Some(reason) if !hold.all_guards_left() => Err(Error::lost(&hold.resource.name, reason)),
        _ => Ok(()),
    }
}

// Sends the calls of one release until Redis confirms it.

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
    sent_release: Option<SentRelease>,
}

impl Path {
    /// A release that its caller waits for.
    pub(super) fn of_caller(calls: &Calls) -> Self {
        let retry = Retry::brief(calls.settings.command_timeout);
        Path {
            lane: Lane::Caller,
            retry,
            slots: false,
            sent_release: None,
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
            sent_release: None,
        }
    }

    pub(super) fn after(self, sent_release: Option<SentRelease>) -> Self {
        Path {
            sent_release,
            ..self
        }
    }

    pub(super) fn in_background(&self) -> bool {
        self.slots
    }

    /// Sends the call once, or waits for the one that is on its way. `None` if there is nothing to
    /// send.
    async fn send(
        &mut self,
        core: &Core,
        key: &str,
        call: &(impl Fn() -> Option<Call> + Send + Sync),
    ) -> Option<(Instant, Result<Value, CallError>)> {
        if let Some(sent_release) = self.sent_release.take() {
            return Some((sent_release.sent, rarely(sent_release.outcome()).await));
        }
        let slot = if self.slots {
            let node = core.calls.transport.node_of(key);
            Some(rarely(core.cleanups.slot(self.lane, node)).await)
        } else {
            None
        };
        let sent = Instant::now();
        // Build the call only now: guards may have come and gone while this release waited for its
        // slot. The block ends its life before the await, or the future would keep space for it.
        let reply = {
            let call = call()?;
            core.calls.call(self.lane, call)
        };
        let reply = reply.await;
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

/// Sends `call` until its reply settles the release (CLEANUP-2), in rounds of four steps:
///
/// 1. Look at the outages before the call, so that one that ends while the call fails is not
///    missed.
/// 2. Build the call only when it may be sent, because guards come and go in the meantime.
/// 3. If the release could not look at all other readers, look at them now: nobody does once this
///    has returned.
/// 4. Judge: a reply without doubt settles. With a doubt it settles only on the connection of the
///    doubtful call, or one lease after the first reply; until then the release is repeated. A
///    failure is repeated as long as the path allows.
///
/// Ends without a release if `call` returns `None`.
///
/// Calls `unreachable` after each failure.
pub(super) async fn confirm(
    core: &Core,
    path: &mut Path,
    resource: &Resource,
    call: impl Fn() -> Option<Call> + Send + Sync,
    doubt: Option<(InDoubt, &InFlightRelease)>,
    mut unreachable: impl FnMut() + Send,
) -> Result<Confirmed, CallError> {
    let mut answered_since = None;
    loop {
        let outage = core.calls.outages.next();
        let sent = path.send(core, &resource.key, &call).await;
        let Path { lane, retry, .. } = &mut *path;
        let Some((sent, reply)) = sent else {
            return Ok(Confirmed {
                released: Released::StillHeld,
                in_doubt: retry.is_in_doubt(),
                sent: Instant::now(),
            });
        };
        let confirmed = |released, in_doubt| Confirmed {
            released,
            in_doubt,
            sent,
        };
        if let Ok(reply @ Value::Array(_)) = &reply {
            rarely(tidy(core, *lane, resource, reply.clone())).await;
        }
        match reply.and_then(|value| replies::released(value).map_err(Into::into)) {
            Ok(released) => {
                let settled = doubt.is_none_or(|(doubt, _)| {
                    let now = Instant::now();
                    core.calls.transport.epoch(*lane, &resource.key) == doubt.epoch
                        || now >= *answered_since.get_or_insert(now) + doubt.lease
                });
                if settled {
                    return Ok(confirmed(released, retry.is_in_doubt()));
                }
                // The last repetition comes when the lease of a late attempt has certainly ended.
                let over = doubt
                    .zip(answered_since)
                    .map(|((doubt, in_flight), since)| {
                        in_flight.let_waiters_go();
                        since + doubt.lease
                    });
                let next = Instant::now() + retry.next_pause();
                rarely(sleep_until(over.map_or(next, |over| next.min(over)))).await;
            }
            // A key of another type cannot be what the attempt took.
            Err(CallError::Refused(fault)) if doubt.is_some() && fault.is_wrong_type() => {
                return Ok(confirmed(Released::Absent, retry.is_in_doubt()));
            }
            Err(error) => {
                unreachable();
                rarely(retry.pause(error, outage)).await?;
            }
        }
    }
}

/// Looks at the other readers of a lock, if the release could not.
///
/// CANCEL: the hold has ended. If this future is dropped, or a call fails, readers that have died
/// count until a later release, or until the key expires.
async fn tidy(core: &Core, lane: Lane, resource: &Resource, mut reply: Value) {
    let publish = core.calls.publish_command(resource);
    for _ in 0..TIDY_MAX {
        let Some(call) = read_write::tidy(resource, publish, &reply) else {
            return;
        };
        let Ok(next) = core.calls.call(lane, call).await else {
            return;
        };
        reply = next;
    }
}

/// The release is not repeated any more. If a server refused it, the field may stay in Redis for
/// `lease`.
pub(super) fn give_up(
    core: &Core,
    resource: &Resource,
    error: &CallError,
    lease: Option<Duration>,
) {
    if *error == CallError::Closed {
        return;
    }
    count(&core.calls.counters.releases_failed);
    core.calls
        .settings
        .telemetry
        .gave_up(resource.kind.label(), &resource.name);
    if let (CallError::Refused(fault), Some(lease)) = (error, lease)
        && !fault.is_wrong_type()
    {
        core.cleanups.record_refusal(Instant::now() + lease);
    }
}

// The first call of a release that nobody waits for.
//
// The drop of the guard itself passes it to the connection, so it often is in the socket before
// the program ends. The background task waits for its outcome, and repeats it if necessary.

impl SentRelease {
    /// Sends the release of a hold whose last guard is gone. `None` if there is no connection, or
    /// too many releases are in flight. Never blocks, and needs no runtime.
    pub(super) fn send(core: &Core, hold: &Hold) -> Option<Self> {
        let (calls, key) = (&core.calls, &hold.resource.key);
        let node = calls.transport.node_of(key);
        let slot = core.cleanups.free_slot(Lane::Background, node)?;
        let sent = Instant::now();
        let call = calls.send(Lane::Background, core.end_call(hold)).ok()?;
        Some(SentRelease { sent, call, slot })
    }

    pub(super) async fn outcome(self) -> Result<Value, CallError> {
        let outcome = self.call.outcome().await;
        drop(self.slot);
        outcome
    }
}

// Decides who gets the field when the last guard of a hold is gone.

/// Takes a hold out of the watchdog's table. True if the next local waiter gets it; otherwise it
/// must be released.
pub(crate) fn hand_over(core: &Core, hold: &Arc<Hold>, terms: HoldTerms) -> bool {
    hold.set_in_flight(core.hold_table.begin_release(&hold.resource, &hold.field));
    core.hold_table.disarm(hold);
    if core.calls.life.is_closed() {
        return false;
    }
    let pass = |next| Arc::new(hold.handed_over(core.calls.next_id(), next));
    let Some(passed) = core.queues.hand_over(hold, terms, pass) else {
        return false;
    };
    // Only now, because the queue was locked until here, and all of this calls foreign code
    // (FOREIGN-1).
    let clock = core.calls.read_clock();
    passed.observe(&core.calls.settings.telemetry, clock.moment());
    core.hold_table.arm_by(&passed, None, &clock);
    hold.passed_on();
    // A shutdown in the meantime may have collected holds before this one existed.
    core.lose_if_closed(&passed);
    true
}
