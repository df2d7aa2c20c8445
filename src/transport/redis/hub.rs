//! Which channels are wanted, and the connection that listens to them.
//!
//! # Invariants
//!
//! - **H1** Orders reach the connection in the order in which they were given: they are pushed under
//!   the lock.
//! - **H2** A channel is `confirmed` only if the server confirmed the latest order for it on this
//!   connection: one that was followed by an unsubscription confirms nothing.
//! - **H3** What is wanted is wanted across connections, until it is unsubscribed. Who waits for a
//!   confirmation waits on while the next connection is made for the first time, not beyond.
//!
//! # Locking
//!
//! One mutex, never across an await. A connection's locks are taken under it, never the other way
//! round, and nobody is told anything under it.
//!
//! # Bounds
//!
//! An entry for each channel that was subscribed and not unsubscribed, and one for each `subscribe`
//! future while there is no connection.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::connection::Connection;
use super::ledger::{Listen, Listening};
use crate::sync::Mutex;
use crate::transport::{CallError, Fault};

pub(super) struct Hub(Mutex<State>);

struct State {
    mode: Mode,
    /// In an order that does not depend on hashing: simulations are replayed.
    wanted: BTreeMap<Arc<str>, Wanted>,
    orders: u64,
    /// Counts losses: which connection is asked.
    losses: u64,
    /// What the next connection is asked for.
    unheard: Vec<Listen>,
    /// Why this connection did not restore a channel, if another may.
    not_restored: Option<CallError>,
}

enum Mode {
    Up(Arc<Connection>),
    /// The next connection is being made.
    Lost,
    /// It could not be made yet.
    Down(Fault),
    Closed,
}

struct Wanted {
    /// The latest order for this channel.
    order: u64,
    confirmed: bool,
}

impl Hub {
    pub(super) fn new() -> Self {
        let (wanted, unheard) = (BTreeMap::new(), Vec::new());
        let mode = Mode::Lost;
        let not_restored = None;
        Hub(Mutex::new(State { mode, wanted, orders: 0, losses: 0, unheard, not_restored }))
    }

    /// Orders a subscription; the receiver gets the outcome.
    pub(super) fn subscribe(
        &self,
        channel: &Arc<str>,
    ) -> Result<oneshot::Receiver<Listening>, CallError> {
        let mut state = self.0.lock();
        let state = &mut *state;
        match &state.mode {
            Mode::Up(_) | Mode::Lost => {}
            Mode::Down(fault) => return Err(CallError::NotApplied(fault.clone())),
            Mode::Closed => return Err(CallError::Closed),
        }
        let orders = &mut state.orders;
        let wanted = state.wanted.entry(channel.clone()).or_insert_with(|| {
            *orders += 1;
            Wanted { order: *orders, confirmed: false }
        });
        let (answer, receiver) = oneshot::channel();
        if wanted.confirmed {
            drop(answer.send(Ok(())));
            return Ok(receiver);
        }
        let (order, losses) = (wanted.order, state.losses);
        let listen = Listen { channel: channel.clone(), order, losses, answer: Some(answer) };
        match &state.mode {
            // INVARIANT H1.
            Mode::Up(connection) => connection.listen(listen)?,
            _ => state.unheard.push(listen),
        }
        Ok(receiver)
    }

    pub(super) fn unsubscribe(&self, channel: &Arc<str>) {
        let mut state = self.0.lock();
        if state.wanted.remove(channel).is_some()
            && let Mode::Up(connection) = &state.mode
        {
            // INVARIANT H1. A connection that takes nothing more listens to nothing, either.
            drop(connection.unlisten(channel));
        }
    }

