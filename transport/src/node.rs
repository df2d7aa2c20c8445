//! A node: three connections to one server, or to whichever server is the primary at present.
//!
//! The caller's runtime drives the connections for the caller's lane and for messages, because that
//! is the fastest path to a waiting caller. The library's own runtime drives the background lane.
//! If the caller's runtime ends, its connections move to the library's runtime.
//!
//! | file | what it is |
//! | --- | --- |
//! | `shared` | what the callers and the tasks of the connections share |
//! | `generation` | the server of the node, and how all connections leave it together |
//! | `supervisor` | maintains one connection: watches it, gives it up, and replaces it |
//! | `opening` | opens a connection |
//!
//! `docs/dev/connection.md` has the states of a node.
//!
//! # Bounds
//!
//! Three supervisors and three drivers. Nothing is queued while there is no connection.

pub(super) mod generation;
mod opening;
mod supervisor;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Duration;

pub(super) use self::supervisor::CLOSING_MAX;
use self::supervisor::{DrivenBy, DrivenConnection, Supervisor};
pub(super) use super::request::answer;
use crate::abilities::Known;
use crate::call::Call;
use crate::call_error::{CallError, Fault};
use crate::connection::Connection;
use crate::grace::{Former, Grace};
use crate::identity::Identity;
use crate::lane::{Lane, Role};
use crate::pacer::Pacer;
use crate::pubsub::PubSub;
use crate::remote::Remote;
use crate::request::{CallOutcome, KeyForm, SubscribeOutcome};
use crate::setup::{IfUnreachable, Setup};
use crate::subscriptions::SubscriptionRegistry;
use crate::sync::{AtomicU64, Mutex};
use crate::timer::{Instant, timeout};

/// Three connections to one server.
pub(crate) struct Node {
    pub(super) shared: Arc<NodeState>,
    supervisors: Mutex<Vec<JoinHandle<()>>>,
}

impl Node {
    /// Opens the three connections within the timeout for connecting.
    ///
    /// With [`IfUnreachable::RetryLater`] a missing connection is opened later, as after a loss.
    pub(super) async fn connect(
        remote: Remote,
        setup: Setup,
        if_unreachable: IfUnreachable,
    ) -> Result<Node, CallError> {
        let (first, lost) = (Former::Nobody, Arc::default());
        let shared = NodeState::new(Ok(Arc::new(remote)), first, setup, lost);
        let mut supervisors = supervisors(&shared);
        // CANCEL: dropping this future closes the connections that are already open.
        let [primary_connection, others @ ..] = &mut supervisors;
        let limit = match if_unreachable {
            IfUnreachable::Fail => Duration::MAX,
            // The look-up of the name goes on in the background.
            IfUnreachable::RetryLater => 2 * shared.setup.timing.connect,
        };
        let primary_connection =
            timeout(limit, primary_connection.open_first(if_unreachable)).await;
        let mut first = vec![primary_connection.unwrap_or(Ok(None))?];
        if first[0].is_some() {
            let others = others
                .iter_mut()
                .map(|other| other.open_first(if_unreachable));
            first.extend(futures_util::future::try_join_all(others).await?);
        }
        first.resize_with(supervisors.len(), || None);
        Ok(Node::run(shared, supervisors.into_iter().zip(first)))
    }

    /// Makes a node. Its connections are opened as soon as its target is known and answers. Those
    /// to an engine in this process are opened at once. `lost` is notified when a connection is
    /// lost or cannot be opened.
    pub(super) fn open(
        remote: Result<Arc<Remote>, Fault>,
        former: Former,
        setup: Setup,
        lost: Arc<Notify>,
    ) -> Node {
        let shared = NodeState::new(remote, former, setup, lost);
        let supervisors = supervisors(&shared).into_iter();
        let supervisors = supervisors.map(|supervisor| {
            let first = supervisor.open_at_once();
            (supervisor, first)
        });
        Node::run(shared, supervisors)
    }

    fn run(
        shared: Arc<NodeState>,
        supervisors: impl Iterator<Item = (Supervisor, Option<DrivenConnection>)>,
    ) -> Node {
        let own = &shared.setup.runtimes.own;
        let tasks = supervisors.map(|(supervisor, first)| own.spawn(supervisor.run(first)));
        let supervisors = Mutex::new(tasks.collect());
        Node {
            shared,
            supervisors,
        }
    }

    /// Passes a call to the lane's connection. [`answer`] waits for the outcome.
    pub(super) fn send(
        &self,
        lane: Lane,
        call: Call,
        keys: KeyForm,
    ) -> Result<oneshot::Receiver<CallOutcome>, CallError> {
        let connection = self.shared.slot(lane).connection()?;
        self.shared.grace.admits(&call)?;
        connection.call(call, keys)
    }

