//! The fair lock: a queue in Redis whose places are kept by heartbeats, shared with waiters of
//! Redisson.
//!
//! # The system
//!
//! A waiter has a place in the queue, and the place is kept until its *claim* ends. A waiter of
//! this library prolongs its claim by heartbeats. A waiter of Redisson cannot: its claim is its
//! whole wait, added to that of the waiter before it. Whoever looks at the queue removes the
//! waiters at its head whose claims have ended.
//!
//! The lock goes to the head of the queue. If the lock is free, the claim of the head is not
//! prolonged: it comes, or it loses its place. When a waiter of Redisson gets the lock, it takes
//! its wait off all claims behind it. So a place of this library behind one of Redisson is kept for
//! that much longer. A living waiter that has lost its place all the same goes to the front. Within
//! these bounds none loses it, so that rule is not needed here; without the first rule it would not
//! suffice, because a newcomer may take the lock before the waiter comes back.
//!
//! # Direct grant
//!
//! A holder of this library that releases the lock gives it to the head in the same step, if that
//! is a waiter of this library: the place becomes a lease that ends when the place would have
//! ended. A message tells the waiter. The waiter believes the message if it has asked for a place
//! only once. Then the server has taken the place away once, and after every answer that said that
//! the place is kept. So the lease began no earlier than the waiter sent the call that was last
//! answered so, and the waiter trusts the lease counted from there. A waiter that has asked for a
//! place twice may hear of an earlier grant, which nobody heard of in time. It asks instead, and
//! finds its own hold if it has one. All other messages only make the head come sooner, and are
//! left out.
//!
//! All waiters of this library are of one client: those of different clients that lost their places
//! at the same time may swap them. Waiters that give up are left out. A message comes at any time,
//! or never. A waiter that lives sends a heartbeat within its claim, and comes if it is next or has
//! lost its place: time does not pass until it has. One that stalls does so later, and may be
//! overtaken.

use std::collections::BTreeSet;

use stateright::{Model, Property};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A heartbeat does not prolong the claim.
    NoHeartbeats,
    /// A waiter that is not at the head takes a free lock.
    TakesOutOfTurn,
    /// A dead waiter at the head stays there.
    DeadStay,
    /// A waiter believes the message of a grant although it has asked for a place twice.
    BelievesEveryMessage,
    /// A waiter counts the lease from the message.
    CountsFromTheMessage,
}

#[derive(Clone, Debug)]
pub(crate) struct Fair {
    pub(crate) ours: usize,
    pub(crate) javas: usize,
    /// In steps of time.
    pub(crate) lease: u8,
    pub(crate) claim: u8,
    pub(crate) java_wait: u8,
    /// A place behind a waiter of Redisson is kept for longer.
    pub(crate) keeps_longer: bool,
    /// A living waiter that has lost its place goes to the front, and not to the end.
    pub(crate) goes_to_the_front: bool,
    pub(crate) fault: Option<Fault>,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) who: usize,
    pub(crate) kept: u8,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum Phase {
    Idle,
    /// It waits: how many came before it, the steps of time since its last heartbeat, and whether
    /// it has asked for a place only once.
    Waiting {
        turn: u8,
        silent: u8,
        once: bool,
        /// It may be silent for longer than its claim, and be overtaken.
        stalls: bool,
    },
    Dead,
    /// It trusts the lock for that much longer. Redisson does not count.
    Holding {
        trusted: u8,
        by_message: bool,
    },
    Done,
}

/// A message that the lock was granted, for a time.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Grant {
    pub(crate) who: usize,
    pub(crate) lease: u8,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) queue: Vec<Place>,
    pub(crate) holder: Option<usize>,
    pub(crate) lease: u8,
    pub(crate) phases: Vec<Phase>,
    /// Messages that may still be heard.
    pub(crate) messages: BTreeSet<Grant>,
    /// How many waiters of this library have come.
    pub(crate) came: u8,
    /// Somebody was served before a living waiter of this library that came earlier.
    pub(crate) overtaken: bool,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum Step {
    Tick,
    Ask(usize),
    /// A waiter asks again.
    Come(usize),
    /// A living waiter of this library keeps its place.
    Heartbeat(usize),
    /// A waiter hears that the lock was granted to it.
    Hear(Grant),
    /// Who has heard that it was granted renews the lease.
    Renew(usize),
    Release(usize),
    /// A waiter of this library stands still for as long as it takes.
    Stall(usize),
    /// A waiter dies. A dead holder is one that never releases.
    Die(usize),
}

