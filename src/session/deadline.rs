//! The instant until which this client may rely on a hold, and whether the servers confirm the
//! hold.

use std::sync::Arc;
use std::time::Duration;

use crate::client_id::ClientId;
use crate::clock::Moment;
use crate::lease::{ForcedRelease, LossReason};
use crate::protocol::resource::Resource;
use crate::transport::Epoch;

/// How long a hold lasts before a lease that was begun by a release is renewed. Most holds end
/// before.
const FIRST_RENEWAL: Duration = Duration::from_millis(100);

/// The local deadline (HOLD-2), and what the servers have confirmed about the hold.
#[derive(Debug)]
pub(super) struct Deadline {
    /// The last confirmed lease certainly runs until this instant.
    lease_ends: Moment,
    /// The lease is short until its first renewal, which is due at this moment.
    first_renewal: Option<Moment>,
    /// The watchdog ends the hold at this instant.
    max_hold_ends: Option<Moment>,
    /// When the last call known to have found or taken the field was sent.
    confirmed: Moment,
    clocks: Clocks,
    /// Renewals fail, or another server serves the key.
    uncertain: bool,
    /// A call that is sent after this instant must confirm the hold: another server serves the key,
    /// the server was out of reach, or a message says that the hold was ended.
    unverified: Option<Moment>,
    /// What that message said. If the hold turns out to be there, another hold was meant.
    forced: Option<Arc<ForcedRelease>>,
}

impl Deadline {
    /// The deadline of a hold granted by a call that was sent at `sent`.
    pub(super) fn new(terms: HoldTerms, sent: Moment) -> Self {
        Deadline {
            lease_ends: terms.clocks.local_deadline(sent, terms.first_lease()),
            first_renewal: None,
            max_hold_ends: terms.max_hold.map(|span| sent + span),
            confirmed: sent,
            clocks: terms.clocks,
            uncertain: false,
            unverified: None,
            forced: None,
        }
    }

    /// The lease is shorter than it was asked for, because a release began it on behalf of the
    /// waiter.
    pub(super) fn set_handed_over_lease(&mut self, lease: Duration, since: Moment, now: Moment) {
        self.lease_ends = self.clocks.local_deadline(since, lease);
        let latest = self.lease_ends.checked_sub(lease / 3).unwrap_or(now);
        self.first_renewal = Some(latest.min(now + FIRST_RENEWAL));
        let waited = now.saturating_duration_since(since);
        self.max_hold_ends = self.max_hold_ends.map(|end| end + waited);
    }

    pub(super) fn first_renewal(&self) -> Option<Moment> {
        self.first_renewal
    }

    /// Takes over what is left of the lease of the field's previous owner.
    pub(super) fn take_lease_of(&mut self, before: &Deadline) {
        (self.lease_ends, self.confirmed) = (before.lease_ends, before.confirmed);
        self.first_renewal = before.first_renewal;
    }

    /// The end of the lease in Redis, at the earliest.
    pub(super) fn lease_ends(&self) -> Moment {
        self.lease_ends
    }

    pub(super) fn confirmed(&self) -> Moment {
        self.confirmed
    }

    pub(super) fn is_uncertain(&self) -> bool {
        self.uncertain
    }

    pub(super) fn is_unverified(&self) -> bool {
        self.unverified.is_some()
    }

    /// The instant until which the hold is certainly held.
    pub(super) fn end(&self) -> Moment {
        self.max_hold_ends
            .map_or(self.lease_ends, |end| end.min(self.lease_ends))
    }

    pub(super) fn lease_has_ended(&self, now: Moment) -> bool {
        now >= self.lease_ends
    }

    /// The reason why the hold is over, if one of its deadlines has passed.
    pub(super) fn passed(&self, now: Moment) -> Option<LossReason> {
        if self.lease_has_ended(now) {
            return Some(LossReason::Expired);
        }
        self.max_hold_ends
            .is_some_and(|end| now >= end)
            .then_some(LossReason::MaxHold)
    }

    /// A guard joins. The stricter terms apply.
    pub(super) fn join(&mut self, terms: HoldTerms, now: Moment) {
        self.clocks = self.clocks.max(terms.clocks);
        if let Some(span) = terms.max_hold {
            let end = now + span;
            self.max_hold_ends = Some(self.max_hold_ends.map_or(end, |before| before.min(end)));
        }
    }

    /// A server confirmed a lease that was asked for at `sent`. True if the hold was uncertain and
    /// is certain again.
    pub(super) fn confirm(&mut self, sent: Moment, lease: Duration) -> bool {
        self.lease_ends = self.lease_ends.max(self.clocks.local_deadline(sent, lease));
        self.confirmed = self.confirmed.max(sent);
        self.first_renewal = None;
        // Only a call sent after the change proves anything: the former server may have answered an
        // earlier one.
        let verified = self.unverified.is_none_or(|since| sent >= since);
        if verified {
            (self.unverified, self.forced) = (None, None);
        }
        verified && std::mem::take(&mut self.uncertain)
    }

