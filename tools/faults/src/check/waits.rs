//! How long workers waited, whether a worker was left waiting, and how soon each lock was granted
//! again after a fault. The time in which the lock is held is no part of an outage or a recovery,
//! because waiters have to wait then.

use crate::history::Mode;
use crate::result::Cell;

use super::Context;
use super::faults::Fault;
use super::idle;
use super::times::{Span, format_length, millis, nanos};
use super::trace::{Lock, Trace, WaitEnd};

/// Two waits for a lock that are at most this far apart count as one, because a worker needs some
/// time to ask again.
const MARGIN: u64 = 100_000_000;

pub(super) fn judge(
    trace: &Trace<'_>,
    queues: &[Queue<'_>],
    context: &Context<'_>,
    cell: &mut Cell,
) {
    for wait in &trace.waits {
        match wait.end {
            WaitEnd::Granted | WaitEnd::TimedOut | WaitEnd::Failed | WaitEnd::Forbidden => {
                let length = millis(wait.ended - wait.asked);
                cell.longest_wait_ms = cell.longest_wait_ms.max(length);
            }
            WaitEnd::Unanswered => cell.violations.push(format!(
                "{}: {} asked at {} and had no answer when its process ended",
                trace.names[wait.name].text,
                wait.worker,
                context.clock.format(wait.asked),
            )),
            WaitEnd::Killed => {}
        }
    }
    if let Some(first) = context.faults.first() {
        let outages = queues.iter().map(|queue| queue.outage(first.on));
        cell.outage_ms = millis(outages.max().unwrap_or(0));
    }
}

pub(super) fn judge_recoveries(queues: &[Queue<'_>], context: &Context<'_>, cell: &mut Cell) {
    for fault in context.faults.undisturbed_ends() {
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
        let longest = recoveries.iter().map(|recovery| recovery.unheld).max();
        cell.recovery_ms
            .extend(longest.filter(|_| all_granted).map(millis));
    }
}

/// What happened to one lock after the end of a fault.
struct Recovery<'a> {
    lock: &'a str,
    /// How long nobody held the lock, from the end of the fault until `end`.
    unheld: u64,
    end: End,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Granted,
    NextFault,
    /// No worker waits any more.
    GivenUp,
}

impl Recovery<'_> {
    fn judge(&self, fault: &Fault<'_>, context: &Context<'_>, cell: &mut Cell) {
        let lock = self.lock;
        if self.unheld <= nanos(context.rules.recovers_within) {
            return;
        }
        let took = format_length(self.unheld);
        let how = match self.end {
            End::Granted => format!("granted only after {took} in which nobody held it"),
            End::NextFault => format!("not granted for {took} in which nobody held it"),
            End::GivenUp => format!("not granted again; nobody held it for {took}"),
        };
        let fault = fault.describe(context.clock);
        cell.violations.push(format!(
            "{lock} had waiters at the end of {fault}, and was {how}"
        ));
    }
}

/// The waits for one lock, and when it was held.
pub(super) struct Queue<'a> {
    lock: &'a str,
    waits: Vec<Span>,
    /// For each wait, sorted by its beginning: when it began, and when it and all earlier ones had
    /// ended.
    ends: Vec<(u64, u64)>,
    grants: Vec<u64>,
    /// When the lock, or another lock of its group, was held.
    held_spans: Vec<Span>,
}

/// Returns one queue for each lock.
pub(super) fn queues<'a>(trace: &'a Trace<'_>, context: &Context<'_>) -> Vec<Queue<'a>> {
    let permits = context.rules.permits;
    let groups = trace.groups();
    let mut occupancies: Vec<Occupancy> = groups.iter().map(|_| Occupancy::default()).collect();
    for hold in &trace.holds {
        // All locks of a name are in one group, so the first one stands for all.
        let occupancy = &mut occupancies[groups[trace.names[hold.name].locks[0]]];
        let orphaned = hold.is_orphan.then_some(hold.gone_by);
        if let Some(until) = orphaned.or(hold.valid_until()) {
            let weight = if hold.mode == Mode::Permit {
                1
            } else {
                permits
            };
            occupancy.add(hold.granted, until, weight);
        }
    }
    for wait in trace.waits.iter().filter(|wait| wait.is_orphan()) {
        let occupancy = &mut occupancies[groups[trace.names[wait.name].locks[0]]];
        occupancy.add(wait.asked, idle::gone_by(trace, wait, context), permits);
    }
    let held_spans: Vec<_> = occupancies
        .into_iter()
        .map(|occupancy| occupancy.spans(permits))
        .collect();
    let locks = trace.locks.iter().zip(groups);
    locks
        .map(|(lock, group)| Queue::of(trace, lock, held_spans[group].clone()))
        .collect()
}

/// How many permits are held over time. A hold that is not a permit counts as all permits.
#[derive(Default)]
struct Occupancy {
    /// The time, whether a hold begins or ends, and its number of permits.
    changes: Vec<(u64, bool, usize)>,
}

impl Occupancy {
    fn add(&mut self, from: u64, to: u64, weight: usize) {
        self.changes.push((from, true, weight));
        self.changes.push((to, false, weight));
    }

    fn spans(mut self, permits: usize) -> Vec<Span> {
        // At one instant, holds begin before others end, so that a hand-over leaves no gap.
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
    fn of(trace: &Trace<'_>, lock: &'a Lock, held_spans: Vec<Span>) -> Self {
        let mut all_ended = 0;
        let waits = lock.waits.iter().map(|wait| &trace.waits[*wait]);
        let spans = waits.clone().map(|wait| Span {
            from: wait.asked,
            to: wait.ended,
        });
        let united_waits = Span::united(spans.collect(), MARGIN);
        let ends = waits.map(|wait| {
            all_ended = wait.ended.max(all_ended);
            (wait.asked, all_ended)
        });
        let ends = ends.collect();
        let grants = lock
            .holds
            .iter()
            .map(|hold| trace.holds[*hold].granted)
            .collect();
        Self {
            lock: &lock.name,
            waits: united_waits,
            ends,
            grants,
            held_spans,
        }
    }

    /// The lengths of the parts of this time in which nobody held the lock.
    fn unheld(&self, within: Span) -> impl Iterator<Item = u64> {
        let first = self
            .held_spans
            .partition_point(|span| span.to < within.from);
        let end = Span {
            from: within.to,
            to: within.to,
        };
        let held_spans = self.held_spans[first..].iter().copied();
        let held_spans = held_spans
            .take_while(move |span| span.from < within.to)
            .chain([end]);
        let mut from = within.from;
        held_spans.map(move |span| {
            let free = span.from.saturating_sub(from);
            from = from.max(span.to);
            free
        })
    }

    /// The longest time since then in which a worker waited and nobody held the lock.
    fn outage(&self, since: u64) -> u64 {
        let waits = self.waits.iter().filter(|wait| wait.to > since);
        let waits = waits.map(|wait| Span {
            from: wait.from.max(since),
            to: wait.to,
        });
        waits.flat_map(|wait| self.unheld(wait)).max().unwrap_or(0)
    }

    /// `None` if no worker waited when the fault ended.
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
        let unheld = self
            .unheld(Span {
                from: fault.off,
                to,
            })
            .sum();
        Some(Recovery {
            lock: self.lock,
            unheld,
            end,
        })
    }
}