    /// The end of the grace of this node. `None` if it is over.
    pub(super) fn grace_ends(&self) -> Option<Instant> {
        self.shared.grace.ends()
    }

    /// The server that was found last.
    pub(super) fn identity(&self) -> Option<Identity> {
        self.shared.target.borrow().server.clone()
    }

    /// Sends a command other than a script.
    pub(super) async fn command(&self, lane: Lane, words: &[&[u8]]) -> CallOutcome {
        self.shared.slot(lane).connection()?.ask(words).await
    }

    /// What is known about the server. `None` if there is none yet.
    pub(super) fn known(&self) -> Option<Arc<Known>> {
        let target = self.shared.target.borrow();
        target
            .remote
            .as_ref()
            .ok()
            .map(|remote| remote.known().clone())
    }

    /// Waits until the role's first connection attempt has ended.
    pub(super) async fn first_attempt(&self, role: Role) {
        self.until(|all| all[position(role)] != Progress::Opening)
            .await;
    }

    /// Waits until all connections are open.
    pub(super) async fn connected(&self) {
        self.until(|all| *all == [Progress::Connected; 3]).await;
    }

    /// Whether all connections are open now.
    pub(super) fn is_connected(&self) -> bool {
        *self.shared.progress.borrow() == [Progress::Connected; 3]
    }

    /// Why there is no connection for calls, if there is none.
    pub(super) fn why_not_connected(&self) -> Option<CallError> {
        self.shared
            .slots
            .iter()
            .find_map(|slot| slot.connection().err())
    }

    /// True until the role's first connection attempt has ended.
    pub(super) fn is_opening(&self, role: Role) -> bool {
        self.shared.progress.borrow()[position(role)] == Progress::Opening
    }

    /// Waits until the first attempt of each connection has ended.
    pub(super) async fn first_attempts(&self) {
        self.until(|all| !all.contains(&Progress::Opening)).await;
    }

    async fn until(&self, holds: impl FnMut(&[Progress; 3]) -> bool) {
        // This cannot fail, because `self.shared` holds the sender.
        drop(self.shared.progress.subscribe().wait_for(holds).await);
    }

    /// The number of connections that the lane has lost.
    pub(super) fn epoch(&self, lane: Lane) -> u64 {
        self.shared.slot(lane).epoch()
    }

    /// Why the lane has no connection; `None` if it has one.
    pub(super) fn fault(&self, lane: Lane) -> Option<Fault> {
        match self.shared.slot(lane).connection() {
            Err(CallError::NotApplied(fault)) => Some(not_now(&fault)),
            _ => None,
        }
    }

