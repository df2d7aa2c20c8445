//! What the server knows of one connection, and what it has to say to it.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::BytesMut;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::encode::{self, Dialect};
use super::stream::Stream;
use super::wire::Wire;
use crate::transport::embedded::reply::{Bytes, Outcome};
use crate::transport::embedded::store::Message;

pub(crate) struct Conversation {
    /// CLIENT ID.
    pub(super) id: u64,
    pub(super) stream: Arc<Stream>,
    state: Mutex<State>,
    wake: Notify,
}

pub(super) struct State {
    pub(super) dialect: Dialect,
    pub(super) is_known: bool,
    pub(super) name: Bytes,
    pub(super) channels: BTreeSet<Bytes>,
    /// What the task has not fetched.
    out: BytesMut,
    /// What the stream has not taken, `out` included.
    unsent: usize,
    pub(super) ending: Ending,
}

/// Whether the conversation goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ending {
    GoesOn,
    /// Nothing is read any more; what was said is still sent.
    Farewell,
    HungUp,
    /// Its task has ended.
    Over,
}

impl Conversation {
    pub(super) fn new(id: u64, stream: Arc<Stream>) -> Self {
        let state = State {
            dialect: Dialect::Resp2,
            is_known: true,
            name: Bytes::new(),
            channels: BTreeSet::new(),
            out: BytesMut::new(),
            unsent: 0,
            ending: Ending::GoesOn,
        };
        Conversation { id, stream, state: Mutex::new(state), wake: Notify::new() }
    }

    /// Nothing is run for it before it has given the password.
    pub(crate) fn require_password(&self) {
        self.with(|state| state.is_known = false);
    }

    pub(super) fn with<R>(&self, job: impl FnOnce(&mut State) -> R) -> R {
        job(&mut self.state.lock())
    }

    /// Lets the task look again.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// A message for this connection left the server.
    pub(crate) fn publish(&self, message: &Message) {
        let limit = self.stream.with(|wire, _| wire.faults().output_max);
        let mut state = self.state.lock();
        let dialect = state.dialect;
        state.say(|out| encode::message(out, dialect, message));
        if state.unsent > limit {
            state.end(Ending::HungUp);
        }
        drop(state);
        self.wake();
    }

    /// The connection breaks.
    pub(crate) fn cut(&self) {
        self.stream.with(Wire::break_up);
    }

    /// The server wants nothing more of it.
    pub(crate) fn hang_up(&self) {
        self.with(|state| state.end(Ending::HungUp));
        self.wake();
    }

    pub(super) fn answer(&self, outcome: &Outcome) {
        self.with(|state| {
            let dialect = state.dialect;
            state.say(|out| encode::outcome(out, dialect, outcome));
        });
    }

    pub(super) fn ending(&self) -> Ending {
        self.with(|state| state.ending)
    }

    pub(super) fn channels(&self) -> usize {
        self.with(|state| state.channels.len())
    }

    /// Moves what was said to what is being sent.
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
    pub(super) fn say(&mut self, say: impl FnOnce(&mut BytesMut)) {
        let before = self.out.len();
        say(&mut self.out);
        self.unsent += self.out.len() - before;
    }

    /// There is no way back.
    pub(super) fn end(&mut self, ending: Ending) {
        self.ending = self.ending.max(ending);
    }
}
