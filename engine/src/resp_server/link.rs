//! One client: its connections and their faults.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::duplex::Duplex;
use super::server_connection::{Phase, ServerConnection};
use super::stream::Stream;
use crate::faults::{Delay, Direction, Faults};

pub(crate) struct Link {
    pub(super) id: u64,
    /// Notified when connections can be made again.
    pub(crate) back: Arc<Notify>,
    state: Mutex<State>,
}

pub(super) struct State {
    faults: Faults,
    rng: fastrand::Rng,
    opened: u64,
    /// By number. Ended connections are removed when a test or a dial looks at the list.
    connections: Vec<(u64, LinkConnection)>,
    /// No connection can be made until the link is healed.
    pub(super) is_cut: bool,
    pub(super) is_alive: bool,
    /// Refuses connections until this instant.
    away_until: Option<Instant>,
    /// When the next connection breaks: after how many bytes, in which direction.
    pub(super) next_breaks: Option<(Direction, u64)>,
}

/// One connection: the stream and the server's end.
#[derive(Clone)]
pub(super) struct LinkConnection {
    pub(super) stream: Arc<Stream>,
    pub(super) server: Arc<ServerConnection>,
}

impl Link {
    pub(crate) fn new(id: u64) -> Self {
        let state = State {
            faults: Faults::default(),
            rng: fastrand::Rng::with_seed(id),
            opened: 0,
            connections: Vec::new(),
            is_cut: false,
            is_alive: true,
            away_until: None,
            next_breaks: None,
        };
        Link {
            id,
            back: Arc::default(),
            state: Mutex::new(state),
        }
    }

    pub(super) fn with<R>(&self, job: impl FnOnce(&mut State) -> R) -> R {
        job(&mut self.state.lock())
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.with(|state| state.is_alive)
    }

    /// Opens a stream, if connections can be made.
    pub(super) fn open(&self) -> io::Result<Arc<Stream>> {
        self.with(|state| {
            state.prune();
            let part = state.faults.refuse_dial;
            let refused = part > 0.0 && state.rng.f64() < part;
            let away = state.away_until.is_some_and(|until| until > Instant::now());
            if refused || away || state.is_cut || !state.is_alive {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let mut duplex = Duplex::new(state.faults.clone(), state.rng.fork());
            if let Some((direction, bytes)) = state.next_breaks.take() {
                duplex.break_after(direction, bytes, Instant::now());
            }
            Ok(Stream::new(duplex))
        })
    }

    pub(super) fn add(&self, connection: LinkConnection) {
        self.with(|state| {
            state.opened += 1;
            state.connections.push((state.opened, connection));
        });
    }

    /// The connections that exist at either end, oldest first.
    pub(super) fn connections(&self) -> Vec<(u64, LinkConnection)> {
        self.with(|state| {
            state.prune();
            state.connections.clone()
        })
    }

    /// Replies and messages arrive this much later, also those of later connections.
    pub(crate) fn delay(&self, by: Duration) {
        self.with(|state| {
            state.faults.reply = Delay::fixed(by);
            for (_, connection) in &state.connections {
                // LOCKS: the client, then the duplex.
                connection.stream.with(|duplex, _| duplex.delay(by));
            }
        });
    }

    pub(super) fn set_faults(&self, faults: Faults, seed: u64) {
        self.with(|state| {
            state.prune();
            state.rng = fastrand::Rng::with_seed(seed);
            for (_, connection) in &state.connections {
                // LOCKS: the client, then the duplex.
                let rng = state.rng.fork();
                connection
                    .stream
                    .with(|duplex, _| duplex.set_faults(faults.clone(), rng));
            }
            state.faults = faults;
        });
    }
}

impl State {
    fn prune(&mut self) {
        for (_, connection) in &self.connections {
            let until = connection.stream.with(|duplex, _| duplex.away_until());
            self.away_until = self.away_until.max(until);
        }
        self.connections.retain(|(_, connection)| {
            let is_served = connection.server.phase() != Phase::Ended;
            is_served || connection.stream.with(|duplex, _| duplex.is_open())
        });
    }
}
