//! The plain lock, given by a release: the list of waiters beside the lock, and the messages to
//! their clients.
//!
//! # The system
//!
//! A client that is refused is listed with the number of its *question*. The list ends with the
//! lock. A release gives the lock to the first entry, for one lease, takes that entry away, and
//! sends a message that names the question. If there is no entry, the lock is free. A client that
//! asks again replaces the number in its entry. An entry may be gone at any time: a release may
//! look for nobody, and a list may be full.
//!
//! Questions, releases and their replies travel for any time, arrive in any order, or are lost. So
//! do messages. Redis executes a call when it arrives. A client uses a new field for each
//! acquisition. If it gives up or loses its hold, it sends releases until one is answered; that
//! also takes its entry away. A question that is executed after that may list it again, or take the
//! lock for nobody, for a lease.
//!
//! # What is trusted
//!
//! The lock was given after the question in the message had been refused. So the lease began no
//! earlier than that question was sent. A client knows when it sent its last question, and believes
//! a message about that one only. `plain.rs` has what this leaves out: renewals, and hand-over
//! within a client.

use std::collections::BTreeSet;

use stateright::{Model, Property};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A message about an earlier question counts from the last one.
    BelievesEveryMessage,
    /// A waiter counts the lease from the message.
    CountsFromTheMessage,
    /// The next acquisition of a client uses the field of the former one.
    FieldUsedAgain,
}

#[derive(Clone, Debug)]
pub(crate) struct HandedOver {
    pub(crate) clients: usize,
    pub(crate) acquisitions: u8,
    /// How many questions one acquisition asks.
    pub(crate) questions: u8,
    /// In steps of time.
    pub(crate) lease: u8,
    /// The largest number of calls and replies of one client that travel at the same time.
    pub(crate) travelling: usize,
    pub(crate) fault: Option<Fault>,
}

/// The number of an acquisition of a client.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Field(usize, u8);

/// A waiter beside the lock, and what a message says of it.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    field: Field,
    question: u8,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Asks {
    /// For the lock, by the question of this number.
    Lock(u8),
    Release,
}

