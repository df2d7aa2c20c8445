//! Turns events into waits and holds. Reports events in an impossible order as mistakes of the
//! driver.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Event, What};

use super::Rules;
use super::holds::{Grant, OpenHold, Phase, Terms};
use super::times::{Clock, nanos};
use super::trace::{Trace, Wait, WaitEnd, WorkerId, Write};

/// The waits and holds of each workload.
pub(super) fn traces<'a>(
    history: &'a [Event],
    rules: &'a Rules,
    clock: Clock,
) -> BTreeMap<&'a str, Trace<'a>> {
    let mut reader = Reader {
        clock,
        // Two leases: the current one, and another one because a renewal or a retry may still be in
        // flight.
        cleanup_time: nanos(rules.lease * 2),
        lease: nanos(rules.lease),
        knows_deadlines: rules.knows_deadlines,
        keeps_deadlines: rules.keeps_deadlines,
        lasting: &rules.lasting,
        traces: BTreeMap::new(),
        workers: BTreeMap::new(),
        last_events: BTreeMap::new(),
    };
    for event in history {
        reader.read(event);
    }
    reader.complete()
}

/// The kind of error if a server refuses the call, for example because a permission is missing. The
/// library does not retry such a call, so a hold ends only with its lease.
const FORBIDDEN: &str = "Protocol";

/// Reads events one after the other.
struct Reader<'a> {
    clock: Clock,
    /// How long a server may still have a hold whose release was not confirmed.
    cleanup_time: u64,
    /// The common lease.
    lease: u64,
    knows_deadlines: bool,
    keeps_deadlines: bool,
    lasting: &'a BTreeSet<String>,
    traces: BTreeMap<&'a str, Trace<'a>>,
    workers: BTreeMap<WorkerId, State<'a>>,
    /// The time of the last event of each process.
    last_events: BTreeMap<u32, u64>,
}

/// What a worker is doing.
enum State<'a> {
    /// The worker neither waits for a lock nor holds one.
    Idle,
    Waiting(Request<'a>),
    Holding(&'a str, Box<OpenHold>),
}

/// A request for a lock that has not been answered.
#[derive(Clone, Copy)]
struct Request<'a> {
    text: &'a str,
    /// Index of the name into [`Trace::names`].
    name: usize,
    terms: Terms,
}

impl<'a> State<'a> {
    fn name(&self) -> Option<&'a str> {
        match self {
            State::Idle => None,
            State::Waiting(request) => Some(request.text),
            State::Holding(name, _) => Some(name),
        }
    }
}

impl<'a> Reader<'a> {
    fn read(&mut self, event: &'a Event) {
        match &event.what {
            What::Fault { .. } => return,
            What::Sample { .. } | What::Stalled { .. } => {}
            // The number belonged to a process that was killed.
            What::Started { .. } => self.process_killed(event.process),
            What::Ended { .. } => self.process_ended(event.process, event.at),
            What::Asked { .. }
            | What::Granted { .. }
            | What::Refused { .. }
            | What::Held { .. }
            | What::Doubted
            | What::Wrote { .. }
            | What::Did { .. }
            | What::Lost { .. }
            | What::Releasing
            | What::Released { .. } => self.worker_event(event),
        }
        self.last_events.insert(event.process, event.at);
    }

    fn worker_event(&mut self, event: &'a Event) {
        let worker = WorkerId {
            process: event.process,
            worker: event.worker,
        };
        let asks = matches!(event.what, What::Asked { .. });
        let has_no_deadline = matches!(
            &event.what,
            What::Granted { until: None, .. } | What::Held { until: None }
        );
        if has_no_deadline && self.knows_deadlines {
            self.malformed(event, "the event has no deadline");
        }
        let state = self.workers.remove(&worker).unwrap_or(State::Idle);
        let state = match state.name().filter(|name| *name != event.name && !asks) {
            Some(name) => {
                self.malformed(event, &format!("the worker asked for {name:?}"));
                state
            }
            None => match state {
                State::Idle => self.when_idle(event),
                State::Waiting(request) => self.when_waiting(worker, event, request),
                State::Holding(name, hold) => self.when_holding(event, name, hold),
            },
        };
        self.workers.insert(worker, state);
    }

