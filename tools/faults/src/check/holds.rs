//! A hold while its events come in: when it is valid, when stale, and when its holder is told.

use crate::history::{Doing, Mode};

use super::story::{Alarm, Answer, Did, Hold, Signature, Teller, Who, Write};
use super::times::Span;

/// Deadlines are computed from two clocks: a smaller difference is none.
const NOISE: u64 = 1_000_000;

/// What an error is called that says that the lock was lost.
const LOST: &str = "Lost";

#[derive(Debug)]
pub(super) struct OpenHold {
    hold: Hold,
    belief: Option<Belief>,
    phase: Phase,
    counts_from_request: bool,
    /// The worker's last event before this one.
    before: u64,
    /// The lease was extended, or the lock re-entered, after the last answer.
    is_altered: bool,
    /// How many signatures there were when one was not followed by another in time.
    failed_after: usize,
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

/// How a lock was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) mode: Mode,
    pub(super) asked: u64,
    pub(super) lease: u64,
    /// Nobody renews it.
    pub(super) is_fixed: bool,
    /// Its deadlines are counted from before the request was sent.
    pub(super) counts_from_request: bool,
}

/// What a grant said.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) at: u64,
    pub(super) until: Option<u64>,
    pub(super) token: Option<i64>,
}

impl OpenHold {
    pub(super) fn new(who: Who, name: usize, terms: Terms, grant: Grant) -> Self {
        let Terms {
            mode,
            asked,
            lease,
            is_fixed,
            counts_from_request,
        } = terms;
        let sent = grant.until.filter(|_| counts_from_request);
        let from = sent
            .map_or(asked, |until| until.saturating_sub(lease))
            .min(grant.at);
        let until = grant.until.unwrap_or(asked.saturating_add(lease));
        let hold = Hold {
            who,
            name,
            mode,
            lease,
            is_fixed,
            granted: grant.at,
            token: grant.token,
            valid: Vec::new(),
            stale: Vec::new(),
            told: Vec::new(),
            left: None,
            died: None,
            answers: Vec::new(),
            signatures: vec![Signature {
                from,
                by: grant.at,
                until,
            }],
            shows_renewals: grant.until.is_some(),
            renewed: 0,
            failed: 0,
            alarms: Vec::new(),
            did: Did::default(),
            writes: Vec::new(),
            gone_by: u64::MAX,
            is_orphan: false,
        };
        let mut open = Self {
            hold,
            belief: None,
            phase: Phase::Inside,
            counts_from_request,
            before: grant.at,
            is_altered: false,
            failed_after: 0,
        };
        open.confirm(grant.at, grant.until);
        open
    }

    /// The worker's event at this time has been read.
    pub(super) fn stepped(&mut self, at: u64) {
        self.before = at;
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
        self.sign(at, until);
        self.hold.answers.push(Answer { at, until });
        self.look(at);
        match &mut self.belief {
            Some(belief) if belief.until.is_none_or(|until| until > at) => {
                belief.seen = at;
                belief.until = until;
            }
            _ => {
                self.end_by_deadline(at);
                self.belief = Some(Belief {
                    from: at,
                    seen: at,
                    until,
                });
            }
        }
        if until.is_some_and(|until| until <= at) {
            self.withdraw(at);
        } else if let Some(alarm) = self.hold.alarms.last_mut() {
            alarm.is_taken_back = true;
        }
    }

    /// A later deadline than before was signed by a server.
    fn sign(&mut self, at: u64, until: Option<u64>) {
        let is_altered = std::mem::take(&mut self.is_altered);
        let (last, answer) = (self.hold.signatures.last(), self.hold.answers.last());
        let (Some(last), Some(answer), Some(until)) = (last, answer, until) else {
            return;
        };
        if until <= last.until + NOISE {
            return;
        }
        let sent = until.saturating_sub(self.hold.lease).min(at);
        let is_exact = self.counts_from_request && !self.hold.did.extend;
        let from = if is_exact { sent } else { sent.min(answer.at) };
        self.hold.signatures.push(Signature {
            from,
            by: at,
            until,
        });
        if !is_altered && !self.hold.is_fixed {
            self.hold.renewed += 1;
        }
    }

    /// Whether a renewal that can be seen is late.
    fn look(&mut self, at: u64) {
        let last = self.signed();
        let hold = &mut self.hold;
        let named = hold.answers.last().and_then(|answer| answer.until);
        let left = named.unwrap_or(last.until).saturating_sub(at);
        let is_new = self.failed_after < hold.signatures.len();
        if hold.shows_renewals && !hold.is_fixed && left < hold.lease / 3 && is_new {
            self.failed_after = hold.signatures.len();
            hold.failed += 1;
        }
    }

    fn signed(&self) -> Signature {
        *self.hold.signatures.last().expect("that of the grant")
    }

