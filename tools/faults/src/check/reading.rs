//! From events to waits and holds. Events that make no sense are the driver's fault, and said.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Event, What};

use super::Rules;
use super::holds::{Grant, OpenHold, Phase, Terms};
use super::story::{Story, Wait, WaitEnd, Who, Write};
use super::times::{Clock, nanos};

/// What happened in each workload.
pub(super) fn stories<'a>(
    history: &'a [Event],
    rules: &'a Rules,
    clock: Clock,
) -> BTreeMap<&'a str, Story<'a>> {
    let mut reader = Reader {
        clock,
        // A lease, and another one for a renewal or a repetition that was still on its way.
        unsettled: nanos(rules.lease * 2),
        lease: nanos(rules.lease),
        wants_deadlines: rules.knows_deadlines,
        keeps_deadlines: rules.keeps_deadlines,
        lasting: &rules.lasting,
        stories: BTreeMap::new(),
        workers: BTreeMap::new(),
        last_signs: BTreeMap::new(),
    };
    for event in history {
        reader.read(event);
    }
    reader.complete()
}

/// A server refuses the call, as when a right is missing: it is not repeated, and what is held ends with its lease.
const FORBIDDEN: &str = "Protocol";

struct Reader<'a> {
    clock: Clock,
    /// For how long a server may still have what was not released for certain.
    unsettled: u64,
    /// If it is not fixed.
    lease: u64,
    wants_deadlines: bool,
    keeps_deadlines: bool,
    lasting: &'a BTreeSet<String>,
    stories: BTreeMap<&'a str, Story<'a>>,
    workers: BTreeMap<Who, State<'a>>,
    last_signs: BTreeMap<u32, u64>,
}

enum State<'a> {
    /// Whatever it had is over.
    Idle,
    Waits(Asking<'a>),
    Holds(&'a str, Box<OpenHold>),
}

#[derive(Clone, Copy)]
struct Asking<'a> {
    text: &'a str,
    name: usize,
    terms: Terms,
}

impl<'a> State<'a> {
    fn name(&self) -> Option<&'a str> {
        match self {
            State::Idle => None,
            State::Waits(asking) => Some(asking.text),
            State::Holds(name, _) => Some(name),
        }
    }
}

impl<'a> Reader<'a> {
    fn read(&mut self, event: &'a Event) {
        match &event.what {
            What::Fault { .. } => return,
            What::Sample { .. } | What::Stalled { .. } => {}
            // Under the number of one that was killed.
            What::Started { .. } => self.vanish(event.process),
            What::Ended { .. } => self.end(event.process, event.at),
            What::Asked { .. }
            | What::Granted { .. }
            | What::Refused { .. }
            | What::Held { .. }
            | What::Doubted
            | What::Wrote { .. }
            | What::Did { .. }
            | What::Lost { .. }
            | What::Releasing
            | What::Released { .. } => self.step(event),
        }
        self.last_signs.insert(event.process, event.at);
    }

    fn step(&mut self, event: &'a Event) {
        let who = Who {
            process: event.process,
            worker: event.worker,
        };
        let asks = matches!(event.what, What::Asked { .. });
        let bare = matches!(
            &event.what,
            What::Granted { until: None, .. } | What::Held { until: None }
        );
        if bare && self.wants_deadlines {
            self.malformed(event, "there is no deadline");
        }
        let state = self.workers.remove(&who).unwrap_or(State::Idle);
        let state = match state.name().filter(|name| *name != event.name && !asks) {
            Some(name) => {
                self.malformed(event, &format!("it asked for {name:?}"));
                state
            }
            None => match state {
                State::Idle => self.when_idle(event),
                State::Waits(asking) => self.when_waiting(who, event, asking),
                State::Holds(name, hold) => self.when_holding(event, name, hold),
            },
        };
        self.workers.insert(who, state);
    }

