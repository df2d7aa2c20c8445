//! How a client calls its servers, and what every other part needs: settings, ids, counters.
//!
//! Nothing here knows about holds or waiters.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::Either;
use tokio::runtime::Handle;
use tokio::sync::futures::Notified;
use tokio::sync::watch;

use crate::client_id::ClientId;
use crate::clock::{Moment, Reading};
use crate::durability::Durability;
use crate::error::{ConfigError, Error, with_command};
use crate::harness::HeardCall;
use crate::protocol::calls::{HeardBy, NewField};
use crate::protocol::dispatch::Declared;
use crate::protocol::kind::is_only_a_tag;
use crate::protocol::resource::Resource;
use crate::protocol::{Call, Unexpected, Value, forced};
use crate::session::settings::{Settings, checked_text};
use crate::stats::{Counters, count};
use crate::sync::{Mutex, Notify};
use crate::timer::{Instant, sleep_until_some, timeout, timeout_at, why_silent};
use crate::transport::{
    CallError, DeploymentKind, Epoch, Fault, Lane, NodeId, Process, Sent, Transport, rarely,
};
use crate::wake::Wake;

pub(crate) struct Calls {
    pub(crate) transport: Transport,
    pub(crate) settings: Settings,
    pub(crate) counters: Arc<Counters>,
    pub(super) outages: Arc<Outages>,
    pub(super) reply_times: Arc<ReplyTimes>,
    pub(crate) life: Life,
    pub(crate) made_in: MadeIn,
    /// The first half of every field of this client on the wire.
    pub(super) client_id: ClientId,
    /// The id as it begins the fields. Kept, because each acquisition has a new one.
    pub(super) client_text: Box<str>,
    pub(super) next_id: AtomicU64,
    pub(super) reply_keys: ReplyKeys,
}

/// A call that was passed to a connection. Dropping this does not stop the call.
pub(super) struct Sending {
    sent: Sent,
    heard: HeardCall,
}

/// Numbers of reply keys that no call uses at present.
#[derive(Debug, Default)]
pub(crate) struct ReplyKeys(pub(super) Mutex<Vec<u64>>);

impl Sending {
    pub(super) async fn outcome(self) -> Result<Value, CallError> {
        let outcome = self.sent.outcome().await;
        self.heard.answered(&outcome);
        outcome
    }
}

impl Calls {
    /// A call that changes no hold of this process.
    pub(crate) async fn ask<T>(
        &self,
        name: &Arc<str>,
        call: Call,
        read: impl Fn(Value) -> Result<T, Unexpected>,
    ) -> Result<T, Error> {
        if self.life.is_closed() {
            return Err(Error::Closed);
        }
        understood(name, self.call(Lane::Caller, call).await, read)
    }

    /// A script without keys on one node.
    pub(crate) async fn call_node(&self, node: NodeId, call: Call) -> Result<Value, CallError> {
        count(&self.counters.calls);
        let reply = self.transport.call_node(node, Lane::Caller, call);
        self.bounded(reply).await
    }

    /// A command other than a script on one node.
    pub(crate) async fn command(&self, node: NodeId, words: &[&[u8]]) -> Result<Value, CallError> {
        let reply = self.transport.command(node, Lane::Caller, words);
        self.bounded(reply).await
    }

    /// Await it at once: the time of the reply is counted from here.
    ///
    /// Not an `async fn`, because each `async fn` on the way would keep space for the call, for as
    /// long as every waiter waits for its reply.
    pub(crate) fn call(
        &self,
        lane: Lane,
        call: Call,
    ) -> impl Future<Output = Result<Value, CallError>> {
        count(&self.counters.calls);
        let (sent, script) = (Instant::now(), call.script);
        let heard = self.settings.telemetry.harness.sent(&call);
        let reply = self.bounded(self.transport.call(lane, call));
        reply.map(move |mut reply| {
            if let Err(CallError::Refused(fault)) = &mut reply {
                with_command(fault, script);
            }
            heard.answered(&reply);
            if lane == Lane::Caller && matches!(reply, Ok(_) | Err(CallError::Refused(_))) {
                self.reply_times.came_after(sent.elapsed());
            }
            reply
        })
    }

