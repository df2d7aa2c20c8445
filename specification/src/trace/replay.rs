//! Replays what was said about one key, in every state in which the model can be.
//!
//! Calls are carried out as late as possible: when a reply or the end of a lease needs it. The
//! model lets the lease count from any moment since the call was sent, so nothing is missed by
//! that.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::coverage::{self, Moment, Transition};
use super::{Answer, Asked, Entry, FOR_EVER, Said};
use crate::plain::{Client, Field, Kind, Message, Phase, Plain, Process, Rest, Span, State};

/// More states than that are too many to go on with. The published runs have a few dozen.
const MOST: usize = 20_000;
/// No call arrives so long after it was sent.
const LONGEST_TRAVEL: Span = 120_000;
/// A call that is not late arrives within this time, in milliseconds.
const SOON: u64 = 2_000;
/// The number of all calls without an answer. It does not matter which is which.
const NEVER_ANSWERED: u64 = 0;

pub(super) struct Replay {
    model: Plain,
    states: HashSet<State>,
    /// In milliseconds.
    now: u64,
    /// Which client of the model has a field. One of the model has one acquisition at a time.
    clients: BTreeMap<String, Slot>,
    free: Vec<Client>,
    /// Fields that are done. None may be used again.
    done: BTreeSet<String>,
    /// Fields of forgotten holds, which others may restore. The model does not have that.
    handed_on: BTreeSet<String>,
    calls: BTreeMap<(u32, u64), Call>,
    /// How each call will be answered, if it will.
    answers: BTreeMap<(u32, u64), Option<Answer>>,
    longest_lease: Span,
    /// What was carried out by then may be forgotten.
    forgets_until: Option<u64>,
    /// Until then, replies are believed.
    believes_until: Option<u64>,
    pub(super) walked: BTreeSet<Transition>,
    pub(super) grants: usize,
    pub(super) believed: usize,
    pub(super) most: usize,
}

/// An acquisition, or the hold that came of it.
struct Slot {
    client: Client,
    /// The number of the hold that is trusted.
    hold: Option<u64>,
    /// The latest end of a lease that a reply has given it, in milliseconds. Two threads may hear
    /// two replies, and trust the longer lease later.
    granted_until: u64,
    last_heard: u64,
    last: Option<Moment>,
}

/// A call that is not answered.
struct Call {
    client: Client,
    message: Message,
    field: String,
    /// The end of the lease that it asks for, in milliseconds.
    ends: u64,
}

type Step = Result<(), &'static str>;

impl Replay {
    pub(super) fn of(entries: &[Entry], noise: Span) -> Self {
        let mut answers = BTreeMap::new();
        for entry in entries {
            match entry.said {
                Said::Answered { call, answer } => {
                    answers.insert((entry.client, call), Some(answer))
                }
                Said::NotRun { call } => answers.insert((entry.client, call), None),
                _ => None,
            };
        }
        let model = Plain {
            acquisitions: Vec::new(),
            lease: 0,
            travelling: usize::MAX,
            hand_overs: u32::MAX,
            replays: Some(noise),
            fault: None,
        };
        let state = State {
            fields: BTreeSet::new(),
            lease: Rest::default(),
            messages: BTreeSet::new(),
            processes: Vec::new(),
            lost: BTreeSet::new(),
        };
        Replay {
            model,
            states: HashSet::from([state]),
            now: entries.first().map_or(0, |entry| millis(entry.at)),
            clients: BTreeMap::new(),
            free: Vec::new(),
            done: BTreeSet::new(),
            handed_on: BTreeSet::new(),
            calls: BTreeMap::new(),
            answers,
            longest_lease: 0,
            forgets_until: None,
            believes_until: None,
            walked: BTreeSet::new(),
            grants: 0,
            believed: 0,
            most: 1,
        }
    }

