//! The switches of one client's connections, for tests.

use std::fmt;
use std::sync::Arc;

use super::duplex::Duplex;
use super::link::{Link, LinkConnection};
use crate::engine::Engine;
use crate::faults::{Direction, Faults};

impl Engine {
    /// The clients that were not dropped and have not crashed, oldest first.
    pub fn links(&self) -> Vec<LinkControl> {
        self.clients().into_iter().map(LinkControl::new).collect()
    }
}

/// The switches of one client.
#[derive(Clone)]
pub struct LinkControl {
    client: Arc<Link>,
}

impl LinkControl {
    pub(super) fn new(client: Arc<Link>) -> Self {
        LinkControl { client }
    }

    /// Clients are numbered from 1 in the order in which they were made.
    pub fn id(&self) -> u64 {
        self.client.id
    }

    /// Sets the faults from now on, drawn from a new seed.
    pub fn set_faults(&self, faults: Faults, seed: u64) {
        self.client.set_faults(faults, seed);
    }

    /// The connections that exist at either end, oldest first. A connection may exist longer at the
    /// server's end.
    pub fn connections(&self) -> Vec<ConnectionControl> {
        let connections = self.client.connections().into_iter();
        connections
            .map(|(number, connection)| ConnectionControl { number, connection })
            .collect()
    }

    /// The connections with subscriptions, oldest first.
    pub fn listening(&self) -> Vec<ConnectionControl> {
        let connections = self.connections().into_iter();
        connections
            .filter(|connection| connection.subscriptions() > 0)
            .collect()
    }

    /// Breaks all connections and refuses new ones until [`heal`](Self::heal).
    pub fn cut(&self) {
        self.client.with(|state| state.is_cut = true);
        self.connections().iter().for_each(ConnectionControl::cut);
    }

    /// Breaks the connections with subscriptions and leaves the others. No connection can be made
    /// until [`heal`](Self::heal).
    pub fn cut_pubsub(&self) {
        self.client.with(|state| state.is_cut = true);
        self.listening().iter().for_each(ConnectionControl::cut);
    }

    /// Breaks the next connection after this many bytes of one direction.
    pub fn cut_next_after(&self, direction: Direction, bytes: u64) {
        self.client
            .with(|state| state.next_breaks = Some((direction, bytes)));
    }

    /// Stops all replies on connections without subscriptions.
    pub fn mute(&self) {
        let silent = self
            .connections()
            .into_iter()
            .filter(|one| one.subscriptions() == 0);
        silent.for_each(|connection| connection.half_open(Direction::Replies));
    }

    /// Stops all messages on connections with subscriptions.
    pub fn deafen(&self) {
        self.listening()
            .iter()
            .for_each(|connection| connection.half_open(Direction::Replies));
    }

    /// Allows connections again, and lets bytes pass.
    pub fn heal(&self) {
        self.client.with(|state| state.is_cut = false);
        self.connections().iter().for_each(ConnectionControl::heal);
        self.client.back.notify_waiters();
    }

    /// Makes the client vanish: no command of it is executed and no message delivered any more.
    pub fn crash(&self) {
        self.client.with(|state| state.is_alive = false);
        for connection in self.connections() {
            connection.connection.stream.with(Duplex::sever);
            connection.connection.server.abort();
        }
    }

    /// True if the client was not dropped and has not crashed.
    pub fn is_alive(&self) -> bool {
        self.client.is_alive()
    }
}

impl fmt::Debug for LinkControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkControl")
            .field("id", &self.client.id)
            .finish_non_exhaustive()
    }
}

/// The switches of one connection.
#[derive(Clone)]
pub struct ConnectionControl {
    number: u64,
    connection: LinkConnection,
}

impl ConnectionControl {
    /// Connections of a client are numbered from 1 in the order in which they were made.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The number of channels that this connection is subscribed to at the server.
    pub fn subscriptions(&self) -> usize {
        self.connection.server.channels()
    }

    /// Breaks the connection.
    pub fn cut(&self) {
        self.connection.stream.with(Duplex::break_up);
    }

    /// Breaks the connection after exactly this many more bytes of one direction.
    pub fn cut_after(&self, direction: Direction, bytes: u64) {
        self.connection
            .stream
            .with(|duplex, now| duplex.break_after(direction, bytes, now));
    }

    /// Bytes of this direction vanish, and neither end notices. If bytes were lost, the connection
    /// breaks when it is healed.
    pub fn half_open(&self, direction: Direction) {
        self.connection
            .stream
            .with(|duplex, _| duplex.half_open(direction));
    }

    /// No bytes arrive in this direction until it is healed. Its writer blocks when the bytes in
    /// flight reach the capacity.
    pub fn stall(&self, direction: Direction) {
        self.connection
            .stream
            .with(|duplex, _| duplex.stall(direction));
    }

    /// Lets bytes pass.
    pub fn heal(&self) {
        self.connection.stream.with(Duplex::heal);
    }

    /// The number of bytes that the writer of a direction has handed over.
    pub fn sent(&self, direction: Direction) -> u64 {
        self.connection
            .stream
            .with(|duplex, _| duplex.pipe(direction).sent)
    }

    /// The number of bytes that the reader of a direction has received.
    pub fn arrived(&self, direction: Direction) -> u64 {
        self.connection
            .stream
            .with(|duplex, _| duplex.pipe(direction).arrived)
    }

    /// The bytes that the writer of a direction has handed over, and its reader has not received.
    pub fn in_flight(&self, direction: Direction) -> Vec<u8> {
        self.connection
            .stream
            .with(|duplex, _| duplex.pipe(direction).bytes().to_vec())
    }

    /// True if the connection neither broke nor was closed.
    pub fn is_open(&self) -> bool {
        self.connection.stream.with(|duplex, _| duplex.is_open())
    }
}

impl fmt::Debug for ConnectionControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionControl")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}