    fn when_idle(&mut self, event: &'a Event) -> State<'a> {
        match &event.what {
            What::Asked { .. } => return self.ask(event),
            // The news of a loss came later than the worker's own end.
            What::Lost { .. } => {}
            _ => self.malformed(event, "it has not asked"),
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
        let name = self.story(&event.name).name(event);
        let terms = Terms {
            mode,
            asked: event.at,
            lease: own.map_or(self.lease, |own| own.saturating_mul(1_000_000)),
            is_fixed: fixed_ms.is_some(),
            counts_from_request: self.keeps_deadlines,
        };
        State::Waits(Asking {
            text: &event.name,
            name,
            terms,
        })
    }

    fn when_waiting(&mut self, who: Who, event: &'a Event, asking: Asking<'a>) -> State<'a> {
        let Asking { text, name, terms } = asking;
        let end = match &event.what {
            What::Granted { .. } => WaitEnd::Granted,
            What::Refused { timeout: true, .. } => WaitEnd::TimedOut,
            What::Refused { error, .. } if error == FORBIDDEN => WaitEnd::Forbidden,
            What::Refused { .. } => WaitEnd::Failed,
            _ => {
                self.malformed(event, "it waits");
                return State::Waits(asking);
            }
        };
        let story = self.story(&event.name);
        let Terms { asked, lease, .. } = terms;
        story.waits.push(Wait {
            who,
            name,
            asked,
            ended: event.at,
            end,
            lease,
        });
        match &event.what {
            What::Granted { until, token } => {
                let grant = Grant {
                    at: event.at,
                    until: *until,
                    token: *token,
                };
                State::Holds(text, Box::new(OpenHold::new(who, name, terms, grant)))
            }
            What::Refused {
                error,
                timeout: false,
            } => {
                story.error(error, event.at);
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
                let hold = hold.leave(at, self.unsettled);
                self.story(name).holds.push(hold);
                return self.ask(event);
            }
            (What::Held { until }, Phase::Inside) => {
                if self.keeps_deadlines && until.is_some_and(|until| until < at) {
                    self.say(event, "says that the lock is held after its deadline");
                }
                hold.confirm(at, *until);
            }
            (What::Held { .. }, Phase::Lost | Phase::LostAndHeld) => {
                if !hold.confirm_after_loss() {
                    self.say(event, "says that the lock is held after it was lost");
                }
            }
            (What::Doubted, Phase::Inside | Phase::Lost | Phase::LostAndHeld) => hold.doubt(at),
            (What::Wrote { accepted }, phase) if phase != Phase::Releasing => {
                hold.wrote(Write {
                    accepted: *accepted,
                    answered: at,
                });
            }
            (What::Did { what, error }, phase) if phase != Phase::Releasing => {
                hold.did(at, *what, error.as_deref());
            }
            (What::Lost { .. }, _) => hold.lose(at),
            (What::Releasing, phase) if phase != Phase::Releasing => hold.releasing(at),
            (What::Released { error }, Phase::Releasing) => {
                hold.released(at, error.as_deref());
                self.close(name, *hold, at, error.as_deref());
                return State::Idle;
            }
            (_, Phase::Releasing) => self.malformed(event, "it is releasing"),
            _ => self.malformed(event, "it holds the lock"),
        }
        hold.stepped(at);
        State::Holds(name, hold)
    }

    fn close(&mut self, name: &'a str, hold: OpenHold, at: u64, error: Option<&'a str>) {
        let hold = match error {
            None => hold.settle(at),
            Some(FORBIDDEN) => hold.orphan(at, self.unsettled),
            Some(_) => hold.leave(at, self.unsettled),
        };
        let story = self.story(name);
        if let Some(error) = error {
            story.error(error, at);
        }
        story.holds.push(hold);
    }

    /// The process was killed: it said nothing any more.
    fn vanish(&mut self, process: u32) {
        let last_sign = self.last_signs.get(&process).copied().unwrap_or(0);
        for (who, state) in self.workers_of(process) {
            self.cut_short(who, state, last_sign, WaitEnd::Vanished);
        }
    }

    fn end(&mut self, process: u32, at: u64) {
        for (who, state) in self.workers_of(process) {
            if let State::Holds(name, _) = state {
                let when = self.clock.say(at);
                self.story(name).violations.push(format!(
                    "driver: {who} still has {name} when its process says that all have ended, at {when}"
                ));
            }
            self.cut_short(who, state, at, WaitEnd::Left);
        }
    }

    fn cut_short(&mut self, who: Who, state: State<'a>, at: u64, end: WaitEnd) {
        match state {
            State::Idle => {}
            State::Waits(Asking {
                text,
                name,
                terms: Terms { asked, lease, .. },
            }) => {
                self.story(text).waits.push(Wait {
                    who,
                    name,
                    asked,
                    ended: at,
                    end,
                    lease,
                });
            }
            State::Holds(name, mut hold) => {
                hold.vanish(at);
                let unsettled = self.unsettled_of_the_dead(name);
                self.story(name).holds.push(hold.orphan(at, unsettled));
            }
        }
    }

    fn unsettled_of_the_dead(&self, name: &str) -> u64 {
        let is_for_ever = |workload: &String| name.split(':').next() == Some(workload);
        if self.lasting.iter().any(is_for_ever) {
            u64::MAX
        } else {
            self.unsettled
        }
    }

    fn workers_of(&mut self, process: u32) -> BTreeMap<Who, State<'a>> {
        let mut these = self.workers.split_off(&Who { process, worker: 0 });
        if let Some(next) = process.checked_add(1) {
            self.workers.append(&mut these.split_off(&Who {
                process: next,
                worker: 0,
            }));
        }
        these
    }

    fn malformed(&mut self, event: &'a Event, state: &str) {
        let who = Who {
            process: event.process,
            worker: event.worker,
        };
        let (what, name, at) = (&event.what, &event.name, self.clock.say(event.at));
        let sentence = format!("driver: {who}: {what:?} of {name:?} at {at}, but {state}");
        self.story(name).violations.push(sentence);
    }

    fn say(&mut self, event: &'a Event, sentence: &str) {
        let who = Who {
            process: event.process,
            worker: event.worker,
        };
        let (name, at) = (&event.name, self.clock.say(event.at));
        self.story(name)
            .violations
            .push(format!("{name}: {who} {sentence}, at {at}"));
    }

    fn story(&mut self, name: &'a str) -> &mut Story<'a> {
        let workload = name.split_once(':').map_or(name, |(workload, _)| workload);
        self.stories.entry(workload).or_default()
    }

    fn complete(mut self) -> BTreeMap<&'a str, Story<'a>> {
        let processes: Vec<u32> = self.last_signs.keys().copied().collect();
        for process in processes {
            self.vanish(process);
        }
        for story in self.stories.values_mut() {
            story.complete();
        }
        self.stories
    }
}