    pub(super) fn step(&mut self, entry: &Entry) -> Step {
        self.pass(millis(entry.at))?;
        if let Said::Sent { field, .. } | Said::Trusted { field, .. } = &entry.said
            && self.handed_on.contains(field)
        {
            self.believe_for_a_lease();
            return Ok(());
        }
        let step = match &entry.said {
            Said::Sent {
                call,
                kind,
                field,
                lease,
                ..
            } => self.sent((entry.client, *call), kind.into(), field, *lease),
            Said::Answered { call, answer } => self.answered((entry.client, *call), *answer),
            Said::NotRun { call } => {
                self.calls.remove(&(entry.client, *call));
                Ok(())
            }
            Said::Trusted { hold, field, until } => {
                self.trusted(*hold, field, left(entry.at, *until))
            }
            Said::Forgets { until } => {
                self.forgets_until = self.forgets_until.max(Some(millis(*until)));
                self.each("no state", |_, state| {
                    state.lease.least = 0;
                    Some(())
                })
            }
            Said::Replaced { until } => {
                self.believes_until = self.believes_until.max(Some(millis(*until)));
                Ok(())
            }
            Said::HandedOn { field } => {
                self.handed_on.insert(field.clone());
                self.others_may_end(field)
            }
            Said::Unmodelled => {
                self.believe_for_a_lease();
                Ok(())
            }
        };
        self.most = self.most.max(self.states.len());
        step
    }

    fn believe_for_a_lease(&mut self) {
        let until = self.now + u64::from(self.longest_lease) + SOON;
        self.believes_until = self.believes_until.max(Some(until));
    }

    /// The hold was forgotten. Any client that knows its owner may release or renew it.
    fn others_may_end(&mut self, field: &str) -> Step {
        let Some(client) = self.clients.get(field).map(|slot| slot.client) else {
            return Ok(());
        };
        self.each("no state", |_, state| {
            if state.fields.contains(&state.processes[client].field) {
                let most = FOR_EVER;
                state.lease = Rest { least: 0, most };
            }
            Some(())
        })
    }

    /// What a client does depends on nothing that is not seen, so its phase is the same in all
    /// states.
    fn phase(&self, client: Client) -> Phase {
        let state = self.states.iter().next();
        state.map_or(Phase::Idle, |state| state.processes[client].phase)
    }

    fn lives(&mut self, field: &str, moment: Option<Moment>) {
        let Some((slot, moment)) = self.clients.get_mut(field).zip(moment) else {
            return;
        };
        if let Some(before) = slot.last.replace(moment) {
            self.walked.insert((before.to_string(), moment.to_string()));
        }
    }

    /// Goes on with the states in which a step is possible.
    fn each(&mut self, why: &'static str, step: impl Fn(&Plain, &mut State) -> Option<()>) -> Step {
        let states = std::mem::take(&mut self.states);
        let model = &self.model;
        let possible = states.into_iter().filter_map(|mut state| {
            step(model, &mut state)?;
            Some(state)
        });
        self.states = possible.collect();
        if self.states.is_empty() {
            Err(why)
        } else {
            Ok(())
        }
    }

    fn pass(&mut self, to: u64) -> Step {
        if self.believes_until.is_some_and(|until| until < to) {
            self.believes_until = None;
            self.anybody_may_have_it();
            self.each_call_may_be_done();
        }
        let time = Span::try_from(to.saturating_sub(self.now)).unwrap_or(Span::MAX);
        self.now = self.now.max(to);
        // What may have been carried out before a lease ended is carried out now.
        if self
            .states
            .iter()
            .any(|state| !state.fields.is_empty() && state.lease.most <= time)
        {
            self.carry_out()?;
        }
        let held: Vec<String> = self
            .clients
            .iter()
            .filter(|(_, slot)| matches!(self.phase(slot.client), Phase::Holding(_)))
            .map(|(field, _)| field.clone())
            .collect();
        self.each("no state", |_, state| {
            Plain::pass(state, time);
            Some(())
        })?;
        for field in held {
            if matches!(self.phase(self.clients[&field].client), Phase::Leaving(_)) {
                self.lives(&field, Some(Moment::Expires));
            }
        }
        self.forget_the_silent();
        Ok(())
    }

    /// Adds every state that the calls which are on their way, or the end of a lease, can lead to.
    fn carry_out(&mut self) -> Step {
        let noise = self.model.replays.unwrap_or(0);
        self.each("no state", |_, state| {
            may_be_longer(state, noise);
            Some(())
        })?;
        let mut new: Vec<State> = self.states.iter().cloned().collect();
        while let Some(state) = new.pop() {
            for mut next in self.after_one(&state) {
                may_be_longer(&mut next, noise);
                if !self.states.contains(&next) {
                    self.states.insert(next.clone());
                    new.push(next);
                }
            }
            if self.states.len() > MOST {
                self.loses_track();
                return Ok(());
            }
        }
        Ok(())
    }