    /// A call whose outcome somebody else waits for.
    pub(super) fn send(&self, lane: Lane, call: Call) -> Result<Sending, CallError> {
        count(&self.counters.calls);
        let heard = self.settings.telemetry.harness.sent(&call);
        let sent = self.transport.send(lane, call)?;
        Ok(Sending { sent, heard })
    }

    /// Whether waiters poll because no message would wake them.
    pub(crate) fn polls_only(&self) -> bool {
        self.settings.wake == Wake::Poll || self.transport.has_no_messages()
    }

    /// Whether a release can give a plain lock to a waiter. In a cluster, a script does not hear
    /// whether its message has arrived.
    pub(super) fn releases_hand_over(&self) -> bool {
        !self.polls_only() && self.transport.kind() != DeploymentKind::Cluster
    }

    /// How many keys one call may name, if it would name `most`.
    pub(super) fn keys_at_once(&self, most: usize) -> usize {
        if self.transport.takes_many_keys() {
            most
        } else {
            1
        }
    }

    /// A call whose reply is awaited until `limit` only.
    pub(super) fn call_until(
        &self,
        limit: Option<Instant>,
        call: Call,
    ) -> impl Future<Output = Result<Value, CallError>> {
        let reply = self.call(Lane::Caller, call);
        match limit {
            Some(limit) => Either::Left(timeout_at(limit, reply).then(async |reply| match reply {
                Ok(reply) => reply,
                Err(_) => Err(rarely(self.lost("no reply within the wait")).await),
            })),
            None => Either::Right(reply),
        }
    }

    /// How long a reply may take after the end of the wait before it counts as lost.
    pub(crate) fn grace(&self) -> Duration {
        self.reply_times.grace().min(self.settings.command_timeout)
    }

    /// The time by the clock that counts leases.
    pub(super) fn now(&self) -> Moment {
        self.settings.clock.now()
    }

    /// The time for all that a step decides.
    pub(super) fn read_clock(&self) -> Reading {
        self.settings.clock.read()
    }

    /// The note for the holder of a lock that this client frees by force.
    pub(crate) fn forced_note(&self, reason: &str) -> Result<Arc<str>, ConfigError> {
        checked_text("reason", reason)?;
        let by = self.settings.name.as_deref().unwrap_or(&self.client_text);
        Ok(forced::note(by, reason))
    }

