//! The plain lock: leases, unique fields, repeated calls, undone acquisitions and hand-over within
//! a client.
//!
//! # The system
//!
//! Redis has the fields of one lock and its lease. Calls and replies travel for any time, arrive in
//! any order, or are lost. Redis executes a call when it arrives ([`Step::Execute`]). The client of
//! a call cannot see when that was.
//!
//! A client has one acquisition at a time, and each uses a new field. In the library, one client
//! has many at a time: each of them is a client here. While it asks, it may repeat the call with
//! the same field: at most, the lease gets longer. If it gives up, the field is *undone*: a release
//! is sent, and repeated until a reply comes. The next acquisition waits for that reply, but for no
//! other call that still travels. A call that arrives after the undo may take the lock for nobody.
//! So the release may be sent again later ([`Step::ReleaseAgain`]); otherwise the lease ends it.
//!
//! # What holders trust
//!
//! A grant or a renewal counts from the moment when its call was sent. So a client stops trusting
//! its hold no later than Redis frees it. A hold that has reached its deadline, or that a renewal
//! did not find, is lost for good. Its client may release it at any time. The library does so at
//! once.
//!
//! A hold may be handed over to the next waiter of the client, with its field and its deadline. But
//! not when a release of the field has been sent.
//!
//! # Replays
//!
//! `trace.rs` replays what clients really did with the same steps. There, time is in milliseconds,
//! and nobody knows when Redis executed a call. The lease began at some moment between the sending
//! of the call and now, so it has an earliest and a latest end ([`Rest`]). Where the model is
//! explored, both are the same.

use std::collections::BTreeSet;

use stateright::{Model, Property};

pub(crate) type Client = usize;

/// Steps of time.
pub(crate) type Span = u32;

/// The number of an acquisition of a client. No two acquisitions have the same field.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Field(pub(crate) Client, pub(crate) u32);

/// A rule that is left out, or an assumption that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The deadline is counted from the reply.
    DeadlineFromReply,
    /// The next acquisition of a client uses the field of the former one.
    FieldUsedAgain,
    /// The reply to an acquisition that was given up counts.
    LateGrantCounts,
    /// A renewal writes a field that is missing.
    RenewalResurrects,
    /// The reply to a renewal counts although the deadline has passed.
    LateRenewalCounts,
    /// A release deletes the lock, whoever has it.
    ReleasesOthers,
    /// A hold is handed over after its release has been sent.
    HandsOverWhatIsReleased,
    /// Redis loses what it has: an eviction, a restart without data.
    RedisForgets,
    /// The clock of Redis is faster.
    RedisIsFaster,
}

#[derive(Clone, Debug)]
pub(crate) struct Plain {
    /// How many acquisitions each client makes.
    pub(crate) acquisitions: Vec<u32>,
    /// In steps of time.
    pub(crate) lease: Span,
    /// The largest number of calls and replies of one client that travel at the same time.
    pub(crate) travelling: usize,
    /// The largest number of times that a hold is handed over.
    pub(crate) hand_overs: u32,
    /// Set in a replay: by how much the clocks and their readings may differ.
    pub(crate) replays: Option<Span>,
    pub(crate) fault: Option<Fault>,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Acquire,
    Renew,
    Release,
}

/// A call on its way to Redis, or its reply on the way back.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Message {
    pub(crate) kind: Kind,
    pub(crate) field: Field,
    /// Whether the field was there, or was granted. `None` before the call is executed.
    pub(crate) reply: Option<bool>,
    /// The lease that it asks for.
    pub(crate) lease: Span,
    /// The time since the call was sent. It stops at the lease, because older calls are all alike.
    pub(crate) age: Span,
    /// Which call it is, in a replay.
    pub(crate) number: u64,
}

