//! The simulated network between one client and the engine, as a plain state: no lock, no task.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Answer, Arrival, Event, Next, ROLES, Request};
use crate::transport::embedded::faults::{Activity, Delay, Faults, Flow};
use crate::transport::embedded::store::Message;
use crate::transport::{CallError, Fault, Lane, Role, TransportEvents};

/// Until the client sets its own.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct ConnectionState {
    up: bool,
    pub(super) epoch: u64,
    heals_at: Option<Instant>,
    last_arrival: Instant,
    last_answer: Instant,
}

#[derive(Debug)]
pub(super) struct Waiting {
    role: Role,
    pub(super) sender: oneshot::Sender<Answer>,
}

pub(super) struct Network {
    pub(super) command_timeout: Duration,
    pub(super) faults: Faults,
    pub(super) rng: fastrand::Rng,
    /// In the order of [`ROLES`].
    connections: [ConnectionState; ROLES.len()],
    pub(super) schedule: BTreeMap<(Instant, u64), Event>,
    /// Requests that arrived while the engine was paused.
    pub(super) held: VecDeque<Arrival>,
    events_scheduled: u64,
    pub(super) waiting: BTreeMap<u64, Waiting>,
    /// When each call must be answered, in the order of their sending.
    pub(super) deadlines: VecDeque<(Instant, u64)>,
    calls_made: u64,
    last_message: Instant,
    pub(super) subscribed: BTreeSet<Arc<str>>,
    pub(super) reconnects: u64,
    pub(super) replies: Flow,
    pub(super) messages: Flow,
    /// `None`: the client has ended.
    pub(super) events: Option<Arc<dyn TransportEvents>>,
}

impl Network {
    pub(super) fn new(id: u64, events: Arc<dyn TransportEvents>) -> Self {
        let now = Instant::now();
        let connection = || ConnectionState {
            up: true,
            epoch: 0,
            heals_at: None,
            last_arrival: now,
            last_answer: now,
        };
        Network {
            command_timeout: COMMAND_TIMEOUT,
            faults: Faults::default(),
            rng: fastrand::Rng::with_seed(id),
            connections: ROLES.map(|_| connection()),
            schedule: BTreeMap::new(),
            held: VecDeque::new(),
            events_scheduled: 0,
            waiting: BTreeMap::new(),
            deadlines: VecDeque::new(),
            calls_made: 0,
            last_message: now,
            subscribed: BTreeSet::new(),
            reconnects: 0,
            replies: Flow::Passes,
            messages: Flow::Passes,
            events: Some(events),
        }
    }

    pub(super) fn connection(&self, role: Role) -> &ConnectionState {
        &self.connections[index(role)]
    }

    fn connection_mut(&mut self, role: Role) -> &mut ConnectionState {
        &mut self.connections[index(role)]
    }

    fn push(&mut self, due: Instant, event: Event) {
        self.events_scheduled += 1;
        self.schedule.insert((due, self.events_scheduled), event);
    }

    fn chance(&mut self, part: f64) -> bool {
        // A chance of zero draws no number: the seed gives the same history without it.
        part > 0.0 && self.rng.f64() < part
    }

    fn after(&mut self, delay: Delay) -> Instant {
        Instant::now() + delay.draw(&mut self.rng)
    }

    pub(super) fn send(
        &mut self,
        role: Role,
        request: Request,
        reply_to: Option<oneshot::Sender<Answer>>,
    ) {
        self.calls_made += 1;
        let id = self.calls_made;
        if self.events.is_none() {
            if let Some(sender) = reply_to {
                drop(sender.send(Err(CallError::Closed)));
            }
            return;
        }
        if let Some(sender) = reply_to {
            self.waiting.insert(id, Waiting { role, sender });
            self.deadlines.push_back((Instant::now() + self.command_timeout, id));
        }
        if !self.connection(role).up {
            self.disconnected(id, &request);
            return;
        }
        if matches!(request, Request::Unsubscribe(_)) {
            self.schedule_arrival(id, role, request, Flow::Passes);
            return;
        }
        if self.chance(self.faults.refuse) {
            let refused = Fault("LOADING Redis is loading the dataset in memory".to_owned());
            self.answer(role, id, Err(CallError::NotApplied(refused)));
        } else if !self.chance(self.faults.lose_request) {
            let lost = self.chance(self.faults.lose_reply);
            let reply = if lost { Flow::Vanishes } else { Flow::Passes };
            self.schedule_arrival(id, role, request, reply);
        }
        if self.chance(self.faults.break_line) {
            self.cut(role);
            self.heal(role);
        }
    }