    fn when_idle(&mut self, event: &'a Event) -> State<'a> {
        match &event.what {
            What::Asked { .. } => return self.ask(event),
            // The loss was reported after the worker released the lock.
            What::Lost { .. } => {}
            _ => self.malformed(event, "the worker has not asked for a lock"),
        }
        State::Idle
    }

    fn ask(&mut self, event: &'a Event) -> State<'a> {
        let What::Asked {
            mode,
            fixed_ms,
            renewed_ms,
        } = event.what
        else {
            return State::Idle;
        };
        let own = fixed_ms.or(renewed_ms);
        let name = self.trace(&event.name).name(event);
        let terms = Terms {
            mode,
            asked: event.at,
            lease: own.map_or(self.lease, |own| own.saturating_mul(1_000_000)),
            is_fixed: fixed_ms.is_some(),
            counts_from_request: self.keeps_deadlines,
        };
        State::Waiting(Request {
            text: &event.name,
            name,
            terms,
        })
    }

    fn when_waiting(
        &mut self,
        worker: WorkerId,
        event: &'a Event,
        request: Request<'a>,
    ) -> State<'a> {
        let Request { text, name, terms } = request;
        let end = match &event.what {
            What::Granted { .. } => WaitEnd::Granted,
            What::Refused { timeout: true, .. } => WaitEnd::TimedOut,
            What::Refused { error, .. } if error == FORBIDDEN => WaitEnd::Forbidden,
            What::Refused { .. } => WaitEnd::Failed,
            _ => {
                self.malformed(event, "the worker is waiting for a lock");
                return State::Waiting(request);
            }
        };
        let field = match &event.what {
            What::Granted { field, .. } => field.clone(),
            _ => None,
        };
        let trace = self.trace(&event.name);
        let Terms { asked, lease, .. } = terms;
        trace.waits.push(Wait {
            worker,
            name,
            asked,
            ended: event.at,
            end,
            lease,
            field,
        });
        match &event.what {
            What::Granted { until, token, .. } => {
                let grant = Grant {
                    at: event.at,
                    until: *until,
                    token: *token,
                };
                State::Holding(text, Box::new(OpenHold::new(worker, name, terms, grant)))
            }
            What::Refused {
                error,
                timeout: false,
            } => {
                trace.error(error, event.at);
                State::Idle
            }
            _ => State::Idle,
        }
    }

    fn when_holding(
        &mut self,
        event: &'a Event,
        name: &'a str,
        mut hold: Box<OpenHold>,
    ) -> State<'a> {
        let at = event.at;
        match (&event.what, hold.phase()) {
            (What::Asked { .. }, _) if hold.is_given_up() => {
                let hold = hold.complete_unconfirmed(at, self.cleanup_time);
                self.trace(name).holds.push(hold);
                return self.ask(event);
            }
            (What::Held { until }, Phase::Held) => {
                if self.keeps_deadlines && until.is_some_and(|until| until < at) {
                    self.violation(event, "says that the lock is held after its deadline");
                }
                hold.confirm(at, *until);
            }
            (What::Held { .. }, Phase::Lost | Phase::LostAndHeld) => {
                if !hold.confirm_after_loss() {
                    self.violation(event, "says that the lock is held after it was lost");
                }
            }
            (What::Doubted, Phase::Held | Phase::Lost | Phase::LostAndHeld) => hold.doubt(at),
            (What::Wrote { accepted }, phase) if phase != Phase::Releasing => {
                hold.wrote(Write {
                    accepted: *accepted,
                    answered: at,
                });
            }
            (What::Did { what, error }, phase) if phase != Phase::Releasing => {
                hold.record_action(at, *what, error.as_deref());
            }
            (What::Lost { .. }, _) => hold.lose(at),
            (What::Releasing, phase) if phase != Phase::Releasing => hold.releasing(at),
            (What::Released { error }, Phase::Releasing) => {
                hold.released(at, error.as_deref());
                self.close(name, *hold, at, error.as_deref());
                return State::Idle;
            }
            (_, Phase::Releasing) => self.malformed(event, "the worker is releasing the lock"),
            _ => self.malformed(event, "the worker holds the lock"),
        }
        hold.event_done(at);
        State::Holding(name, hold)
    }

