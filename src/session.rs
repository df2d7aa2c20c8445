//! What one client keeps alive: queues, wakes, watchdog, releases, and the transport below them.
//!
//! Public handles (client, lock, guard) share one [`Handle`]; when the last of them is gone the
//! session settles what is queued and ends. One background task serves all of it: on a thread and
//! a connection of its own on Redis, in the caller's runtime on the embedded engine.

pub(crate) mod acquire;
mod attempt;
pub(crate) mod attendance;
pub(crate) mod background;
mod beat;
mod ending;
#[cfg(feature = "test-util")]
pub(crate) mod gate;
pub(crate) mod hold;
pub(crate) mod once;
mod outcome;
mod pacing;
mod poll;
pub(crate) mod rejoin;
pub(crate) mod releases;
mod reply_times;
pub(crate) mod request;
mod room;
pub(crate) mod section;
pub(crate) mod several;
mod tenancy;
mod wake;
mod watchdog;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use uuid::Uuid;

use crate::error::Error;
use crate::lease::{Lease, LossReason};
use crate::protocol::place::Place;
use crate::protocol::{Call, Unexpected, Value};
use crate::stats::{Counters, Stats, count};
use crate::transport::{CallError, Fault, Lane, Transport};

use attendance::Attendance;
use hold::{Doubt, Hold};
use releases::{Chore, Releases};
use reply_times::ReplyTimes;
use room::Rooms;
use watchdog::Watchdog;

pub(crate) use room::{Streak, Waiter};
pub(crate) use tenancy::Tenancy;
pub(crate) use wake::Wakes;

/// The settings a session runs by; checked by the builder.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) lease: Duration,
    pub(crate) command_timeout: Duration,
    pub(crate) key_prefix: String,
    pub(crate) streak: Streak,
    pub(crate) poll: Duration,
    /// How long a waiter of a fair lock keeps its place without a sign of life.
    pub(crate) fair_claim: Duration,
}

pub(crate) struct Session {
    pub(crate) transport: Transport,
    pub(crate) wakes: Arc<Wakes>,
    pub(crate) rooms: Rooms,
    pub(crate) watchdog: Watchdog,
    pub(crate) releases: Releases,
    pub(crate) attendance: Arc<Attendance>,
    pub(crate) reply_times: ReplyTimes,
    /// A waiter got a place in a queue in Redis.
    in_line: Notify,
    pub(crate) counters: Arc<Counters>,
    pub(crate) settings: Settings,
    /// The first half of every field of this client.
    client_id: Uuid,
    next_id: AtomicU64,
    closed: AtomicBool,
    stage: watch::Sender<Stage>,
}

/// The life of a session, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Running,
    /// Queued releases are settled, until then at most; then the connections are closed.
    Stopping {
        until: Instant,
    },
    /// Nothing runs any more; `settled` if no release was left.
    Ended {
        settled: bool,
    },
}

/// This long at least is spent on releases that Redis does not confirm; longer only while somebody
/// waits for them.
const DRAIN: Duration = Duration::from_secs(2);

/// What the public handles share; the last one to go stops the session.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) session: Arc<Session>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.session.closed.store(true, SeqCst);
        // Nobody waits for a shutdown any more.
        self.session.stop(|_| Instant::now() + DRAIN);
    }
}

/// The parts a session is put together from.
pub(crate) struct Parts {
    pub(crate) transport: Transport,
    pub(crate) wakes: Arc<Wakes>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) settings: Settings,
    pub(crate) client_id: Uuid,
}

