//! How long workers waited, whether one still does, and how soon all were served again after a fault. A lock that
//! somebody holds keeps others waiting: such time is *covered*, and does not count.

use crate::history::Mode;
use crate::result::Cell;

use super::Context;
use super::faults::Fault;
use super::idle;
use super::story::{Lock, Story, WaitEnd};
use super::times::{Span, millis, nanos, say_length};

/// Between two waits of one worker; and until a lock that is free has been granted.
const MARGIN: u64 = 100_000_000;

pub(super) fn judge(
    story: &Story<'_>,
    queues: &[Queue<'_>],
    context: &Context<'_>,
    cell: &mut Cell,
) {
    for wait in &story.waits {
        match wait.end {
            WaitEnd::Granted | WaitEnd::TimedOut | WaitEnd::Failed | WaitEnd::Forbidden => {
                let length = millis(wait.ended - wait.asked);
                cell.longest_wait_ms = cell.longest_wait_ms.max(length);
            }
            WaitEnd::Left => cell.violations.push(format!(
                "{}: {} asked at {} and was left without an answer",
                story.names[wait.name].text,
                wait.who,
                context.clock.say(wait.asked),
            )),
            WaitEnd::Vanished => {}
        }
    }
    if let Some(first) = context.faults.first() {
        let outages = queues.iter().map(|queue| queue.outage(first.on));
        cell.outage_ms = millis(outages.max().unwrap_or(0));
    }
}

pub(super) fn judge_recoveries(queues: &[Queue<'_>], context: &Context<'_>, cell: &mut Cell) {
    for fault in context.faults.last_ends() {
        let next = context.faults.next(fault.off).map(|fault| fault.on);
        let waiting = queues
            .iter()
            .filter_map(|queue| queue.recovery(fault, next));
        let recoveries: Vec<_> = waiting.collect();
        for recovery in &recoveries {
            recovery.judge(fault, context, cell);
        }
        let all_granted = recoveries
            .iter()
            .all(|recovery| recovery.end == End::Granted);
        let longest = recoveries.iter().map(|recovery| recovery.uncovered).max();
        cell.recovery_ms
            .extend(longest.filter(|_| all_granted).map(millis));
    }
}

/// What one lock needed after the end of a fault.
struct Recovery<'a> {
    lock: &'a str,
    /// How long nobody held it, until the end.
    uncovered: u64,
    end: End,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Granted,
    NextFault,
    /// Nobody waits any more.
    GivenUp,
}

impl Recovery<'_> {
    fn judge(&self, fault: &Fault<'_>, context: &Context<'_>, cell: &mut Cell) {
        let lock = self.lock;
        if self.uncovered <= nanos(context.rules.recovers_within) {
            return;
        }
        let took = say_length(self.uncovered);
        let how = match self.end {
            End::Granted => format!("granted only after {took} in which nobody held it"),
            End::NextFault => format!("not granted for {took} in which nobody held it"),
            End::GivenUp => format!("not granted again; nobody held it for {took}"),
        };
        let fault = fault.say(context.clock);
        cell.violations.push(format!(
            "{lock}: had waiters at the end of {fault}, and was {how}"
        ));
    }
}

/// Who waits for a lock, and when it is held.
pub(super) struct Queue<'a> {
    lock: &'a str,
    waits: Vec<Span>,
    /// In the order of asking: when the wait began, and when this one and all before had ended.
    ends: Vec<(u64, u64)>,
    grants: Vec<u64>,
    /// When the lock, or one that is taken together with it, was held.
    covered: Vec<Span>,
}

/// One for each lock.
pub(super) fn queues<'a>(story: &'a Story<'_>, context: &Context<'_>) -> Vec<Queue<'a>> {
    let permits = context.rules.permits;
    let groups = story.groups();
    let mut covers: Vec<Cover> = groups.iter().map(|_| Cover::default()).collect();
    for hold in &story.holds {
        // All locks of a name are of one group.
        let cover = &mut covers[groups[story.names[hold.name].locks[0]]];
        let orphaned = hold.is_orphan.then_some(hold.gone_by);
        if let Some(until) = orphaned.or(hold.valid_until()) {
            let weight = if hold.mode == Mode::Permit {
                1
            } else {
                permits
            };
            cover.holds(hold.granted, until, weight);
        }
    }
    for wait in story.waits.iter().filter(|wait| wait.is_orphan()) {
        let cover = &mut covers[groups[story.names[wait.name].locks[0]]];
        cover.holds(wait.asked, idle::gone_by(story, wait, context), permits);
    }
    let covered: Vec<_> = covers
        .into_iter()
        .map(|cover| cover.spans(permits))
        .collect();
    let locks = story.locks.iter().zip(groups);
    locks
        .map(|(lock, group)| Queue::of(story, lock, covered[group].clone()))
        .collect()
}

