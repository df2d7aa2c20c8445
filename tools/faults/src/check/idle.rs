//! Idle waits: a worker waits although the lock is free.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::history::Mode;
use crate::result::Cell;

use super::Context;
use super::times::{Span, format_length, nanos};
use super::trace::{Trace, Wait, WaitEnd};

pub(super) fn judge(trace: &Trace<'_>, context: &Context<'_>, cell: &mut Cell) {
    let takes_several = trace.names.iter().any(|name| name.locks.len() > 1);
    let rivalry = if takes_several {
        context.rules.rivalry
    } else {
        Duration::ZERO
    };
    let idle = nanos(context.rules.idle.saturating_add(rivalry));
    let groups = trace.groups();
    let free_spans = free_spans(trace, &groups, context);
    // For each name and free span: how many workers waited, and how long the longest waited.
    let mut waited: BTreeMap<(usize, u64), (u64, Span)> = BTreeMap::new();
    for wait in trace
        .waits
        .iter()
        .filter(|wait| wait.ended - wait.asked > idle)
    {
        let group = groups[trace.names[wait.name].locks[0]];
        for span in free_while(wait, &free_spans[group]).filter(|span| span.length() > idle) {
            for calm in context
                .faults
                .calm_parts(span, nanos(context.rules.calm_after))
            {
                if calm.length() > idle {
                    let (count, longest) = waited.entry((wait.name, calm.to)).or_insert((0, calm));
                    *count += 1;
                    longest.from = longest.from.min(calm.from);
                }
            }
        }
    }
    for ((name, _), (count, span)) in waited {
        cell.idle_waits += count;
        let (name, at) = (trace.names[name].text, context.clock.format(span.from));
        let length = format_length(span.length());
        cell.violations.push(format!(
            "{name}: {count} waited from {at} for {length}, and it was free"
        ));
    }
}

/// The parts of the wait in which no server could have the lock for anybody.
fn free_while(wait: &Wait, free_spans: &[Span]) -> impl Iterator<Item = Span> {
    let wait = Span {
        from: wait.asked,
        to: wait.ended,
    };
    let first = free_spans.partition_point(|span| span.to < wait.from);
    free_spans[first..]
        .iter()
        .map_while(move |span| span.common(wait))
}

/// For each group of locks, the times at which it was free.
fn free_spans(trace: &Trace<'_>, groups: &[usize], context: &Context<'_>) -> Vec<Vec<Span>> {
    let mut occupancies: Vec<Occupancy> = groups.iter().map(|_| Occupancy::default()).collect();
    for hold in &trace.holds {
        let occupancy = &mut occupancies[groups[trace.names[hold.name].locks[0]]];
        occupancy.add(hold.granted, hold.gone_by);
        occupancy.only_permits &= hold.mode == Mode::Permit;
    }
    for wait in &trace.waits {
        if !matches!(wait.end, WaitEnd::Granted | WaitEnd::TimedOut) {
            let occupancy = &mut occupancies[groups[trace.names[wait.name].locks[0]]];
            occupancy.add(wait.asked, gone_by(trace, wait, context));
        }
    }
    occupancies
        .into_iter()
        .map(|occupancy| occupancy.free_spans(context.rules.permits))
        .collect()
}

/// After this time, no server still has a hold that an attempt of this wait may have taken.
pub(super) fn gone_by(trace: &Trace<'_>, wait: &Wait, context: &Context<'_>) -> u64 {
    let common = nanos(context.rules.lease);
    let own = if wait.is_orphan() {
        common.max(wait.lease)
    } else {
        common
    };
    let is_dead = wait.end == WaitEnd::Killed;
    let is_never_released = is_dead && context.rules.lasting.contains(trace.workload_of(wait));
    let cleanup_time = if is_never_released {
        u64::MAX
    } else {
        own.saturating_mul(2)
    };
    wait.ended.saturating_add(cleanup_time)
}

/// How many holders may have the locks of a group, over time.
struct Occupancy {
    /// At each time, `true` adds one holder and `false` removes one.
    changes: Vec<(u64, bool)>,
    only_permits: bool,
}

impl Default for Occupancy {
    fn default() -> Self {
        Self {
            changes: Vec::new(),
            only_permits: true,
        }
    }
}

impl Occupancy {
    fn add(&mut self, from: u64, to: u64) {
        self.changes.push((from, true));
        self.changes.push((to, false));
    }

    fn free_spans(mut self, permits: usize) -> Vec<Span> {
        let capacity = if self.only_permits { permits } else { 1 };
        self.changes.sort_unstable();
        let (mut count, mut free_from, mut free_spans) = (0, Some(0), Vec::new());
        for (at, more) in self.changes {
            count = if more { count + 1 } else { count - 1 };
            match free_from {
                Some(from) if count >= capacity => {
                    free_spans.push(Span { from, to: at });
                    free_from = None;
                }
                None if count < capacity => free_from = Some(at),
                _ => {}
            }
        }
        free_spans.extend(free_from.map(|from| Span { from, to: u64::MAX }));
        free_spans
    }
}