impl Session {
    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        let Parts { transport, wakes, counters, settings, client_id } = parts;
        Arc::new(Session {
            transport,
            wakes,
            rooms: Rooms::new(settings.streak),
            watchdog: Watchdog::new(),
            releases: Releases::new(),
            attendance: Arc::default(),
            reply_times: ReplyTimes::new(settings.command_timeout),
            in_line: Notify::new(),
            counters,
            settings,
            client_id,
            next_id: AtomicU64::new(1),
            closed: AtomicBool::new(false),
            stage: watch::Sender::new(Stage::Running),
        })
    }

    /// A call of the background. Its reply tells nothing of how long replies take: what undoes a lost
    /// call is answered when the outage is over.
    async fn call_unmeasured(&self, lane: Lane, call: Call) -> Result<Value, CallError> {
        count(&self.counters.calls);
        self.transport.call(lane, call).await
    }

    pub(crate) async fn call(&self, lane: Lane, call: Call) -> Result<Value, CallError> {
        let sent = Instant::now();
        let reply = self.call_unmeasured(lane, call).await;
        if lane == Lane::Caller && matches!(reply, Ok(_) | Err(CallError::Refused(_))) {
            self.reply_times.came_after(sent.elapsed());
        }
        reply
    }

    /// A call whose reply is not waited for beyond `limit`.
    async fn call_until(&self, limit: Option<Instant>, call: Call) -> Result<Value, CallError> {
        let reply = self.call(Lane::Caller, call);
        let Some(limit) = limit else { return reply.await };
        if let Ok(reply) = tokio::time::timeout_at(limit, reply).await {
            return reply;
        }
        self.reply_times.came_not();
        Err(CallError::Unknown(Fault("no reply within the wait".into())))
    }

    pub(crate) fn client_id(&self) -> Uuid {
        self.client_id
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Relaxed)
    }

    /// A fresh owner field, never used again.
    fn next_field(&self, place: &Place, permits: u32) -> Arc<str> {
        place.field(self.client_id, self.next_id(), permits)
    }

    /// Lowers the count of a field; zero ends the hold.
    fn release_call(&self, place: &Place, field: &Arc<str>, holds: u32) -> Call {
        place.release(self.transport.publish_command(), holds, field)
    }

    /// Ends a hold whose last guard is gone.
    fn end_call(&self, hold: &Hold) -> Call {
        self.release_call(&hold.place, &hold.field, 0)
    }

    /// A hold is lost: its guards are told, its waiters go on, what may be left of it is released.
    pub(crate) fn lose(&self, hold: &Arc<Hold>, reason: LossReason) {
        // Before the hold says so: a session that is shut down meanwhile does not look for it any more.
        let _owing = self.releases.owe();
        if !hold.lose(reason) {
            return;
        }
        // Nobody restores it between the table and the undo.
        let ending = self.watchdog.ending(&hold.place, &hold.field);
        self.watchdog.disarm(hold);
        self.count_loss();
        let doubt = hold.doubt();
        if reason != LossReason::Gone || hold.place.entries(&hold.field) > 1 || doubt.is_some() {
            // Not by the caller's lane, which stands still if the caller's runtime does.
            self.releases.post(Chore::End { hold: hold.clone(), ending });
        }
        if let Some(doubt) = doubt {
            // What stands is by the call that was granted: its end says nothing of an earlier one.
            let (epoch, lease) = (doubt.epoch, hold.longest_lease());
            self.undo(hold, Doubt { epoch, lease, once: false });
        }
        self.rooms.vacate(hold, 0);
    }

    /// Shutdown marks the session before it looks for holds: one of the two sees the other.
    fn lose_if_closed(&self, hold: &Arc<Hold>) -> bool {
        let closed = self.is_closed();
        if closed {
            self.lose(hold, LossReason::Closed);
        }
        closed
    }

    fn count_loss(&self) {
        count(&self.counters.lost);
    }

    /// A hold is released in Redis; so many subscribers were told.
    fn released(&self, hold: &Arc<Hold>, told: i64) {
        // One of them is this client, if it listens: only others need to be let first.
        let own = i64::from(self.wakes.is_subscribed(&hold.place.channel));
        self.rooms.vacate(hold, told - own);
        if let Some(doubt) = hold.doubt() {
            self.undo(hold, doubt);
        }
        hold.has_ended();
    }

    /// Ends what a hold may have left, and what an earlier call for its field may take yet.
    fn undo(&self, hold: &Hold, doubt: Doubt) {
        let (place, field) = (hold.place.clone(), hold.field.clone());
        let ending = self.watchdog.ending(&place, &field);
        self.releases.post(Chore::Undo { place, field, doubt, ending });
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(SeqCst)
    }

    /// Lets the background task settle what is queued and end. Until when, follows from what was
    /// said before.
    fn stop(&self, until: impl FnOnce(Option<Instant>) -> Instant) {
        self.stage.send_if_modified(|stage| {
            let before = match *stage {
                Stage::Running => None,
                Stage::Stopping { until } => Some(until),
                Stage::Ended { .. } => return false,
            };
            *stage = Stage::Stopping { until: until(before) };
            true
        });
    }

    /// Until it is shut down.
    pub(crate) async fn stopping(&self) {
        self.reached(|stage| *stage != Stage::Running).await;
    }

    /// Until the time for what is queued is over, which may be moved meanwhile.
    async fn out_of_time(&self) {
        let mut stage = self.stage.subscribe();
        loop {
            let until = match *stage.borrow_and_update() {
                Stage::Stopping { until } => Some(until),
                Stage::Running | Stage::Ended { .. } => None,
            };
            tokio::select! {
                biased;
                // An error would mean that the sender is gone, which we hold.
                _ = stage.changed() => {}
                () = sleep_until_some(until) => return,
            }
        }
    }

    async fn reached(&self, wanted: impl FnMut(&Stage) -> bool) -> Option<Stage> {
        // The same for an error here.
        self.stage.subscribe().wait_for(wanted).await.ok().map(|stage| *stage)
    }

    /// Refuses new work, wakes all waiters, loses and releases all holds, ends the background task.
    pub(crate) async fn shutdown(&self, deadline: Duration) -> Result<(), Error> {
        self.closed.store(true, SeqCst);
        self.rooms.wake_all();
        self.wakes.end_outage();
        self.recall();
        for hold in self.watchdog.holds() {
            self.lose(&hold, LossReason::Closed);
        }
        // Tokio's timers reach about two years.
        let limit = Instant::now() + deadline.min(Lease::MAX);
        // The longest of several counts.
        self.stop(|before| limit.max(Instant::now() + DRAIN).max(before.unwrap_or(limit)));
        let ended = self.reached(|stage| matches!(stage, Stage::Ended { .. }));
        let ended = tokio::time::timeout_at(limit, ended).await;
        if let Ok(Some(Stage::Ended { settled: true })) = ended {
            return Ok(());
        }
        let open = self.releases.pending();
        let text = if open == 0 && self.releases.has_left() {
            "a release was refused".to_owned()
        } else {
            format!("{open} releases were not confirmed within {deadline:?}")
        };
        let source = crate::error::Cause::new(text);
        Err(Error::Unknown { name: Arc::from("shutdown"), lease: self.settings.lease, source })
    }

    /// Releases what waiters were to take over and have not looked at yet.
    fn recall(&self) {
        for hold in self.rooms.recall() {
            self.releases.post(Chore::Release(hold));
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        Stats {
            reconnects: self.transport.reconnects(),
            subscriptions: self.wakes.live() as u64,
            listeners: self.wakes.listening() as u64,
            rooms: self.rooms.len() as u64,
            waiting: self.rooms.waiting() as u64,
            holds: self.watchdog.len() as u64,
            releases_pending: self.releases.pending(),
            ..self.counters.snapshot()
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("client_id", &self.client_id)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl From<Unexpected> for CallError {
    fn from(reply: Unexpected) -> Self {
        CallError::Refused(Fault(format!("a reply that no script gives: {:?}", reply.0)))
    }
}

/// Between 80 % and 120 % of a span, so that clients do not move in step.
fn jittered(span: Duration) -> Duration {
    span.mul_f64(0.8 + 0.4 * fastrand::f64())
}

/// Sleeps until then, or for ever.
async fn sleep_until_some(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
