//! A hold while its events come in: when it is valid, when stale, and when its holder is told.

use crate::history::Mode;

use super::story::{Hold, Who, Write};
use super::times::Span;

#[derive(Debug)]
pub(super) struct OpenHold {
    hold: Hold,
    belief: Option<Belief>,
    phase: Phase,
    last_positive: u64,
}

/// The library says that the lock is held.
#[derive(Debug)]
struct Belief {
    from: u64,
    seen: u64,
    until: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Inside,
    Lost,
    /// `Held` was on its way when the loss came.
    LostAndHeld,
    Releasing,
}

/// What a grant said.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) at: u64,
    pub(super) until: Option<u64>,
    pub(super) token: Option<i64>,
}

impl OpenHold {
    pub(super) fn new(who: Who, name: usize, mode: Mode, grant: Grant) -> Self {
        let hold = Hold {
            who,
            name,
            mode,
            granted: grant.at,
            token: grant.token,
            valid: Vec::new(),
            stale: Vec::new(),
            told: Vec::new(),
            writes: Vec::new(),
            gone_by: u64::MAX,
        };
        let mut open = Self { hold, belief: None, phase: Phase::Inside, last_positive: grant.at };
        open.confirm(grant.at, grant.until);
        open
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// Its holder does not count on it any more.
    pub(super) fn is_given_up(&self) -> bool {
        match self.phase {
            Phase::Inside => self.belief.is_none(),
            Phase::Lost | Phase::LostAndHeld => true,
            Phase::Releasing => false,
        }
    }

    pub(super) fn confirm(&mut self, at: u64, until: Option<u64>) {
        self.last_positive = at;
        match &mut self.belief {
            Some(belief) if belief.until.is_none_or(|until| until > at) => {
                belief.seen = at;
                belief.until = until;
            }
            _ => {
                self.end_by_deadline(at);
                self.belief = Some(Belief { from: at, seen: at, until });
            }
        }
        if until.is_some_and(|until| until <= at) {
            self.withdraw(at);
        }
    }

    /// The observation at this time was over before it was written down.
    fn withdraw(&mut self, at: u64) {
        let Some(belief) = self.belief.take() else { return };
        if belief.from < at {
            self.hold.valid.push(Span { from: belief.from, to: at - 1 });
        }
        self.hold.told.push(at);
    }

    pub(super) fn doubt(&mut self, at: u64) {
        if !self.end_by_deadline(at) {
            self.end_by_last_positive(at);
        }
        self.hold.told.push(at);
    }

    pub(super) fn lose(&mut self, at: u64) {
        self.doubt(at);
        if self.phase == Phase::Inside {
            self.phase = Phase::Lost;
        }
    }

    /// Whether that may be: one answer may have been on its way when the loss came.
    pub(super) fn confirm_after_loss(&mut self) -> bool {
        let first = self.phase == Phase::Lost;
        self.phase = Phase::LostAndHeld;
        first
    }

    pub(super) fn releasing(&mut self, at: u64) {
        if !self.end_by_deadline(at)
            && let Some(belief) = self.belief.take()
        {
            self.hold
                .valid
                .push(Span { from: belief.from, to: belief.from.max(at.saturating_sub(1)) });
        }
        self.hold.told.push(at);
        self.phase = Phase::Releasing;
    }

    /// Its process gave its last sign of life.
    pub(super) fn vanish(&mut self, at: u64) {
        self.end_by_last_positive(at);
        self.hold.told.push(at);
    }

    /// It was sent right after the last positive observation.
    pub(super) fn last_positive(&self) -> u64 {
        self.last_positive
    }

    pub(super) fn wrote(&mut self, write: Write) {
        self.hold.writes.push(write);
    }

    /// No server has it after this.
    pub(super) fn close(mut self, gone_by: u64) -> Hold {
        self.hold.gone_by = gone_by;
        self.hold
    }

    /// Whether the deadline had passed by then.
    fn end_by_deadline(&mut self, at: u64) -> bool {
        let passed = |belief: &mut Belief| belief.until.is_some_and(|until| until <= at);
        let Some(belief) = self.belief.take_if(passed) else { return false };
        let until = belief.until.unwrap_or(at);
        self.hold.told.push(until);
        self.believed(belief.from, until - 1, at);
        true
    }

    fn end_by_last_positive(&mut self, at: u64) {
        if let Some(belief) = self.belief.take() {
            self.believed(belief.from, belief.seen, at);
        }
    }

    /// It was valid until `to`; at `heard`, its holder heard that.
    fn believed(&mut self, from: u64, to: u64, heard: u64) {
        self.hold.valid.push(Span { from, to });
        if to + 1 < heard {
            self.hold.stale.push(Span { from: to + 1, to: heard - 1 });
        }
    }
}