impl Fair {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn is_java(&self, who: usize) -> bool {
        who >= self.ours
    }

    /// The longest claim that this library keeps for a place: for that much longer, waiters of
    /// Redisson are before it.
    fn claim_behind(&self, before: &[Place]) -> u8 {
        let javas = before
            .iter()
            .filter(|place| self.is_java(place.who))
            .count();
        let longer = if self.keeps_longer { javas } else { 0 };
        self.claim + u8::try_from(longer).unwrap_or(u8::MAX) * self.java_wait
    }

    fn remove_dead(&self, state: &mut State) {
        while state.queue.first().is_some_and(|head| head.kept == 0) && !self.has(Fault::DeadStay) {
            state.queue.remove(0);
        }
    }

    /// Takes the lock if it is the turn of `who`.
    fn take(&self, state: &mut State, who: usize) -> bool {
        let is_next = state.queue.first().is_none_or(|head| head.who == who)
            || self.has(Fault::TakesOutOfTurn);
        if state.holder.is_some() || !is_next {
            return false;
        }
        state.queue.retain(|place| place.who != who);
        if self.is_java(who) {
            let pass = |place: &mut Place| place.kept = place.kept.saturating_sub(self.java_wait);
            state.queue.iter_mut().for_each(pass);
        }
        self.is_served(state, who);
        state.holder = Some(who);
        state.lease = self.lease;
        state.phases[who] = Phase::Holding {
            trusted: self.lease,
            by_message: false,
        };
        true
    }

    fn is_served(&self, state: &mut State, who: usize) {
        let turn_of = |phase: &Phase| match phase {
            Phase::Waiting { turn, .. } => Some(*turn),
            _ => None,
        };
        if state.phases[who] == Phase::Dead {
            return;
        }
        let turn = turn_of(&state.phases[who]).unwrap_or(state.came);
        let stalls = |phase: &&Phase| matches!(phase, Phase::Waiting { stalls: true, .. });
        state.overtaken |= state.phases[..self.ours]
            .iter()
            .filter(|phase| !stalls(phase))
            .filter_map(turn_of)
            .any(|other| other < turn);
    }

    fn release(&self, state: &mut State, who: usize) -> Option<()> {
        if !matches!(state.phases[who], Phase::Holding { .. }) {
            return None;
        }
        state.phases[who] = Phase::Done;
        if state.holder == Some(who) {
            state.holder = None;
            state.lease = 0;
        }
        if !self.is_java(who) && state.holder.is_none() {
            self.grant(state);
        }
        Some(())
    }

    /// Gives the lock to the head of the queue, and sends it a message.
    fn grant(&self, state: &mut State) {
        self.remove_dead(state);
        let Some(&Place { who, kept }) = state.queue.first() else {
            return;
        };
        if self.is_java(who) || kept == 0 {
            return;
        }
        state.queue.remove(0);
        self.is_served(state, who);
        state.holder = Some(who);
        // A place behind Redisson may be kept for much longer, but no dead waiter shall cost that.
        state.lease = kept.min(self.claim);
        if state.phases[who] == Phase::Dead {
            // It had its turn, and nobody hears of it.
            state.phases[who] = Phase::Done;
            return;
        }
        let lease = state.lease;
        state.messages.insert(Grant { who, lease });
    }