    fn schedule_arrival(&mut self, id: u64, role: Role, request: Request, reply: Flow) {
        let duplicated = matches!(request, Request::Call(_)) && self.chance(self.faults.duplicate);
        let due = self.after(self.faults.request).max(self.connection(role).last_arrival);
        let connection = self.connection_mut(role);
        connection.last_arrival = due;
        let epoch = connection.epoch;
        let arrival = Arrival { id, role, epoch, request, duplicated, reply, late: false };
        self.push(due, Event::Arrive(arrival));
    }

    /// There is no connection to send on.
    fn disconnected(&mut self, id: u64, request: &Request) {
        if let Request::Unsubscribe(channel) = request {
            self.subscribed.remove(channel);
            return;
        }
        let answer = Err(CallError::NotApplied(Fault("not connected".to_owned())));
        self.push(Instant::now(), Event::Answer { id, answer });
    }

    pub(super) fn answer(&mut self, role: Role, id: u64, answer: Answer) {
        let due = self.after(self.faults.reply).max(self.connection(role).last_answer);
        self.connection_mut(role).last_answer = due;
        self.push(due, Event::Answer { id, answer });
    }

    pub(super) fn publish(&mut self, message: &Message) {
        let connection = self.connection(Role::Messages);
        let epoch = connection.epoch;
        let delivers = connection.up && self.events.is_some() && self.messages != Flow::Vanishes;
        if !delivers || self.chance(self.faults.lose_message) {
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
        if self.events.is_none() {
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
        if let Some(entry) = self.schedule.first_entry()
            && entry.key().0 <= now
        {
            return Next::Do(entry.remove());
        }
        let event = self.schedule.first_key_value().map(|((due, _), _)| *due);
        let deadline = self.deadlines.front().map(|(due, _)| *due);
        let heals = self.connections.iter().filter_map(|connection| connection.heals_at);
        Next::Sleep(heals.chain(event).chain(deadline).min())
    }

    /// Drops the deadlines of answered calls; gives up the first call that is overdue.
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
        let healed = ROLES
            .into_iter()
            .find(|role| self.connection(*role).heals_at.is_some_and(|heals_at| heals_at <= now))?;
        let connection = self.connection_mut(healed);
        connection.heals_at = None;
        connection.up = true;
        self.reconnects += 1;
        Some(Event::Healed(healed))
    }

    pub(super) fn heal(&mut self, role: Role) {
        if !self.connection(role).up {
            let at = self.after(self.faults.reconnect);
            self.connection_mut(role).heals_at = Some(at);
        }
    }

    pub(super) fn cut(&mut self, role: Role) {
        let connection = self.connection_mut(role);
        connection.heals_at = None;
        if !connection.up {
            return;
        }
        connection.up = false;
        connection.epoch += 1;
        self.strand(role);
        let lost: Vec<u64> = self
            .waiting
            .iter()
            .filter(|(_, waiting)| waiting.role == role)
            .map(|(id, _)| *id)
            .collect();
        for id in lost {
            let answer = Err(CallError::Unknown(Fault("the connection was lost".to_owned())));
            self.push(Instant::now(), Event::Answer { id, answer });
        }
    }

    /// Decides the fate of the requests that were in flight: the server may still run the first few of
    /// them.
    fn strand(&mut self, role: Role) {
        let mut stranded: Vec<Arrival> = Vec::new();
        let is_stranded = |event: &Event| matches!(event, Event::Arrive(arrival) if arrival.role == role && !arrival.late);
        let due: Vec<_> = self
            .schedule
            .iter()
            .filter(|(_, event)| is_stranded(event))
            .map(|(due, _)| *due)
            .collect();
        let (held, kept) = std::mem::take(&mut self.held)
            .into_iter()
            .partition::<VecDeque<_>, _>(|arrival| arrival.role == role && !arrival.late);
        self.held = kept;
        stranded.extend(held);
        for key in due {
            if let Some(Event::Arrive(arrival)) = self.schedule.remove(&key) {
                stranded.push(arrival);
            }
        }
        let mut runs = 0;
        if self.chance(self.faults.late_after_cut) {
            runs = self.rng.usize(..=stranded.len());
        }
        let mut last = Instant::now();
        for (position, mut arrival) in stranded.into_iter().enumerate() {
            match &arrival.request {
                Request::Unsubscribe(channel) => drop(self.subscribed.remove(channel)),
                Request::Call(_) if position < runs => {
                    arrival.late = true;
                    last = self.after(self.faults.late).max(last);
                    self.push(last, Event::Arrive(arrival));
                }
                _ => {}
            }
        }
    }
}

fn index(role: Role) -> usize {
    match role {
        Role::Calls(Lane::Caller) => 0,
        Role::Calls(Lane::Background) => 1,
        Role::Messages => 2,
    }
}
