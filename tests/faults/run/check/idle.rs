//! Who waited for a lock that was free.

use std::collections::BTreeMap;

use crate::history::Mode;
use crate::result::Cell;

use super::Context;
use super::story::{Story, Wait, WaitEnd};
use super::times::{Span, nanos, say_length};

pub(super) fn judge(story: &Story<'_>, context: &Context<'_>, cell: &mut Cell) {
    let idle = nanos(context.rules.idle);
    let groups = groups(story);
    let gaps = gaps(story, &groups, context);
    // Of the longest wait in each gap, and how many there were.
    let mut waited: BTreeMap<(usize, u64), (u64, Span)> = BTreeMap::new();
    for wait in story.waits.iter().filter(|wait| wait.ended - wait.asked > idle) {
        let group = groups[story.names[wait.name].locks[0]];
        for span in free_while(wait, &gaps[group]).filter(|span| span.length() > idle) {
            for calm in context.faults.calm_parts(span, nanos(context.rules.calm_after)) {
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
        cell.violations
            .push(format!("{name}: {count} waited from {at} for {length}, and it was free"));
    }
}

/// The parts of the wait in which nobody could have the lock.
fn free_while(wait: &Wait, gaps: &[Span]) -> impl Iterator<Item = Span> {
    let wait = Span { from: wait.asked, to: wait.ended };
    let first = gaps.partition_point(|gap| gap.to < wait.from);
    gaps[first..].iter().map_while(move |gap| gap.common(wait))
}

/// For each lock, the first of those that it is taken together with.
fn groups(story: &Story<'_>) -> Vec<usize> {
    let mut groups: Vec<usize> = (0..story.locks.len()).collect();
    for name in story.names.iter().filter(|name| name.locks.len() > 1) {
        let together: Vec<usize> = name.locks.iter().map(|lock| groups[*lock]).collect();
        let first = together.iter().copied().min().unwrap_or(0);
        for group in groups.iter_mut().filter(|group| together.contains(group)) {
            *group = first;
        }
    }
    groups
}

/// For each group, when it could be had.
fn gaps(story: &Story<'_>, groups: &[usize], context: &Context<'_>) -> Vec<Vec<Span>> {
    let mut counted: Vec<Counted> = groups.iter().map(|_| Counted::default()).collect();
    for hold in &story.holds {
        let counted = &mut counted[groups[story.names[hold.name].locks[0]]];
        counted.holds(hold.granted, hold.gone_by);
        counted.only_permits &= hold.mode == Mode::Permit;
    }
    let unsettled = nanos(context.rules.lease * 2);
    for wait in &story.waits {
        if let WaitEnd::Failed | WaitEnd::Left | WaitEnd::Vanished = wait.end {
            let counted = &mut counted[groups[story.names[wait.name].locks[0]]];
            counted.holds(wait.asked, wait.ended.saturating_add(unsettled));
        }
    }
    counted.into_iter().map(|counted| counted.gaps(context.rules.permits)).collect()
}

/// How many may have the locks of a group.
struct Counted {
    /// When one more has them, or one less.
    changes: Vec<(u64, bool)>,
    only_permits: bool,
}

impl Default for Counted {
    fn default() -> Self {
        Self { changes: Vec::new(), only_permits: true }
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
