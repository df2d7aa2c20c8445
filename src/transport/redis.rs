//! The transport over connections of our own to one server, a *node*.
//!
//! Three connections: calls of the caller's lane and messages, driven by the runtime that connected
//! (the shortest way to a waiting caller), and calls of the background lane, driven by the library's
//! own runtime. If the caller's runtime ends, its connections move to our own.
//!
//! | file | what it is |
//! | --- | --- |
//! | `endpoint` | the URL of a server, checked |
//! | `stream`, `tls` | a stream of bytes to the server |
//! | `credentials`, `login` | who logs in, and how a login is renewed |
//! | `codec`, `encode` | RESP3 |
//! | `handshake` | the first commands on a stream |
//! | `request` | the requests of a connection, and the notifications that end them |
//! | `ledger` | the requests without a reply, and which of them were surely not sent |
//! | `connection` | one ledger, one outbox, one driver |
//! | `slot`, `subscriptions` | what callers and subscribers see of the present connection |
//! | `fred` | another driver: requests go through the client `fred` |
//! | `dial` | which of these ways leads to a server |
//! | `supervisor` | opens a connection, watches it, makes the next |
//!
//! A connection is never repaired, and no request moves from one connection to the next: a call either
//! finds a connection or fails at once, and is sent once.
//!
//! # Bounds
//!
//! Three supervisors, three drivers. Nothing is queued for a connection that is not there.

pub(crate) mod codec;
mod connection;
pub(crate) mod credentials;
pub(crate) mod dial;
mod encode;
pub(crate) mod endpoint;
#[cfg(feature = "fred")]
pub(crate) mod fred;
mod handshake;
mod ledger;
mod login;
mod request;
mod slot;
pub(crate) mod stream;
mod subscriptions;
mod supervisor;
mod task;
#[cfg(feature = "tls")]
pub(crate) mod tls;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Duration, timeout};

use self::credentials::Provider;
use self::dial::Dial;
use self::endpoint::Endpoint;
use self::handshake::Handshake;
use self::slot::ConnectionSlot;
use self::subscriptions::SubscriptionRegistry;
use self::supervisor::{CLOSING_MAX, DrivenBy, DrivenConnection, OpenError, Supervisor};
use super::{CallError, Fault, Lane, Role, TransportEvents};
use crate::protocol::{Call, Value};

/// The lanes in the order of the slots.
const LANES: [Lane; 2] = [Lane::Caller, Lane::Background];

/// The time-outs of the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timing {
    /// For the answer to one call.
    pub(crate) command: Duration,
    /// For one connection attempt, from name resolution to the answer to the first command.
    pub(crate) connect: Duration,
}

/// Three connections to one server.
pub(crate) struct Redis {
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    supervisors: Mutex<Vec<JoinHandle<()>>>,
}

/// One server: how it is reached, and how a connection to it begins.
pub(crate) struct Node {
    dial: Dial,
    handshake: Handshake,
    /// For messages: without user and password.
    endpoint: String,
}

/// What the connections' tasks and the callers share.
struct Shared {
    node: Node,
    timing: Timing,
    events: Arc<dyn TransportEvents>,
    slots: [ConnectionSlot; LANES.len()],
    subscriptions: Arc<SubscriptionRegistry>,
    reconnects: AtomicU64,
}

/// What a client does whose server cannot be reached when the client is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfUnreachable {
    Fail,
    RetryLater,
}

/// The first connection of a supervisor, or why there is none yet.
async fn open_first(
    supervisor: &Supervisor,
    if_unreachable: IfUnreachable,
) -> Result<Result<DrivenConnection, Fault>, CallError> {
    match supervisor.open().await {
        Ok(driven) => Ok(Ok(driven)),
        Err(OpenError::Call(CallError::NotApplied(fault)))
            if if_unreachable == IfUnreachable::RetryLater =>
        {
            Ok(Err(fault))
        }
        Err(OpenError::Call(error)) => Err(error),
        Err(OpenError::NoRuntime) => {
            Err(CallError::NotApplied(Fault("the runtime is shut down".into())))
        }
    }
}

impl Node {
    /// `name` is shown by CLIENT LIST.
    pub(crate) fn new(dial: Dial, endpoint: &Endpoint, name: &str) -> Self {
        Node { dial, handshake: Handshake::new(endpoint, name), endpoint: endpoint.to_string() }
    }

    /// Asks a provider of credentials at each login, if there is one.
    pub(crate) fn log_in_by(mut self, provider: Option<Provider>) -> Self {
        if let Some(provider) = provider {
            self.handshake.log_in_by(provider);
        }
        self
    }
}

