//! The registry of the subscribed channels, and the connection that carries them.
//!
//! # Invariants
//!
//! - **REGISTRY-1** Requests reach the connection in the order of the calls that made them: they
//!   are pushed under the lock.
//! - **REGISTRY-2** A channel is `confirmed` only if the server confirmed its latest generation on
//!   the current connection. If a channel was unsubscribed and subscribed again, the confirmation
//!   of the earlier subscription does not count.
//! - **REGISTRY-3** A channel stays registered across connections until it is unsubscribed. After a
//!   loss, `subscribe` waits for the first attempt to reconnect, but not longer.
//! - **REGISTRY-4** A restored channel that the server refuses is forgotten and reported.
//!
//! # Locking
//!
//! One mutex, never held across an await. The locks of a connection are taken after it, never
//! before. No answer is sent under it.
//!
//! # Bounds
//!
//! An entry for each channel that was subscribed and not unsubscribed, and one for each `subscribe`
//! future while there is no connection.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::oneshot;

use super::connection::Connection;
use super::request::{SubscribeOutcome, SubscribeRequest};
use crate::call_error::{CallError, Fault};
use crate::pubsub::PubSub;
use crate::sync::Mutex;

#[derive(Default)]
pub(super) struct SubscriptionRegistry(Mutex<RegistryState>);

#[derive(Default)]
struct RegistryState {
    connectivity: Connectivity,
    /// Sorted, so that simulations are repeatable.
    channels: BTreeMap<Arc<str>, Registered>,
    generations: u64,
    /// The number of lost connections.
    epoch: u64,
    /// Only connections of this generation are accepted, as in `slot.rs`.
    generation: u64,
    /// The requests for the next connection.
    pending: Vec<SubscribeRequest>,
    /// Why this connection did not restore a channel, if another connection may succeed.
    not_restored: Option<CallError>,
}

#[derive(Default)]
enum Connectivity {
    Connected(Arc<Connection>),
    /// The first attempt to reconnect is running.
    #[default]
    Reconnecting,
    /// The first attempt to reconnect has failed.
    Unreachable(Fault),
    Closed,
}

struct Registered {
    generation: u64,
    pubsub: PubSub,
    confirmed: bool,
}

impl SubscriptionRegistry {
    /// Requests a subscription. The receiver gets the outcome.
    pub(super) fn subscribe(
        &self,
        channel: &Arc<str>,
        pubsub: PubSub,
    ) -> Result<oneshot::Receiver<SubscribeOutcome>, CallError> {
        let mut state = self.0.lock();
        let state = &mut *state;
        match &state.connectivity {
            Connectivity::Connected(_) | Connectivity::Reconnecting => {}
            Connectivity::Unreachable(fault) => return Err(CallError::NotApplied(fault.clone())),
            Connectivity::Closed => return Err(CallError::Closed),
        }
        let generations = &mut state.generations;
        let registered = state.channels.entry(channel.clone()).or_insert_with(|| {
            *generations += 1;
            Registered {
                generation: *generations,
                pubsub,
                confirmed: false,
            }
        });
        let (answer, receiver) = oneshot::channel();
        if registered.confirmed {
            drop(answer.send(Ok(())));
            return Ok(receiver);
        }
        let (generation, epoch) = (registered.generation, state.epoch);
        let (channel, answer) = (channel.clone(), Some(answer));
        let request = SubscribeRequest {
            channel,
            generation,
            epoch,
            pubsub,
            answer,
        };
        match &state.connectivity {
            // INVARIANT REGISTRY-1.
            Connectivity::Connected(connection) => connection.subscribe(request)?,
            _ => state.pending.push(request),
        }
        Ok(receiver)
    }

    /// Whether the server has confirmed the channel on the present connection.
    pub(super) fn is_confirmed(&self, channel: &str) -> bool {
        self.0
            .lock()
            .channels
            .get(channel)
            .is_some_and(|registered| registered.confirmed)
    }

    pub(super) fn unsubscribe(&self, channel: &Arc<str>) {
        let mut state = self.0.lock();
        if let Some(registered) = state.channels.remove(channel)
            && let Connectivity::Connected(connection) = &state.connectivity
        {
            // INVARIANT REGISTRY-1. Fails only on a closed connection, which has no subscriptions.
            drop(connection.unsubscribe(channel, registered.pubsub));
        }
    }

    /// Fails if the connection did not restore all channels that [`connected`](Self::connected)
    /// requested. Those that the server refused for good do not count (REGISTRY-4). Others may be
    /// confirmed on a later attempt, for example after BUSY, when a script has run for too long.
    pub(super) fn restored(&self) -> Result<(), CallError> {
        self.0.lock().not_restored.take().map_or(Ok(()), Err)
    }