    fn after_one(&self, state: &State) -> Vec<State> {
        let mut all = Vec::new();
        for &message in &state.messages {
            let is_there = state.fields.contains(&message.field);
            let is_answered = message.number != NEVER_ANSWERED;
            let changes_something = match message.kind {
                // Nobody hears of a grant without an answer. It is in the way of others, but that
                // explains no reply: they may be refused at any time.
                Kind::Acquire => is_answered && (is_there || state.fields.is_empty()),
                Kind::Renew => is_answered,
                Kind::Release => is_answered || is_there,
            };
            if message.reply.is_some() || !changes_something {
                continue;
            }
            let mut next = state.clone();
            next.messages.remove(&message);
            self.model.execute(&mut next, message);
            let sent = self.now.saturating_sub(u64::from(message.age));
            if self.forgets_until.is_some_and(|until| sent <= until) {
                next.lease.least = 0;
            }
            if !is_answered {
                // It may also be carried out later, which is as if it had been sent again.
                next.messages.retain(|other| {
                    (other.number, other.reply) == (NEVER_ANSWERED, None)
                        || other.number != NEVER_ANSWERED
                });
                next.messages.insert(message);
            }
            all.push(next);
        }
        if !state.fields.is_empty() && state.lease.least == 0 {
            let mut next = state.clone();
            Plain::expire(&mut next);
            all.push(next);
        }
        all
    }

    /// The client of the model for a field. A new one if the field is new.
    fn client_of(&mut self, field: &str) -> Client {
        if let Some(slot) = self.clients.get_mut(field) {
            slot.last_heard = self.now;
            return slot.client;
        }
        let client = self.free.pop().unwrap_or_else(|| {
            let client = self.model.acquisitions.len();
            self.model.acquisitions.push(u32::MAX);
            let process = Process {
                acquisition: 0,
                field: Field(client, 0),
                phase: Phase::Idle,
                handed_over: 0,
                is_renewed: false,
            };
            let states = std::mem::take(&mut self.states);
            let add = |mut state: State| {
                state.processes.push(process);
                state
            };
            self.states = states.into_iter().map(add).collect();
            client
        });
        let (hold, last_heard) = (None, self.now);
        self.clients.insert(
            field.to_owned(),
            Slot {
                client,
                hold,
                granted_until: 0,
                last_heard,
                last: None,
            },
        );
        client
    }

    fn sent(&mut self, call: (u32, u64), kind: Kind, field: &str, lease: Span) -> Step {
        self.longest_lease = self.longest_lease.max(lease);
        if self.done.contains(field) {
            return match kind {
                Kind::Acquire => Err("a field is used again"),
                // It removes what is not there any more.
                Kind::Release => {
                    let both = [Moment::IsReleased, Moment::RepeatsASettledRelease];
                    let [before, after] = both.map(|moment| moment.to_string());
                    self.walked.insert((before, after));
                    Ok(())
                }
                Kind::Renew => Ok(()),
            };
        }
        let is_new = !self.clients.contains_key(field);
        if is_new && kind != Kind::Acquire {
            // Taken before the history began, or by a call that the model does not have.
            return Ok(());
        }
        let client = self.client_of(field);
        let phase = self.phase(client);
        let step = match kind {
            Kind::Acquire => self.each("asked although it holds or has left", |model, state| {
                model.ask(state, client)
            }),
            Kind::Renew => self.each("renewed before it was granted", |_, state| {
                Plain::may_renew(&state.processes[client])
            }),
            Kind::Release => self.each("released before it was asked for", |_, state| {
                Plain::give_up(state, client).or_else(|| Plain::leave(state, client))
            }),
        };
        step?;
        if kind == Kind::Release && phase == Phase::Asking {
            self.lives(field, Some(Moment::GivesUp));
        }
        let moment = match kind {
            Kind::Acquire => coverage::asks(phase),
            Kind::Renew => coverage::sends_renewal(phase),
            Kind::Release => {
                let was_asking = phase == Phase::Asking;
                coverage::sends_release(if was_asking { Phase::Leaving(0) } else { phase })
            }
        };
        self.lives(field, Some(moment));
        let answer = self.answers.get(&call).copied();
        // The model need not know a call that changed nothing.
        if answer == Some(None) || kind == Kind::Acquire && answer == Some(Some(Answer::No)) {
            return Ok(());
        }
        let Some(state) = self.states.iter().next() else {
            return Ok(());
        };
        let message = Message {
            kind,
            field: state.processes[client].field,
            reply: None,
            lease,
            age: 0,
            number: answer.map_or(NEVER_ANSWERED, |_| 1 + call.1 * 1000 + u64::from(call.0)),
        };
        if answer.is_some() {
            let (field, ends) = (field.to_owned(), self.now + u64::from(lease));
            self.calls.insert(
                call,
                Call {
                    client,
                    message,
                    field,
                    ends,
                },
            );
        }
        self.each("no state", |_, state| {
            state.messages.insert(message);
            Some(())
        })
    }

