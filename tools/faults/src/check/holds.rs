//! Builds one hold from its events: when it is valid, when it is stale, and when its holder notices
//! a loss.

use crate::history::{Doing, Mode};

use super::times::Span;
use super::trace::{
    Actions, Confirmation, Hold, LeaseUpdate, LossNotice, NoticeSource, WorkerId, Write,
};

/// Deadlines that differ by no more than this are the same, because they are computed from two
/// clocks.
const NOISE: u64 = 1_000_000;

/// The kind of error by which a release reports that the lock was lost.
const LOST: &str = "Lost";

#[derive(Debug)]
pub(super) struct OpenHold {
    hold: Hold,
    /// The valid period that has not ended yet.
    period: Option<ValidPeriod>,
    phase: Phase,
    counts_from_request: bool,
    /// The time of the worker's previous event.
    previous_event: u64,
    /// Whether the worker extended the lease or re-entered the lock after the last confirmation.
    is_changed_by_worker: bool,
    /// The number of lease updates when a renewal was last counted as failed. Until the next
    /// update, no other failure is counted.
    updates_at_failure: usize,
}

/// A period in which the library answers that the lock is held.
#[derive(Debug)]
struct ValidPeriod {
    from: u64,
    /// The last confirmation.
    confirmed: u64,
    /// The deadline that was named last.
    deadline: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Held,
    Lost,
    /// A `Held` followed the loss: the answer was in flight when the loss was reported.
    LostAndHeld,
    Releasing,
}

/// How a lock was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) mode: Mode,
    pub(super) asked: u64,
    pub(super) lease: u64,
    /// Whether the lease is fixed, so that nobody renews it.
    pub(super) is_fixed: bool,
    /// Whether the library counts deadlines from before it sends the request.
    pub(super) counts_from_request: bool,
}

/// The contents of a grant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) at: u64,
    pub(super) until: Option<u64>,
    pub(super) token: Option<i64>,
}