/// The rest of a lease: it ends in this span of time.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq)]
pub(crate) struct Rest {
    pub(crate) least: Span,
    pub(crate) most: Span,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum Phase {
    Idle,
    /// An acquisition is sent.
    Asking,
    /// Granted, and the time until the deadline. Without time it is lost.
    Holding(Span),
    /// Given up, lost or released: what Redis has is to be removed. The time until the deadline of
    /// the hold: 0 if it was given up or lost.
    Leaving(Span),
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) struct Process {
    /// Its acquisitions so far.
    pub(crate) acquisition: u32,
    pub(crate) field: Field,
    pub(crate) phase: Phase,
    /// How many holders the hold has had before, by hand-over.
    pub(crate) handed_over: u32,
    /// Whether a renewal has moved its deadline.
    pub(crate) is_renewed: bool,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) fields: BTreeSet<Field>,
    pub(crate) lease: Rest,
    pub(crate) messages: BTreeSet<Message>,
    pub(crate) processes: Vec<Process>,
    /// Clients and acquisitions whose deadline has passed, and whose release is not answered.
    pub(crate) lost: BTreeSet<(Client, u32)>,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum Step {
    Tick,
    Execute(Message),
    Lose(Message),
    /// A reply arrives.
    Arrive(Message),
    /// A client begins an acquisition, or repeats the call of the one it makes.
    Ask(Client),
    GiveUp(Client),
    Renew(Client),
    HandOver(Client),
    /// The release of the acquisition before is repeated, although it was answered.
    ReleaseAgain(Client),
    /// The holder leaves, or the release of what it had is repeated.
    Release(Client),
    Forget,
    FasterTick,
}

impl Plain {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// A call of a client about its field.
    fn call(&self, state: &State, kind: Kind, client: Client) -> Message {
        Message {
            kind,
            field: state.processes[client].field,
            reply: None,
            lease: self.lease,
            age: 0,
            number: 0,
        }
    }

    fn send(&self, state: &mut State, call: Message) -> Option<()> {
        let of_client = |message: &&Message| message.field.0 == call.field.0;
        if state.messages.iter().filter(of_client).count() >= self.travelling {
            return None;
        }
        state.messages.insert(call);
        Some(())
    }

    /// The lease that a call gives if it was executed at some moment until now.
    fn given(&self, call: &Message) -> Rest {
        let (early, noise) = self
            .replays
            .map_or((0, 0), |noise| (call.age.saturating_add(noise), noise));
        Rest {
            least: call.lease.saturating_sub(early),
            most: call.lease + noise,
        }
    }

    pub(crate) fn execute(&self, state: &mut State, call: Message) {
        let is_there = state.fields.contains(&call.field);
        let reply = match call.kind {
            Kind::Acquire => is_there || state.fields.is_empty(),
            Kind::Renew => is_there || self.has(Fault::RenewalResurrects),
            Kind::Release => is_there,
        };
        match call.kind {
            Kind::Acquire | Kind::Renew if reply => {
                state.fields.insert(call.field);
                state.lease = state.lease.or_longer(self.given(&call));
            }
            Kind::Release if self.has(Fault::ReleasesOthers) => state.fields.clear(),
            Kind::Release => drop(state.fields.remove(&call.field)),
            _ => {}
        }
        if state.fields.is_empty() {
            state.lease = Rest::default();
        }
        state.messages.insert(Message {
            reply: Some(reply),
            ..call
        });
    }

    /// Drops replies that change nothing, and sets ages to 0 that no rule reads, so that there are
    /// fewer states.
    fn forget_what_does_not_count(&self, state: &mut State) {
        if self.replays.is_some() {
            return;
        }
        let processes = &state.processes;
        let counted = |message: Message| {
            let process = &processes[message.field.0];
            let is_current = process.field == message.field;
            let age_counts = is_current
                && match (message.kind, process.phase) {
                    (Kind::Acquire, Phase::Asking) | (Kind::Renew, Phase::Holding(_)) => {
                        message.reply != Some(false)
                    }
                    (Kind::Acquire, Phase::Leaving(_)) => self.has(Fault::LateGrantCounts),
                    (Kind::Renew, Phase::Leaving(_)) => self.has(Fault::LateRenewalCounts),
                    _ => false,
                };
            let is_known = match (message.kind, message.reply) {
                (_, None) => true,
                (Kind::Release, _) => is_current,
                (Kind::Acquire, Some(granted)) => granted && age_counts,
                (Kind::Renew, Some(renewed)) => age_counts || is_current && !renewed,
            };
            let age = if age_counts { message.age } else { 0 };
            is_known.then_some(Message { age, ..message })
        };
        state.messages = state.messages.iter().copied().filter_map(counted).collect();
    }

