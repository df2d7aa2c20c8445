//! A node: three connections to one server, or to whichever server is the primary at present.
//!
//! Calls of the caller's lane and messages are driven by the runtime that connected (the shortest way
//! to a waiting caller), calls of the background lane by the library's own runtime. If the caller's
//! runtime ends, its connections move to our own.
//!
//! | file | what it is |
//! | --- | --- |
//! | `generation` | which server it is, and how all connections leave it together |
//! | `supervisor` | keeps one connection: watches it, gives it up, makes the next |
//! | `opening` | how a connection is opened |
//!
//! `docs/connection.md` has the states of a node.
//!
//! # Bounds
//!
//! Three supervisors, three drivers. Nothing is queued for a connection that is not there.

mod generation;
mod opening;
mod supervisor;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::FutureExt as _;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Duration, timeout};

use self::generation::{OTHER_TARGET, Target};
use self::supervisor::{DrivenBy, Supervisor};
use super::credentials::Provider;
use super::dial::Dial;
use super::endpoint::Endpoint;
use super::handshake::{Greeting, Handshake, not_connected};
use super::pacer::Pacer;
use super::request::{CallOutcome, KeyForm, SubscribeOutcome};
use super::slot::ConnectionSlot;
use super::stream::{Reader, Writer};
use super::subscriptions::SubscriptionRegistry;
use crate::sync::Mutex;

#[cfg(all(test, shuttle))]
pub(super) use self::generation::give_up;
pub(super) use self::supervisor::CLOSING_MAX;
use super::{IfUnreachable, Timing};
use crate::protocol::Call;
use crate::telemetry;
use crate::transport::{CallError, Fault, Lane, PubSub, Role, TransportEvents};

/// The lanes in the order of the slots.
pub(super) const LANES: [Lane; 2] = [Lane::Caller, Lane::Background];

/// Its connection is made first. It is driven by the library's own thread, and carries the renewals: a client
/// with a part of its connections can keep what it holds.
const PILOT: Role = Role::Calls(Lane::Background);

/// First and longest pause between two attempts to connect that are refused.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_secs(1);

const PROBE_MIN: Duration = Duration::from_millis(100);
const PROBE_MAX: Duration = Duration::from_secs(1);

/// Intervals without a byte after a PING, after which a connection is given up.
const SILENT_MIN: u32 = 2;

/// One server: how it is reached, and how a connection to it begins.
pub(crate) struct Remote {
    pub(super) dial: Dial,
    pub(super) handshake: Handshake,
    /// For messages: without user and password.
    pub(super) endpoint: String,
    /// For an engine of this process. Notified when it can be reached again.
    back: Option<Arc<Notify>>,
}

/// A stream to a server, behind its handshake.
pub(super) struct Opened {
    pub(super) reader: Reader,
    pub(super) writer: Writer,
    pub(super) greeting: Greeting,
}

/// Three connections to one server.
pub(crate) struct Node {
    pub(super) shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    supervisors: Mutex<Vec<JoinHandle<()>>>,
}

/// What the connections' tasks and the callers share.
pub(super) struct Shared {
    target: watch::Sender<Target>,
    pub(super) timing: Timing,
    pub(super) events: Arc<dyn TransportEvents>,
    slots: [ConnectionSlot; LANES.len()],
    pub(super) subscriptions: Arc<SubscriptionRegistry>,
    reconnects: AtomicU64,
    /// A connection was lost, or could not be opened.
    pub(super) lost: Arc<Notify>,
    /// For each role, how far its connection is.
    progress: watch::Sender<[Progress; 3]>,
    /// Wakes the others in their order, as a `watch` would not: simulations are replayed.
    pilot_changed: Notify,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The first attempt to connect has no outcome yet.
    Opening,
    Connected,
    NotConnected,
}

/// The runtimes that a node's tasks run on.
#[derive(Clone)]
pub(super) struct Runtimes {
    /// Drives the caller's lane and messages.
    pub(super) caller: Handle,
    /// The library's own, on a thread of its own.
    pub(super) own: Handle,
}

impl Remote {
    /// `name` is shown by CLIENT LIST.
    pub(crate) fn new(dial: Dial, endpoint: &Endpoint, name: &str) -> Self {
        let (handshake, endpoint) = (Handshake::new(endpoint, name), endpoint.to_string());
        Remote {
            dial,
            handshake,
            endpoint,
            back: None,
        }
    }