    fn close(&mut self, name: &'a str, hold: OpenHold, at: u64, error: Option<&'a str>) {
        let hold = match error {
            None => hold.complete_released(at),
            Some(FORBIDDEN) => hold.complete_orphaned(at, self.cleanup_time),
            Some(_) => hold.complete_unconfirmed(at, self.cleanup_time),
        };
        let trace = self.trace(name);
        if let Some(error) = error {
            trace.error(error, at);
        }
        trace.holds.push(hold);
    }

    /// The process was killed without an event.
    fn process_killed(&mut self, process: u32) {
        let last_event = self.last_events.get(&process).copied().unwrap_or(0);
        for (worker, state) in self.workers_of(process) {
            self.cut_off(worker, state, last_event, WaitEnd::Killed);
        }
    }

    fn process_ended(&mut self, process: u32, at: u64) {
        for (worker, state) in self.workers_of(process) {
            if let State::Holding(name, _) = state {
                let when = self.clock.format(at);
                self.trace(name).violations.push(format!(
                    "driver: {worker} still held {name} when its process reported the end of all \
                     workers, at {when}"
                ));
            }
            self.cut_off(worker, state, at, WaitEnd::Unanswered);
        }
    }

    /// Ends the wait or the hold of a worker whose process is gone.
    fn cut_off(&mut self, worker: WorkerId, state: State<'a>, at: u64, end: WaitEnd) {
        match state {
            State::Idle => {}
            State::Waiting(Request {
                text,
                name,
                terms: Terms { asked, lease, .. },
            }) => {
                self.trace(text).waits.push(Wait {
                    worker,
                    name,
                    asked,
                    ended: at,
                    end,
                    lease,
                    field: None,
                });
            }
            State::Holding(name, mut hold) => {
                hold.process_killed(at);
                let cleanup_time = self.cleanup_time_of_dead(name);
                self.trace(name)
                    .holds
                    .push(hold.complete_orphaned(at, cleanup_time));
            }
        }
    }

    fn cleanup_time_of_dead(&self, name: &str) -> u64 {
        let is_never_released = |workload: &String| name.split(':').next() == Some(workload);
        if self.lasting.iter().any(is_never_released) {
            u64::MAX
        } else {
            self.cleanup_time
        }
    }

    /// Removes and returns the workers of a process.
    fn workers_of(&mut self, process: u32) -> BTreeMap<WorkerId, State<'a>> {
        let mut workers = self.workers.split_off(&WorkerId { process, worker: 0 });
        if let Some(next) = process.checked_add(1) {
            self.workers.append(&mut workers.split_off(&WorkerId {
                process: next,
                worker: 0,
            }));
        }
        workers
    }

    /// Reports an event that the driver cannot have written in this state of the worker.
    fn malformed(&mut self, event: &'a Event, state: &str) {
        let worker = WorkerId {
            process: event.process,
            worker: event.worker,
        };
        let (what, name, at) = (&event.what, &event.name, self.clock.format(event.at));
        let sentence = format!("driver: {worker}: {what:?} of {name:?} at {at}, but {state}");
        self.trace(name).violations.push(sentence);
    }

    fn violation(&mut self, event: &'a Event, sentence: &str) {
        let worker = WorkerId {
            process: event.process,
            worker: event.worker,
        };
        let (name, at) = (&event.name, self.clock.format(event.at));
        self.trace(name)
            .violations
            .push(format!("{name}: {worker} {sentence}, at {at}"));
    }

    fn trace(&mut self, name: &'a str) -> &mut Trace<'a> {
        let workload = name.split_once(':').map_or(name, |(workload, _)| workload);
        self.traces.entry(workload).or_default()
    }

    fn complete(mut self) -> BTreeMap<&'a str, Trace<'a>> {
        let processes: Vec<u32> = self.last_events.keys().copied().collect();
        for process in processes {
            self.process_killed(process);
        }
        for trace in self.traces.values_mut() {
            trace.complete();
        }
        self.traces
    }
}