/// A call on its way to Redis, or its reply on the way back.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Call {
    field: Field,
    asks: Asks,
    reply: Option<bool>,
    /// The time since it was sent. It stops at the lease.
    age: u8,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum Phase {
    Idle,
    Asking,
    /// Refused, and the time since the last question was sent. It stops at the lease.
    Waiting(u8),
    /// It trusts the lock for that much longer.
    Holding(u8),
    /// Given up, lost or released.
    Leaving,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) struct Process {
    acquisition: u8,
    question: u8,
    phase: Phase,
    /// Whether a message has told it of its hold.
    was_told: bool,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub(crate) struct State {
    holder: Option<Field>,
    lease: u8,
    list: Vec<Entry>,
    calls: BTreeSet<Call>,
    messages: BTreeSet<Entry>,
    processes: Vec<Process>,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum Step {
    Tick,
    Execute(Call),
    Lose(Call),
    Arrive(Call),
    Hear(Entry),
    /// A waiter is listed no more.
    Forget(Entry),
    /// A client begins an acquisition, or asks again.
    Ask(usize),
    /// A client gives up or leaves, or repeats its release.
    Leave(usize),
}

impl HandedOver {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn field(&self, state: &State, client: usize) -> Field {
        let acquisition = state.processes[client].acquisition;
        Field(
            client,
            if self.has(Fault::FieldUsedAgain) {
                0
            } else {
                acquisition
            },
        )
    }

    fn send(&self, state: &mut State, client: usize, asks: Asks) -> Option<()> {
        let of_client = |call: &&Call| call.field.0 == client;
        if state.calls.iter().filter(of_client).count() >= self.travelling {
            return None;
        }
        let (field, reply) = (self.field(state, client), None);
        state.calls.insert(Call {
            field,
            asks,
            reply,
            age: 0,
        });
        Some(())
    }

    fn execute(&self, state: &mut State, call: Call) {
        let Call { field, asks, .. } = call;
        let is_holder = state.holder == Some(field);
        let at = state.list.iter().position(|entry| entry.field == field);
        let reply = match asks {
            Asks::Lock(_) if is_holder || state.holder.is_none() => {
                (state.holder, state.lease) = (Some(field), self.lease);
                true
            }
            Asks::Lock(question) => {
                let entry = Entry { field, question };
                // Who has asked more often goes first.
                let is_before = |other: &Entry| other.question >= question;
                let last = state.list.iter().rposition(is_before);
                if let Some(at) = at {
                    state.list[at] = entry;
                } else {
                    state.list.insert(last.map_or(0, |last| last + 1), entry);
                }
                false
            }
            Asks::Release if is_holder => {
                self.pass_on(state);
                true
            }
            Asks::Release => {
                at.map(|at| state.list.remove(at));
                false
            }
        };
        state.calls.insert(Call {
            reply: Some(reply),
            ..call
        });
    }

    fn pass_on(&self, state: &mut State) {
        let Some(&next) = state.list.first() else {
            Self::ends(state);
            return;
        };
        state.list.remove(0);
        (state.holder, state.lease) = (Some(next.field), self.lease);
        state.messages.insert(next);
    }

    /// The lock is free, and its list is gone.
    fn ends(state: &mut State) {
        (state.holder, state.lease) = (None, 0);
        state.list.clear();
    }

    /// Drops replies and messages that change nothing, and ages that no rule reads, so that there
    /// are fewer states.
    fn forget_what_does_not_count(&self, state: &mut State) {
        let counted = |call: Call| {
            let client = call.field.0;
            let process = state.processes[client];
            let is_current = self.field(state, client) == call.field;
            let counts = is_current
                && match call.asks {
                    Asks::Lock(question) => {
                        process.phase == Phase::Asking && process.question == question
                    }
                    Asks::Release => process.phase == Phase::Leaving,
                };
            let has_age = counts && call.asks != Asks::Release;
            let age = if has_age { call.age } else { 0 };
            (counts || call.reply.is_none()).then_some(Call { age, ..call })
        };
        let calls = state.calls.iter().copied().filter_map(counted).collect();
        let may_wait = |told: &Entry| {
            let (client, phase) = (told.field.0, state.processes[told.field.0].phase);
            let may_wait = matches!(phase, Phase::Asking | Phase::Waiting(_));
            may_wait && self.field(state, client) == told.field || self.has(Fault::FieldUsedAgain)
        };
        let messages = state.messages.iter().copied().filter(may_wait).collect();
        (state.calls, state.messages) = (calls, messages);
    }

    fn arrive(&self, state: &mut State, call: Call) -> Option<()> {
        let (answer, client) = (call.reply?, call.field.0);
        if self.field(state, client) != call.field {
            return Some(());
        }
        let process = &mut state.processes[client];
        process.phase = match (process.phase, call.asks) {
            (Phase::Asking, Asks::Lock(question)) if question == process.question => {
                match self.lease - call.age {
                    0 if answer => Phase::Leaving,
                    left if answer => Phase::Holding(left),
                    _ => Phase::Waiting(call.age),
                }
            }
            (Phase::Leaving, Asks::Release) => {
                process.acquisition += 1;
                process.question = 0;
                process.was_told = false;
                Phase::Idle
            }
            (phase, _) => phase,
        };
        Some(())
    }

    fn hear(&self, state: &mut State, told: Entry) {
        let client = told.field.0;
        let is_meant = self.field(state, client) == told.field;
        let process = &mut state.processes[client];
        let Phase::Waiting(age) = process.phase else {
            return;
        };
        let is_last = process.question == told.question || self.has(Fault::BelievesEveryMessage);
        let left = if self.has(Fault::CountsFromTheMessage) {
            self.lease
        } else {
            self.lease - age
        };
        if is_meant && is_last && left > 0 {
            process.phase = Phase::Holding(left);
            process.was_told = true;
        }
    }

    fn pass(&self, state: &mut State) {
        state.lease = state.lease.saturating_sub(1);
        if state.lease == 0 {
            Self::ends(state);
        }
        let older = |age: u8| (age + 1).min(self.lease);
        let calls = std::mem::take(&mut state.calls).into_iter();
        state.calls = calls
            .map(|call| Call {
                age: older(call.age),
                ..call
            })
            .collect();
        for process in &mut state.processes {
            process.phase = match process.phase {
                Phase::Waiting(age) => Phase::Waiting(older(age)),
                Phase::Holding(1) => Phase::Leaving,
                Phase::Holding(left) => Phase::Holding(left - 1),
                phase => phase,
            };
        }
    }

    fn ask(&self, state: &mut State, client: usize) -> Option<()> {
        let process = &mut state.processes[client];
        let may_ask = matches!(
            process.phase,
            Phase::Idle | Phase::Asking | Phase::Waiting(_)
        );
        if !may_ask
            || process.acquisition >= self.acquisitions
            || process.question >= self.questions
        {
            return None;
        }
        process.question += 1;
        process.phase = Phase::Asking;
        let question = process.question;
        self.send(state, client, Asks::Lock(question))
    }

    fn leave(&self, state: &mut State, client: usize) -> Option<()> {
        let process = &mut state.processes[client];
        if process.phase == Phase::Idle {
            return None;
        }
        process.phase = Phase::Leaving;
        self.send(state, client, Asks::Release)
    }
}

impl Model for HandedOver {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let process = Process {
            acquisition: 0,
            question: 0,
            phase: Phase::Idle,
            was_told: false,
        };
        vec![State {
            holder: None,
            lease: 0,
            list: Vec::new(),
            calls: BTreeSet::new(),
            messages: BTreeSet::new(),
            processes: vec![process; self.clients],
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        steps.push(Step::Tick);
        for &call in &state.calls {
            steps.push(Step::Lose(call));
            steps.push(if call.reply.is_none() {
                Step::Execute(call)
            } else {
                Step::Arrive(call)
            });
        }
        steps.extend(state.messages.iter().map(|&told| Step::Hear(told)));
        steps.extend(state.list.iter().map(|&entry| Step::Forget(entry)));
        steps.extend((0..self.clients).flat_map(|client| [Step::Ask(client), Step::Leave(client)]));
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        match step {
            Step::Tick => self.pass(&mut state),
            Step::Execute(call) => {
                state.calls.remove(&call);
                self.execute(&mut state, call);
            }
            Step::Lose(call) => drop(state.calls.remove(&call)),
            Step::Arrive(call) => {
                state.calls.remove(&call);
                self.arrive(&mut state, call)?;
            }
            Step::Hear(told) => {
                state.messages.remove(&told);
                self.hear(&mut state, told);
            }
            Step::Forget(entry) => state.list.retain(|other| *other != entry),
            Step::Ask(client) => self.ask(&mut state, client)?,
            Step::Leave(client) => self.leave(&mut state, client)?,
        }
        self.forget_what_does_not_count(&mut state);
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "who trusts the lock has it",
                |model: &Self, state: &State| {
                    let has_it = |client| state.holder == Some(model.field(state, client));
                    holders(state).all(has_it)
                },
            ),
            Property::sometimes("a message is believed", |_, state: &State| {
                holders(state).any(|client| state.processes[client].was_told)
            }),
            Property::sometimes(
                "a lock is given to a client that leaves",
                |model: &Self, state: &State| {
                    let leaves =
                        |&Field(client, _): &Field| state.processes[client].phase == Phase::Leaving;
                    state.holder.as_ref().is_some_and(leaves) && model.clients > 1
                },
            ),
        ]
    }
}

fn holders(state: &State) -> impl Iterator<Item = usize> {
    let holds = |client: &usize| matches!(state.processes[*client].phase, Phase::Holding(_));
    (0..state.processes.len()).filter(holds)
}
