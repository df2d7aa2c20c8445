//! The transport over `fred`; the only place that names it.
//!
//! Three connections: commands of the caller's lane and the subscriber, driven by the runtime that
//! connected (the shortest way for whoever waits), and commands of the background lane, driven by
//! the library's own runtime. If the caller's runtime ends, its connections move to our own.
//!
//! `fred` never reconnects here. Each connection is a client of its own that is thrown away when it
//! is lost (`link.rs`); a task of ours makes the next one (`keeper.rs`). So a command cannot be
//! repeated or moved behind our back, and a call either finds a connection or fails at once.
//!
//! `fred` writes each script call to the socket by itself, which is most of what a call costs. So a
//! call goes out at once while few are under way; beyond that several share one command
//! (`wire.rs`, `batcher.rs`).
//!
//! # Bounds
//!
//! Three keeper tasks, three tasks of `fred`, two batchers, two tasks of the subscriber. Nothing is
//! queued for a connection that is not there.

mod batcher;
pub(crate) mod codec;
mod desk;
mod evaluate;
mod keeper;
mod line;
mod link;
mod reply;
mod settings;
mod subscriber;
mod wire;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Duration, timeout};

use self::desk::Desk;
use self::keeper::{Keeper, LANES, Place, QUIT_MAX};
use self::line::Line;
use self::link::{Failure, Link};
use self::settings::Settings;
use self::subscriber::Start;
use super::{CallError, Fault, Lane, Sink};
use crate::config::endpoint::Endpoint;
use crate::protocol::{Call, Value};

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
    keepers: Mutex<Vec<JoinHandle<()>>>,
}

/// What the connections' tasks and the callers share.
struct Shared {
    settings: Settings,
    sink: Arc<dyn Sink>,
    lines: [Line; LANES.len()],
    desk: Desk,
    reconnects: AtomicU64,
    tokens: AtomicU64,
}

/// Whether a server may be out of reach when its client is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    Refused,
    Allowed,
}

/// The first connection of a keeper, or why there is none yet.
async fn open_first(keeper: &Keeper, absent: Absent) -> Result<Result<Link, Fault>, CallError> {
    match keeper.open(Start::First).await {
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

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Commands(Lane),
    Subscriber,
}

impl Redis {
    /// Opens the three connections, within `timing.connect`. Must be called on the runtime that is
    /// to drive the caller's lane; `background` must have a thread of its own.
    ///
    /// What `absent` allows to be missing is opened later, as after a loss.
    ///
    /// `name` is shown by CLIENT LIST, if the server allows CLIENT SETNAME.
    pub(crate) async fn connect(
        endpoint: &Endpoint,
        timing: Timing,
        name: &str,
        sink: Arc<dyn Sink>,
        background: &Handle,
        absent: Absent,
    ) -> Result<Redis, CallError> {
        let shared = Arc::new(Shared {
            settings: Settings::new(endpoint, timing, name)?,
            sink,
            lines: LANES.map(|_| Line::new()),
            desk: Desk::new(),
            reconnects: AtomicU64::new(0),
            tokens: AtomicU64::new(0),
        });
        let (stop, stopped) = watch::channel(false);
        let keeper = |role, home: &Handle, at| Keeper {
            shared: shared.clone(),
            role,
            home: home.clone(),
            background: background.clone(),
            at,
            stop: stopped.clone(),
        };
        let home = Handle::current();
        let keepers = [
            keeper(Role::Commands(Lane::Caller), &home, Place::Home),
            keeper(Role::Commands(Lane::Background), background, Place::Background),
            keeper(Role::Subscriber, &home, Place::Home),
        ];
        // CANCEL: links that are already open close when they are dropped.
        let first = |keeper| open_first(keeper, absent);
        let links = futures::future::try_join_all(keepers.iter().map(first)).await?;
        let tasks = keepers.into_iter().zip(links).map(|(keeper, link)| {
            match &link {
                Ok(link) => drop(keeper.hand_out(link)),
                Err(fault) => keeper.not_connected(fault),
            }
            background.spawn(keeper.run(link))
        });
        let tasks = tasks.collect();
        Ok(Redis { shared, stop, keepers: Mutex::new(tasks) })
    }

    pub(crate) async fn call(&self, lane: Lane, call: Call) -> Result<Value, CallError> {
        let connection = self.shared.line(lane);
        let (outcome, to_learn) = connection.wire()?.call(call).await;
        if to_learn {
            connection.learn(&outcome);
        }
        outcome
    }

    pub(crate) fn epoch(&self, lane: Lane) -> u64 {
        self.shared.line(lane).epoch()
    }

    pub(crate) async fn subscribe(&self, channel: &Arc<str>) -> Result<(), CallError> {
        let limit = self.shared.settings.timing.command;
        let answer = self.shared.desk.subscribe(channel)?;
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
        self.shared.desk.unsubscribe(channel);
    }

    pub(crate) fn server(&self) -> String {
        self.shared.settings.endpoint.clone()
    }

    pub(crate) fn reconnects(&self) -> u64 {
        self.shared.reconnects.load(Ordering::Relaxed)
    }

    pub(crate) async fn close(&self) {
        self.shared.close();
        self.stop.send_replace(true);
        let keepers = std::mem::take(&mut *self.keepers.lock());
        let aborts: Vec<_> = keepers.iter().map(JoinHandle::abort_handle).collect();
        // They wait for outstanding answers, but not longer than this. A keeper whose runtime is
        // gone has ended.
        drop(timeout(QUIT_MAX * 2, futures::future::join_all(keepers)).await);
        for keeper in aborts {
            keeper.abort();
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.shared.close();
        for keeper in self.keepers.get_mut() {
            // The connection is dropped with its keeper, and its socket with it.
            keeper.abort();
        }
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis")
            .field("endpoint", &self.shared.settings.endpoint)
            .field("name", &self.shared.settings.name)
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

    /// A number that no other PING of this transport carries.
    fn token(&self) -> u64 {
        self.tokens.fetch_add(1, Ordering::Relaxed)
    }

    fn reconnected(&self) {
        self.reconnects.fetch_add(1, Ordering::Relaxed);
    }

    /// A silent connection is noticed after two to three intervals.
    fn probe_interval(&self) -> Duration {
        self.settings.timing.command.clamp(PROBE_MIN, PROBE_MAX)
    }

    fn close(&self) {
        for line in &self.lines {
            line.close();
        }
        self.desk.close();
    }
}

const PROBE_MIN: Duration = Duration::from_millis(100);
const PROBE_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
