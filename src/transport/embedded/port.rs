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

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::faults::{Delay, Faults};
use super::store::Message;
use crate::protocol::{Call, Value};
use crate::transport::{CallError, Fault, Lane, Sink};

/// Until the client sets its own.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(1);

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
    lose_reply: bool,
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

#[derive(Debug)]
struct LineState {
    up: bool,
    epoch: u64,
    heals_at: Option<Instant>,
    last_arrival: Instant,
    last_answer: Instant,
}

#[derive(Debug)]
struct Waiting {
    line: Line,
    sender: oneshot::Sender<Answer>,
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

struct State {
    command_timeout: Duration,
    faults: Faults,
    rng: fastrand::Rng,
    lines: [LineState; 3],
    events: BTreeMap<(Instant, u64), Event>,
    /// What arrived while the engine was paused.
    held: VecDeque<Arrival>,
    events_made: u64,
    waiting: BTreeMap<u64, Waiting>,
    /// When each call must be answered, in the order of their sending.
    deadlines: VecDeque<(Instant, u64)>,
    calls_made: u64,
    last_message: Instant,
    wanted: BTreeSet<Arc<str>>,
    reconnects: u64,
    mute: bool,
    deaf: bool,
    /// Gone when the link has ended.
    sink: Option<Arc<dyn Sink>>,
}

impl Port {
    pub(crate) fn new(id: u64, sink: Arc<dyn Sink>) -> Self {
        let now = Instant::now();
        let line = || LineState {
            up: true,
            epoch: 0,
            heals_at: None,
            last_arrival: now,
            last_answer: now,
        };
        let state = State {
            command_timeout: COMMAND_TIMEOUT,
            faults: Faults::default(),
            rng: fastrand::Rng::with_seed(id),
            lines: [line(), line(), line()],
            events: BTreeMap::new(),
            held: VecDeque::new(),
            events_made: 0,
            waiting: BTreeMap::new(),
            deadlines: VecDeque::new(),
            calls_made: 0,
            last_message: now,
            wanted: BTreeSet::new(),
            reconnects: 0,
            mute: false,
            deaf: false,
            sink: Some(sink),
        };
        Port { id, state: Mutex::new(state), wake: Notify::new() }
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

    pub(crate) fn is_open(&self) -> bool {
        self.state.lock().sink.is_some()
    }

    pub(crate) fn sink(&self) -> Option<Arc<dyn Sink>> {
        self.state.lock().sink.clone()
    }

    /// What to do now, or until when to sleep.
    pub(crate) fn next(&self, paused: bool) -> Next {
        self.state.lock().next(paused)
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
        if !(arrival.late || arrival.lose_reply || state.mute) {
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

    pub(crate) fn set_mute(&self, mute: bool) {
        self.state.lock().mute = mute;
    }

    pub(crate) fn set_deaf(&self, deaf: bool) {
        self.state.lock().deaf = deaf;
    }

    /// Breaks connections until they are healed.
    pub(crate) fn cut(&self, lines: &[Line]) {
        let mut state = self.state.lock();
        for line in lines {
            state.cut(*line);
        }
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

impl State {
    fn push(&mut self, due: Instant, event: Event) {
        self.events_made += 1;
        self.events.insert((due, self.events_made), event);
    }

    fn chance(&mut self, part: f64) -> bool {
        // Nothing is drawn for what cannot happen: other seeds keep their course.
        part > 0.0 && self.rng.f64() < part
    }

    fn after(&mut self, delay: Delay) -> Instant {
        Instant::now() + delay.draw(&mut self.rng)
    }

    fn send(&mut self, line: Line, request: Request, reply_to: Option<oneshot::Sender<Answer>>) {
        self.calls_made += 1;
        let id = self.calls_made;
        if let Some(sender) = reply_to {
            if self.sink.is_none() {
                drop(sender.send(Err(CallError::Closed)));
                return;
            }
            self.waiting.insert(id, Waiting { line, sender });
            self.deadlines.push_back((Instant::now() + self.command_timeout, id));
        }
        if !self.lines[line as usize].up {
            self.disconnected(id, &request);
            return;
        }
        let runs = matches!(request, Request::Run(_));
        if runs && self.chance(self.faults.refuse) {
            let refused = Fault("LOADING Redis is loading the dataset in memory".to_owned());
            self.answer(line, id, Err(CallError::NotApplied(refused)));
        } else if !(runs && self.chance(self.faults.lose_request)) {
            let arrival = Arrival {
                id,
                line,
                epoch: self.lines[line as usize].epoch,
                request,
                twice: runs && self.chance(self.faults.duplicate),
                lose_reply: runs && self.chance(self.faults.lose_reply),
                late: false,
            };
            let due = self.after(self.faults.request).max(self.lines[line as usize].last_arrival);
            self.lines[line as usize].last_arrival = due;
            self.push(due, Event::Arrive(arrival));
        }
        if runs && self.chance(self.faults.break_line) {
            self.cut(line);
            self.heal(line);
        }
    }

    /// There is no connection to send on.
    fn disconnected(&mut self, id: u64, request: &Request) {
        if let Request::Unlisten(channel) = request {
            self.wanted.remove(channel);
            return;
        }
        let answer = Err(CallError::NotApplied(Fault("not connected".to_owned())));
        self.push(Instant::now(), Event::Answer { id, answer });
    }

    fn answer(&mut self, line: Line, id: u64, answer: Answer) {
        let due = self.after(self.faults.reply).max(self.lines[line as usize].last_answer);
        self.lines[line as usize].last_answer = due;
        self.push(due, Event::Answer { id, answer });
    }

    fn publish(&mut self, message: &Message) {
        let line = &self.lines[Line::Messages as usize];
        let epoch = line.epoch;
        if !line.up || self.sink.is_none() || self.deaf || self.chance(self.faults.lose_message) {
            return;
        }
        let due = self.after(self.faults.message).max(self.last_message);
        self.last_message = due;
        if self.chance(self.faults.lag) {
            self.push(due, Event::Missed);
        } else {
            self.push(due, Event::Deliver { epoch, message: message.clone() });
        }
    }

    fn next(&mut self, paused: bool) -> Next {
        if self.sink.is_none() {
            return Next::End;
        }
        let now = Instant::now();
        if let Some(event) = self.timed_out(now).or_else(|| self.healed(now)) {
            return Next::Do(event);
        }
        if !paused && let Some(arrival) = self.held.pop_front() {
            return Next::Do(Event::Arrive(arrival));
        }
        if let Some(entry) = self.events.first_entry()
            && entry.key().0 <= now
        {
            return Next::Do(entry.remove());
        }
        let event = self.events.first_key_value().map(|((due, _), _)| *due);
        let deadline = self.deadlines.front().map(|(due, _)| *due);
        let heals = self.lines.iter().filter_map(|line| line.heals_at);
        Next::Sleep(heals.chain(event).chain(deadline).min())
    }

    /// Drops the deadlines of what was answered; gives up the first that is overdue.
    fn timed_out(&mut self, now: Instant) -> Option<Event> {
        while let Some((due, id)) = self.deadlines.front().copied() {
            let waits = self.waiting.contains_key(&id);
            if waits && due > now {
                return None;
            }
            self.deadlines.pop_front();
            if waits {
                let answer = Err(CallError::Unknown(Fault("no reply in time".to_owned())));
                return Some(Event::Answer { id, answer });
            }
        }
        None
    }

    fn healed(&mut self, now: Instant) -> Option<Event> {
        let healed = LINES.into_iter().find(|line| {
            self.lines[*line as usize].heals_at.is_some_and(|heals_at| heals_at <= now)
        })?;
        let line = &mut self.lines[healed as usize];
        line.heals_at = None;
        line.up = true;
        self.reconnects += 1;
        Some(Event::Healed(healed))
    }

    fn heal(&mut self, line: Line) {
        if !self.lines[line as usize].up {
            let at = self.after(self.faults.reconnect);
            self.lines[line as usize].heals_at = Some(at);
        }
    }

    fn cut(&mut self, line: Line) {
        let state = &mut self.lines[line as usize];
        state.heals_at = None;
        if !state.up {
            return;
        }
        state.up = false;
        state.epoch += 1;
        self.strand(line);
        let lost: Vec<u64> = self
            .waiting
            .iter()
            .filter(|(_, waiting)| waiting.line == line)
            .map(|(id, _)| *id)
            .collect();
        for id in lost {
            let answer = Err(CallError::Unknown(Fault("the connection was lost".to_owned())));
            self.push(Instant::now(), Event::Answer { id, answer });
        }
    }

    /// Decides what becomes of the requests that were under way: the server may still have the
    /// first few of them.
    fn strand(&mut self, line: Line) {
        let mut stranded: Vec<Arrival> = Vec::new();
        let is_stranded = |event: &Event| matches!(event, Event::Arrive(arrival) if arrival.line == line && !arrival.late);
        let due: Vec<_> = self
            .events
            .iter()
            .filter(|(_, event)| is_stranded(event))
            .map(|(due, _)| *due)
            .collect();
        let (held, kept) = std::mem::take(&mut self.held)
            .into_iter()
            .partition::<VecDeque<_>, _>(|arrival| arrival.line == line && !arrival.late);
        self.held = kept;
        stranded.extend(held);
        for key in due {
            if let Some(Event::Arrive(arrival)) = self.events.remove(&key) {
                stranded.push(arrival);
            }
        }
        let mut runs = 0;
        if self.chance(self.faults.late_after_cut) {
            runs = self.rng.usize(..=stranded.len());
        }
        let mut last = Instant::now();
        for (place, mut arrival) in stranded.into_iter().enumerate() {
            match &arrival.request {
                Request::Unlisten(channel) => drop(self.wanted.remove(channel)),
                Request::Run(_) if place < runs => {
                    arrival.late = true;
                    last = self.after(self.faults.late).max(last);
                    self.push(last, Event::Arrive(arrival));
                }
                _ => {}
            }
        }
    }
}