    /// Subscribes every registered channel on a new connection. When a PING that is sent after this
    /// is answered, all of them have been answered.
    ///
    /// False if the connection belongs to an earlier generation.
    pub(super) fn connected(&self, connection: &Arc<Connection>, generation: u64) -> bool {
        let mut guard = self.0.lock();
        let state = &mut *guard;
        if state.generation != generation {
            return false;
        }
        if matches!(state.connectivity, Connectivity::Closed) {
            return true;
        }
        state.connectivity = Connectivity::Connected(connection.clone());
        state.not_restored = None;
        let pending = std::mem::take(&mut state.pending);
        let (wanted, gone): (Vec<_>, Vec<_>) = pending.into_iter().partition(|request| {
            let registered = state.channels.get(&request.channel);
            registered.is_some_and(|registered| registered.generation == request.generation)
        });
        // A channel whose caller still waits is asked for once, on the caller's behalf. Otherwise
        // the caller would not hear of a refusal that ends the connection, as one does with fred.
        let asked: BTreeSet<_> = wanted.iter().map(|request| &request.channel).collect();
        for (channel, registered) in &mut state.channels {
            registered.confirmed = false;
            if asked.contains(channel) {
                continue;
            }
            let (generation, epoch) = (registered.generation, state.epoch);
            let (channel, pubsub) = (channel.clone(), registered.pubsub);
            let request = SubscribeRequest {
                channel,
                generation,
                epoch,
                pubsub,
                answer: None,
            };
            // Fails if the connection has ended already. The next one will subscribe the channel.
            drop(connection.subscribe(request));
        }
        for mut request in wanted {
            request.epoch = state.epoch;
            drop(connection.subscribe(request));
        }
        drop(guard);
        for request in gone {
            answer(
                request,
                Err(CallError::NotApplied(Fault(
                    "the channel was unsubscribed".into(),
                ))),
            );
        }
        true
    }

    /// Called when the connection was lost and another one is being made.
    pub(super) fn disconnected(&self) {
        self.0.lock().disconnected();
    }

    /// The node has another target. From now on, only connections of this generation are accepted.
    /// Returns the connection to the previous target, which the caller must end.
    pub(super) fn switched(&self, generation: u64) -> Option<Arc<Connection>> {
        let mut state = self.0.lock();
        state.generation = generation;
        state.disconnected()
    }

    /// The attempt to connect failed. Unless there is a connection, each `subscribe` fails until
    /// the next one is open.
    pub(super) fn unreachable(&self, fault: Fault) {
        self.give_up(
            Connectivity::Unreachable(fault.clone()),
            &CallError::NotApplied(fault),
        );
    }

    pub(super) fn close(&self) {
        self.give_up(Connectivity::Closed, &CallError::Closed);
    }

    fn give_up(&self, connectivity: Connectivity, error: &CallError) {
        let pending = {
            let mut state = self.0.lock();
            match (&state.connectivity, &connectivity) {
                (Connectivity::Closed, _)
                | (Connectivity::Connected(_), Connectivity::Unreachable(_)) => return,
                _ => state.connectivity = connectivity,
            }
            std::mem::take(&mut state.pending)
        };
        for request in pending {
            answer(request, Err(error.clone()));
        }
    }
}

impl RegistryState {
    /// REGISTRY-4: the next connection would be refused the channel too, and some end when they
    /// are.
    fn forget(&mut self, refused: &SubscribeRequest) -> Option<Arc<str>> {
        let registered = self.channels.get(&refused.channel)?;
        if registered.generation != refused.generation {
            return None;
        }
        let (channel, _) = self.channels.remove_entry(&refused.channel)?;
        Some(channel)
    }

    fn disconnected(&mut self) -> Option<Arc<Connection>> {
        if matches!(self.connectivity, Connectivity::Closed) {
            return None;
        }
        self.epoch += 1;
        self.channels
            .values_mut()
            .for_each(|registered| registered.confirmed = false);
        match std::mem::replace(&mut self.connectivity, Connectivity::Reconnecting) {
            Connectivity::Connected(connection) => Some(connection),
            _ => None,
        }
    }
}

/// The ends of the requests.
impl SubscriptionRegistry {
    /// The server confirmed or refused the subscription. Returns a restored channel that is
    /// forgotten.
    pub(super) fn answered(
        &self,
        request: SubscribeRequest,
        outcome: SubscribeOutcome,
    ) -> Option<Arc<str>> {
        let (mut state, mut forgotten) = (self.0.lock(), None);
        match &outcome {
            // The outcome belongs to a connection that was lost meanwhile. The next connection has
            // its own requests.
            _ if request.epoch != state.epoch => {}
            Ok(()) => {
                if let Some(registered) = state.channels.get_mut(&request.channel)
                    && registered.generation == request.generation
                {
                    registered.confirmed = true;
                }
            }
            Err(error @ CallError::NotApplied(_)) => state.not_restored = Some(error.clone()),
            Err(CallError::Refused(_)) if request.is_restored() => {
                forgotten = state.forget(&request);
            }
            Err(_) => {}
        }
        drop(state);
        answer(request, outcome);
        forgotten
    }

    /// The server ended the subscription of a sharded channel, because it does not serve the slot
    /// any more. False if the subscription had ended before.
    pub(super) fn revoked(&self, channel: &str) -> bool {
        let mut state = self.0.lock();
        // If the channel was unsubscribed and subscribed again, the push ends the earlier
        // subscription. The later one is not confirmed yet, so `take` returns false.
        let registered = state.channels.get_mut(channel);
        registered.is_some_and(|registered| std::mem::take(&mut registered.confirmed))
    }

    /// The connection ended before the server answered.
    pub(super) fn interrupted(&self, request: SubscribeRequest) {
        let mut state = self.0.lock();
        let error = match &state.connectivity {
            Connectivity::Connected(_) | Connectivity::Reconnecting => {
                return state.pending.push(request);
            }
            Connectivity::Unreachable(fault) => CallError::NotApplied(fault.clone()),
            Connectivity::Closed => CallError::Closed,
        };
        drop(state);
        answer(request, Err(error));
    }
}

fn answer(request: SubscribeRequest, outcome: SubscribeOutcome) {
    if let Some(answer) = request.answer {
        // The caller may be gone. The channel stays subscribed nevertheless.
        drop(answer.send(outcome));
    }
}

#[cfg(all(test, shuttle))]
mod tests;