    pub(crate) fn arrive(&self, state: &mut State, reply: Message) -> Option<()> {
        let answer = reply.reply?;
        let process = &mut state.processes[reply.field.0];
        if process.field != reply.field {
            return Some(());
        }
        let left = if self.has(Fault::DeadlineFromReply) {
            reply.lease
        } else {
            reply.lease - reply.age.min(reply.lease)
        };
        process.phase = match (process.phase, reply.kind, answer) {
            (Phase::Asking, Kind::Acquire, true) if left > 0 => Phase::Holding(left),
            (Phase::Asking, Kind::Acquire, true) | (Phase::Holding(_), Kind::Renew, false) => {
                Phase::Leaving(0)
            }
            (Phase::Leaving(_), Kind::Acquire, true)
                if left > 0 && self.has(Fault::LateGrantCounts) =>
            {
                Phase::Holding(left)
            }
            (Phase::Holding(now), Kind::Renew, true) => {
                process.is_renewed |= left > now;
                Phase::Holding(now.max(left))
            }
            (Phase::Leaving(0), Kind::Renew, true)
                if left > 0 && self.has(Fault::LateRenewalCounts) =>
            {
                Phase::Holding(left)
            }
            (Phase::Leaving(_), Kind::Release, _) => {
                state.lost.remove(&(process.field.0, process.acquisition));
                process.acquisition += 1;
                if !self.has(Fault::FieldUsedAgain) {
                    process.field.1 += 1;
                }
                Phase::Idle
            }
            (phase, ..) => phase,
        };
        Some(())
    }

    /// Time passes for everybody.
    pub(crate) fn pass(state: &mut State, time: Span) {
        Self::pass_in_redis(state, time);
        let aged = |message: Message| Message {
            age: message.age.saturating_add(time).min(message.lease),
            ..message
        };
        state.messages = std::mem::take(&mut state.messages)
            .into_iter()
            .map(aged)
            .collect();
        for process in &mut state.processes {
            process.phase = match process.phase {
                Phase::Holding(left) if left <= time => {
                    state.lost.insert((process.field.0, process.acquisition));
                    Phase::Leaving(0)
                }
                Phase::Holding(left) => Phase::Holding(left - time),
                Phase::Leaving(left) => Phase::Leaving(left.saturating_sub(time)),
                phase => phase,
            };
        }
    }

    fn pass_in_redis(state: &mut State, time: Span) {
        if state.lease.most <= time {
            Self::expire(state);
        }
        state.lease.least = state.lease.least.saturating_sub(time);
        state.lease.most = state.lease.most.saturating_sub(time);
    }

    pub(crate) fn expire(state: &mut State) {
        state.fields.clear();
        state.lease = Rest::default();
    }

    /// A client begins an acquisition, or repeats the call of the one it makes.
    pub(crate) fn ask(&self, state: &mut State, client: Client) -> Option<()> {
        let process = &mut state.processes[client];
        if !matches!(process.phase, Phase::Idle | Phase::Asking)
            || process.acquisition >= self.acquisitions[client]
        {
            return None;
        }
        if process.phase == Phase::Idle {
            process.handed_over = 0;
            process.is_renewed = false;
        }
        process.phase = Phase::Asking;
        Some(())
    }

    /// A renewal of a hold, or of one whose release may be on its way: one thread may collect what
    /// is due while another one releases it.
    pub(crate) fn may_renew(process: &Process) -> Option<()> {
        matches!(process.phase, Phase::Holding(_) | Phase::Leaving(_)).then_some(())
    }

    pub(crate) fn hand_over(&self, state: &mut State, client: Client) -> Option<()> {
        let process = &mut state.processes[client];
        let left = match process.phase {
            Phase::Holding(left) => left,
            Phase::Leaving(left) if left > 0 && self.has(Fault::HandsOverWhatIsReleased) => left,
            _ => return None,
        };
        if process.handed_over >= self.hand_overs {
            return None;
        }
        process.phase = Phase::Holding(left);
        process.handed_over += 1;
        Some(())
    }

    pub(crate) fn give_up(state: &mut State, client: Client) -> Option<()> {
        let process = &mut state.processes[client];
        if process.phase != Phase::Asking {
            return None;
        }
        process.phase = Phase::Leaving(0);
        Some(())
    }

