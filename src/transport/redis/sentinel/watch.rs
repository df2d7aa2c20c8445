//! One sentinel: a connection on which it is asked, and on which it announces.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Duration, sleep};

use crate::protocol::Value;
use crate::transport::redis::Timing;
use crate::transport::redis::control::ControlConnection;
use crate::transport::redis::handshake::not_connected;
use crate::transport::redis::node::{Remote, Runtimes};
use crate::transport::redis::request::CallOutcome;
use crate::transport::redis::task::AbortOnDrop;
use crate::transport::{CallError, Lane, Missed, TransportEvents};

/// How long a sentinel may take for an answer: it only reads its memory.
const ANSWER_MAX: Duration = Duration::from_millis(300);

/// A subscription that is silent may be dead: so often its connection is tried.
const PROBE: Duration = Duration::from_secs(1);

const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A sentinel that is kept connected, until this is dropped.
#[derive(Clone)]
pub(super) struct Watched {
    state: Arc<State>,
    _task: Arc<AbortOnDrop<()>>,
}

struct State {
    remote: Arc<Remote>,
    connection: Mutex<Option<Arc<ControlConnection>>>,
    changed: Arc<Notify>,
}

impl Watched {
    pub(super) fn start(
        remote: Arc<Remote>,
        timing: Timing,
        runtimes: &Runtimes,
        changed: &Arc<Notify>,
    ) -> Self {
        let connection = Mutex::default();
        let state = Arc::new(State { remote, connection, changed: changed.clone() });
        let task = runtimes.own.spawn(watch(state.clone(), timing, runtimes.clone()));
        Watched { state, _task: Arc::new(AbortOnDrop(task)) }
    }

    pub(super) async fn ask(&self, words: &[&[u8]]) -> CallOutcome {
        let connection = self.state.connection.lock().clone();
        match connection {
            Some(connection) => connection.command(words, ANSWER_MAX).await,
            None => Err(not_connected("the sentinel is not connected")),
        }
    }
}

/// Runs until it is dropped.
async fn watch(state: Arc<State>, timing: Timing, runtimes: Runtimes) {
    let mut pause = PAUSE_MIN;
    loop {
        let events = Arc::new(Announcements(state.changed.clone()));
        // Why it failed does not matter: other sentinels answer, or the client says that none does.
        if let Ok(connection) =
            ControlConnection::open(&state.remote, timing, &runtimes, events).await
            && connection.subscribe("+switch-master", ANSWER_MAX).await.is_ok()
        {
            pause = PAUSE_MIN;
            let connection = Arc::new(connection);
            *state.connection.lock() = Some(connection.clone());
            // What was announced before was not heard.
            state.changed.notify_one();
            // Another answer than PONG belongs to another question.
            let pong = Ok(Value::Text("PONG".into()));
            while connection.command(&[b"PING"], ANSWER_MAX).await == pong {
                sleep(PROBE).await;
            }
            *state.connection.lock() = None;
        }
        sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// What a sentinel says unasked.
struct Announcements(Arc<Notify>);

impl TransportEvents for Announcements {
    fn message(&self, _: &str, _: &[u8]) {
        self.0.notify_one();
    }

    fn missed(&self, _: Missed<'_>) {
        self.0.notify_one();
    }

    fn restored(&self, _: Lane) {}

    fn primary_changed(&self, _: &dyn Fn(&str) -> bool) {}
}

/// An answer that is no description of what was asked for.
pub(super) fn not_understood() -> CallError {
    not_connected("the sentinel does not describe the primary")
}