    fn answered(&mut self, call: (u32, u64), answer: Answer) -> Step {
        let Some(Call {
            client,
            message,
            field,
            ends,
        }) = self.calls.remove(&call)
        else {
            return Ok(());
        };
        if let Some(slot) = self.clients.get_mut(&field) {
            slot.last_heard = self.now;
            if message.kind != Kind::Release && answer == Answer::Yes {
                slot.granted_until = slot.granted_until.max(ends);
            }
        }
        let reply = Some(answer == Answer::Yes);
        let moment = coverage::arrives(self.phase(client), &Message { reply, ..message });
        self.lives(&field, moment);
        let is_grant = (message.kind, answer) == (Kind::Acquire, Answer::Yes);
        self.grants += usize::from(is_grant);
        if self.believes_until.is_none() {
            self.carry_out()?;
        }
        if self.believes_until.is_some() {
            self.believed += usize::from(is_grant);
            self.believe(message, answer)?;
        } else {
            let why = match (message.kind, answer) {
                (Kind::Acquire, _) => "granted although another has it",
                (Kind::Renew, Answer::Yes) => "renewed although it is gone",
                (Kind::Renew | Kind::Release, Answer::No) => "gone although nothing has ended it",
                (Kind::Release, Answer::Yes) => "a release without an effect",
            };
            self.each(why, |model, state| {
                let of_call = |other: &&Message| {
                    (other.number, other.field) == (message.number, message.field)
                        && other.reply.is_some()
                };
                let reply = *state.messages.iter().find(of_call)?;
                state.messages.remove(&reply);
                // A release also finds what the model does not know: a place in a queue, a grant
                // without an answer.
                let is_right = (message.kind, answer) == (Kind::Release, Answer::Yes)
                    || reply.reply == Some(answer == Answer::Yes);
                is_right.then_some(())?;
                model.arrive(state, reply)
            })?;
        }
        if message.kind == Kind::Release {
            self.retire(&field, client);
        }
        Ok(())
    }

    /// There are too many states. From now on anybody may have the lock, and replies are believed
    /// for a while.
    fn loses_track(&mut self) {
        // Where the most calls are on their way, none of them is missing that was carried out in
        // some other state.
        let fullest = self.states.iter().max_by_key(|state| state.messages.len());
        self.states = fullest.cloned().into_iter().collect();
        self.anybody_may_have_it();
        self.believe_for_a_lease();
    }

    /// Two servers have answered, and one of them goes on: with what it has.
    fn anybody_may_have_it(&mut self) {
        let most = self.longest_lease + self.model.replays.unwrap_or(0);
        let has = |state: &State, fields| State {
            fields,
            lease: Rest { least: 0, most },
            ..state.clone()
        };
        let states = std::mem::take(&mut self.states);
        for state in &states {
            // Where nothing is left of an acquisition, no server has its field either.
            let called: BTreeSet<Field> = state.messages.iter().map(|call| call.field).collect();
            let is_left = |process: &&Process| {
                process.phase != Phase::Idle || called.contains(&process.field)
            };
            let fields = state.processes.iter().filter(is_left);
            let fields = fields.map(|process| BTreeSet::from([process.field]));
            self.states.extend(fields.map(|fields| has(state, fields)));
            self.states.insert(has(state, BTreeSet::new()));
        }
    }

    /// Nobody knows what was carried out while replies were believed. The reply to such a call may
    /// come much later: a caller may keep its future for as long as it likes before it polls it
    /// again.
    fn each_call_may_be_done(&mut self) {
        for (call, Call { message, .. }) in &self.calls {
            let Some(Some(answer)) = self.answers.get(call) else {
                continue;
            };
            let done = |state: &State| {
                let of_call =
                    |other: &&Message| (other.number, other.reply) == (message.number, None);
                let sent = *state.messages.iter().find(of_call)?;
                let reply = Some(*answer == Answer::Yes);
                let mut state = state.clone();
                state.messages.remove(&sent);
                state.messages.insert(Message { reply, ..sent });
                Some(state)
            };
            let more: Vec<_> = self.states.iter().filter_map(done).collect();
            self.states.extend(more);
        }
    }