    pub(crate) fn client_id(&self) -> ClientId {
        self.client_id
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Relaxed)
    }

    /// A fresh owner field, which is never used again.
    pub(super) fn next_field(
        &self,
        resource: &Resource,
        permits: u32,
        lease: Duration,
        heard_by: HeardBy,
    ) -> Arc<str> {
        resource.field(NewField {
            client_id: self.client_id,
            client: &self.client_text,
            number: self.next_id(),
            permits,
            must_ask: lease < self.settings.fair_claim || is_only_a_tag(&resource.key),
            heard_by,
        })
    }

    /// The command by which the scripts of a resource publish.
    pub(crate) fn publish_command(&self, resource: &Resource) -> &'static str {
        self.transport
            .publish_command(|| resource.channel(), &resource.key)
    }

    /// A call that says who holds a lock.
    pub(crate) fn inspect_call(&self, resource: &Resource) -> Call {
        resource.inspect(if self.transport.wants_declared_keys() {
            Declared::All
        } else {
            Declared::OfTheLock
        })
    }

    /// A call that lowers the count of a field. Zero ends the hold.
    pub(super) fn release_call(&self, resource: &Resource, field: &Arc<str>, holds: u32) -> Call {
        resource.release(self.publish_command(resource), holds, field)
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls")
            .field("client_id", &self.client_id)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl From<Unexpected> for CallError {
    fn from(reply: Unexpected) -> Self {
        let text = format!("a reply that no script gives: {:?}", reply.0);
        CallError::Refused(Fault(text))
    }
}

/// Decodes the reply to a call.
pub(crate) fn understood<T>(
    name: &Arc<str>,
    reply: Result<Value, CallError>,
    read: impl Fn(Value) -> Result<T, Unexpected>,
) -> Result<T, Error> {
    let value = reply.map_err(|error| Error::from_call(name, Duration::ZERO, error))?;
    read(value).map_err(|reply| Error::unexpected(name, &reply))
}

// Calls whose client runs on a runtime that may stand still.

/// Added to the timeout of a command, which the client itself applies if its runtime runs.
const GRACE: Duration = Duration::from_millis(500);

/// A runtime that does not run a task within this time stands still.
const RESPONSE_MAX: Duration = Duration::from_millis(250);

/// The runtime in which a client was made. It reads the replies to its calls.
#[derive(Debug)]
pub(crate) struct MadeIn {
    pub(crate) runtime: Handle,
    /// The client has no thread of its own. If this runtime stands still, nothing of the client
    /// ends a call.
    pub(crate) runs_all: bool,
}

impl Calls {
    /// Waits for a reply, and no longer than the timeout of a command if the client's runtime
    /// stands still.
    fn bounded<T>(
        &self,
        reply: impl Future<Output = Result<T, CallError>>,
    ) -> impl Future<Output = Result<T, CallError>> {
        if !self.made_in.runs_all {
            return Either::Left(reply);
        }
        Either::Right(Box::pin(async move {
            let limit = self.settings.command_timeout;
            let mut reply = pin!(reply);
            loop {
                if let Ok(reply) = timeout(limit + GRACE, &mut reply).await {
                    return reply;
                }
                let why = self.why_silent().await;
                if !why.is_empty() {
                    let text = format!("no answer within {} ms{why}", limit.as_millis());
                    return Err(CallError::Unknown(Fault(text)));
                }
            }
        }))
    }

    /// The error of a call that gets no reply.
    pub(super) async fn lost(&self, what: &str) -> CallError {
        CallError::Unknown(Fault(format!("{what}{}", self.why_silent().await)))
    }

    pub(crate) async fn why_silent(&self) -> &'static str {
        why_silent(&self.made_in.runtime, RESPONSE_MAX).await
    }
}

// Waits until enough servers have a copy of a grant or a renewal.

impl Calls {
    /// Fails if a server refuses to wait for copies, and this client asks for them. It waits for no
    /// replica here.
    pub(crate) async fn may_wait_for_copies(&self) -> Result<(), CallError> {
        if self.settings.durability.is_none() || !self.transport.is_connected() {
            return Ok(());
        }
        let words = Durability::NONE.command();
        let words: Vec<_> = words.iter().map(String::as_bytes).collect();
        match self.command(NodeId::default(), &words).await {
            Err(CallError::Refused(fault)) if !fault.is_missing_right() => {
                Err(CallError::Refused(fault))
            }
            _ => Ok(()),
        }
    }

    /// The epoch that [`made_durable`](Self::made_durable) needs. Take it before sending the call.
    pub(crate) fn epoch_if_durable(&self, lane: Lane, key: &str) -> Option<Epoch> {
        self.settings
            .durability
            .map(|_| self.transport.epoch(lane, key))
    }

