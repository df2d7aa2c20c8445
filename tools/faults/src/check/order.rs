//! The order of grants in fair workloads.

use crate::result::Cell;

use super::Context;
use super::times::nanos;
use super::trace::{Lock, Trace, Wait, WaitEnd};

/// If two waiters ask less than this apart, either may be first in the queue: the time to the server varies.
const MARGIN: u64 = 100_000_000;

pub(super) fn judge(trace: &Trace<'_>, context: &Context<'_>, cell: &mut Cell) {
    let calm_margin = nanos(context.rules.lease);
    for lock in &trace.locks {
        for (overtaker, overtaken) in out_of_turn(trace, lock) {
            cell.out_of_turn += 1;
            if context
                .faults
                .is_calm(overtaken.asked, overtaker.ended, calm_margin)
            {
                cell.violations.push(format!(
                    "{}: {} asked at {} and was granted at {}, before {}, which had asked at {}",
                    lock.name,
                    overtaker.worker,
                    context.clock.format(overtaker.asked),
                    context.clock.format(overtaker.ended),
                    overtaken.worker,
                    context.clock.format(overtaken.asked),
                ));
            }
        }
    }
}

/// Each waiter that overtook others, with the last of those that it overtook.
fn out_of_turn<'a>(trace: &'a Trace<'_>, lock: &Lock) -> Vec<(&'a Wait, &'a Wait)> {
    let granted = lock.waits.iter().map(|wait| &trace.waits[*wait]);
    let by_asked: Vec<&Wait> = granted
        .filter(|wait| wait.end == WaitEnd::Granted)
        .collect();
    let mut by_grant = by_asked.clone();
    by_grant.sort_by_key(|wait| wait.ended);
    let mut asked = by_asked.into_iter().peekable();
    let mut pending: Vec<&Wait> = Vec::new();
    let mut found = Vec::new();
    for overtaker in by_grant {
        pending.extend(std::iter::from_fn(|| {
            asked.next_if(|wait| wait.asked < overtaker.ended)
        }));
        pending.retain(|wait| wait.ended > overtaker.ended);
        let earlier = pending
            .iter()
            .filter(|wait| wait.asked + MARGIN < overtaker.asked);
        if let Some(overtaken) = earlier.max_by_key(|wait| wait.asked) {
            found.push((overtaker, *overtaken));
        }
    }
    found
}