    /// An engine of this process. It is tried again at once whenever this is notified.
    #[cfg(feature = "embedded")]
    pub(crate) fn back_at(mut self, back: Arc<Notify>) -> Self {
        self.back = Some(back);
        self
    }

    /// Asks a provider of credentials at each login, if there is one.
    pub(crate) fn log_in_by(mut self, provider: Option<Provider>) -> Self {
        if let Some(provider) = provider {
            self.handshake.log_in_by(provider);
        }
        self
    }

    /// A stream to the server behind its handshake, to `peer` if that can be reached. The caller limits the
    /// time; what blocks runs on `resolver`.
    pub(super) async fn open(
        &self,
        peer: Option<SocketAddr>,
        resolver: &Handle,
    ) -> Result<Opened, CallError> {
        let dialed = self.dial.connect(peer, resolver).await;
        let (mut reader, mut writer, peer) =
            dialed.map_err(|error| not_connected(&error.to_string()))?;
        let mut greeting = self
            .handshake
            .run(&mut reader, &mut writer, resolver)
            .await?;
        greeting.server.peer = peer;
        Ok(Opened {
            reader,
            writer,
            greeting,
        })
    }

    /// A server that is refused unless it is a primary.
    pub(super) fn primary_only(mut self) -> Self {
        self.handshake.primary_only();
        self
    }
}

impl Node {
    /// Opens the three connections, within `timing.connect`.
    ///
    /// With [`IfUnreachable::RetryLater`] a missing connection is opened later, as after a loss.
    pub(super) async fn connect(
        remote: Remote,
        timing: Timing,
        events: Arc<dyn TransportEvents>,
        runtimes: Runtimes,
        if_unreachable: IfUnreachable,
    ) -> Result<Node, CallError> {
        let (shared, lost) = (Ok(Arc::new(remote)), Arc::default());
        let shared = Shared::new(shared, timing, events, lost);
        let (stop, stopped) = watch::channel(false);
        let mut supervisors = shared.supervisors(&runtimes, &stopped);
        // CANCEL: connections that are already open close when they are dropped.
        let [pilot, others @ ..] = &mut supervisors;
        let mut first = vec![pilot.open_first(if_unreachable).await?];
        if first[0].is_some() {
            let others = others
                .iter_mut()
                .map(|other| other.open_first(if_unreachable));
            first.extend(futures_util::future::try_join_all(others).await?);
        }
        first.resize_with(supervisors.len(), || None);
        let tasks = supervisors.into_iter().zip(first);
        let tasks = tasks.map(|(supervisor, first)| runtimes.own.spawn(supervisor.run(first)));
        let supervisors = Mutex::new(tasks.collect());
        Ok(Node {
            shared,
            stop,
            supervisors,
        })
    }

    /// A node whose connections are opened as soon as its target is known and answers; those to an engine of this
    /// process at once.
    pub(super) fn open(
        remote: Result<Arc<Remote>, Fault>,
        timing: Timing,
        events: Arc<dyn TransportEvents>,
        runtimes: &Runtimes,
        lost: Arc<Notify>,
    ) -> Node {
        let shared = Shared::new(remote, timing, events, lost);
        let (stop, stopped) = watch::channel(false);
        let supervisors = shared.supervisors(runtimes, &stopped).into_iter();
        let tasks = supervisors.map(|supervisor| {
            #[cfg(feature = "embedded")]
            let first = supervisor.open_at_once();
            #[cfg(not(feature = "embedded"))]
            let first = None;
            runtimes.own.spawn(supervisor.run(first))
        });
        let supervisors = Mutex::new(tasks.collect());
        Node {
            shared,
            stop,
            supervisors,
        }
    }

    #[cfg(test)]
    pub(super) async fn call(&self, lane: Lane, call: Call) -> CallOutcome {
        let sent = self.send(lane, call, KeyForm::Declared)?;
        answer(sent).await
    }

    /// Hands a call to the lane's connection; [`answer`] waits for its outcome.
    pub(super) fn send(
        &self,
        lane: Lane,
        call: Call,
        keys: KeyForm,
    ) -> Result<oneshot::Receiver<CallOutcome>, CallError> {
        self.shared.slot(lane).connection()?.call(call, keys)
    }

    /// A command that is no script.
    pub(super) async fn command(&self, lane: Lane, words: &[&[u8]]) -> CallOutcome {
        answer(self.shared.slot(lane).connection()?.command(words)?).await
    }