    /// If this client asks for copies, waits until there are enough copies of everything written on
    /// the lane for the key. `before` is the lane's epoch before the write was sent. A server can
    /// wait only for writes of the same connection, so a changed epoch means that nothing is known.
    pub(crate) async fn made_durable(
        &self,
        lane: Lane,
        key: &str,
        before: Option<Epoch>,
    ) -> Result<(), CallError> {
        let (Some(durability), Some(before)) = (self.settings.durability, before) else {
            return Ok(());
        };
        let words = durability.command();
        let words: Vec<_> = words.iter().map(String::as_bytes).collect();
        let node = self.transport.node_of(key);
        let reply = self.transport.command(node, lane, &words);
        let reply = self.bounded(reply).await;
        let acknowledged = match reply {
            Ok(Value::Int(copies)) => u32::try_from(copies).unwrap_or(0),
            Err(error @ (CallError::Closed | CallError::Forked)) => return Err(error),
            // The server does not know the command, or the user may not call it: the caller must
            // learn that.
            Err(CallError::Refused(fault)) => return Err(CallError::Refused(fault)),
            Ok(_) | Err(_) => 0,
        };
        let is_same = self.transport.epoch(lane, key) == before;
        let acknowledged = if is_same { acknowledged } else { 0 };
        let wanted = durability.replicas;
        if acknowledged < wanted {
            return Err(CallError::NotDurable {
                wanted,
                acknowledged,
            });
        }
        Ok(())
    }
}

// The life cycle of a client: running, stopping, ended.

/// Unconfirmed releases are retried for at least this long after a stop, and longer only while
/// somebody waits for them.
const DRAIN: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Life {
    /// The process that made the client.
    process: Process,
    closed: AtomicBool,
    stage: watch::Sender<Stage>,
}

/// In the order in which a client goes through them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Running,
    /// Queued releases are settled, at most until this instant. Then the connections are closed.
    Stopping {
        until: Instant,
    },
    /// Nothing runs any more.
    Ended(ClientEnd),
}

/// How a client ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientEnd {
    /// Everything that the client took is released.
    Settled,
    /// Some holds may stay in Redis until their leases end.
    Unsettled,
}

impl Life {
    pub(crate) fn new() -> Self {
        Life {
            process: Process::this(),
            closed: AtomicBool::new(false),
            stage: watch::Sender::new(Stage::Running),
        }
    }

    /// An error in a fork of the process that made the client. Ask before waiting for another
    /// thread, which a fork does not have. The transport itself refuses calls in a fork.
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        if self.process.is_this() {
            Ok(())
        } else {
            Err(Error::Forked)
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(SeqCst)
    }

    /// Refuses new work from now on.
    pub(crate) fn close(&self) {
        self.closed.store(true, SeqCst);
    }

    /// Lets the background task settle its queue and end: for [`DRAIN`], or until `limit` if that
    /// is later.
    pub(crate) fn stop(&self, limit: Option<Instant>) {
        let drained = Instant::now() + DRAIN;
        self.stage.send_if_modified(|stage| {
            let before = match *stage {
                Stage::Running => None,
                Stage::Stopping { until } => Some(until),
                Stage::Ended(_) => return false,
            };
            // The longest limit counts. A stop without a limit means that nobody waits any more.
            let waited_for = |limit: Instant| limit.max(drained).max(before.unwrap_or(limit));
            let until = limit.map_or(drained, waited_for);
            *stage = Stage::Stopping { until };
            true
        });
    }

    /// Called when nothing runs any more.
    pub(crate) fn end(&self, how: ClientEnd) {
        self.stage.send_replace(Stage::Ended(how));
    }

    /// Returns when the client is being shut down.
    pub(crate) async fn stopping(&self) {
        self.reached(|stage| *stage != Stage::Running).await;
    }

    /// Returns when nothing of the client runs any more.
    pub(crate) async fn ended(&self) -> ClientEnd {
        match self.reached(|stage| matches!(stage, Stage::Ended(_))).await {
            Some(Stage::Ended(how)) => how,
            _ => ClientEnd::Unsettled,
        }
    }

    /// Returns when the time for queued releases is over. A later stop may move that instant.
    pub(crate) async fn out_of_time(&self) {
        let mut stage = self.stage.subscribe();
        loop {
            let until = match *stage.borrow_and_update() {
                Stage::Stopping { until } => Some(until),
                Stage::Running | Stage::Ended(_) => None,
            };
            tokio::select! {
                biased;
                // This cannot fail: the sender lives in `self`.
                _ = stage.changed() => {}
                () = sleep_until_some(until) => return,
            }
        }
    }