    pub(super) async fn subscribe(
        &self,
        channel: &Arc<str>,
        pubsub: PubSub,
    ) -> Result<(), CallError> {
        let limit = self.shared.setup.timing.command;
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

    /// Passes a subscription to the connection for messages. The receiver gets the outcome.
    pub(super) fn start_subscribe(
        &self,
        channel: &Arc<str>,
        pubsub: PubSub,
    ) -> Result<oneshot::Receiver<SubscribeOutcome>, CallError> {
        self.shared.subscriptions.subscribe(channel, pubsub)
    }

    /// Whether the server has confirmed the channel on the present connection.
    pub(super) fn is_subscribed(&self, channel: &str) -> bool {
        self.shared.subscriptions.is_confirmed(channel)
    }

    pub(super) fn unsubscribe(&self, channel: &Arc<str>) {
        self.shared.subscriptions.unsubscribe(channel);
    }

    /// Whether its server is an engine in this process.
    pub(super) fn is_embedded(&self) -> bool {
        self.shared
            .target
            .borrow()
            .remote
            .as_ref()
            .is_ok_and(|remote| remote.back().is_some())
    }

    /// The address of the server.
    pub(super) fn server(&self) -> String {
        self.shared.server()
    }

    pub(super) fn reconnects(&self) -> u64 {
        self.shared.reconnects.load(Ordering::Relaxed)
    }

    pub(super) async fn close(&self) {
        self.shared.close();
        let supervisors = std::mem::take(&mut *self.supervisors.lock());
        let aborts: Vec<_> = supervisors.iter().map(JoinHandle::abort_handle).collect();
        // Supervisors wait for outstanding answers, but not longer than this. A supervisor whose
        // runtime was shut down has ended already.
        drop(timeout(CLOSING_MAX * 2, futures_util::future::join_all(supervisors)).await);
        for supervisor in aborts {
            supervisor.abort();
        }
    }
}

/// The three supervisors. That of the primary connection comes first, because this connection is
/// opened first.
fn supervisors(shared: &Arc<NodeState>) -> [Supervisor; 3] {
    shared.begins();
    let supervisor = |role, driven_by| Supervisor {
        shared: shared.clone(),
        role,
        driven_by,
        pacer: Pacer::new(PAUSE_MIN, PAUSE_MAX).eager_for(shared.setup.timing.eager()),
    };
    [
        supervisor(PRIMARY_CONNECTION, DrivenBy::OwnThread),
        supervisor(Role::Calls(Lane::Caller), DrivenBy::CallerRuntime),
        supervisor(Role::Messages, DrivenBy::CallerRuntime),
    ]
}

impl Drop for Node {
    fn drop(&mut self) {
        self.shared.close();
        for supervisor in self.supervisors.get_mut() {
            // Dropping a supervisor drops its connection, which closes the socket.
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

// The state that callers and the tasks of a node share.

/// The lanes in the order of the slots.
pub(crate) const LANES: [Lane; 2] = [Lane::Caller, Lane::Background];

/// The role of the primary connection, which is opened first. It carries the renewals and is driven
/// by the library's own thread. So a client that gets only some of its connections can keep its
/// holds.
pub(super) const PRIMARY_CONNECTION: Role = Role::Calls(Lane::Background);

/// The first pause after a refused attempt to connect.
pub(super) const PAUSE_MIN: Duration = Duration::from_millis(5);
/// The longest pause between refused attempts to connect.
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(1);

pub(crate) struct NodeState {
    pub(super) target: watch::Sender<Target>,
    pub(super) setup: Setup,
    pub(super) slots: [ConnectionSlot; LANES.len()],
    pub(super) grace: Grace,
    pub(super) subscriptions: Arc<SubscriptionRegistry>,
    pub(super) reconnects: AtomicU64,
    /// Notified when a connection was lost or could not be opened.
    pub(super) lost: Arc<Notify>,
    /// The progress of each role's connection.
    pub(super) progress: watch::Sender<[Progress; 3]>,
    /// Wakes the other supervisors in a fixed order, so that simulations are repeatable. A `watch`
    /// would not.
    pub(super) primary_connection_changed: Notify,
    /// Whether the transport was closed or dropped.
    pub(super) stopped: watch::Sender<bool>,
}

/// The target of a node's connections.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) generation: u64,
    /// How to reach the server, or why none is known.
    pub(super) remote: Result<Arc<Remote>, Fault>,
    /// The identity of the server, once a connection has reached it.
    pub(super) server: Option<Identity>,
    /// The server before a switch of the target.
    pub(super) former: Former,
}

/// The progress of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The first connection attempt has not ended yet.
    Opening,
    Connected,
    NotConnected,
}

impl NodeState {
    pub(super) fn new(
        remote: Result<Arc<Remote>, Fault>,
        former: Former,
        setup: Setup,
        lost: Arc<Notify>,
    ) -> Arc<Self> {
        let grace = Grace::new(setup.timing.grace);
        Arc::new(NodeState {
            target: watch::Sender::new(Target {
                generation: 0,
                remote,
                server: None,
                former,
            }),
            setup,
            slots: LANES.map(|_| ConnectionSlot::new()),
            grace,
            subscriptions: Arc::new(SubscriptionRegistry::default()),
            reconnects: AtomicU64::new(0),
            lost,
            progress: watch::Sender::new([Progress::Opening; 3]),
            primary_connection_changed: Notify::new(),
            stopped: watch::Sender::new(false),
        })
    }

    pub(super) fn primary_connection(&self) -> Progress {
        self.progress.borrow()[position(PRIMARY_CONNECTION)]
    }

    /// How often the primary connection was lost.
    pub(super) fn primary_connection_losses(&self) -> u64 {
        self.slot(Lane::Background).epoch()
    }

    /// Records that the primary connection cannot be opened. The others are not tried.
    pub(super) fn unreachable(&self, fault: &Fault) {
        self.explain(fault);
        self.progress.send_modify(|all| {
            for progress in all
                .iter_mut()
                .filter(|progress| **progress == Progress::Opening)
            {
                *progress = Progress::NotConnected;
            }
        });
    }

    /// The error of calls until the first attempt to reach the target has ended.
    pub(super) fn begins(&self) {
        if let Ok(remote) = &self.target.borrow().remote {
            self.explain(&remote.no_answer_yet().into_fault());
        }
    }

    fn explain(&self, fault: &Fault) {
        self.slots
            .iter()
            .for_each(|slot| slot.unreachable(not_now(fault)));
        self.subscriptions.unreachable(not_now(fault));
    }

    pub(crate) fn slot(&self, lane: Lane) -> &ConnectionSlot {
        match lane {
            Lane::Caller => &self.slots[0],
            Lane::Background => &self.slots[1],
        }
    }

