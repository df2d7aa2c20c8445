//! The three connections of one client to the engine: what is in flight on them, and what goes wrong.
//!
//! Every future event stands in one schedule, ordered by time. One task for each client takes the
//! events out, see `transport.rs`. Without delays all times are "now", and the order is that of the calls.
//!
//! # Invariants
//!
//! - **I1** On one connection requests arrive in the order of their sending, and so do replies and
//!   messages: no event is due before its predecessor.
//! - **I2** A request in `waiting` is answered exactly once: by its reply, its time-out, the loss of
//!   its connection or the end of the client.
//!
//! # Locking
//!
//! `network` may be taken while the engine's lock is held, never the other way round, and never while
//! an event is reported.
//!
//! # Bounds
//!
//! `waiting` holds at most one command time-out's worth of calls; `schedule` holds the same calls, and
//! the messages that wait for their delay.

mod network;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use self::network::Network;
use super::faults::{Activity, Faults, Flow};
use super::store::Message;
use crate::protocol::{Call, Value};
use crate::sync::Mutex;
use crate::transport::{CallError, Lane, Role, TransportEvents};

pub(crate) type Answer = Result<Value, CallError>;

/// The roles of the connections of a client.
pub(crate) const ROLES: [Role; 3] =
    [Role::Calls(Lane::Caller), Role::Calls(Lane::Background), Role::Messages];

#[derive(Debug)]
pub(crate) enum Request {
    Call(Call),
    Subscribe(Arc<str>),
    Unsubscribe(Arc<str>),
}

/// A request in flight to the server.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) id: u64,
    pub(crate) role: Role,
    epoch: u64,
    pub(crate) request: Request,
    pub(crate) duplicated: bool,
    reply: Flow,
    /// Its connection is gone. It runs all the same, and its answer is dropped.
    late: bool,
}

#[derive(Debug)]
pub(crate) enum Event {
    Arrive(Arrival),
    Answer { id: u64, answer: Answer },
    Deliver { epoch: u64, message: Message },
    Missed,
    Healed(Role),
}

/// What the client's task does next.
pub(crate) enum Next {
    Do(Event),
    Sleep(Option<Instant>),
    End,
}

pub(crate) struct Connections {
    pub(crate) id: u64,
    network: Mutex<Network>,
    wake: Notify,
}

impl Connections {
    pub(crate) fn new(id: u64, events: Arc<dyn TransportEvents>) -> Self {
        Connections { id, network: Mutex::new(Network::new(id, events)), wake: Notify::new() }
    }

    /// Wakes the client's task.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Puts a request on a connection; the answer comes through the receiver.
    pub(crate) fn send(&self, role: Role, request: Request) -> oneshot::Receiver<Answer> {
        let (sender, receiver) = oneshot::channel();
        self.network.lock().send(role, request, Some(sender));
        self.wake();
        receiver
    }

    pub(crate) fn unsubscribe(&self, channel: &Arc<str>) {
        self.network.lock().send(Role::Messages, Request::Unsubscribe(channel.clone()), None);
        self.wake();
    }

    pub(crate) fn epoch(&self, role: Role) -> u64 {
        self.network.lock().connection(role).epoch
    }

    pub(crate) fn reconnects(&self) -> u64 {
        self.network.lock().reconnects
    }

    pub(crate) fn calls_under_way(&self) -> usize {
        self.network.lock().waiting.len()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.network.lock().events.is_some()
    }

    pub(crate) fn events(&self) -> Option<Arc<dyn TransportEvents>> {
        self.network.lock().events.clone()
    }

    /// What to do now, or until when to sleep.
    pub(crate) fn next(&self, engine: Activity) -> Next {
        self.network.lock().next(engine)
    }

    pub(crate) fn hold(&self, arrival: Arrival) {
        self.network.lock().held.push_back(arrival);
    }

    /// Whether a request still gets to the server.
    pub(crate) fn arrives(&self, arrival: &Arrival) -> bool {
        let network = self.network.lock();
        network.events.is_some()
            && (arrival.late || network.connection(arrival.role).epoch == arrival.epoch)
    }

    /// The server has run the request: its answer sets out.
    pub(crate) fn ran(&self, arrival: &Arrival, answer: Answer) {
        let mut network = self.network.lock();
        match &arrival.request {
            Request::Subscribe(channel) => drop(network.subscribed.insert(channel.clone())),
            Request::Unsubscribe(channel) => drop(network.subscribed.remove(channel)),
            Request::Call(_) => {}
        }
        let flows = [arrival.reply, network.replies];
        let garbled = flows.contains(&Flow::Garbled) && matches!(arrival.request, Request::Call(_));
        let answer = if garbled { Ok(Value::Text("garbled".into())) } else { answer };
        if !arrival.late && !flows.contains(&Flow::Vanishes) {
            network.answer(arrival.role, arrival.id, answer);
        }
    }

    pub(crate) fn finish(&self, id: u64, answer: Answer) {
        let waiting = self.network.lock().waiting.remove(&id);
        if let Some(waiting) = waiting {
            // The future of the caller may be gone.
            drop(waiting.sender.send(answer));
        }
    }

    /// A message for this client left the server.
    pub(crate) fn publish(&self, message: &Message) {
        self.network.lock().publish(message);
        self.wake();
    }

    /// Whether a message that was in flight still gets through.
    pub(crate) fn receives(&self, epoch: u64) -> bool {
        self.epoch(Role::Messages) == epoch
    }

    pub(crate) fn subscribed(&self) -> Vec<Arc<str>> {
        self.network.lock().subscribed.iter().cloned().collect()
    }

    /// Ends the client: no request is executed or answered any more, no message delivered.
    pub(crate) fn end(&self) {
        let ended = {
            let mut network = self.network.lock();
            network.schedule.clear();
            network.held.clear();
            network.deadlines.clear();
            (network.events.take(), std::mem::take(&mut network.waiting))
        };
        for waiting in ended.1.into_values() {
            drop(waiting.sender.send(Err(CallError::Closed)));
        }
        drop(ended.0);
        self.wake();
    }

    pub(crate) fn set_faults(&self, faults: Faults, seed: u64) {
        let mut network = self.network.lock();
        network.faults = faults;
        network.rng = fastrand::Rng::with_seed(seed);
    }

    /// Before the first call: deadlines are kept in the order of the calls.
    pub(crate) fn set_command_timeout(&self, timeout: Duration) {
        self.network.lock().command_timeout = timeout;
    }

    pub(crate) fn set_replies(&self, flow: Flow) {
        self.network.lock().replies = flow;
    }

    pub(crate) fn set_messages(&self, flow: Flow) {
        self.network.lock().messages = flow;
    }

    /// Breaks connections until they are healed.
    pub(crate) fn cut(&self, roles: &[Role]) {
        let mut network = self.network.lock();
        for role in roles {
            network.cut(*role);
        }
        drop(network);
        self.wake();
    }

    /// Lets broken connections come back, after the reconnect delay.
    pub(crate) fn heal(&self, roles: &[Role]) {
        let mut network = self.network.lock();
        for role in roles {
            network.heal(*role);
        }
        drop(network);
        self.wake();
    }
}