    /// Takes a reply as it is.
    fn believe(&mut self, message: Message, answer: Answer) -> Step {
        let is_yes = answer == Answer::Yes;
        self.each("no state", |model, state| {
            let of_call =
                |other: &&Message| (other.number, other.field) == (message.number, message.field);
            let sent = *state.messages.iter().find(of_call)?;
            state.messages.remove(&sent);
            match message.kind {
                Kind::Release => drop(state.fields.remove(&message.field)),
                Kind::Acquire | Kind::Renew if is_yes => {
                    state.fields = BTreeSet::from([message.field]);
                    let least = 0;
                    let most = state
                        .lease
                        .most
                        .max(message.lease + model.replays.unwrap_or(0));
                    state.lease = Rest { least, most };
                }
                _ => {}
            }
            let reply = Message {
                reply: Some(is_yes),
                ..sent
            };
            model.arrive(state, reply)
        })
    }

    fn trusted(&mut self, hold: u64, field: &str, left: Span) -> Step {
        let Some(slot) = self.clients.get_mut(field) else {
            return if self.believes_until.is_some() {
                Ok(())
            } else {
                Err("trusted without a grant")
            };
        };
        slot.last_heard = self.now;
        let (client, granted_until) = (slot.client, slot.granted_until);
        let is_next = slot.hold.is_some_and(|before| before != hold);
        slot.hold = Some(hold);
        if is_next {
            self.lives(field, Some(Moment::IsHandedOver));
            self.each(
                "handed over after its release, or when it was lost",
                |model, state| model.hand_over(state, client),
            )?;
        }
        let noise = self.model.replays.unwrap_or(0).min(2);
        let granted = Span::try_from(granted_until.saturating_sub(self.now)).unwrap_or(FOR_EVER);
        self.each(
            "trusted for longer than Redis keeps it, or after its end",
            |_, state| {
                let process = &mut state.processes[client];
                if !matches!(process.phase, Phase::Holding(_)) {
                    // A thread came so late that nothing was left to trust.
                    return (left == 0).then_some(());
                }
                process.phase = Phase::Holding(left.min(granted).max(1));
                (left <= granted + noise).then_some(())
            },
        )
    }

    /// The acquisition is over.
    fn retire(&mut self, field: &str, client: Client) {
        let is_over = |state: &State| state.processes[client].phase == Phase::Idle;
        if self.clients.contains_key(field) && self.states.iter().all(is_over) {
            self.clients.remove(field);
            self.done.insert(field.to_owned());
            self.free.push(client);
        }
    }

    /// Forgets clients that have not been heard of for so long that nothing of them is left
    /// anywhere.
    fn forget_the_silent(&mut self) {
        let limit = u64::from(LONGEST_TRAVEL) + u64::from(self.longest_lease);
        let now = self.now;
        let is_silent = |slot: &Slot| now.saturating_sub(slot.last_heard) > limit;
        let silent: Vec<_> = self
            .clients
            .iter()
            .filter(|(_, slot)| is_silent(slot))
            .map(|(field, slot)| (field.clone(), slot.client))
            .collect();
        for (field, client) in silent {
            let is_gone = |state: &State| {
                let field = state.processes[client].field;
                !state.fields.contains(&field)
                    && !matches!(state.processes[client].phase, Phase::Holding(_))
            };
            if !self.states.iter().all(is_gone) {
                continue;
            }
            self.clients.remove(&field);
            self.done.insert(field);
            self.free.push(client);
            let states = std::mem::take(&mut self.states);
            let clear = |mut state: State| {
                let process = &mut state.processes[client];
                let field = process.field;
                state.lost.remove(&(client, process.acquisition));
                process.acquisition += 1;
                process.field.1 += 1;
                process.phase = Phase::Idle;
                state.messages.retain(|message| message.field != field);
                state
            };
            self.states = states.into_iter().map(clear).collect();
        }
    }
}

impl From<&Asked> for Kind {
    fn from(asked: &Asked) -> Self {
        match asked {
            Asked::Acquire | Asked::Read | Asked::Write | Asked::Permits => Kind::Acquire,
            Asked::Renew => Kind::Renew,
            Asked::Release => Kind::Release,
        }
    }
}

/// A call that is never answered may have given the present holder a longer lease.
fn may_be_longer(state: &mut State, noise: Span) {
    let is_of_holder = |message: &&Message| {
        message.number == NEVER_ANSWERED && state.fields.contains(&message.field)
    };
    let longest = state
        .messages
        .iter()
        .filter(is_of_holder)
        .map(|message| message.lease + noise);
    state.lease.most = state.lease.most.max(longest.max().unwrap_or(0));
}

