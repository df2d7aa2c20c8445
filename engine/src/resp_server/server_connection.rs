//! The server's end of one connection: its state and its pending output.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::BytesMut;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::duplex::Duplex;
use super::encode::{self, Protocol};
use super::stream::Stream;
use super::waits::Wait;
use crate::reply::{Bytes, Outcome};
use crate::store::{Channel, Message};

pub(crate) struct ServerConnection {
    /// CLIENT ID.
    pub(super) id: u64,
    pub(super) stream: Arc<Stream>,
    state: Mutex<State>,
    wake: Notify,
}

pub(super) struct State {
    pub(super) protocol: Protocol,
    pub(super) is_authenticated: bool,
    /// When the server ends the connection, unless the client logs in again.
    pub(super) login_ends: Option<Instant>,
    pub(super) name: Bytes,
    pub(super) channels: BTreeSet<Channel>,
    /// Output that the task has not taken yet.
    out: BytesMut,
    /// The number of bytes that the stream has not accepted, including `out`.
    unsent: usize,
    pub(super) phase: Phase,
    /// The connection waits for copies of its writes.
    pub(super) wait: Option<Wait>,
}

/// How far the connection has come towards its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Open,
    /// Nothing is read any more; the output is still sent.
    Draining,
    /// Nothing is read or sent any more.
    Aborted,
    /// Its task has ended.
    Ended,
}

impl ServerConnection {
    pub(super) fn new(id: u64, stream: Arc<Stream>) -> Self {
        let state = State {
            // Clients within the process begin without a handshake, and speak RESP3.
            protocol: Protocol::Resp3,
            is_authenticated: true,
            login_ends: None,
            name: Bytes::new(),
            channels: BTreeSet::new(),
            out: BytesMut::new(),
            unsent: 0,
            phase: Phase::Open,
            wait: None,
        };
        ServerConnection {
            id,
            stream,
            state: Mutex::new(state),
            wake: Notify::new(),
        }
    }

    /// Begins as a connection to a server does.
    pub(crate) fn expect_handshake(&self) {
        self.with(|state| state.protocol = Protocol::Resp2);
    }

    /// Until the last login has ended.
    pub(super) async fn login_ends(&self) {
        match self.with(|state| state.login_ends) {
            Some(end) => sleep_until(end).await,
            None => std::future::pending().await,
        }
    }

    /// Requires the password before any other command.
    pub(crate) fn require_password(&self) {
        self.with(|state| state.is_authenticated = false);
    }

    pub(super) fn with<R>(&self, job: impl FnOnce(&mut State) -> R) -> R {
        job(&mut self.state.lock())
    }

    /// Wakes the task of the connection.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// True while the connection waits for copies.
    pub(super) fn is_waiting(&self) -> bool {
        self.phase() == Phase::Open && self.with(|state| state.wait.is_some())
    }

    /// Until the time of the wait, or until something may have changed.
    pub(super) async fn waits(&self) {
        let until = self.with(|state| state.wait.and_then(|wait| wait.until));
        let times_out = async {
            match until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.woken() => {}
            () = times_out => {}
        }
    }

    /// Sends a published message to this connection.
    pub(crate) fn publish(&self, message: &Message) {
        let limit = self.stream.with(|duplex, _| duplex.faults().output_max);
        let mut state = self.state.lock();
        state.send(|out, protocol| encode::message(out, protocol, message));
        if state.unsent > limit {
            state.end(Phase::Aborted);
        }
        drop(state);
        self.wake();
    }

    /// The connection breaks.
    pub(crate) fn cut(&self) {
        self.stream.with(Duplex::break_up);
    }

    /// The server drops the connection, output included.
    pub(crate) fn abort(&self) {
        self.with(|state| state.end(Phase::Aborted));
        self.wake();
    }

    pub(super) fn answer(&self, outcome: &Outcome) {
        self.with(|state| state.send(|out, protocol| encode::outcome(out, protocol, outcome)));
    }

    pub(super) fn phase(&self) -> Phase {
        self.with(|state| state.phase)
    }

    pub(super) fn channels(&self) -> usize {
        self.with(|state| state.channels.len())
    }

    /// Moves the output to `sending`, if that is empty.
    pub(super) fn fetch(&self, sending: &mut BytesMut) {
        self.with(|state| {
            if sending.is_empty() {
                *sending = std::mem::take(&mut state.out);
            }
        });
    }

    pub(super) fn has_sent(&self, bytes: usize) {
        self.with(|state| state.unsent -= bytes);
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.with(|state| state.unsent > 0)
    }
}

impl State {
    pub(super) fn send(&mut self, encode: impl FnOnce(&mut BytesMut, Protocol)) {
        let before = self.out.len();
        encode(&mut self.out, self.protocol);
        self.unsent += self.out.len() - before;
    }

    /// A connection never returns to an earlier phase.
    pub(super) fn end(&mut self, phase: Phase) {
        self.phase = self.phase.max(phase);
    }
}