impl Redis {
    /// Opens the three connections, within `timing.connect`. Must be called on the runtime that is
    /// to drive the caller's lane; `own_runtime` must have a thread of its own.
    ///
    /// With [`IfUnreachable::RetryLater`] a missing connection is opened later, as after a loss.
    pub(crate) async fn connect(
        node: Node,
        timing: Timing,
        events: Arc<dyn TransportEvents>,
        own_runtime: &Handle,
        if_unreachable: IfUnreachable,
    ) -> Result<Redis, CallError> {
        let shared = Arc::new(Shared {
            node,
            timing,
            events,
            slots: LANES.map(|_| ConnectionSlot::new()),
            subscriptions: Arc::new(SubscriptionRegistry::default()),
            reconnects: AtomicU64::new(0),
        });
        let (stop, stopped) = watch::channel(false);
        let supervisor = |role, driven_by| Supervisor {
            shared: shared.clone(),
            role,
            caller_runtime: Handle::current(),
            own_runtime: own_runtime.clone(),
            driven_by,
            stop: stopped.clone(),
        };
        let supervisors = [
            supervisor(Role::Calls(Lane::Caller), DrivenBy::CallerRuntime),
            supervisor(Role::Calls(Lane::Background), DrivenBy::OwnThread),
            supervisor(Role::Messages, DrivenBy::CallerRuntime),
        ];
        // CANCEL: connections that are already open close when they are dropped.
        let first = |supervisor| open_first(supervisor, if_unreachable);
        let opened = futures::future::try_join_all(supervisors.iter().map(first)).await?;
        let tasks = supervisors.into_iter().zip(opened).map(|(supervisor, first)| {
            match &first {
                Ok(driven) => supervisor.fill_slot(driven),
                Err(fault) => supervisor.not_connected(fault),
            }
            own_runtime.spawn(supervisor.run(first))
        });
        let tasks = tasks.collect();
        Ok(Redis { shared, stop, supervisors: Mutex::new(tasks) })
    }

    pub(crate) async fn call(&self, lane: Lane, call: Call) -> Result<Value, CallError> {
        let answer = self.shared.slot(lane).connection()?.call(call)?;
        let given_up = |_| Err(CallError::Unknown(Fault("the connection was given up".into())));
        answer.await.unwrap_or_else(given_up)
    }

    pub(crate) fn epoch(&self, lane: Lane) -> u64 {
        self.shared.slot(lane).epoch()
    }

    pub(crate) async fn subscribe(&self, channel: &Arc<str>) -> Result<(), CallError> {
        let limit = self.shared.timing.command;
        let answer = self.shared.subscriptions.subscribe(channel)?;
        match timeout(limit, answer).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(CallError::Unknown(Fault("the subscription was given up".into()))),
            Err(_) => Err(CallError::Unknown(Fault(format!(
                "the subscription was not confirmed within {} ms",
                limit.as_millis()
            )))),
        }
    }

    pub(crate) fn unsubscribe(&self, channel: &Arc<str>) {
        self.shared.subscriptions.unsubscribe(channel);
    }

    pub(crate) fn server(&self) -> String {
        self.shared.node.endpoint.clone()
    }

    pub(crate) fn reconnects(&self) -> u64 {
        self.shared.reconnects.load(Ordering::Relaxed)
    }

    pub(crate) async fn close(&self) {
        self.shared.close();
        self.stop.send_replace(true);
        let supervisors = std::mem::take(&mut *self.supervisors.lock());
        let aborts: Vec<_> = supervisors.iter().map(JoinHandle::abort_handle).collect();
        // Supervisors wait for outstanding answers, but not longer than this. A supervisor whose runtime
        // is gone has ended.
        drop(timeout(CLOSING_MAX * 2, futures::future::join_all(supervisors)).await);
        for supervisor in aborts {
            supervisor.abort();
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.shared.close();
        for supervisor in self.supervisors.get_mut() {
            // The connection is dropped with its supervisor, and its socket with it.
            supervisor.abort();
        }
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis")
            .field("endpoint", &self.shared.node.endpoint)
            .field("epochs", &LANES.map(|lane| self.epoch(lane)))
            .field("reconnects", &self.reconnects())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn slot(&self, lane: Lane) -> &ConnectionSlot {
        match lane {
            Lane::Caller => &self.slots[0],
            Lane::Background => &self.slots[1],
        }
    }

    /// Adds the name of the server to the error of an attempt.
    fn cannot_connect(&self, error: CallError) -> CallError {
        let named = |fault| Fault(format!("cannot connect to {}: {fault}", self.node.endpoint));
        match error {
            CallError::NotApplied(fault) | CallError::Unknown(fault) => {
                CallError::NotApplied(named(fault))
            }
            CallError::Refused(fault) => CallError::Refused(named(fault)),
            CallError::Closed => CallError::Closed,
        }
    }

    fn reconnected(&self) {
        self.reconnects.fetch_add(1, Ordering::Relaxed);
    }

    /// A silent connection is noticed after two to three intervals.
    fn probe_interval(&self) -> Duration {
        self.timing.command.clamp(PROBE_MIN, PROBE_MAX)
    }

    fn close(&self) {
        self.slots.iter().for_each(ConnectionSlot::close);
        self.subscriptions.close();
    }
}

const PROBE_MIN: Duration = Duration::from_millis(100);
const PROBE_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