    pub(super) fn progressed(&self, role: Role, now: Progress) {
        self.progress
            .send_modify(|progress| progress[position(role)] = now);
        if role == PRIMARY_CONNECTION {
            self.primary_connection_changed.notify_waiters();
        }
    }

    pub(super) fn reconnected(&self) {
        self.reconnects.fetch_add(1, Ordering::Relaxed);
        self.setup.events.reconnected(&self.server());
    }

    pub(super) fn server(&self) -> String {
        match &self.target.borrow().remote {
            Ok(remote) => remote.endpoint.clone(),
            Err(fault) => fault.to_string(),
        }
    }

    /// Ends the supervisors. Every later call returns
    /// [`CallError::Closed`](crate::CallError::Closed).
    pub(super) fn close(&self) {
        self.refuse_calls();
        self.stopped.send_replace(true);
    }

    pub(super) fn refuse_calls(&self) {
        self.slots.iter().for_each(ConnectionSlot::close);
        self.subscriptions.close();
    }
}

pub(super) fn position(role: Role) -> usize {
    match role {
        Role::Calls(Lane::Caller) => 0,
        Role::Calls(Lane::Background) => 1,
        Role::Messages => 2,
    }
}

pub(super) fn not_now(fault: &Fault) -> Fault {
    Fault(format!("not connected: {fault}"))
}

// The slot of a lane: the connection on which callers send, if there is one, and the epoch.
//
// # Invariants
//
// - **SLOT-1** `epoch` rises in the critical section in which the connection leaves the slot, and
//   before any call of that connection ends. So a caller that reads the epoch first and takes the
//   connection second gets a connection of that epoch or a later one.
// - **SLOT-2** A connection never returns to the slot.
// - **SLOT-3** A connection of an earlier generation than the slot's is refused, because it leads
//   to a server that is not the target any more.
//
// # Locking
//
// The mutex `state`, for short times and never across an await.

pub(super) struct ConnectionSlot {
    /// With the generation of the connections that are accepted.
    state: Mutex<(SlotState, u64)>,
    epoch: AtomicU64,
}

enum SlotState {
    Connected(Arc<Connection>),
    /// The fault says why.
    Disconnected(Fault),
    Closed,
}

impl ConnectionSlot {
    pub(super) fn new() -> Self {
        let state = SlotState::Disconnected(Fault("not connected yet".into()));
        ConnectionSlot {
            state: Mutex::new((state, 0)),
            epoch: AtomicU64::new(0),
        }
    }

    /// The connection to send on. Without a connection nothing is queued, and the call is not
    /// applied.
    pub(super) fn connection(&self) -> Result<Arc<Connection>, CallError> {
        match &self.state.lock().0 {
            SlotState::Connected(connection) => Ok(connection.clone()),
            SlotState::Disconnected(fault) => Err(CallError::NotApplied(fault.clone())),
            SlotState::Closed => Err(CallError::Closed),
        }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Removes a lost connection from the slot.
    pub(super) fn disconnected(&self, fault: Fault) {
        self.take(&mut self.state.lock().0, fault);
    }

    /// Updates the reason why there is no connection, if there is none.
    pub(super) fn unreachable(&self, fault: Fault) {
        if let SlotState::Disconnected(why) = &mut self.state.lock().0 {
            *why = fault;
        }
    }

    /// Called when the node gets another target. From now on, the slot accepts only connections of
    /// this generation. Returns the previous connection, which must be ended.
    pub(super) fn switched(&self, generation: u64, fault: Fault) -> Option<Arc<Connection>> {
        let mut guard = self.state.lock();
        guard.1 = generation;
        self.take(&mut guard.0, fault)
    }

    fn take(&self, state: &mut SlotState, fault: Fault) -> Option<Arc<Connection>> {
        if matches!(state, SlotState::Closed) {
            return None;
        }
        match std::mem::replace(state, SlotState::Disconnected(fault)) {
            SlotState::Connected(connection) => {
                // INVARIANT SLOT-1: the epoch rises before `state` is unlocked, so before the slot
                // can get another connection.
                self.epoch.fetch_add(1, Ordering::AcqRel);
                Some(connection)
            }
            SlotState::Disconnected(_) | SlotState::Closed => None,
        }
    }

    /// False if the connection belongs to an earlier generation (SLOT-3).
    pub(super) fn connected(&self, connection: &Arc<Connection>, generation: u64) -> bool {
        let (state, accepted) = &mut *self.state.lock();
        if *accepted != generation {
            return false;
        }
        if !matches!(state, SlotState::Closed) {
            *state = SlotState::Connected(connection.clone());
        }
        true
    }

    pub(super) fn close(&self) {
        self.state.lock().0 = SlotState::Closed;
    }
}
