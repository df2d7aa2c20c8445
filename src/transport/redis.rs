//! The transport over connections of our own to one server, a *node*.
//!
//! Three connections: calls of the caller's lane and messages, driven by the runtime that connected
//! (the shortest way for whoever waits), and calls of the background lane, driven by the library's
//! own runtime. If the caller's runtime ends, its connections move to our own.
//!
//! | file | what it is |
//! | --- | --- |
//! | `dial` (`tls`) | a stream of bytes to the server: TCP, TLS, a Unix socket, memory |
//! | `login` | the first words on it |
//! | `codec`, `encode` | RESP3 |
//! | `ledger` | what was asked, and which of it was surely not sent |
//! | `connection` | one ledger, one outbox, one driver |
//! | `line`, `hub` | what callers and subscribers see of the connection of the moment |
//! | `fred` | another driver: requests go through the client `fred` |
//! | `supervisor` | opens it, watches it, makes the next |
//!
//! A connection is never repaired and nothing moves from one to the next: a call either finds a
//! connection or fails at once, and is sent once.
//!
//! # Bounds
//!
//! Three supervisors, three drivers. Nothing is queued for a connection that is not there.

pub(crate) mod codec;
mod connection;
pub(crate) mod dial;
mod encode;
pub(crate) mod endpoint;
#[cfg(feature = "fred")]
pub(crate) mod fred;
mod hub;
mod ledger;
mod line;
mod login;
mod supervisor;
#[cfg(feature = "tls")]
mod tls;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Duration, timeout};

use self::dial::Dial;
use self::hub::Hub;
use self::line::Line;
use self::login::Login;
use self::supervisor::{CLOSING_MAX, Failure, Link, Place, Role, Supervisor};
use super::{CallError, Fault, Lane, Sink};
use crate::protocol::{Call, Value};
use crate::transport::redis::endpoint::Endpoint;

/// The lanes in the order of the lines.
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

/// One server: how it is reached, and as whom.
pub(crate) struct Node {
    dial: Dial,
    login: Login,
    /// For messages: without user and password.
    endpoint: String,
}

/// What the connections' tasks and the callers share.
struct Shared {
    node: Node,
    timing: Timing,
    sink: Arc<dyn Sink>,
    lines: [Line; LANES.len()],
    hub: Arc<Hub>,
    reconnects: AtomicU64,
}

/// Whether a server may be out of reach when its client is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    Refused,
    Allowed,
}

/// The first connection of a supervisor, or why there is none yet.
async fn open_first(
    supervisor: &Supervisor,
    absent: Absent,
) -> Result<Result<Link, Fault>, CallError> {
    match supervisor.open().await {
        Ok(link) => Ok(Ok(link)),
        Err(Failure::Call(CallError::NotApplied(fault))) if absent == Absent::Allowed => {
            Ok(Err(fault))
        }
        Err(Failure::Call(error)) => Err(error),
        Err(Failure::NoRuntime) => {
            Err(CallError::NotApplied(Fault("the runtime is shut down".into())))
        }
    }
}

impl Node {
    /// `name` is shown by CLIENT LIST.
    pub(crate) fn new(dial: Dial, endpoint: &Endpoint, name: &str) -> Self {
        Node { dial, login: Login::new(endpoint, name), endpoint: endpoint.to_string() }
    }
}

impl Redis {
    /// Opens the three connections, within `timing.connect`. Must be called on the runtime that is
    /// to drive the caller's lane; `background` must have a thread of its own.
    ///
    /// What `absent` allows to be missing is opened later, as after a loss.
    pub(crate) async fn connect(
        node: Node,
        timing: Timing,
        sink: Arc<dyn Sink>,
        background: &Handle,
        absent: Absent,
    ) -> Result<Redis, CallError> {
        let shared = Arc::new(Shared {
            node,
            timing,
            sink,
            lines: LANES.map(|_| Line::new()),
            hub: Arc::new(Hub::new()),
            reconnects: AtomicU64::new(0),
        });
        let (stop, stopped) = watch::channel(false);
        let supervisor = |role, home: &Handle, at| Supervisor {
            shared: shared.clone(),
            role,
            home: home.clone(),
            background: background.clone(),
            at,
            stop: stopped.clone(),
        };
        let home = Handle::current();
        let supervisors = [
            supervisor(Role::Calls(Lane::Caller), &home, Place::Home),
            supervisor(Role::Calls(Lane::Background), background, Place::Background),
            supervisor(Role::Messages, &home, Place::Home),
        ];
        // CANCEL: links that are already open close when they are dropped.
        let first = |supervisor| open_first(supervisor, absent);
        let links = futures::future::try_join_all(supervisors.iter().map(first)).await?;
        let tasks = supervisors.into_iter().zip(links).map(|(supervisor, link)| {
            match &link {
                Ok(link) => supervisor.hand_out(link),
                Err(fault) => supervisor.not_connected(fault),
            }
            background.spawn(supervisor.run(link))
        });
        let tasks = tasks.collect();
        Ok(Redis { shared, stop, supervisors: Mutex::new(tasks) })
    }

    pub(crate) async fn call(&self, lane: Lane, call: Call) -> Result<Value, CallError> {
        let answer = self.shared.line(lane).connection()?.run(call)?;
        let given_up = |_| Err(CallError::Unknown(Fault("the connection was given up".into())));
        answer.await.unwrap_or_else(given_up)
    }

    pub(crate) fn epoch(&self, lane: Lane) -> u64 {
        self.shared.line(lane).epoch()
    }

    pub(crate) async fn subscribe(&self, channel: &Arc<str>) -> Result<(), CallError> {
        let limit = self.shared.timing.command;
        let answer = self.shared.hub.subscribe(channel)?;
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
        self.shared.hub.unsubscribe(channel);
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
        // They wait for outstanding answers, but not longer than this. A supervisor whose runtime is
        // gone has ended.
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
    fn line(&self, lane: Lane) -> &Line {
        match lane {
            Lane::Caller => &self.lines[0],
            Lane::Background => &self.lines[1],
        }
    }

    /// Says which server an attempt was about.
    fn cannot_connect(&self, error: CallError) -> CallError {
        let told = |fault| Fault(format!("cannot connect to {}: {fault}", self.node.endpoint));
        match error {
            CallError::NotApplied(fault) | CallError::Unknown(fault) => {
                CallError::NotApplied(told(fault))
            }
            CallError::Refused(fault) => CallError::Refused(told(fault)),
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
        for line in &self.lines {
            line.close();
        }
        self.hub.close();
    }
}

const PROBE_MIN: Duration = Duration::from_millis(100);
const PROBE_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