    async fn reached(&self, options: impl FnMut(&Stage) -> bool) -> Option<Stage> {
        // `wait_for` cannot fail either.
        let mut stage = self.stage.subscribe();
        stage.wait_for(options).await.ok().map(|stage| *stage)
    }
}

// The end of an outage: waiting calls are retried as soon as a connection is usable.

#[derive(Debug, Default)]
pub(crate) struct Outages {
    /// Notified when a lane is usable again.
    over: Notify,
}

/// Resolves when a connection becomes usable after this value was made.
pub(crate) struct Outage<'a>(Notified<'a>);

impl Outages {
    /// The outage that the next call may meet. Make it before the call, so that an outage that ends
    /// while the call fails is noticed.
    pub(crate) fn next(&self) -> Outage<'_> {
        Outage(self.over.notified())
    }

    /// Lets every call that waits for the end of an outage retry at once.
    pub(crate) fn end(&self) {
        self.over.notify_waiters();
    }
}

impl Outage<'_> {
    /// Returns when a connection has become usable, or after `limit`.
    pub(crate) async fn over_within(self, limit: Duration) {
        // The caller tries again in both cases.
        drop(timeout(limit, self.0).await);
    }
}

// How long a reply may take, learned from earlier replies.
//
// When a wait ends while a call is in flight, its reply still decides whether the lock was taken.
// The client waits for that reply as long as TCP waits before it retransmits (RFC 6298): the
// smoothed round trip plus four times its variation. The first sample from a server is the
// handshake.
//
// A missing reply is no sample, because the request may have been lost. If a connection becomes
// slow, the late replies show it, including those to the undos of calls that were given up.

/// A reply may always be this much later than usual, even if earlier replies took equally long.
const LEAST: Duration = Duration::from_millis(50);
/// The grace before the first reply is seen, and its maximum: no caller waits longer for a reply. A
/// reply that took longer counts as this long, because a server that stalled once does not make the
/// connection slow.
const MOST: Duration = Duration::from_millis(500);

/// The reply times of one client.
///
/// The lock is held alone, and only for a few sums.
#[derive(Debug, Default)]
pub(crate) struct ReplyTimes(Mutex<Option<Estimate>>);

/// In nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    smoothed: u64,
    variation: u64,
}

impl ReplyTimes {
    /// Records the time that a reply took.
    pub(crate) fn came_after(&self, time: Duration) {
        let time = u64::try_from(time.min(MOST).as_nanos()).unwrap_or(u64::MAX);
        let mut estimate = self.0.lock();
        let (smoothed, variation) = match *estimate {
            None => (time, time / 2),
            Some(Estimate {
                smoothed,
                variation,
            }) => (
                smoothed * 7 / 8 + time / 8,
                variation * 3 / 4 + smoothed.abs_diff(time) / 4,
            ),
        };
        *estimate = Some(Estimate {
            smoothed,
            variation,
        });
    }