/// How many permits are held: all, if it is no permit that is held.
#[derive(Default)]
struct Cover {
    changes: Vec<(u64, bool, usize)>,
}

impl Cover {
    fn holds(&mut self, from: u64, to: u64, weight: usize) {
        self.changes.push((from, true, weight));
        self.changes.push((to, false, weight));
    }

    fn spans(mut self, permits: usize) -> Vec<Span> {
        // Of the same instant, what ends does so after what begins.
        self.changes
            .sort_unstable_by_key(|(at, begins, _)| (*at, !begins));
        let (mut held, mut since, mut spans) = (0, None, Vec::new());
        for (at, begins, weight) in self.changes {
            held = if begins { held + weight } else { held - weight };
            match since {
                None if held >= permits => since = Some(at),
                Some(from) if held < permits => {
                    spans.push(Span { from, to: at });
                    since = None;
                }
                _ => {}
            }
        }
        spans
    }
}

impl<'a> Queue<'a> {
    fn of(story: &Story<'_>, lock: &'a Lock, covered: Vec<Span>) -> Self {
        let mut all_ended = 0;
        let waits = lock.waits.iter().map(|wait| &story.waits[*wait]);
        let spans = waits.clone().map(|wait| Span {
            from: wait.asked,
            to: wait.ended,
        });
        let waits_of = Span::united(spans.collect(), MARGIN);
        let ends = waits.map(|wait| {
            all_ended = wait.ended.max(all_ended);
            (wait.asked, all_ended)
        });
        let ends = ends.collect();
        let grants = lock
            .holds
            .iter()
            .map(|hold| story.holds[*hold].granted)
            .collect();
        Self {
            lock: &lock.name,
            waits: waits_of,
            ends,
            grants,
            covered,
        }
    }

    /// The parts of this time in which nobody held the lock.
    fn uncovered(&self, within: Span) -> impl Iterator<Item = u64> {
        let first = self.covered.partition_point(|span| span.to < within.from);
        let end = Span {
            from: within.to,
            to: within.to,
        };
        let covered = self.covered[first..].iter().copied();
        let covered = covered
            .take_while(move |span| span.from < within.to)
            .chain([end]);
        let mut from = within.from;
        covered.map(move |span| {
            let free = span.from.saturating_sub(from);
            from = from.max(span.to);
            free
        })
    }

    /// The longest time since then in which somebody waited and nobody held the lock.
    fn outage(&self, since: u64) -> u64 {
        let waits = self.waits.iter().filter(|wait| wait.to > since);
        let waits = waits.map(|wait| Span {
            from: wait.from.max(since),
            to: wait.to,
        });
        waits
            .flat_map(|wait| self.uncovered(wait))
            .max()
            .unwrap_or(0)
    }

    /// `None` if nobody waited when the fault ended.
    fn recovery(&self, fault: &Fault<'_>, next_fault: Option<u64>) -> Option<Recovery<'a>> {
        let asked = self.ends.partition_point(|(asked, _)| *asked <= fault.off);
        let (_, all_ended) = *self.ends[..asked].last()?;
        if all_ended <= fault.off {
            return None;
        }
        let later = self.grants.partition_point(|granted| *granted <= fault.off);
        let granted = self.grants.get(later).copied();
        let next_fault = next_fault.filter(|next| granted.is_none_or(|granted| granted > *next));
        let (to, end) = match (next_fault, granted) {
            (Some(next), _) => (next, End::NextFault),
            (None, Some(granted)) => (granted, End::Granted),
            (None, None) => (all_ended, End::GivenUp),
        };
        let uncovered = self
            .uncovered(Span {
                from: fault.off,
                to,
            })
            .sum();
        Some(Recovery {
            lock: self.lock,
            uncovered,
            end,
        })
    }
}