    /// Waits until the first attempt to connect has an outcome.
    pub(super) async fn first_attempt(&self, role: Role) {
        // An error would mean that the sender is gone, which we hold.
        let mut progress = self.shared.progress.subscribe();
        drop(
            progress
                .wait_for(|all| all[position(role)] != Progress::Opening)
                .await,
        );
    }

    /// Waits until all connections are there.
    pub(super) async fn connected(&self) {
        let mut progress = self.shared.progress.subscribe();
        drop(
            progress
                .wait_for(|all| *all == [Progress::Connected; 3])
                .await,
        );
    }

    /// Why there is no connection for calls, if so.
    pub(super) fn why_not_connected(&self) -> Option<CallError> {
        self.shared
            .slots
            .iter()
            .find_map(|slot| slot.connection().err())
    }

    /// Whether the first attempt to connect has no outcome yet.
    pub(super) fn is_opening(&self, role: Role) -> bool {
        self.shared.progress.borrow()[position(role)] == Progress::Opening
    }

    /// Waits until the first attempts to connect have outcomes.
    pub(super) async fn first_attempts(&self) {
        let mut progress = self.shared.progress.subscribe();
        drop(
            progress
                .wait_for(|all| !all.contains(&Progress::Opening))
                .await,
        );
    }

    #[cfg(feature = "test-util")]
    pub(super) fn calls_under_way(&self) -> usize {
        let connections = self
            .shared
            .slots
            .iter()
            .filter_map(|slot| slot.connection().ok());
        connections
            .map(|connection| connection.calls_under_way())
            .sum()
    }

    /// Counts the connections that the lane has lost.
    pub(super) fn epoch(&self, lane: Lane) -> u64 {
        self.shared.slot(lane).epoch()
    }

    pub(super) async fn subscribe(
        &self,
        channel: &Arc<str>,
        pubsub: PubSub,
    ) -> Result<(), CallError> {
        let limit = self.shared.timing.command;
        let answer = self.shared.subscriptions.subscribe(channel, pubsub)?;
        match timeout(limit, answer).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(CallError::Unknown(Fault(
                "the subscription was given up".into(),
            ))),
            Err(_) => Err(CallError::Unknown(Fault(format!(
                "the subscription was not confirmed within {} ms",
                limit.as_millis()
            )))),
        }
    }

    /// Hands a subscription to the connection for messages; the receiver gets its outcome.
    pub(super) fn start_subscribe(
        &self,
        channel: &Arc<str>,
        pubsub: PubSub,
    ) -> Result<oneshot::Receiver<SubscribeOutcome>, CallError> {
        self.shared.subscriptions.subscribe(channel, pubsub)
    }

    /// The server has confirmed the channel, on the present connection.
    pub(super) fn is_subscribed(&self, channel: &str) -> bool {
        self.shared.subscriptions.is_confirmed(channel)
    }

    pub(super) fn unsubscribe(&self, channel: &Arc<str>) {
        self.shared.subscriptions.unsubscribe(channel);
    }

    /// Whether its server is an engine of this process.
    pub(super) fn is_embedded(&self) -> bool {
        self.shared
            .target
            .borrow()
            .remote
            .as_ref()
            .is_ok_and(|remote| remote.back.is_some())
    }

    /// The server that it connects to.
    pub(super) fn server(&self) -> String {
        self.shared.server()
    }

    pub(super) fn reconnects(&self) -> u64 {
        self.shared.reconnects.load(Ordering::Relaxed)
    }

    pub(super) async fn close(&self) {
        self.shared.close();
        self.stop.send_replace(true);
        let supervisors = std::mem::take(&mut *self.supervisors.lock());
        let aborts: Vec<_> = supervisors.iter().map(JoinHandle::abort_handle).collect();
        // Supervisors wait for outstanding answers, but not longer than this. A supervisor whose runtime
        // is gone has ended.
        drop(timeout(CLOSING_MAX * 2, futures_util::future::join_all(supervisors)).await);
        for supervisor in aborts {
            supervisor.abort();
        }
    }
}

/// Waits for the outcome of a call that was handed to a connection.
pub(super) fn answer(
    answer: oneshot::Receiver<CallOutcome>,
) -> impl Future<Output = CallOutcome> + Send {
    let given_up = |_| {
        Err(CallError::Unknown(Fault(
            "the connection was given up".into(),
        )))
    };
    answer.map(move |outcome| outcome.unwrap_or_else(given_up))
}