    /// How long a reply may take after the end of the wait before it counts as lost.
    pub(crate) fn grace(&self) -> Duration {
        let usual = |Estimate {
                         smoothed,
                         variation,
                     }: Estimate| {
            Duration::from_nanos(smoothed) + LEAST.max(Duration::from_nanos(4 * variation))
        };
        self.0.lock().map_or(MOST, usual).min(MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(span: u64) -> Duration {
        Duration::from_millis(span)
    }

    #[test]
    fn a_reply_has_as_long_as_replies_take() {
        let times = ReplyTimes::default();
        assert_eq!(times.grace(), MOST, "no reply was seen yet");
        times.came_after(ms(60));
        assert_eq!(times.grace(), ms(180));
        (0..50).for_each(|_| times.came_after(ms(60)));
        assert!(
            times.grace() >= ms(110) && times.grace() < ms(115),
            "{:?}",
            times.grace()
        );
        (0..100).for_each(|_| times.came_after(ms(1)));
        assert!(times.grace() < ms(53), "{:?}", times.grace());
        (0..10).for_each(|_| times.came_after(ms(5000)));
        assert_eq!(times.grace(), MOST, "a stall does not count for more");
    }

    /// A try that ends too early leaves an undo, whose reply takes as long as the one that was
    /// given up.
    #[test]
    fn a_line_that_became_slow_is_known_by_its_first_late_reply() {
        for slow in [100, 200, 400] {
            let times = ReplyTimes::default();
            (0..100).for_each(|_| times.came_after(Duration::from_micros(100)));
            times.came_after(ms(slow));
            assert!(times.grace() > ms(slow), "{slow}: {:?}", times.grace());
        }
    }

    /// After a stall, a server sends all pending replies at once.
    #[test]
    fn a_stall_is_forgotten_after_a_few_replies() {
        let times = ReplyTimes::default();
        (0..100).for_each(|_| times.came_after(ms(5000)));
        (0..30).for_each(|_| times.came_after(Duration::from_micros(100)));
        assert!(times.grace() < ms(100), "{:?}", times.grace());
    }
}

/// A client connected through memory, under paused time.
#[cfg(all(test, feature = "test-util"))]
mod on_a_line {
    use tokio::time::{Instant, sleep};

    use crate::test_util::{Delay, Direction, Faults, LinkControl};
    use crate::{Client, EmbeddedRedis, Error, Lease};

    use super::*;

    const WAIT: Duration = Duration::from_millis(300);

    async fn client(redis: &EmbeddedRedis) -> (Client, LinkControl) {
        let client = redis.builder().connect().await.expect("a client");
        let link = redis.links().pop().expect("a link");
        // Reconnect, so that the client runs the handshake, as it does with a server.
        link.cut();
        link.heal();
        sleep(WAIT).await;
        (client, link)
    }

    /// Tries to take the lock. Returns the result and how long it took.
    async fn tried(client: &Client) -> (Result<(), Error>, Duration) {
        let start = Instant::now();
        let tried = client.lock("n").try_lock(WAIT, Lease::Renewed).await;
        (tried.map(drop), start.elapsed())
    }

    /// While the grace doubled with each lost reply, four tries cost up to half a second each.
    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_lost_on_a_fast_line_costs_little_beyond_the_wait() {
        for replies_before in [0, 1] {
            let redis = EmbeddedRedis::new();
            let (client, link) = client(&redis).await;
            for _ in 0..replies_before {
                assert_eq!(tried(&client).await.0.ok(), Some(()));
            }
            sleep(WAIT).await;
            link.connections()
                .iter()
                .for_each(|connection| connection.half_open(Direction::Requests));
            for _ in 0..4 {
                let (lost, took) = tried(&client).await;
                assert!(lost.is_err_and(|error| error.may_be_held()));
                assert!(took <= WAIT + Duration::from_millis(100), "{took:?}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_that_became_slow_loses_one_reply() {
        let redis = EmbeddedRedis::new();
        let (client, link) = client(&redis).await;
        // The server knows the scripts now, and answers at once.
        assert_eq!(tried(&client).await.0.ok(), Some(()));
        sleep(WAIT).await;
        let slow = Delay::fixed(Duration::from_millis(200));
        let faults = Faults {
            request: slow,
            reply: slow,
            ..Faults::default()
        };
        link.set_faults(faults, 1);
        assert!(
            tried(&client)
                .await
                .0
                .is_err_and(|error| error.may_be_held())
        );
        // The undo of what may have been taken gets a reply.
        sleep(Duration::from_secs(1)).await;
        let (taken, took) = tried(&client).await;
        assert!(taken.is_ok() && took > WAIT, "{taken:?}, {took:?}");
    }
}