    #[cfg(test)]
    pub(super) fn shorten(&mut self, by: Duration) {
        self.lease_ends = self
            .lease_ends
            .checked_sub(by)
            .expect("later than the start");
    }

    /// A renewal failed. True if the hold was certain until now.
    pub(super) fn mark_uncertain(&mut self) -> bool {
        !std::mem::replace(&mut self.uncertain, true)
    }

    /// Redis may have ended the hold before this instant.
    pub(super) fn ask_again(&mut self, now: Moment, forced: Option<&Arc<ForcedRelease>>) {
        self.unverified = Some(now);
        if let Some(forced) = forced {
            self.forced = Some(forced.clone());
        }
    }

    /// The reason, if Redis does not have the hold any more.
    pub(super) fn gone(&self) -> LossReason {
        let forced = self.forced.clone();
        forced.map_or(LossReason::Gone, LossReason::Forced)
    }

    /// Another server serves the key now. True if the hold was certain until now.
    pub(super) fn must_be_verified(&mut self, now: Moment) -> bool {
        self.unverified = Some(now);
        self.mark_uncertain()
    }
}

// Plain values that describe a hold.

/// Which client holds what under which name.
#[derive(Clone, Debug)]
pub(crate) struct HoldIdentity {
    pub(crate) resource: Arc<Resource>,
    /// The owner's field on the wire.
    pub(crate) field: Arc<str>,
    /// A hold of one client means nothing to another client, which may use another server.
    pub(crate) client: ClientId,
}

/// What one acquisition asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HoldTerms {
    /// The lease in Redis: the lock's, or the fixed one.
    pub(crate) lease: Duration,
    /// The watchdog renews the hold.
    pub(crate) renewed: bool,
    /// The watchdog ends the hold after this time.
    pub(crate) max_hold: Option<Duration>,
    pub(crate) clocks: Clocks,
}

/// The servers whose clocks time a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Clocks {
    OfOne,
    /// The lock is one of a quorum.
    OfSeveral,
}

impl Clocks {
    /// The instant until which a lease asked for at `sent` certainly runs.
    ///
    /// The margin covers the drift of two clocks over one lease (0.1 %) and Redis' resolution of
    /// one millisecond. For several servers it also contains Redlock's allowance: a hundredth of
    /// the lease plus two milliseconds.
    pub(crate) fn local_deadline(self, sent: Moment, lease: Duration) -> Moment {
        let drift = match self {
            Clocks::OfOne => Duration::ZERO,
            Clocks::OfSeveral => lease / 100 + Duration::from_millis(2),
        };
        let margin = (Duration::from_millis(1) + lease / 1000 + drift).min(lease / 5);
        sent + lease.saturating_sub(margin)
    }
}

impl HoldTerms {
    /// The lease that the acquisition asks for.
    pub(crate) fn first_lease(&self) -> Duration {
        self.lease
    }

    /// True if a hold with these terms may continue a lease that Redis already has. Waiters of
    /// other clients know how long that lease is, and a shorter one would end without their
    /// noticing.
    pub(crate) fn continue_lease(&self, longest: Duration) -> bool {
        self.renewed && self.lease >= longest
    }
}

/// What Redis says about a hold.
#[derive(Clone, Debug)]
pub(crate) struct Description {
    pub(crate) since: Moment,
    pub(crate) text: Arc<str>,
}

/// A field that a call with an unknown outcome may have taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InDoubt {
    /// The epoch of lane and key when the first such call was sent.
    pub(crate) epoch: Epoch,
    /// How long the field may stay once it is taken.
    pub(crate) lease: Duration,
}

// The guards of a hold, and the leases that they asked for.

#[derive(Debug)]
pub(super) struct Guards {
    /// The number of shares (HOLD-3).
    count: u32,
    /// Guards whose lease the watchdog renews.
    renewed: u32,
    /// The longest lease that the renewed guards asked for, counted since the first of them.
    lease: Duration,
    /// The longest lease that was ever asked for.
    longest: Duration,
}

