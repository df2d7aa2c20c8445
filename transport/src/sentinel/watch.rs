//! A sentinel: one connection for questions and for announcements.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;
use tokio::time::{Duration, sleep};

use crate::call::Value;
use crate::call_error::CallError;
use crate::control::ControlConnection;
use crate::events::{Missed, TransportEvents};
use crate::handshake::not_connected;
use crate::pacer::Pacer;
use crate::protocol::Protocol;
use crate::remote::Remote;
use crate::request::CallOutcome;
use crate::setup::Setup;
use crate::sync::Mutex;
use crate::task::AbortOnDrop;

/// How long a sentinel may take for an answer. It only needs to read its memory.
pub(super) const ANSWER_MAX: Duration = Duration::from_millis(300);

/// How often an idle subscription connection is probed.
const PROBE: Duration = Duration::from_secs(1);

const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A sentinel. The client stays connected to it until this value is dropped.
#[derive(Clone)]
pub(super) struct WatchedSentinel {
    pub(super) origin: Origin,
    state: Arc<WatchedState>,
    _task: Arc<AbortOnDrop<()>>,
}

/// Who named the sentinel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Url,
    OtherSentinels,
}

struct WatchedState {
    remote: Arc<Remote>,
    /// The connection, or why there is none.
    connection: Mutex<Result<Arc<ControlConnection>, CallError>>,
    has_been_connected: AtomicBool,
    /// Somebody has asked while there was no connection.
    wanted: Notify,
    changed: Arc<Notify>,
}

impl WatchedSentinel {
    pub(super) fn start(
        origin: Origin,
        remote: Arc<Remote>,
        setup: &Setup,
        changed: &Arc<Notify>,
    ) -> Self {
        let unknown = remote.no_answer_yet();
        let state = Arc::new(WatchedState {
            remote,
            connection: Mutex::new(Err(unknown)),
            has_been_connected: AtomicBool::new(false),
            wanted: Notify::new(),
            changed: changed.clone(),
        });
        let own = &setup.runtimes.own;
        let task = own.spawn(watch(state.clone(), setup.clone()));
        WatchedSentinel {
            origin,
            state,
            _task: Arc::new(AbortOnDrop(task)),
        }
    }

    /// Sends a command. Without a connection, the error says why there is none. The sentinel is
    /// then tried at once, because a client that has just lost its primary needs to know whether
    /// there is another one.
    pub(super) async fn ask(&self, words: &[&[u8]]) -> CallOutcome {
        let connection = self.state.connection.lock().clone();
        if connection.is_err() {
            self.state.wanted.notify_one();
        }
        connection?.command(words, ANSWER_MAX).await
    }

    /// Whether the sentinel counts towards the majority. Sentinels may list addresses that clients
    /// cannot reach.
    pub(super) fn is_voter(&self) -> bool {
        self.origin == Origin::Url || self.state.has_been_connected.load(Ordering::Relaxed)
    }
}

/// Runs until it is dropped.
async fn watch(state: Arc<WatchedState>, setup: Setup) {
    let mut pacer = Pacer::new(PAUSE_MIN, PAUSE_MAX);
    loop {
        let events = Arc::new(Announcements(state.changed.clone()));
        let fault = match connect(&state, &setup, events).await {
            Err(fault) => fault,
            Ok(connection) => {
                pacer.reset();
                let connection = Arc::new(connection);
                *state.connection.lock() = Ok(connection.clone());
                state.has_been_connected.store(true, Ordering::Relaxed);
                // Announcements before this connection were missed.
                state.changed.notify_one();
                while answers(&connection).await {
                    sleep(PROBE).await;
                }
                let lost = not_connected("the connection was lost");
                state.remote.cannot_connect(lost)
            }
        };
        let former = std::mem::replace(&mut *state.connection.lock(), Err(fault.clone()));
        if former.err() != Some(fault) {
            // A look updates the error that callers see.
            state.changed.notify_one();
        }
        pacer.nothing_new();
        sleep(PAUSE_MIN).await;
        tokio::select! {
            biased;
            () = state.wanted.notified() => {}
            () = pacer.rest() => {}
        }
    }
}

/// False if the connection is lost. Any other reply than PONG belongs to another command.
async fn answers(connection: &ControlConnection) -> bool {
    connection.command(&[b"PING"], ANSWER_MAX).await == Ok(Value::Text("PONG".into()))
}

/// Opens the connection. In RESP2, a connection with subscriptions takes no questions, so such a
/// sentinel is only asked, at each look.
async fn connect(
    state: &WatchedState,
    setup: &Setup,
    events: Arc<Announcements>,
) -> Result<ControlConnection, CallError> {
    let connection = ControlConnection::open(&state.remote, setup, events).await?;
    if connection.protocol() == Protocol::Resp3 {
        let subscribed = connection.subscribe("+switch-master", ANSWER_MAX).await;
        subscribed.map_err(|error| state.remote.cannot_connect(error))?;
    }
    Ok(connection)
}

/// The observer of a sentinel's messages.
struct Announcements(Arc<Notify>);

impl TransportEvents for Announcements {
    fn message(&self, _: &str, _: &[u8]) {
        self.0.notify_one();
    }

    fn missed(&self, _: Missed<'_>) {
        self.0.notify_one();
    }
}