impl OpenHold {
    pub(super) fn new(worker: WorkerId, name: usize, terms: Terms, grant: Grant) -> Self {
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
            worker,
            name,
            mode,
            lease,
            is_fixed,
            granted: grant.at,
            token: grant.token,
            valid: Vec::new(),
            stale: Vec::new(),
            noticed: Vec::new(),
            left_at: None,
            died_at: None,
            confirmations: Vec::new(),
            lease_updates: vec![LeaseUpdate {
                earliest: from,
                latest: grant.at,
                until,
            }],
            shows_renewals: grant.until.is_some(),
            renewed: 0,
            failed: 0,
            loss_notices: Vec::new(),
            actions: Actions::default(),
            writes: Vec::new(),
            gone_by: u64::MAX,
            is_orphan: false,
        };
        let mut open = Self {
            hold,
            period: None,
            phase: Phase::Held,
            counts_from_request,
            previous_event: grant.at,
            is_changed_by_worker: false,
            updates_at_failure: 0,
        };
        open.confirm(grant.at, grant.until);
        open
    }

    /// Call this after each event of the worker.
    pub(super) fn event_done(&mut self, at: u64) {
        self.previous_event = at;
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether the holder no longer relies on the hold.
    pub(super) fn is_given_up(&self) -> bool {
        match self.phase {
            Phase::Held => self.period.is_none(),
            Phase::Lost | Phase::LostAndHeld => true,
            Phase::Releasing => false,
        }
    }

    /// The library answers that the lock is held.
    pub(super) fn confirm(&mut self, at: u64, until: Option<u64>) {
        // Before the push: the update is compared with the previous confirmation.
        self.record_update(at, until);
        self.hold.confirmations.push(Confirmation {
            at,
            deadline: until,
        });
        self.check_renewal(at);
        match &mut self.period {
            Some(period) if period.deadline.is_none_or(|until| until > at) => {
                period.confirmed = at;
                period.deadline = until;
            }
            _ => {
                self.end_by_deadline(at);
                self.period = Some(ValidPeriod {
                    from: at,
                    confirmed: at,
                    deadline: until,
                });
            }
        }
        if until.is_some_and(|until| until <= at) {
            self.reject_expired(at);
        } else if let Some(notice) = self.hold.loss_notices.last_mut() {
            notice.is_retracted = true;
        }
    }

    /// Records a lease update if the deadline is later than before.
    fn record_update(&mut self, at: u64, until: Option<u64>) {
        let is_changed_by_worker = std::mem::take(&mut self.is_changed_by_worker);
        let (last, confirmation) = (
            self.hold.lease_updates.last(),
            self.hold.confirmations.last(),
        );
        let (Some(last), Some(confirmation), Some(until)) = (last, confirmation, until) else {
            return;
        };
        if until <= last.until + NOISE {
            return;
        }
        let sent = until.saturating_sub(self.hold.lease).min(at);
        let is_exact = self.counts_from_request && !self.hold.actions.extended;
        let from = if is_exact {
            sent
        } else {
            sent.min(confirmation.at)
        };
        self.hold.lease_updates.push(LeaseUpdate {
            earliest: from,
            latest: at,
            until,
        });
        if !is_changed_by_worker && !self.hold.is_fixed {
            self.hold.renewed += 1;
        }
    }

    /// Counts a failed renewal if less than a third of the lease is left.
    fn check_renewal(&mut self, at: u64) {
        let last = self.last_update();
        let hold = &mut self.hold;
        let named = hold
            .confirmations
            .last()
            .and_then(|confirmation| confirmation.deadline);
        let left = named.unwrap_or(last.until).saturating_sub(at);
        let is_new = self.updates_at_failure < hold.lease_updates.len();
        if hold.shows_renewals && !hold.is_fixed && left < hold.lease / 3 && is_new {
            self.updates_at_failure = hold.lease_updates.len();
            hold.failed += 1;
        }
    }

    fn last_update(&self) -> LeaseUpdate {
        *self
            .hold
            .lease_updates
            .last()
            .expect("the grant is the first one")
    }

    pub(super) fn record_action(&mut self, at: u64, what: Doing, error: Option<&str>) {
        match what {
            Doing::Renewed => self.renew(at, error),
            Doing::Extended => {
                self.is_changed_by_worker = true;
                self.hold.actions.extended = true;
            }
            Doing::Reentered => {
                self.is_changed_by_worker = true;
                self.hold.actions.reentered = true;
            }
            Doing::Paused => self.hold.actions.paused = true,
        }
    }

    /// The driver has renewed the lease. If the library names deadlines, the next deadline shows
    /// that, so do not count it here too.
    fn renew(&mut self, at: u64, error: Option<&str>) {
        if self
            .hold
            .confirmations
            .last()
            .is_some_and(|confirmation| confirmation.deadline.is_some())
        {
            return;
        }
        self.hold.shows_renewals = true;
        if error.is_none() {
            let (from, lease) = (self.previous_event, self.hold.lease);
            self.hold.lease_updates.push(LeaseUpdate {
                earliest: from,
                latest: at,
                until: from.saturating_add(lease),
            });
            self.hold.renewed += u64::from(!self.hold.is_fixed);
        }
    }

    /// The holder notices that the hold has ended, or may have.
    fn notice_loss(&mut self, at: u64, seen: u64, by: NoticeSource) {
        let hold = &self.hold;
        let is_already_lost = hold.loss().is_some();
        let deadline = hold
            .confirmations
            .last()
            .and_then(|confirmation| confirmation.deadline);
        // The end of a fixed lease is no loss.
        let runs_out = by == NoticeSource::Deadline || deadline.is_some_and(|until| until <= at);
        if !(is_already_lost || hold.is_fixed && runs_out) {
            let update = self.last_update();
            self.hold.loss_notices.push(LossNotice {
                at,
                seen,
                by,
                update,
                is_retracted: false,
            });
        }
    }

    /// The deadline of the confirmation at this time had already passed when the event was written.
    fn reject_expired(&mut self, at: u64) {
        let Some(period) = self.period.take() else {
            return;
        };
        if period.from < at {
            self.hold.valid.push(Span {
                from: period.from,
                to: at - 1,
            });
        }
        self.hold.noticed.push(at);
        self.notice_loss(at, at, NoticeSource::Deadline);
    }

    pub(super) fn doubt(&mut self, at: u64) {
        self.check_renewal(at);
        if !self.end_by_deadline(at) {
            self.end_by_last_confirmation(at);
        }
        self.hold.noticed.push(at);
        if self.phase != Phase::Releasing {
            self.notice_loss(at, at, NoticeSource::Library);
        }
    }

    pub(super) fn lose(&mut self, at: u64) {
        self.doubt(at);
        if self.phase == Phase::Held {
            self.phase = Phase::Lost;
        }
    }

    /// Returns whether this is permitted: one answer may have been in flight when the loss was
    /// reported.
    pub(super) fn confirm_after_loss(&mut self) -> bool {
        let is_first = self.phase == Phase::Lost;
        self.phase = Phase::LostAndHeld;
        is_first
    }

    pub(super) fn releasing(&mut self, at: u64) {
        if !self.end_by_deadline(at)
            && let Some(period) = self.period.take()
        {
            self.hold.valid.push(Span {
                from: period.from,
                to: period.from.max(at.saturating_sub(1)),
            });
        }
        self.hold.left_at = Some(at);
        self.phase = Phase::Releasing;
    }

    pub(super) fn released(&mut self, at: u64, error: Option<&str>) {
        if error == Some(LOST) {
            self.notice_loss(at, at, NoticeSource::Library);
        }
    }

    /// The process was killed, and this was its last event.
    pub(super) fn process_killed(&mut self, at: u64) {
        self.end_by_last_confirmation(at);
        self.hold.left_at.get_or_insert(at);
        self.hold.died_at = Some(at);
    }

    pub(super) fn wrote(&mut self, write: Write) {
        self.hold.writes.push(write);
    }

    /// Completes a hold whose release was confirmed.
    pub(super) fn complete_released(mut self, at: u64) -> Hold {
        self.hold.gone_by = at;
        self.hold
    }

    /// Completes a hold whose release was not confirmed. A server may still have it until its
    /// process releases it in the background, or until a fixed lease ends.
    pub(super) fn complete_unconfirmed(mut self, at: u64, cleanup_time: u64) -> Hold {
        let last = self.last_update();
        let runs_out = last.until.saturating_add(last.latest - last.earliest);
        let is_over = self.hold.is_fixed && !self.hold.actions.extended;
        self.hold.gone_by = if is_over {
            at.max(runs_out.min(at.saturating_add(cleanup_time)))
        } else {
            at.saturating_add(cleanup_time)
        };
        self.hold
    }

    /// Completes a hold that nobody will release. A server may have it for two leases: a renewal
    /// that was in flight may have extended it once more.
    pub(super) fn complete_orphaned(mut self, at: u64, cleanup_time: u64) -> Hold {
        let cleanup_time = cleanup_time.max(self.hold.lease.saturating_mul(2));
        let last = self.last_update().until.saturating_add(cleanup_time / 2);
        self.hold.is_orphan = true;
        self.hold.gone_by = at.saturating_add(cleanup_time).max(last);
        self.hold
    }

    /// Ends the valid period if its deadline has passed by this time. Returns whether it has.
    fn end_by_deadline(&mut self, at: u64) -> bool {
        let passed = |period: &mut ValidPeriod| period.deadline.is_some_and(|until| until <= at);
        let Some(period) = self.period.take_if(passed) else {
            return false;
        };
        let until = period.deadline.unwrap_or(at);
        self.hold.noticed.push(until);
        self.notice_loss(until, at, NoticeSource::Deadline);
        self.close_period(period.from, until - 1, at);
        true
    }

    /// Ends the valid period at its last confirmation, because it is unknown what happened later.
    fn end_by_last_confirmation(&mut self, at: u64) {
        if let Some(period) = self.period.take() {
            self.close_period(period.from, period.confirmed, at);
        }
    }

    /// The hold was valid until `to`, and stale from then until the holder noticed.
    fn close_period(&mut self, from: u64, to: u64, noticed: u64) {
        self.hold.valid.push(Span { from, to });
        if to + 1 < noticed {
            self.hold.stale.push(Span {
                from: to + 1,
                to: noticed - 1,
            });
        }
    }
}
