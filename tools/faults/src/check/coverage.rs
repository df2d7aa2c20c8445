//! Counts the injected faults that reached a holder, a waiter, or a renewal that was due.

use crate::result::Cell;

use super::Context;
use super::times::Span;
use super::trace::{Hold, Trace, Wait, WaitEnd};

pub(super) fn count(trace: &Trace<'_>, context: &Context<'_>, cell: &mut Cell) {
    let slots: Vec<_> = (0..trace.names.len())
        .map(|name| trace.slots_of(name))
        .collect();
    for (fault, span) in context.faults.injections() {
        let reaches = |process, name: usize| fault.reaches(process, &slots[name]);
        let holds = || {
            trace
                .holds
                .iter()
                .filter(|hold| reaches(hold.worker.process, hold.name))
        };
        let waits = || {
            trace
                .waits
                .iter()
                .filter(|wait| reaches(wait.worker.process, wait.name))
        };
        let met = &mut cell.met;
        met.injections += 1;
        // The last event of a killed process is earlier than the fault. The process held or waited
        // until the fault.
        let killed = |process, last_event| fault.names_process(process) && last_event <= span.to;
        let held = |hold: &Hold| {
            let died = hold
                .died_at
                .is_some_and(|last_event| killed(hold.worker.process, last_event));
            died || is_held_in(hold, span)
        };
        met.holders += u64::from(holds().any(held));
        let waited = |wait: &Wait| {
            let died = wait.end == WaitEnd::Killed;
            let waited = Span {
                from: wait.asked,
                to: wait.ended,
            };
            waited.common(span).is_some() || died && killed(wait.worker.process, wait.ended)
        };
        met.waiters += u64::from(waits().any(waited));
        met.renewals += u64::from(holds().any(|hold| is_renewal_due_in(hold, span)));
    }
}

fn is_held_in(hold: &Hold, span: Span) -> bool {
    hold.valid.iter().any(|valid| valid.common(span).is_some())
}

/// Whether a renewal is due in the span while the lock is held. A renewal is due when a third of
/// the lease has passed.
fn is_renewal_due_in(hold: &Hold, span: Span) -> bool {
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
        hold.lease_updates
            .iter()
            .any(|update| span.contains(due(update.until)))
    } else {
        // The history does not show the renewals, so assume one after each third of the lease.
        let before = (span.from - hold.granted).div_ceil(third.max(1)).max(1);
        span.contains(hold.granted + before * third)
    }
}
