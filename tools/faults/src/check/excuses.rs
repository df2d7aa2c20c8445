//! Which holds a server may have forgotten, and when: nothing else excuses a second holder.

use super::faults::{Effect, Fault, Faults};
use super::story::{Hold, Signature, Story};
use super::times::Span;

/// How far a replica may be behind its master.
const LAG: u64 = 500_000_000;

/// When a hold may have been unknown to a server.
struct Gap {
    span: Span,
    /// A later signature shows that the server has it after all.
    is_known_later: bool,
}

impl Fault<'_> {
    /// What was written in this time can be lost.
    fn window(&self, learned: u64) -> Span {
        match self.effect {
            Effect::Replaces => Span {
                from: self.on.saturating_sub(LAG),
                to: self.off.saturating_add(learned),
            },
            // All that was written before its end.
            Effect::Empties | Effect::Other => Span {
                from: 0,
                to: self.off,
            },
        }
    }

    fn gap(&self, hold: &Hold, learned: u64) -> Option<Gap> {
        let window = self.window(learned);
        let is_in = |signature: &&Signature| window.common(signature.span()).is_some();
        hold.signatures.iter().find(is_in)?;
        // What a replica knew for certain keeps everybody else out until its deadline.
        let before = hold
            .signatures
            .iter()
            .filter(|signature| signature.by < window.from);
        let safe_until = before
            .map(|signature| signature.until + 1)
            .max()
            .unwrap_or(0);
        let after = hold
            .signatures
            .iter()
            .find(|signature| signature.from > window.to);
        let from = safe_until.max(self.on);
        let to = after.map_or(u64::MAX, |signature| signature.from - 1);
        let span = Span { from, to };
        (from <= to).then_some(Gap {
            span,
            is_known_later: after.is_some(),
        })
    }

    /// That in which the hold may have been unknown to a server at this time.
    fn gap_at(&self, hold: &Hold, at: u64, learned: u64) -> Option<Gap> {
        self.gap(hold, learned).filter(|gap| gap.span.contains(at))
    }
}

impl<'a> Faults<'a> {
    /// The last fault by which a server may not have known of the hold of a lock in this slot.
    pub(super) fn forgot(&self, slot: u16, hold: &Hold, at: u64) -> Option<&Fault<'a>> {
        let mut takers = self.takers(at).filter(|fault| fault.reaches_slot(slot));
        takers.find(|fault| {
            fault
                .gap_at(hold, at, self.learned)
                .is_some_and(|gap| !gap.is_known_later)
        })
    }

    /// The last fault by which, at this time, one of two servers may not have known of the hold of a lock in this slot,
    /// also if the other one has it to the end.
    pub(super) fn divided(&self, slot: u16, hold: &Hold, at: u64) -> Option<&Fault<'a>> {
        let takers = self.takers(at).filter(|fault| fault.reaches_slot(slot));
        let mut replacing = takers.filter(|fault| fault.effect == Effect::Replaces);
        replacing.find(|fault| fault.gap_at(hold, at, self.learned).is_some())
    }

    /// The last fault by which a grant of a lock in this slot, and its token, may be lost before `by`.
    pub(super) fn took_the_grant(&self, slot: u16, hold: &Hold, by: u64) -> Option<&Fault<'a>> {
        let grant = hold.signatures.first()?.span();
        let mut takers = self.takers(by).filter(|fault| fault.reaches_slot(slot));
        takers.find(|fault| fault.window(self.learned).common(grant).is_some())
    }

    /// Of the time in which locks were held, thousandths in which a server may have forgotten the hold.
    pub(super) fn excusable_permille(&self, story: &Story<'_>) -> u64 {
        let (mut held, mut excusable) = (0_u128, 0_u128);
        for hold in &story.holds {
            let slots = story.slots_of(hold.name);
            let reach = |fault: &&Fault<'_>| slots.iter().any(|slot| fault.reaches_slot(*slot));
            let gaps = self.takers(u64::MAX).filter(reach);
            let gaps = gaps.filter_map(|fault| Some(fault.gap(hold, self.learned)?.span));
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