    /// The holder leaves, or the release of what it had is repeated.
    pub(crate) fn leave(state: &mut State, client: Client) -> Option<()> {
        let process = &mut state.processes[client];
        let (Phase::Holding(left) | Phase::Leaving(left)) = process.phase else {
            return None;
        };
        process.phase = Phase::Leaving(left);
        Some(())
    }

    fn release_again(&self, state: &mut State, client: Client) -> Option<()> {
        let Field(_, number) = state.processes[client].field;
        let former = number.checked_sub(1)?;
        let call = self.call(state, Kind::Release, client);
        self.send(
            state,
            Message {
                field: Field(client, former),
                ..call
            },
        )
    }
}

impl Model for Plain {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let process = |client| Process {
            acquisition: 0,
            field: Field(client, 0),
            phase: Phase::Idle,
            handed_over: 0,
            is_renewed: false,
        };
        vec![State {
            fields: BTreeSet::new(),
            lease: Rest::default(),
            messages: BTreeSet::new(),
            processes: (0..self.acquisitions.len()).map(process).collect(),
            lost: BTreeSet::new(),
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        steps.push(Step::Tick);
        for &message in &state.messages {
            steps.push(Step::Lose(message));
            steps.push(if message.reply.is_none() {
                Step::Execute(message)
            } else {
                Step::Arrive(message)
            });
        }
        for client in 0..self.acquisitions.len() {
            use Step::{Ask, GiveUp, HandOver, Release, ReleaseAgain, Renew};
            let all = [Ask, GiveUp, Renew, HandOver, Release, ReleaseAgain];
            steps.extend(all.map(|step| step(client)));
        }
        steps.extend(self.has(Fault::RedisForgets).then_some(Step::Forget));
        steps.extend(self.has(Fault::RedisIsFaster).then_some(Step::FasterTick));
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        match step {
            Step::Tick => Self::pass(&mut state, 1),
            Step::Execute(message) => {
                state.messages.remove(&message);
                self.execute(&mut state, message);
            }
            Step::Lose(message) => drop(state.messages.remove(&message)),
            Step::Arrive(message) => {
                state.messages.remove(&message);
                self.arrive(&mut state, message)?;
            }
            Step::Ask(client) => {
                self.ask(&mut state, client)?;
                let call = self.call(&state, Kind::Acquire, client);
                self.send(&mut state, call)?;
            }
            Step::GiveUp(client) => Self::give_up(&mut state, client)?,
            Step::Renew(client) => {
                Self::may_renew(&state.processes[client])?;
                let call = self.call(&state, Kind::Renew, client);
                self.send(&mut state, call)?;
            }
            Step::HandOver(client) => self.hand_over(&mut state, client)?,
            Step::Release(client) => {
                Self::leave(&mut state, client)?;
                let call = self.call(&state, Kind::Release, client);
                self.send(&mut state, call)?;
            }
            Step::ReleaseAgain(client) => self.release_again(&mut state, client)?,
            Step::Forget => Self::expire(&mut state),
            Step::FasterTick => Self::pass_in_redis(&mut state, 1),
        }
        self.forget_what_does_not_count(&mut state);
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a lock has at most one holder", |_, state: &State| {
                state.fields.len() <= 1 && holders(state).count() <= 1
            }),
            Property::always(
                "the guard stops trusting the lock before Redis frees it",
                |_, state: &State| {
                    holders(state).all(|process| state.fields.contains(&process.field))
                },
            ),
            Property::always("a lost hold stays lost", |_, state: &State| {
                holders(state)
                    .all(|process| !state.lost.contains(&(process.field.0, process.acquisition)))
            }),
            Property::sometimes("a hold is renewed", |_, state: &State| {
                holders(state).any(|process| process.is_renewed)
            }),
            Property::sometimes("a hold is handed over", |_, state: &State| {
                holders(state).any(|process| process.handed_over > 0)
            }),
            Property::sometimes("another client follows", |_, state: &State| {
                holders(state).any(|process| process.field.0 == 1)
                    && state.processes[0].acquisition > 0
            }),
        ]
    }
}

impl Rest {
    fn or_longer(self, other: Rest) -> Rest {
        Rest {
            least: self.least.max(other.least),
            most: self.most.max(other.most),
        }
    }
}

fn holders(state: &State) -> impl Iterator<Item = &Process> {
    state
        .processes
        .iter()
        .filter(|process| matches!(process.phase, Phase::Holding(_)))
}
