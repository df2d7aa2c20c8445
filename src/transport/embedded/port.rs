//! The client's end of the wire: three connections, what is under way on them, what goes wrong.
//!
//! Everything that will happen stands in one queue, ordered by its time; one task per link takes it
//! out, see `link.rs`. Without delays all times are "now", and the order is that of the calls.
//!
//! # Invariants
//!
//! - **I1** On one connection requests arrive in the order of their sending, and so do replies and
//!   messages: no event is due before its predecessor.
//! - **I2** A request in `waiting` is answered exactly once: by its reply, its time-out, the loss of
//!   its connection or the end of the link.
//!
//! # Locking
//!
//! `state` may be taken while the engine's lock is held, never the other way round, and never while
//! a sink is called.
//!
//! # Bounds
//!
//! `waiting` holds at most one command time-out's worth of calls; `events` those, and the messages
//! that wait for their delay.

mod state;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use self::state::State;
use super::engine::Activity;
use super::faults::{Faults, Flow};
use super::store::Message;
use crate::protocol::{Call, Value};
use crate::transport::{CallError, Lane, Sink};

pub(crate) type Answer = Result<Value, CallError>;

/// One of the three connections of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Caller,
    Background,
    Messages,
}

pub(crate) const LINES: [Line; 3] = [Line::Caller, Line::Background, Line::Messages];

impl From<Lane> for Line {
    fn from(lane: Lane) -> Self {
        match lane {
            Lane::Caller => Line::Caller,
            Lane::Background => Line::Background,
        }
    }
}

impl Line {
    /// The lane whose calls it carries.
    pub(crate) fn lane(self) -> Option<Lane> {
        match self {
            Line::Caller => Some(Lane::Caller),
            Line::Background => Some(Lane::Background),
            Line::Messages => None,
        }
    }
}

#[derive(Debug)]
pub(crate) enum Request {
    Run(Call),
    Listen(Arc<str>),
    Unlisten(Arc<str>),
}

/// A request on its way to the server.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) id: u64,
    pub(crate) line: Line,
    epoch: u64,
    pub(crate) request: Request,
    pub(crate) twice: bool,
    reply: Flow,
    /// Its connection is gone; it runs all the same, and nobody hears of it.
    late: bool,
}

#[derive(Debug)]
pub(crate) enum Event {
    Arrive(Arrival),
    Answer { id: u64, answer: Answer },
    Deliver { epoch: u64, message: Message },
    Missed,
    Healed(Line),
}

/// What the link's task does next.
pub(crate) enum Next {
    Do(Event),
    Sleep(Option<Instant>),
    End,
}

pub(crate) struct Port {
    pub(crate) id: u64,
    state: Mutex<State>,
    wake: Notify,
}

impl Port {
    pub(crate) fn new(id: u64, sink: Arc<dyn Sink>) -> Self {
        Port { id, state: Mutex::new(State::new(id, sink)), wake: Notify::new() }
    }

    /// Lets the link's task look again.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Puts a request on a connection; the answer comes through the receiver.
    pub(crate) fn send(&self, line: Line, request: Request) -> oneshot::Receiver<Answer> {
        let (sender, receiver) = oneshot::channel();
        self.state.lock().send(line, request, Some(sender));
        self.wake();
        receiver
    }

    pub(crate) fn unlisten(&self, channel: &Arc<str>) {
        self.state.lock().send(Line::Messages, Request::Unlisten(channel.clone()), None);
        self.wake();
    }

    pub(crate) fn epoch(&self, line: Line) -> u64 {
        self.state.lock().lines[line as usize].epoch
    }

    pub(crate) fn reconnects(&self) -> u64 {
        self.state.lock().reconnects
    }

    pub(crate) fn calls_under_way(&self) -> usize {
        self.state.lock().waiting.len()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.state.lock().sink.is_some()
    }

    pub(crate) fn sink(&self) -> Option<Arc<dyn Sink>> {
        self.state.lock().sink.clone()
    }

    /// What to do now, or until when to sleep.
    pub(crate) fn next(&self, engine: Activity) -> Next {
        self.state.lock().next(engine)
    }

    pub(crate) fn hold(&self, arrival: Arrival) {
        self.state.lock().held.push_back(arrival);
    }

    /// Whether a request still gets to the server.
    pub(crate) fn arrives(&self, arrival: &Arrival) -> bool {
        let state = self.state.lock();
        state.sink.is_some()
            && (arrival.late || state.lines[arrival.line as usize].epoch == arrival.epoch)
    }

    /// The server has run the request: its answer sets out.
    pub(crate) fn ran(&self, arrival: &Arrival, answer: Answer) {
        let mut state = self.state.lock();
        match &arrival.request {
            Request::Listen(channel) => drop(state.wanted.insert(channel.clone())),
            Request::Unlisten(channel) => drop(state.wanted.remove(channel)),
            Request::Run(_) => {}
        }
        let flows = [arrival.reply, state.replies];
        let garbled = flows.contains(&Flow::Garbled) && matches!(arrival.request, Request::Run(_));
        let answer = if garbled { Ok(Value::Text("garbled".into())) } else { answer };
        if !arrival.late && !flows.contains(&Flow::Vanishes) {
            state.answer(arrival.line, arrival.id, answer);
        }
    }

    pub(crate) fn finish(&self, id: u64, answer: Answer) {
        let waiting = self.state.lock().waiting.remove(&id);
        if let Some(waiting) = waiting {
            // Nobody may be left to hear it.
            drop(waiting.sender.send(answer));
        }
    }

    /// A message for this link left the server.
    pub(crate) fn publish(&self, message: &Message) {
        self.state.lock().publish(message);
        self.wake();
    }

    /// Whether a message that was under way still gets through.
    pub(crate) fn receives(&self, epoch: u64) -> bool {
        self.epoch(Line::Messages) == epoch
    }

    pub(crate) fn wanted(&self) -> Vec<Arc<str>> {
        self.state.lock().wanted.iter().cloned().collect()
    }

    /// Ends the link: nothing of it is executed, answered or delivered any more.
    pub(crate) fn end(&self) {
        let ended = {
            let mut state = self.state.lock();
            state.events.clear();
            state.held.clear();
            state.deadlines.clear();
            (state.sink.take(), std::mem::take(&mut state.waiting))
        };
        for waiting in ended.1.into_values() {
            drop(waiting.sender.send(Err(CallError::Closed)));
        }
        drop(ended.0);
        self.wake();
    }

    pub(crate) fn set_faults(&self, faults: Faults, seed: u64) {
        let mut state = self.state.lock();
        state.faults = faults;
        state.rng = fastrand::Rng::with_seed(seed);
    }

    /// Before the first call: deadlines are kept in the order of the calls.
    pub(crate) fn set_command_timeout(&self, timeout: Duration) {
        self.state.lock().command_timeout = timeout;
    }

    pub(crate) fn set_replies(&self, flow: Flow) {
        self.state.lock().replies = flow;
    }

    pub(crate) fn set_messages(&self, flow: Flow) {
        self.state.lock().messages = flow;
    }

    /// Breaks connections until they are healed.
    pub(crate) fn cut(&self, lines: &[Line]) {
        let mut state = self.state.lock();
        for line in lines {
            state.cut(*line);
        }
        drop(state);
        self.wake();
    }

    /// Lets broken connections come back, after the reconnect delay.
    pub(crate) fn heal(&self, lines: &[Line]) {
        let mut state = self.state.lock();
        for line in lines {
            state.heal(*line);
        }
        drop(state);
        self.wake();
    }
}