    pub(super) fn did(&mut self, at: u64, what: Doing, error: Option<&str>) {
        match what {
            Doing::Renewed => self.renew(at, error),
            Doing::Extended => {
                self.is_altered = true;
                self.hold.did.extend = true;
            }
            Doing::Reentered => {
                self.is_altered = true;
                self.hold.did.reenter = true;
            }
            Doing::Paused => self.hold.did.pause = true,
        }
    }

    /// The driver has done it. Of a lease whose deadlines are named, the next one shows it.
    fn renew(&mut self, at: u64, error: Option<&str>) {
        if self
            .hold
            .answers
            .last()
            .is_some_and(|answer| answer.until.is_some())
        {
            return;
        }
        self.hold.shows_renewals = true;
        if error.is_none() {
            let (from, lease) = (self.before, self.hold.lease);
            self.hold.signatures.push(Signature {
                from,
                by: at,
                until: from.saturating_add(lease),
            });
            self.hold.renewed += u64::from(!self.hold.is_fixed);
        }
    }

    /// Its holder is told that it is over, or may be.
    fn alarm(&mut self, at: u64, seen: u64, by: Teller) {
        let hold = &self.hold;
        let is_told = hold.loss().is_some();
        let deadline = hold.answers.last().and_then(|answer| answer.until);
        // A lease that nobody renews runs out.
        let runs_out = by == Teller::Deadline || deadline.is_some_and(|until| until <= at);
        if !(is_told || hold.is_fixed && runs_out) {
            let signature = self.signed();
            self.hold.alarms.push(Alarm {
                at,
                seen,
                by,
                signature,
                is_taken_back: false,
            });
        }
    }

    /// The observation at this time was over before it was written down.
    fn withdraw(&mut self, at: u64) {
        let Some(belief) = self.belief.take() else {
            return;
        };
        if belief.from < at {
            self.hold.valid.push(Span {
                from: belief.from,
                to: at - 1,
            });
        }
        self.hold.told.push(at);
        self.alarm(at, at, Teller::Deadline);
    }

    pub(super) fn doubt(&mut self, at: u64) {
        self.look(at);
        if !self.end_by_deadline(at) {
            self.end_by_last_positive(at);
        }
        self.hold.told.push(at);
        if self.phase != Phase::Releasing {
            self.alarm(at, at, Teller::Library);
        }
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
            self.hold.valid.push(Span {
                from: belief.from,
                to: belief.from.max(at.saturating_sub(1)),
            });
        }
        self.hold.left = Some(at);
        self.phase = Phase::Releasing;
    }

    pub(super) fn released(&mut self, at: u64, error: Option<&str>) {
        if error == Some(LOST) {
            self.alarm(at, at, Teller::Library);
        }
    }

    /// Its process gave its last sign of life.
    pub(super) fn vanish(&mut self, at: u64) {
        self.end_by_last_positive(at);
        self.hold.left.get_or_insert(at);
        self.hold.died = Some(at);
    }

    pub(super) fn wrote(&mut self, write: Write) {
        self.hold.writes.push(write);
    }

    /// Its release was confirmed.
    pub(super) fn settle(mut self, at: u64) -> Hold {
        self.hold.gone_by = at;
        self.hold
    }

    /// A server may still have it: not for long, because its process gives it back.
    pub(super) fn leave(mut self, at: u64, unsettled: u64) -> Hold {
        let signed = self.signed();
        let runs_out = signed.until.saturating_add(signed.by - signed.from);
        let is_over = self.hold.is_fixed && !self.hold.did.extend;
        self.hold.gone_by = if is_over {
            at.max(runs_out.min(at.saturating_add(unsettled)))
        } else {
            at.saturating_add(unsettled)
        };
        self.hold
    }

    /// Nobody gives it back: a server may have it for a lease, also if a call was on its way that prolonged it once more.
    pub(super) fn orphan(mut self, at: u64, unsettled: u64) -> Hold {
        let unsettled = unsettled.max(self.hold.lease.saturating_mul(2));
        let last = self.signed().until.saturating_add(unsettled / 2);
        self.hold.is_orphan = true;
        self.hold.gone_by = at.saturating_add(unsettled).max(last);
        self.hold
    }

    /// Whether the deadline had passed by then.
    fn end_by_deadline(&mut self, at: u64) -> bool {
        let passed = |belief: &mut Belief| belief.until.is_some_and(|until| until <= at);
        let Some(belief) = self.belief.take_if(passed) else {
            return false;
        };
        let until = belief.until.unwrap_or(at);
        self.hold.told.push(until);
        self.alarm(until, at, Teller::Deadline);
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
            self.hold.stale.push(Span {
                from: to + 1,
                to: heard - 1,
            });
        }
    }
}