    /// The server confirmed a subscription, or refused it.
    pub(super) fn told(&self, listen: Listen, outcome: Listening) {
        let mut state = self.0.lock();
        match &outcome {
            // A connection that was lost meanwhile: nothing follows for the next one.
            _ if listen.losses != state.losses => {}
            Ok(()) => {
                if let Some(wanted) = state.wanted.get_mut(&listen.channel)
                    && wanted.order == listen.order
                {
                    wanted.confirmed = true;
                }
            }
            // Nobody would ask for it again.
            Err(error @ CallError::NotApplied(_)) if listen.answer.is_none() => {
                state.not_restored = Some(error.clone());
            }
            Err(_) => {}
        }
        drop(state);
        tell(listen, outcome);
    }

    /// Whether all that the connection was asked for in [`Hub::up`] was confirmed, or refused for
    /// good: a server whose script runs for too long answers BUSY, and would confirm it later.
    pub(super) fn restored(&self) -> Result<(), CallError> {
        self.0.lock().not_restored.take().map_or(Ok(()), Err)
    }

    /// The connection ended before the server did either.
    pub(super) fn unheard(&self, listen: Listen) {
        let mut state = self.0.lock();
        let error = match &state.mode {
            Mode::Up(_) | Mode::Lost => return state.unheard.push(listen),
            Mode::Down(fault) => CallError::NotApplied(fault.clone()),
            Mode::Closed => CallError::Closed,
        };
        drop(state);
        tell(listen, Err(error));
    }

    /// Asks a new connection for everything that is wanted. All of it is heard when a PING that is
    /// sent now is answered.
    pub(super) fn up(&self, connection: &Arc<Connection>) {
        let mut guard = self.0.lock();
        let state = &mut *guard;
        if matches!(state.mode, Mode::Closed) {
            return;
        }
        state.mode = Mode::Up(connection.clone());
        state.not_restored = None;
        for (channel, wanted) in &mut state.wanted {
            wanted.confirmed = false;
            let (order, losses) = (wanted.order, state.losses);
            let listen = Listen { channel: channel.clone(), order, losses, answer: None };
            // A connection that has ended already: the next one is asked.
            drop(connection.listen(listen));
        }
        let unheard = std::mem::take(&mut state.unheard);
        let (wanted, gone): (Vec<_>, Vec<_>) = unheard.into_iter().partition(|listen| {
            state.wanted.get(&listen.channel).is_some_and(|wanted| wanted.order == listen.order)
        });
        for mut listen in wanted {
            listen.losses = state.losses;
            drop(connection.listen(listen));
        }
        drop(guard);
        for listen in gone {
            tell(listen, Err(CallError::NotApplied(Fault("it was unsubscribed".into()))));
        }
    }

    /// The connection was lost; another is being made.
    pub(super) fn lost(&self) {
        let mut state = self.0.lock();
        if !matches!(state.mode, Mode::Closed) {
            state.mode = Mode::Lost;
            state.losses += 1;
            state.wanted.values_mut().for_each(|wanted| wanted.confirmed = false);
        }
    }

    /// There is no connection for now: nobody is kept waiting.
    pub(super) fn down(&self, fault: Fault) {
        self.give_up(Mode::Down(fault.clone()), &CallError::NotApplied(fault));
    }

    pub(super) fn close(&self) {
        self.give_up(Mode::Closed, &CallError::Closed);
    }

    fn give_up(&self, mode: Mode, error: &CallError) {
        let unheard = {
            let mut state = self.0.lock();
            if matches!(state.mode, Mode::Closed) {
                return;
            }
            state.mode = mode;
            std::mem::take(&mut state.unheard)
        };
        for listen in unheard {
            tell(listen, Err(error.clone()));
        }
    }
}

fn tell(listen: Listen, outcome: Listening) {
    if let Some(answer) = listen.answer {
        // The caller may be gone; the channel then stays as it is.
        drop(answer.send(outcome));
    }
}

#[cfg(all(test, shuttle))]
impl Hub {
    /// The channels that are wanted.
    pub(super) fn wanted(&self) -> Vec<String> {
        self.0.lock().wanted.keys().map(ToString::to_string).collect()
    }
}
