//! The order of grants in fair workloads.

use std::collections::BTreeMap;

use leasehold_specification::trace::{Entry, Said};

use crate::result::Cell;

use super::Context;
use super::times::{Span, nanos};
use super::trace::{Lock, Trace, Wait, WaitEnd};

/// How long a worker's request may take to the server if its steps are not known.
const MARGIN: u64 = 100_000_000;

/// From when waiters asked for their places in a queue until they were told that they have them. By
/// field.
pub(super) struct Places(BTreeMap<String, Span>);

impl Places {
    pub(super) fn of(steps: &[Entry]) -> Self {
        let (mut calls, mut places) = (BTreeMap::new(), BTreeMap::new());
        let mut in_order: Vec<_> = steps.iter().collect();
        in_order.sort_by_key(|step| step.at);
        for step in in_order {
            match &step.said {
                Said::Sent { call, field, .. } => {
                    calls.insert((step.client, *call), field);
                    let untold = Span {
                        from: step.at,
                        to: u64::MAX,
                    };
                    places.entry(field.clone()).or_insert(untold);
                }
                Said::Answered { call, .. } => {
                    let field = calls.get(&(step.client, *call));
                    if let Some(place) = field.and_then(|field| places.get_mut(*field)) {
                        place.to = place.to.min(step.at);
                    }
                }
                _ => {}
            }
        }
        Places(places)
    }

    /// The time in which the waiter got its place.
    fn of_wait(&self, wait: &Wait) -> Span {
        let place = wait.field.as_ref().and_then(|field| self.0.get(field));
        place.copied().unwrap_or(Span {
            from: wait.asked,
            to: wait.asked + MARGIN,
        })
    }
}

pub(super) fn judge(trace: &Trace<'_>, context: &Context<'_>, cell: &mut Cell) {
    let calm_margin = nanos(context.rules.lease);
    for lock in &trace.locks {
        for (overtaker, overtaken) in out_of_turn(trace, lock, &context.places) {
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
fn out_of_turn<'a>(
    trace: &'a Trace<'_>,
    lock: &Lock,
    places: &Places,
) -> Vec<(&'a Wait, &'a Wait)> {
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
        let asked_for_its_place = places.of_wait(overtaker).from;
        let earlier = pending
            .iter()
            .filter(|wait| places.of_wait(wait).to < asked_for_its_place);
        if let Some(overtaken) = earlier.max_by_key(|wait| wait.asked) {
            found.push((overtaker, *overtaken));
        }
    }
    found
}