    fn hear(&self, state: &mut State, grant: Grant) -> Option<()> {
        if !state.messages.remove(&grant) {
            return None;
        }
        let Phase::Waiting { silent, once, .. } = state.phases[grant.who] else {
            return Some(());
        };
        let trusted = if self.has(Fault::CountsFromTheMessage) {
            grant.lease
        } else {
            grant.lease.saturating_sub(silent)
        };
        if trusted > 0 && (once || self.has(Fault::BelievesEveryMessage)) {
            state.phases[grant.who] = Phase::Holding {
                trusted,
                by_message: true,
            };
        }
        Some(())
    }

    fn renew(&self, state: &mut State, who: usize) -> Option<()> {
        let by_message = matches!(
            state.phases[who],
            Phase::Holding {
                by_message: true,
                ..
            }
        );
        if !by_message || state.holder != Some(who) {
            return None;
        }
        self.finds_itself(state, who);
        Some(())
    }

    /// The server finds the hold of whoever asks.
    fn finds_itself(&self, state: &mut State, who: usize) {
        state.lease = self.lease;
        state.phases[who] = Phase::Holding {
            trusted: self.lease,
            by_message: false,
        };
    }

    fn ask(&self, state: &mut State, who: usize) -> Option<()> {
        if state.phases[who] != Phase::Idle {
            return None;
        }
        self.remove_dead(state);
        if !self.take(state, who) {
            let kept = if self.is_java(who) {
                state.queue.last().map_or(state.lease, |last| last.kept) + self.java_wait
            } else {
                self.claim_behind(&state.queue)
            };
            state.queue.push(Place { who, kept });
            state.phases[who] = Phase::Waiting {
                turn: state.came,
                silent: 0,
                once: true,
                stalls: false,
            };
            state.came += u8::from(!self.is_java(who));
        }
        Some(())
    }

    /// A waiter asks: it takes the lock if it is next, or keeps its place.
    fn come(&self, state: &mut State, who: usize) -> Option<()> {
        let Phase::Waiting {
            turn,
            mut once,
            stalls,
            ..
        } = state.phases[who]
        else {
            return None;
        };
        if state.holder == Some(who) {
            self.finds_itself(state, who);
            return Some(());
        }
        self.remove_dead(state);
        if state.queue.iter().all(|place| place.who != who) {
            if self.is_java(who) {
                // It joins at the end, as at first.
                state.phases[who] = Phase::Idle;
                return self.ask(state, who);
            }
            let at = self.place_again(state, turn);
            state.queue.insert(at, Place { who, kept: 0 });
            once = false;
        }
        if !self.take(state, who) {
            let silent = 0;
            state.phases[who] = Phase::Waiting {
                turn,
                silent,
                once,
                stalls,
            };
            self.keep(state, who);
        }
        Some(())
    }

    /// Where a waiter queues that has lost its place: at the front, behind those that came before
    /// it.
    fn place_again(&self, state: &State, turn: u8) -> usize {
        let came_before = |other: &&Place| {
            let phase = &state.phases[other.who];
            matches!(phase, Phase::Waiting { turn: earlier, .. } if *earlier < turn)
        };
        if self.goes_to_the_front {
            state.queue.iter().take_while(came_before).count()
        } else {
            state.queue.len()
        }
    }

    fn keep(&self, state: &mut State, who: usize) {
        let place = state.queue.iter().position(|place| place.who == who);
        if let Some(place) = place.filter(|_| !self.is_java(who)) {
            state.queue[place].kept = self.claim_behind(&state.queue[..place]);
        }
    }

    /// A waiter of this library says that it lives.
    fn heartbeat(&self, state: &mut State, who: usize) -> Option<()> {
        let Phase::Waiting {
            turn, once, stalls, ..
        } = state.phases[who]
        else {
            return None;
        };
        self.remove_dead(state);
        let is_next = state.queue.first().is_none_or(|head| head.who == who);
        let is_there = state.queue.iter().any(|place| place.who == who);
        // Whoever is next, or has lost its place, must come.
        if self.is_java(who) || !is_there || is_next && state.holder.is_none() {
            return None;
        }
        let silent = 0;
        state.phases[who] = Phase::Waiting {
            turn,
            silent,
            once,
            stalls,
        };
        if !self.has(Fault::NoHeartbeats) {
            self.keep(state, who);
        }
        Some(())
    }