impl Guards {
    /// Counts the first guard.
    pub(super) fn new(terms: HoldTerms) -> Self {
        Guards {
            count: 1,
            renewed: terms.renewed.into(),
            lease: terms.lease,
            longest: terms.first_lease(),
        }
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn are_renewed(&self) -> bool {
        self.renewed > 0
    }

    /// The lease that renewals ask for.
    pub(super) fn lease(&self) -> Duration {
        self.lease
    }

    pub(super) fn longest_lease(&self) -> Duration {
        self.longest
    }

    /// A call that asks for this lease is about to be sent.
    pub(super) fn asks_for(&mut self, lease: Duration) {
        self.longest = self.longest.max(lease);
    }

    pub(super) fn join(&mut self, terms: HoldTerms) {
        self.count += 1;
        if terms.renewed {
            // The hold must go on for the outer guards, too.
            let outer = self.are_renewed().then_some(self.lease);
            self.lease = terms.lease.max(outer.unwrap_or(terms.lease));
            self.renewed += 1;
        }
    }

    pub(super) fn leave(&mut self, terms: HoldTerms) {
        self.count -= 1;
        self.renewed -= u32::from(terms.renewed);
    }

    /// When the next renewal is due, if the hold is renewed.
    pub(super) fn renew_at(&self, deadline: &Deadline, now: Moment) -> Option<Moment> {
        if let Some(first) = deadline.first_renewal() {
            return self.are_renewed().then_some(first);
        }
        let third = self.lease() / 3;
        let before_its_end = deadline.lease_ends().checked_sub(third * 2).unwrap_or(now);
        // A longer lease does not put the renewal off, because renewals also detect losses.
        let due = before_its_end.min(deadline.confirmed() + third);
        self.are_renewed().then_some(due)
    }
}

// Whether the field of a hold may pass to another owner.

/// Calls about the field that are in flight or whose outcome is unknown.
#[derive(Debug)]
pub(super) struct Doubt {
    /// Re-entries and releases of inner guards that are in flight or about to be sent.
    open_calls: u32,
    /// An attempt for this field that Redis may still execute.
    /// Boxed, because most holds have none.
    attempt: Option<Box<InDoubt>>,
    transfer: Transfer,
}

/// Who may get the field next. It only ever becomes stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Transfer {
    Anybody,
    /// Another owner may get it only by a call to Redis, because an earlier call about the field
    /// had no reply.
    NotInMemory,
    /// Nobody may get it, because a read hold was taken under this write hold.
    Nobody,
}

impl Doubt {
    pub(super) fn none() -> Self {
        Doubt {
            open_calls: 0,
            attempt: None,
            transfer: Transfer::Anybody,
        }
    }

    pub(super) fn attempt(&self) -> Option<InDoubt> {
        self.attempt.as_deref().copied()
    }

    pub(super) fn set_attempt(&mut self, attempt: InDoubt) {
        self.attempt = Some(Box::new(attempt));
    }

    pub(super) fn call_sent(&mut self) {
        self.open_calls += 1;
    }

    pub(super) fn call_settled(&mut self) {
        self.open_calls -= 1;
    }

    /// The outcome of a call is unknown.
    pub(super) fn call_in_doubt(&mut self) {
        self.transfer = self.transfer.max(Transfer::NotInMemory);
    }

    pub(super) fn forbid_transfer(&mut self) {
        self.transfer = Transfer::Nobody;
    }

    /// True if no call about the field is in flight or in doubt.
    pub(super) fn is_none(&self) -> bool {
        self.open_calls == 0 && self.attempt.is_none() && self.transfer == Transfer::Anybody
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, Counts};
    use crate::session::hold::tests::{LEASE, TERMS};

    const SECOND: Duration = Duration::from_secs(1);

    fn deadline() -> (Deadline, Moment) {
        let now = Clock::new(Counts::TimerTime).now();
        (Deadline::new(TERMS, now), now)
    }

    #[tokio::test]
    async fn a_confirmation_never_moves_it_back() {
        let (mut deadline, now) = deadline();
        let before = deadline.end();
        deadline.confirm(now, SECOND);
        assert_eq!(deadline.end(), before);
        deadline.confirm(now + SECOND, LEASE);
        assert_eq!(deadline.end(), before + SECOND);
    }

    #[tokio::test]
    async fn only_a_later_call_verifies_the_hold() {
        let (mut deadline, now) = deadline();
        assert!(deadline.must_be_verified(now + SECOND));
        assert!(
            !deadline.must_be_verified(now + SECOND),
            "it was uncertain before"
        );
        assert!(!deadline.confirm(now, LEASE), "the former server answered");
        assert!(deadline.is_unverified() && deadline.is_uncertain());
        assert!(deadline.confirm(now + SECOND, LEASE));
        assert!(!deadline.is_unverified() && !deadline.is_uncertain());
    }

    #[tokio::test]
    async fn the_shortest_max_hold_counts() {
        let (mut deadline, now) = deadline();
        let joins = |span| HoldTerms {
            max_hold: Some(span),
            ..TERMS
        };
        deadline.join(joins(5 * SECOND), now);
        deadline.join(joins(9 * SECOND), now);
        assert_eq!(deadline.end(), now + 5 * SECOND);
        assert_eq!(deadline.passed(now + 4 * SECOND), None);
        assert_eq!(deadline.passed(now + 5 * SECOND), Some(LossReason::MaxHold));
        assert_eq!(deadline.passed(now + LEASE), Some(LossReason::Expired));
    }
}