fn millis(nanos: u64) -> u64 {
    nanos / 1_000_000
}

/// For how many milliseconds a hold is trusted. It is not over before the clock shows a later
/// millisecond than that in which the trust ends.
fn left(at: u64, until: u64) -> Span {
    if until <= at {
        return 0;
    }
    Span::try_from(millis(until) + 1 - millis(at)).unwrap_or(FOR_EVER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{at, judge};

    fn call(call: u64, field: &str, kind: Asked, from_to: (u64, u64)) -> [Entry; 2] {
        let (field, lease, under) = (field.to_owned(), 1_000, String::new());
        let said = Said::Sent {
            call,
            kind,
            field,
            lease,
            under,
        };
        let answer = Answer::Yes;
        [
            at(from_to.0, said),
            at(from_to.1, Said::Answered { call, answer }),
        ]
    }

    fn renewed_late(heard: u64) -> Option<String> {
        let calls = [
            call(1, "one", Asked::Acquire, (0, 1)),
            call(2, "one", Asked::Renew, (10, heard)),
            call(3, "two", Asked::Acquire, (500, 501)),
            call(4, "two", Asked::Renew, (1_400, 1_401)),
            call(5, "two", Asked::Renew, (2_300, 2_301)),
            call(6, "two", Asked::Renew, (2_990, 3_010)),
        ];
        let told = calls.into_iter().flatten();
        let history = told.chain([at(2, Said::Unmodelled)]).collect();
        judge(history, 50).disallowed()
    }

    #[test]
    fn a_reply_to_what_was_done_while_replies_were_believed_may_come_late() {
        assert_eq!(renewed_late(11), None);
        assert_eq!(renewed_late(3_020), None);
    }

    /// Microseconds.
    fn at_micros(micros: u64, said: Said) -> Entry {
        Entry {
            at: micros * 1_000,
            ..at(0, said)
        }
    }

    fn trusted(until_micros: u64) -> Said {
        Said::Trusted {
            hold: 1,
            field: "one".to_owned(),
            until: until_micros * 1_000,
        }
    }

    /// A hold that is trusted until 998.9 ms, and renewed by a reply that its client hears then.
    fn renewed_at(micros: u64) -> Option<String> {
        let mut history: Vec<_> = call(1, "one", Asked::Acquire, (0, 1)).into();
        history.push(at_micros(1_900, trusted(998_900)));
        let [renewal, answer] = call(2, "one", Asked::Renew, (900, 0));
        history.extend([renewal, at_micros(micros, answer.said)]);
        history.push(at_micros(micros, trusted(1_898_900)));
        judge(history, 5).disallowed()
    }

    #[test]
    fn a_renewal_counts_until_the_last_moment_of_the_trust() {
        assert_eq!(renewed_at(998_800), None);
        let told = renewed_at(1_000_100).expect("a violation");
        assert!(told.contains("after its end"), "{told}");
    }

    /// Two threads hear replies to two renewals. The one that heard the longer lease trusts it
    /// `until` then, and later.
    fn trusted_by_two_threads(until: u64) -> Option<String> {
        let mut history: Vec<_> = call(1, "one", Asked::Acquire, (0, 1)).into();
        history.push(at(1, trusted(999_000)));
        history.extend(call(2, "one", Asked::Renew, (100, 210)));
        history.extend(call(3, "one", Asked::Renew, (200, 205)));
        history.push(at(210, trusted(1_099_000)));
        history.push(at(211, trusted(until * 1_000)));
        judge(history, 5).disallowed()
    }

    #[test]
    fn the_longest_lease_of_two_replies_may_be_trusted_last() {
        assert_eq!(trusted_by_two_threads(1_199), None);
        let told = trusted_by_two_threads(1_203).expect("a violation");
        assert!(told.contains("for longer than Redis keeps it"), "{told}");
    }

    #[test]
    fn a_renewal_that_was_sent_later_finds_nothing() {
        let mut history: Vec<_> = call(1, "one", Asked::Acquire, (0, 1)).into();
        history.extend(call(3, "two", Asked::Acquire, (2_500, 2_501)));
        history.extend(call(2, "one", Asked::Renew, (2_600, 2_700)));
        let told = judge(history, 50).disallowed().expect("a violation");
        assert!(told.contains("renewed although it is gone"), "{told}");
    }
}