    fn tick(&self, state: &mut State) -> Option<()> {
        let must_come = |phase: &Phase| match phase {
            Phase::Waiting { silent, stalls, .. } => !stalls && *silent + 1 >= self.claim,
            _ => false,
        };
        if state.phases.iter().take(self.ours).any(must_come) {
            return None;
        }
        let pass = |left: &mut u8| *left = left.saturating_sub(1);
        state
            .queue
            .iter_mut()
            .for_each(|place| pass(&mut place.kept));
        pass(&mut state.lease);
        let ended = if state.lease == 0 {
            state.holder.take()
        } else {
            None
        };
        for (who, phase) in state.phases.iter_mut().enumerate() {
            match phase {
                Phase::Waiting { silent, .. } if !self.is_java(who) => {
                    *silent = self.claim.min(*silent + 1);
                }
                Phase::Holding { trusted, .. } => {
                    pass(trusted);
                    if *trusted == 0 || ended == Some(who) && self.is_java(who) {
                        *phase = Phase::Done;
                    }
                }
                _ => {}
            }
        }
        Some(())
    }
}

impl Model for Fair {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            queue: Vec::new(),
            holder: None,
            lease: 0,
            phases: vec![Phase::Idle; self.ours + self.javas],
            messages: BTreeSet::new(),
            came: 0,
            overtaken: false,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        use Step::{Ask, Come, Die, Heartbeat, Release, Renew, Stall};
        steps.push(Step::Tick);
        steps.extend(state.messages.iter().copied().map(Step::Hear));
        for who in 0..self.ours + self.javas {
            steps.extend([Ask, Come, Heartbeat, Renew, Release, Stall, Die].map(|step| step(who)));
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        match step {
            Step::Tick => self.tick(&mut state)?,
            Step::Ask(who) => self.ask(&mut state, who)?,
            Step::Come(who) => self.come(&mut state, who)?,
            Step::Heartbeat(who) => self.heartbeat(&mut state, who)?,
            Step::Hear(grant) => self.hear(&mut state, grant)?,
            Step::Renew(who) => self.renew(&mut state, who)?,
            Step::Release(who) => self.release(&mut state, who)?,
            Step::Die(who) if matches!(state.phases[who], Phase::Waiting { .. }) => {
                // Who dies without a place had its turn.
                let waits = state.queue.iter().any(|place| place.who == who);
                state.phases[who] = if waits { Phase::Dead } else { Phase::Done };
            }
            Step::Stall(who) if who < self.ours => match &mut state.phases[who] {
                Phase::Waiting { stalls, .. } => *stalls = true,
                _ => return None,
            },
            Step::Die(_) | Step::Stall(_) => return None,
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "who trusts the lock has it",
                |model: &Self, state: &State| {
                    let trusts = |phase: &Phase| matches!(phase, Phase::Holding { .. });
                    let ours = state.phases.iter().take(model.ours).enumerate();
                    ours.filter(|(_, phase)| trusts(phase))
                        .all(|(who, _)| state.holder == Some(who))
                },
            ),
            Property::sometimes("a message passes the lock on", |_, state: &State| {
                state.phases.iter().any(|phase| match phase {
                    Phase::Holding { by_message, .. } => *by_message,
                    _ => false,
                })
            }),
            Property::always(
                "a living waiter of this library is not overtaken",
                |_, state: &State| !state.overtaken,
            ),
            Property::sometimes("all have had the lock", |_, state: &State| {
                state.phases.iter().all(|phase| *phase == Phase::Done)
            }),
            Property::sometimes("somebody follows a dead waiter", |_, state: &State| {
                state.phases.contains(&Phase::Dead)
                    && state
                        .phases
                        .iter()
                        .any(|phase| matches!(phase, Phase::Holding { .. }))
                    && state.queue.is_empty()
            }),
        ]
    }
}
