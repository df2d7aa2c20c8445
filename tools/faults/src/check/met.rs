//! What was within reach of the faults that were injected.

use crate::result::Cell;

use super::Context;
use super::story::{Hold, Story, Wait, WaitEnd};
use super::times::Span;

pub(super) fn count(story: &Story<'_>, context: &Context<'_>, cell: &mut Cell) {
    let slots: Vec<_> = (0..story.names.len())
        .map(|name| story.slots_of(name))
        .collect();
    for (fault, span) in context.faults.injections() {
        let reaches = |process, name: usize| fault.reaches(process, &slots[name]);
        let holds = || {
            story
                .holds
                .iter()
                .filter(|hold| reaches(hold.who.process, hold.name))
        };
        let waits = || {
            story
                .waits
                .iter()
                .filter(|wait| reaches(wait.who.process, wait.name))
        };
        let met = &mut cell.met;
        met.injections += 1;
        // A process that is killed gave its last sign of life before that.
        let killed = |process, last_sign| fault.names(process) && last_sign <= span.to;
        let held = |hold: &Hold| {
            let died = hold
                .died
                .is_some_and(|last_sign| killed(hold.who.process, last_sign));
            died || is_held_in(hold, span)
        };
        met.holders += u64::from(holds().any(held));
        let waited = |wait: &Wait| {
            let died = wait.end == WaitEnd::Vanished;
            let waited = Span {
                from: wait.asked,
                to: wait.ended,
            };
            waited.common(span).is_some() || died && killed(wait.who.process, wait.ended)
        };
        met.waiters += u64::from(waits().any(waited));
        met.renewals += u64::from(holds().any(|hold| is_renewed_in(hold, span)));
    }
}

fn is_held_in(hold: &Hold, span: Span) -> bool {
    hold.valid.iter().any(|valid| valid.common(span).is_some())
}

/// Whether a renewal is due in the span, while the lock is held: after a third of the lease, each time.
fn is_renewed_in(hold: &Hold, span: Span) -> bool {
    let Some(last) = hold.valid_until().filter(|_| !hold.is_fixed) else {
        return false;
    };
    let span = Span {
        from: span.from.max(hold.granted),
        to: span.to.min(last),
    };
    let third = hold.lease / 3;
    if hold.shows_renewals {
        let due = |until: u64| until.saturating_sub(hold.lease - third);
        hold.signatures
            .iter()
            .any(|signature| span.contains(due(signature.until)))
    } else {
        // Nobody sees when.
        let before = (span.from - hold.granted).div_ceil(third.max(1)).max(1);
        span.contains(hold.granted + before * third)
    }
}
