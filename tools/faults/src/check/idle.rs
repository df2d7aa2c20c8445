//! Who waited for a lock that was free.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::history::Mode;
use crate::result::Cell;

use super::Context;
use super::story::{Story, Wait, WaitEnd};
use super::times::{Span, nanos, say_length};

pub(super) fn judge(story: &Story<'_>, context: &Context<'_>, cell: &mut Cell) {
    let takes_several = story.names.iter().any(|name| name.locks.len() > 1);
    let rivalry = if takes_several {
        context.rules.rivalry
    } else {
        Duration::ZERO
    };
    let idle = nanos(context.rules.idle.saturating_add(rivalry));
    let groups = story.groups();
    let gaps = gaps(story, &groups, context);
    // Of the longest wait in each gap, and how many there were.
    let mut waited: BTreeMap<(usize, u64), (u64, Span)> = BTreeMap::new();
    for wait in story
        .waits
        .iter()
        .filter(|wait| wait.ended - wait.asked > idle)
    {
        let group = groups[story.names[wait.name].locks[0]];
        for span in free_while(wait, &gaps[group]).filter(|span| span.length() > idle) {
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
        let (name, at) = (story.names[name].text, context.clock.say(span.from));
        let length = say_length(span.length());
        cell.violations.push(format!(
            "{name}: {count} waited from {at} for {length}, and it was free"
        ));
    }
}

/// The parts of the wait in which nobody could have the lock.
fn free_while(wait: &Wait, gaps: &[Span]) -> impl Iterator<Item = Span> {
    let wait = Span {
        from: wait.asked,
        to: wait.ended,
    };
    let first = gaps.partition_point(|gap| gap.to < wait.from);
    gaps[first..].iter().map_while(move |gap| gap.common(wait))
}

/// For each group, when it could be had.
fn gaps(story: &Story<'_>, groups: &[usize], context: &Context<'_>) -> Vec<Vec<Span>> {
    let mut counted: Vec<Counted> = groups.iter().map(|_| Counted::default()).collect();
    for hold in &story.holds {
        let counted = &mut counted[groups[story.names[hold.name].locks[0]]];
        counted.holds(hold.granted, hold.gone_by);
        counted.only_permits &= hold.mode == Mode::Permit;
    }
    for wait in &story.waits {
        if !matches!(wait.end, WaitEnd::Granted | WaitEnd::TimedOut) {
            let counted = &mut counted[groups[story.names[wait.name].locks[0]]];
            counted.holds(wait.asked, gone_by(story, wait, context));
        }
    }
    counted
        .into_iter()
        .map(|counted| counted.gaps(context.rules.permits))
        .collect()
}

/// No server has what the attempts of this wait may have taken after this.
pub(super) fn gone_by(story: &Story<'_>, wait: &Wait, context: &Context<'_>) -> u64 {
    let common = nanos(context.rules.lease);
    let own = if wait.is_orphan() {
        common.max(wait.lease)
    } else {
        common
    };
    let is_dead = wait.end == WaitEnd::Vanished;
    let is_for_ever = is_dead && context.rules.lasting.contains(story.workload_of(wait));
    let unsettled = if is_for_ever {
        u64::MAX
    } else {
        own.saturating_mul(2)
    };
    wait.ended.saturating_add(unsettled)
}

/// How many may have the locks of a group.
struct Counted {
    /// When one more has them, or one less.
    changes: Vec<(u64, bool)>,
    only_permits: bool,
}

impl Default for Counted {
    fn default() -> Self {
        Self {
            changes: Vec::new(),
            only_permits: true,
        }
    }
}

impl Counted {
    fn holds(&mut self, from: u64, to: u64) {
        self.changes.push((from, true));
        self.changes.push((to, false));
    }

    fn gaps(mut self, permits: usize) -> Vec<Span> {
        let room = if self.only_permits { permits } else { 1 };
        self.changes.sort_unstable();
        let (mut count, mut free_from, mut gaps) = (0, Some(0), Vec::new());
        for (at, more) in self.changes {
            count = if more { count + 1 } else { count - 1 };
            match free_from {
                Some(from) if count >= room => {
                    gaps.push(Span { from, to: at });
                    free_from = None;
                }
                None if count < room => free_from = Some(at),
                _ => {}
            }
        }
        gaps.extend(free_from.map(|from| Span { from, to: u64::MAX }));
        gaps
    }
}