impl Drop for Node {
    fn drop(&mut self) {
        self.shared.close();
        self.stop.send_replace(true);
        for supervisor in self.supervisors.get_mut() {
            // The connection is dropped with its supervisor, and its socket with it.
            supervisor.abort();
        }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("server", &self.server())
            .field("epochs", &LANES.map(|lane| self.epoch(lane)))
            .field("reconnects", &self.reconnects())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn new(
        remote: Result<Arc<Remote>, Fault>,
        timing: Timing,
        events: Arc<dyn TransportEvents>,
        lost: Arc<Notify>,
    ) -> Arc<Self> {
        Arc::new(Shared {
            target: watch::Sender::new(Target {
                generation: 0,
                remote,
                server: None,
            }),
            timing,
            events,
            slots: LANES.map(|_| ConnectionSlot::new()),
            subscriptions: Arc::new(SubscriptionRegistry::default()),
            reconnects: AtomicU64::new(0),
            lost,
            progress: watch::Sender::new([Progress::Opening; 3]),
            pilot_changed: Notify::new(),
        })
    }

    fn supervisors(
        self: &Arc<Self>,
        runtimes: &Runtimes,
        stopped: &watch::Receiver<bool>,
    ) -> [Supervisor; 3] {
        let supervisor = |role, driven_by| Supervisor {
            shared: self.clone(),
            role,
            runtimes: runtimes.clone(),
            driven_by,
            stop: stopped.clone(),
            target: self.target.subscribe(),
            pacer: Pacer::new(PAUSE_MIN, PAUSE_MAX),
        };
        [
            supervisor(PILOT, DrivenBy::OwnThread),
            supervisor(Role::Calls(Lane::Caller), DrivenBy::CallerRuntime),
            supervisor(Role::Messages, DrivenBy::CallerRuntime),
        ]
    }

    fn pilot(&self) -> Progress {
        self.progress.borrow()[position(PILOT)]
    }

    /// Counts the connections that the pilot has lost.
    fn pilots(&self) -> u64 {
        self.slot(Lane::Background).epoch()
    }

    /// The pilot cannot connect: the others do not try.
    fn unreachable(&self, fault: &Fault) {
        self.slots
            .iter()
            .for_each(|slot| slot.unreachable(not_now(fault)));
        self.subscriptions.unreachable(not_now(fault));
        self.progress.send_modify(|all| {
            for one in all.iter_mut().filter(|one| **one == Progress::Opening) {
                *one = Progress::NotConnected;
            }
        });
    }

    pub(super) fn slot(&self, lane: Lane) -> &ConnectionSlot {
        match lane {
            Lane::Caller => &self.slots[0],
            Lane::Background => &self.slots[1],
        }
    }

    pub(super) fn progressed(&self, role: Role, now: Progress) {
        self.progress
            .send_modify(|progress| progress[position(role)] = now);
        if role == PILOT {
            self.pilot_changed.notify_waiters();
        }
    }

    pub(super) fn reconnected(&self) {
        self.reconnects.fetch_add(1, Ordering::Relaxed);
        telemetry::reconnected(&self.server());
    }

    pub(super) fn server(&self) -> String {
        match &self.target.borrow().remote {
            Ok(remote) => remote.endpoint.clone(),
            Err(fault) => fault.to_string(),
        }
    }

    /// How often a connection without a sign of life is asked for one, and how many times that may go
    /// unanswered: not before a call would have timed out.
    pub(super) fn probe(&self) -> (Duration, u32) {
        let every = self.timing.command.clamp(PROBE_MIN, PROBE_MAX);
        let silent = self.timing.command.as_micros().div_ceil(every.as_micros());
        (
            every,
            u32::try_from(silent).unwrap_or(u32::MAX).max(SILENT_MIN),
        )
    }

    fn close(&self) {
        self.slots.iter().for_each(ConnectionSlot::close);
        self.subscriptions.close();
    }
}

fn position(role: Role) -> usize {
    match role {
        Role::Calls(Lane::Caller) => 0,
        Role::Calls(Lane::Background) => 1,
        Role::Messages => 2,
    }
}

fn not_now(fault: &Fault) -> Fault {
    Fault(format!("not connected: {fault}"))
}

/// Adds the name of the server to the error of an attempt.
pub(super) fn cannot_connect(endpoint: &str, error: CallError) -> CallError {
    error
        .took_nothing()
        .reworded(|text| format!("cannot connect to {endpoint}: {text}"))
}
