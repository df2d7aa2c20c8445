//! What one client keeps alive: queues, wakes, watchdog, releases, and the transport below them.
//!
//! Public handles (client, lock, guard) share one [`Handle`]; when the last of them is gone the
//! session settles what is queued and ends. One background task serves all of it, with a
//! connection of its own: on a thread of its own, or in the caller's runtime on the embedded engine.

pub(crate) mod acquire;
mod attempt;
pub(crate) mod attendance;
pub(crate) mod background;
pub(crate) mod batch_acquire;
mod descriptions;
mod durability;
mod events;
pub(crate) mod existing_hold;
#[cfg(feature = "test-util")]
pub(crate) mod gate;
mod heartbeat;
pub(crate) mod hold;
mod hold_share;
mod idempotency;
mod local_queue;
pub(crate) mod lock_settings;
mod outcome;
pub(crate) mod owner;
mod recent_releases;
pub(crate) mod release;
mod reply_times;
pub(crate) mod request;
mod retry;
pub(crate) mod retry_delay;
mod safety_poll;
pub(crate) mod section;
mod subscriptions;
pub(crate) mod wait;
mod watchdog;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::client_id::ClientId;
use crate::clock::Clock;
use crate::durability::Durability;
use crate::error::Error;
use crate::lease::{Lease, LossReason};
use crate::process::Process;
use crate::protocol::resource::Resource;
use crate::protocol::{Call, Unexpected, Value};
use crate::stats::{Counters, Stats, count};
use crate::sync::{Mutex, Notify};
use crate::telemetry::Telemetry;
use crate::transport::{CallError, Fault, Group, Lane, Transport};

use attendance::Attendance;
use descriptions::Descriptions;
use hold::{Hold, InDoubt};
use local_queue::LocalQueues;
use recent_releases::RecentReleases;
use release::cleanup::{Cleanup, Cleanups};
use reply_times::ReplyTimes;
use watchdog::Watchdog;

pub(crate) use events::Reported;
pub(crate) use hold_share::HoldShare;
pub(crate) use local_queue::{Streak, Waiter};
pub use owner::Owner;
use subscriptions::Subscriptions;

/// The settings a session runs by; checked by the builder.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) lease: Duration,
    pub(crate) command_timeout: Duration,
    pub(crate) key_prefix: String,
    pub(crate) streak: Streak,
    pub(crate) safety_poll: Duration,
    /// How long a waiter of a fair lock keeps its place without a sign of life.
    pub(crate) fair_claim: Duration,
    /// Counts what the leases of this client count.
    pub(crate) clock: Clock,
    /// The copies that a grant and a renewal need before they count.
    pub(crate) durability: Option<Durability>,
    pub(crate) telemetry: Telemetry,
    /// What the client is called.
    pub(crate) name: Option<Arc<str>>,
    /// Whether all its holds are described, or those with a purpose only.
    pub(crate) describe_holds: bool,
}

pub(crate) struct Session {
    pub(crate) transport: Transport,
    pub(crate) subscriptions: Arc<Subscriptions>,
    pub(crate) queues: LocalQueues,
    pub(crate) watchdog: Arc<Watchdog>,
    /// Kept only where there are failovers.
    recent_releases: Arc<RecentReleases>,
    descriptions: Descriptions,
    pub(crate) cleanups: Cleanups,
    pub(crate) attendance: Arc<Attendance>,
    reply_times: Arc<ReplyTimes>,
    /// A waiter got a place in a queue in Redis.
    in_redis_queue: Notify,
    pub(crate) counters: Arc<Counters>,
    pub(crate) settings: Settings,
    /// Which made it.
    process: Process,
    clock: Clock,
    /// The first half of every field of this client.
    client_id: ClientId,
    next_id: AtomicU64,
    /// Numbers of reply keys that serve no call at present.
    reply_keys: Mutex<Vec<u64>>,
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
    pub(crate) reported: Reported,
    pub(crate) counters: Arc<Counters>,
    pub(crate) settings: Settings,
    pub(crate) client_id: ClientId,
}

