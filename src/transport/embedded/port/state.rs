//! What is under way on a link, as a plain state: no lock, no task, no engine.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Answer, Arrival, Event, LINES, Line, Next, Request};
use crate::transport::embedded::engine::Activity;
use crate::transport::embedded::faults::{Delay, Faults, Flow};
use crate::transport::embedded::store::Message;
use crate::transport::{CallError, Fault, Sink};

/// Until the client sets its own.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct LineState {
    up: bool,
    pub(super) epoch: u64,
    heals_at: Option<Instant>,
    last_arrival: Instant,
    last_answer: Instant,
}

#[derive(Debug)]
pub(super) struct Waiting {
    line: Line,
    pub(super) sender: oneshot::Sender<Answer>,
}

pub(super) struct State {
    pub(super) command_timeout: Duration,
    pub(super) faults: Faults,
    pub(super) rng: fastrand::Rng,
    pub(super) lines: [LineState; 3],
    pub(super) events: BTreeMap<(Instant, u64), Event>,
    /// What arrived while the engine was paused.
    pub(super) held: VecDeque<Arrival>,
    events_made: u64,
    pub(super) waiting: BTreeMap<u64, Waiting>,
    /// When each call must be answered, in the order of their sending.
    pub(super) deadlines: VecDeque<(Instant, u64)>,
    calls_made: u64,
    last_message: Instant,
    pub(super) wanted: BTreeSet<Arc<str>>,
    pub(super) reconnects: u64,
    pub(super) replies: Flow,
    pub(super) messages: Flow,
    /// Gone when the link has ended.
    pub(super) sink: Option<Arc<dyn Sink>>,
}

impl State {
    pub(super) fn new(id: u64, sink: Arc<dyn Sink>) -> Self {
        let now = Instant::now();
        let line = || LineState {
            up: true,
            epoch: 0,
            heals_at: None,
            last_arrival: now,
            last_answer: now,
        };
        State {
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
            replies: Flow::Passes,
            messages: Flow::Passes,
            sink: Some(sink),
        }
    }

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

    pub(super) fn send(
        &mut self,
        line: Line,
        request: Request,
        reply_to: Option<oneshot::Sender<Answer>>,
    ) {
        self.calls_made += 1;
        let id = self.calls_made;
        if self.sink.is_none() {
            if let Some(sender) = reply_to {
                drop(sender.send(Err(CallError::Closed)));
            }
            return;
        }
        if let Some(sender) = reply_to {
            self.waiting.insert(id, Waiting { line, sender });
            self.deadlines.push_back((Instant::now() + self.command_timeout, id));
        }
        if !self.lines[line as usize].up {
            self.disconnected(id, &request);
            return;
        }
        if matches!(request, Request::Unlisten(_)) {
            self.set_out(id, line, request, Flow::Passes);
            return;
        }
        if self.chance(self.faults.refuse) {
            let refused = Fault("LOADING Redis is loading the dataset in memory".to_owned());
            self.answer(line, id, Err(CallError::NotApplied(refused)));
        } else if !self.chance(self.faults.lose_request) {
            let lost = self.chance(self.faults.lose_reply);
            let reply = if lost { Flow::Vanishes } else { Flow::Passes };
            self.set_out(id, line, request, reply);
        }
        if self.chance(self.faults.break_line) {
            self.cut(line);
            self.heal(line);
        }
    }

    fn set_out(&mut self, id: u64, line: Line, request: Request, reply: Flow) {
        let twice = matches!(request, Request::Run(_)) && self.chance(self.faults.duplicate);
        let due = self.after(self.faults.request).max(self.lines[line as usize].last_arrival);
        let state = &mut self.lines[line as usize];
        state.last_arrival = due;
        let epoch = state.epoch;
        let arrival = Arrival { id, line, epoch, request, twice, reply, late: false };
        self.push(due, Event::Arrive(arrival));
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

    pub(super) fn answer(&mut self, line: Line, id: u64, answer: Answer) {
        let due = self.after(self.faults.reply).max(self.lines[line as usize].last_answer);
        self.lines[line as usize].last_answer = due;
        self.push(due, Event::Answer { id, answer });
    }

    pub(super) fn publish(&mut self, message: &Message) {
        let line = &self.lines[Line::Messages as usize];
        let epoch = line.epoch;
        let heard = line.up && self.sink.is_some() && self.messages != Flow::Vanishes;
        if !heard || self.chance(self.faults.lose_message) {
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

    pub(super) fn next(&mut self, engine: Activity) -> Next {
        if self.sink.is_none() {
            return Next::End;
        }
        let now = Instant::now();
        if let Some(event) = self.timed_out(now).or_else(|| self.healed(now)) {
            return Next::Do(event);
        }
        if engine == Activity::Runs
            && let Some(arrival) = self.held.pop_front()
        {
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

    pub(super) fn heal(&mut self, line: Line) {
        if !self.lines[line as usize].up {
            let at = self.after(self.faults.reconnect);
            self.lines[line as usize].heals_at = Some(at);
        }
    }

    pub(super) fn cut(&mut self, line: Line) {
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
