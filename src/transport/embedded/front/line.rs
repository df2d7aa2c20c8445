//! One client's way to the engine in bytes: it dials, and what it has dialed can be disturbed.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::control::ByteControl;
use super::conversation::{Conversation, Ending};
use super::faults::{ByteFaults, Direction};
use super::serve::Served;
use super::stream::Stream;
use super::wire::Wire;
use crate::transport::embedded::EmbeddedRedis;
use crate::transport::embedded::engine::Engine;
use crate::transport::redis::dial::{Reader, Writer};

/// Makes a connection.
pub(crate) type Dialer = Arc<dyn Fn() -> io::Result<(Reader, Writer)> + Send + Sync>;

impl EmbeddedRedis {
    /// A way to connect for one client, and the switches of its connections. The server's tasks run
    /// on `runtime`. The client is gone when all copies of the way are.
    pub(crate) fn dialer(&self, runtime: &Handle) -> (Dialer, ByteControl) {
        let line = self.engine.add_byte_line(|id| Arc::new(ByteLine::new(id)));
        let control = ByteControl::new(line.clone());
        let way = Way { engine: self.engine.clone(), line, runtime: runtime.clone() };
        (Arc::new(move || way.dial()), control)
    }

    /// What the engine would be called in a configuration.
    pub(crate) fn url(&self) -> String {
        // As texts they have the order of their numbers.
        format!("redis://embedded-{:020}", self.engine.number)
    }
}

/// What a client owns to connect.
struct Way {
    engine: Arc<Engine>,
    line: Arc<ByteLine>,
    runtime: Handle,
}

impl Way {
    fn dial(&self) -> io::Result<(Reader, Writer)> {
        let stream = self.line.open()?;
        let accepted = self.engine.accept(|id| Arc::new(Conversation::new(id, stream.clone())));
        let conversation = accepted.ok_or(io::ErrorKind::ConnectionRefused)?;
        self.line.add(Connected { stream: stream.clone(), conversation: conversation.clone() });
        self.runtime.spawn(Served::new(&self.engine, conversation).serve());
        let reader = stream.reader(Direction::Replies);
        let writer = stream.writer(Direction::Requests);
        Ok((Box::new(reader), Box::new(writer)))
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.line.with(|state| state.is_alive = false);
    }
}

pub(crate) struct ByteLine {
    pub(super) id: u64,
    state: Mutex<State>,
}

pub(super) struct State {
    faults: ByteFaults,
    rng: fastrand::Rng,
    opened: u64,
    /// By their number. Those whose server has forgotten them are left out when somebody looks.
    connections: Vec<(u64, Connected)>,
    /// Nobody gets through until it is healed.
    pub(super) is_cut: bool,
    pub(super) is_alive: bool,
    /// Refuses connections until then.
    away_until: Option<Instant>,
    /// After how many bytes the next connection breaks, and on which way.
    pub(super) next_breaks: Option<(Direction, u64)>,
}

/// One connection, as its client and as the server have it.
#[derive(Clone)]
pub(super) struct Connected {
    pub(super) stream: Arc<Stream>,
    pub(super) conversation: Arc<Conversation>,
}

impl ByteLine {
    fn new(id: u64) -> Self {
        let state = State {
            faults: ByteFaults::default(),
            rng: fastrand::Rng::with_seed(id),
            opened: 0,
            connections: Vec::new(),
            is_cut: false,
            is_alive: true,
            away_until: None,
            next_breaks: None,
        };
        ByteLine { id, state: Mutex::new(state) }
    }

    pub(super) fn with<R>(&self, job: impl FnOnce(&mut State) -> R) -> R {
        job(&mut self.state.lock())
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.with(|state| state.is_alive)
    }

    /// A stream, if the client gets through.
    fn open(&self) -> io::Result<Arc<Stream>> {
        self.with(|state| {
            state.prune();
            let part = state.faults.refuse_dial;
            let refused = part > 0.0 && state.rng.f64() < part;
            let away = state.away_until.is_some_and(|until| until > Instant::now());
            if refused || away || state.is_cut || !state.is_alive {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let mut wire = Wire::new(state.faults.clone(), state.rng.fork());
            if let Some((direction, bytes)) = state.next_breaks.take() {
                wire.break_after(direction, bytes, Instant::now());
            }
            Ok(Stream::new(wire))
        })
    }

    fn add(&self, connected: Connected) {
        self.with(|state| {
            state.opened += 1;
            state.connections.push((state.opened, connected));
        });
    }

    /// Those that either end still has, the oldest first.
    pub(super) fn connections(&self) -> Vec<(u64, Connected)> {
        self.with(|state| {
            state.prune();
            state.connections.clone()
        })
    }

    pub(super) fn set_faults(&self, faults: &ByteFaults, seed: u64) {
        self.with(|state| {
            state.prune();
            state.faults = faults.clone();
            state.rng = fastrand::Rng::with_seed(seed);
            for (_, connected) in &state.connections {
                // LOCKS: the line, then the wire.
                let rng = state.rng.fork();
                connected.stream.with(|wire, _| wire.set_faults(faults.clone(), rng));
            }
        });
    }
}

impl State {
    fn prune(&mut self) {
        for (_, connected) in &self.connections {
            let until = connected.stream.with(|wire, _| wire.away_until());
            self.away_until = self.away_until.max(until);
        }
        self.connections.retain(|(_, connected)| {
            let is_served = connected.conversation.ending() != Ending::Over;
            is_served || connected.stream.with(|wire, _| wire.is_open())
        });
    }
}