impl Session {
    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        let Parts {
            transport,
            reported,
            counters,
            settings,
            client_id,
        } = parts;
        let Reported {
            subscriptions,
            watchdog,
            recent_releases,
            reply_times,
            ..
        } = reported;
        Arc::new(Session {
            transport,
            subscriptions,
            queues: LocalQueues::new(settings.streak),
            watchdog,
            recent_releases,
            descriptions: Descriptions::default(),
            cleanups: Cleanups::new(),
            attendance: Arc::default(),
            reply_times,
            in_redis_queue: Notify::new(),
            counters,
            clock: settings.clock.clone(),
            settings,
            process: Process::this(),
            client_id,
            next_id: AtomicU64::new(1),
            reply_keys: Mutex::default(),
            closed: AtomicBool::new(false),
            stage: watch::Sender::new(Stage::Running),
        })
    }

    /// One question that changes no hold of this process.
    pub(crate) async fn ask<T>(
        &self,
        name: &Arc<str>,
        call: Call,
        read: impl Fn(Value) -> Result<T, Unexpected>,
    ) -> Result<T, Error> {
        if self.is_closed() {
            return Err(Error::Closed);
        }
        understood(name, self.call(Lane::Caller, call).await, read)
    }

    /// As [`ask`](Self::ask), of the keys of one group.
    pub(crate) async fn ask_group<T>(
        &self,
        name: &Arc<str>,
        group: Group,
        call: Call,
        read: impl Fn(Value) -> Result<T, Unexpected>,
    ) -> Result<T, Error> {
        if self.is_closed() {
            return Err(Error::Closed);
        }
        understood(name, self.call_group(group, Lane::Caller, call).await, read)
    }

    pub(crate) async fn call(&self, lane: Lane, call: Call) -> Result<Value, CallError> {
        count(&self.counters.calls);
        let sent = Instant::now();
        let reply = self.transport.call(lane, call).await;
        if lane == Lane::Caller && matches!(reply, Ok(_) | Err(CallError::Refused(_))) {
            self.reply_times.came_after(sent.elapsed());
        }
        reply
    }

    /// A call with any keys of one group.
    pub(crate) async fn call_group(
        &self,
        group: Group,
        lane: Lane,
        call: Call,
    ) -> Result<Value, CallError> {
        count(&self.counters.calls);
        self.transport.call_group(group, lane, call).await
    }

    /// A call whose reply is not waited for beyond `limit`.
    async fn call_until(&self, limit: Option<Instant>, call: Call) -> Result<Value, CallError> {
        let reply = self.call(Lane::Caller, call);
        let Some(limit) = limit else {
            return reply.await;
        };
        let lost = |_| Err(CallError::Unknown(Fault("no reply within the wait".into())));
        tokio::time::timeout_at(limit, reply)
            .await
            .unwrap_or_else(lost)
    }

    /// How long a reply may take beyond the wait before it counts as lost.
    pub(crate) fn grace(&self) -> Duration {
        self.reply_times.grace().min(self.settings.command_timeout)
    }

    pub(crate) fn client_id(&self) -> ClientId {
        self.client_id
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Relaxed)
    }

    /// A fresh owner field, never used again.
    fn next_field(&self, resource: &Resource, permits: u32) -> Arc<str> {
        resource.field(self.client_id, self.next_id(), permits)
    }

    /// By which the scripts of a resource publish.
    pub(crate) fn publish_command(&self, resource: &Resource) -> &'static str {
        self.transport
            .publish_command(&resource.channel, &resource.key)
    }

    /// Lowers the count of a field; zero ends the hold.
    fn release_call(&self, resource: &Resource, field: &Arc<str>, holds: u32) -> Call {
        resource.release(self.publish_command(resource), holds, field)
    }

    /// Ends a hold whose last guard is gone, or leaves it to Redis for as long as it is to stay locked.
    fn end_call(&self, hold: &Hold) -> Call {
        let resource = &hold.resource;
        let linger = |rest| resource.linger(self.publish_command(resource), &hold.field, rest);
        let linger = hold.lingers_for().and_then(linger);
        if linger.is_some() {
            hold.linger_sent();
        }
        linger.unwrap_or_else(|| self.release_call(resource, &hold.field, 0))
    }

    /// A renewal found the field. If the hold was left to its expiry meanwhile, that was put off, and is said again.
    fn linger_again(&self, hold: &Arc<Hold>) {
        if hold.is_left_to_expire() {
            let under_way = self.watchdog.release_under_way(&hold.resource, &hold.field);
            self.cleanups.post(Cleanup::End {
                hold: hold.clone(),
                under_way,
            });
        }
    }

    /// A hold is lost: its guards learn of it, its waiters go on, what may be left of it is released.
    pub(crate) fn lose(&self, hold: &Arc<Hold>, reason: LossReason) {
        // Before the hold says so: a session that is shut down meanwhile does not look for it any more.
        let _pending = self.cleanups.expect_one();
        if !hold.lose(reason) {
            return;
        }
        // Nobody restores it between the table and the undo.
        let under_way = self.watchdog.release_under_way(&hold.resource, &hold.field);
        self.watchdog.disarm(hold);
        count(&self.counters.lost);
        if reason == LossReason::Gone {
            hold.lingers_no_more();
        }
        let doubt = hold.doubt();
        if reason != LossReason::Gone || hold.resource.entries(&hold.field) > 1 || doubt.is_some() {
            // Not by the caller's lane, which stands still if the caller's runtime does.
            self.cleanups.post(Cleanup::End {
                hold: hold.clone(),
                under_way,
            });
        }
        if let Some(doubt) = doubt {
            // What stands is by the call that was granted: its end says nothing of an earlier one.
            let lease = hold.longest_lease();
            self.undo_of(hold, InDoubt { lease, ..doubt });
        }
        self.queues.vacate(hold, 0);
    }

    /// A queue waits for a hold that is over (QUEUE-4).
    fn ends_in_vain(&self, hold: &Arc<Hold>) {
        if let Some(reason) = hold.loss() {
            self.lose(hold, reason);
        }
        self.queues.vacate(hold, 0);
    }

    /// Shutdown marks the session before it looks for holds: one of the two sees the other.
    fn lose_if_closed(&self, hold: &Arc<Hold>) -> bool {
        let closed = self.is_closed();
        if closed {
            self.lose(hold, LossReason::Closed);
        }
        closed
    }

    /// A release found nothing although no earlier one can have done it.
    fn was_gone(&self, hold: &Hold) {
        count(&self.counters.lost);
        hold.was_gone();
    }

    /// A hold is released in Redis; so many subscribers received the message.
    fn released(&self, hold: &Arc<Hold>, receivers: i64) {
        // One of them is this client, if it listens: only others need to be let first.
        let own = i64::from(self.subscriptions.is_subscribed(&hold.resource.channel));
        self.queues.vacate(hold, receivers - own);
        self.note_end(hold);
        if let Some(doubt) = hold.doubt() {
            self.undo_of(hold, doubt);
        }
        hold.release_settled();
    }

    /// As [`note_release`](Self::note_release): a hold was released, or left to its expiry.
    fn note_end(&self, hold: &Hold) {
        if self.transport.may_fail_over() {
            self.recent_releases.note_end(hold);
        }
    }

    /// A field is gone from Redis: released, undone or passed on. A server that succeeds the one that said so may
    /// have it again.
    fn note_release(&self, resource: &Arc<Resource>, field: &Arc<str>, lease: Duration) {
        if self.transport.may_fail_over() {
            self.recent_releases.note(resource, field, lease, None);
        }
    }

    /// Ends what a hold may have left, and what an earlier call for its field may take yet.
    fn undo(&self, resource: &Arc<Resource>, field: &Arc<str>, doubt: InDoubt) {
        self.undo_after(None, resource, field, doubt);
    }

    /// The same for a hold that was granted, when it does not stay locked any more.
    fn undo_of(&self, hold: &Hold, doubt: InDoubt) {
        self.undo_after(hold.lingers_until(), &hold.resource, &hold.field, doubt);
    }

    fn undo_after(
        &self,
        after: Option<Instant>,
        resource: &Arc<Resource>,
        field: &Arc<str>,
        doubt: InDoubt,
    ) {
        let under_way = self.watchdog.release_under_way(resource, field);
        let (resource, field) = (resource.clone(), field.clone());
        self.cleanups.post(Cleanup::Undo {
            resource,
            field,
            doubt,
            after,
            under_way,
        });
    }

    /// An error in a fork of the process that made the client. To be asked before it waits for what another thread
    /// does; calls are refused by the transport.
    fn is_ours(&self) -> Result<(), Error> {
        if self.process.is_this() {
            Ok(())
        } else {
            Err(Error::Forked)
        }
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
            *stage = Stage::Stopping {
                until: until(before),
            };
            true
        });
    }

    /// Until it is shut down.
    pub(crate) async fn stopping(&self) {
        self.reached(|stage| *stage != Stage::Running).await;
    }

    /// Until nothing of it runs any more.
    pub(crate) async fn ended(&self) {
        self.reached(|stage| matches!(stage, Stage::Ended { .. }))
            .await;
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

    async fn reached(&self, options: impl FnMut(&Stage) -> bool) -> Option<Stage> {
        // The same for an error here.
        self.stage
            .subscribe()
            .wait_for(options)
            .await
            .ok()
            .map(|stage| *stage)
    }

    /// Refuses new work, wakes all waiters, loses and releases all holds, ends the background task.
    pub(crate) async fn shutdown(&self, deadline: Duration) -> Result<(), Error> {
        self.is_ours()?;
        self.closed.store(true, SeqCst);
        self.queues.wake_all();
        self.subscriptions.end_outage();
        for hold in self.watchdog.holds() {
            self.lose(&hold, LossReason::Closed);
        }
        // Tokio's timers reach about two years.
        let limit = Instant::now() + deadline.min(Lease::MAX);
        // The longest of several counts.
        self.stop(|before| {
            limit
                .max(Instant::now() + DRAIN)
                .max(before.unwrap_or(limit))
        });
        let ended = self.reached(|stage| matches!(stage, Stage::Ended { .. }));
        let ended = tokio::time::timeout_at(limit, ended).await;
        if let Ok(Some(Stage::Ended { settled: true })) = ended {
            return Ok(());
        }
        let open = self.cleanups.queued();
        let text = if open == 0 && self.cleanups.may_have_left_holds() {
            "a release was refused".to_owned()
        } else {
            format!("{open} releases were not confirmed within {deadline:?}")
        };
        let source = crate::error::Cause::new(text);
        Err(Error::Unknown {
            name: Arc::from("shutdown"),
            lease: self.settings.lease,
            source,
        })
    }

    pub(crate) fn stats(&self) -> Stats {
        Stats {
            reconnects: self.transport.reconnects(),
            subscriptions: self.subscriptions.live() as u64,
            listeners: self.subscriptions.listening() as u64,
            local_queues: self.queues.len() as u64,
            waiting: self.queues.waiting() as u64,
            holds: self.watchdog.len() as u64,
            releases_pending: self.cleanups.queued(),
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
        CallError::Refused(Fault(format!(
            "a reply that no script gives: {:?}",
            reply.0
        )))
    }
}

/// What the reply to a question means, or its error.
fn understood<T>(
    name: &Arc<str>,
    reply: Result<Value, CallError>,
    read: impl Fn(Value) -> Result<T, Unexpected>,
) -> Result<T, Error> {
    let value = reply.map_err(|error| Error::from_call(name, Duration::ZERO, error))?;
    read(value).map_err(|reply| Error::unexpected(name, &reply))
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
