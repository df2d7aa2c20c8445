//! Which holds a server may have forgotten, and when. Only a forgotten hold excuses a second
//! holder.

use super::faults::{Effect, Fault, Faults};
use super::times::Span;
use super::trace::{Hold, LeaseUpdate, Trace};

/// How far a replica may lag behind its master.
pub(super) const LAG: u64 = 500_000_000;

/// The time in which a server may not have known a hold, because of one fault.
struct Gap {
    span: Span,
    /// Whether a later lease update shows that the server has the hold after all.
    is_known_later: bool,
}

impl Fault<'_> {
    /// The time of the writes that this fault may lose.
    fn window(&self, learn_time: u64) -> Span {
        match self.effect {
            Effect::Replaces => Span {
                from: self.on.saturating_sub(LAG),
                to: self.off.saturating_add(learn_time),
            },
            // Everything that was written before the end of the fault can be lost.
            Effect::Empties | Effect::Other => Span {
                from: 0,
                to: self.off,
            },
        }
    }

    /// `None` if this fault did not make a server forget the hold.
    fn gap(&self, hold: &Hold, learn_time: u64) -> Option<Gap> {
        let window = self.window(learn_time);
        let is_in = |update: &&LeaseUpdate| window.common(update.span()).is_some();
        hold.lease_updates.iter().find(is_in)?;
        // The replica certainly received the lease updates before the window. It grants the lock to
        // nobody else until those leases have ended.
        let before = hold
            .lease_updates
            .iter()
            .filter(|update| update.latest < window.from);
        let safe_until = before.map(|update| update.until + 1).max().unwrap_or(0);
        let after = hold
            .lease_updates
            .iter()
            .find(|update| update.earliest > window.to);
        let from = safe_until.max(self.on);
        let to = after.map_or(u64::MAX, |update| update.earliest - 1);
        let span = Span { from, to };
        (from <= to).then_some(Gap {
            span,
            is_known_later: after.is_some(),
        })
    }

    /// The same, if it contains this time.
    fn gap_at(&self, hold: &Hold, at: u64, learn_time: u64) -> Option<Gap> {
        self.gap(hold, learn_time)
            .filter(|gap| gap.span.contains(at))
    }
}

impl<'a> Faults<'a> {
    /// The last fault that may have made the server of this slot forget the hold, so that it does
    /// not have the hold at this time or later.
    pub(super) fn forgetting_fault(&self, slot: u16, hold: &Hold, at: u64) -> Option<&Fault<'a>> {
        let mut forgetting = self.forgetting(at).filter(|fault| fault.reaches_slot(slot));
        forgetting.find(|fault| {
            fault
                .gap_at(hold, at, self.learn_time)
                .is_some_and(|gap| !gap.is_known_later)
        })
    }

    /// The last fault that left two servers for this slot, if one of them may not have known the
    /// hold at this time. The other one may have known it all the time.
    pub(super) fn dividing_fault(&self, slot: u16, hold: &Hold, at: u64) -> Option<&Fault<'a>> {
        let forgetting = self.forgetting(at).filter(|fault| fault.reaches_slot(slot));
        let mut replacing = forgetting.filter(|fault| fault.effect == Effect::Replaces);
        replacing.find(|fault| fault.gap_at(hold, at, self.learn_time).is_some())
    }

    /// The last fault in this slot that may have lost the grant of this hold, and its token, before
    /// `by`.
    pub(super) fn grant_losing_fault(&self, slot: u16, hold: &Hold, by: u64) -> Option<&Fault<'a>> {
        let grant = hold.lease_updates.first()?.span();
        let mut forgetting = self.forgetting(by).filter(|fault| fault.reaches_slot(slot));
        forgetting.find(|fault| fault.window(self.learn_time).common(grant).is_some())
    }

    /// In how much of the time in which locks were held a server may have forgotten the hold, in
    /// thousandths.
    pub(super) fn excusable_permille(&self, trace: &Trace<'_>) -> u64 {
        let (mut held, mut excusable) = (0_u128, 0_u128);
        for hold in &trace.holds {
            let slots = trace.slots_of(hold.name);
            let reach = |fault: &&Fault<'_>| slots.iter().any(|slot| fault.reaches_slot(*slot));
            let gaps = self.forgetting(u64::MAX).filter(reach);
            let gaps = gaps.filter_map(|fault| Some(fault.gap(hold, self.learn_time)?.span));
            let gaps = Span::united(gaps.collect(), 0);
            for valid in &hold.valid {
                held += u128::from(valid.length());
                let common = gaps.iter().filter_map(|gap| gap.common(*valid));
                excusable += common.map(|span| u128::from(span.length())).sum::<u128>();
            }
        }
        let permille = (2_000 * excusable + held)
            .checked_div(2 * held)
            .unwrap_or(0);
        u64::try_from(permille).unwrap_or(u64::MAX)
    }
}
