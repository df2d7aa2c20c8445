//! Overlaps: conflicting holds of one lock that are valid at the same time.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::Mode;
use crate::result::Cell;

use super::Context;
use super::faults::Fault;
use super::notice::{self, Overlap};
use super::times::{Span, format_length};
use super::trace::{Hold, Lock, Trace};

/// The two conflicting holds. If the holds are permits, both entries are the permit that exceeded
/// the limit.
type Pair = (usize, usize);

#[derive(Default)]
struct Findings {
    /// Overlaps of valid holds, by pair and start. One pair can overlap several times.
    valid: BTreeMap<(Pair, u64), Overlap>,
    /// Pairs in which one hold was granted while the other one was stale.
    invalid: BTreeSet<Pair>,
}

impl Findings {
    /// The number of pairs that were never valid at the same time.
    fn only_invalid(&self) -> usize {
        let met = |pair: Pair| {
            self.valid
                .range((pair, 0)..=(pair, u64::MAX))
                .next()
                .is_some()
        };
        self.invalid.iter().filter(|pair| !met(**pair)).count()
    }
}

/// The order matters for intervals that begin at the same instant: a grant must be compared with
/// the stale ones, but not with the valid ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Stale,
    /// The instant of the grant.
    Granted,
    Valid,
}

/// A time in which one hold is of one kind.
#[derive(Clone, Copy)]
struct Interval {
    kind: Kind,
    hold: usize,
    from: u64,
    to: u64,
}

pub(super) fn judge(trace: &Trace<'_>, context: &Context<'_>, cell: &mut Cell) {
    let mut findings = Findings::default();
    for (index, lock) in trace.locks.iter().enumerate() {
        sweep(trace, index, lock, context.rules.permits, &mut findings);
    }
    cell.overlaps.invalid = findings.only_invalid() as u64;
    let mut overlaps: Vec<_> = findings.valid.into_values().collect();
    overlaps.sort_by_key(|overlap| overlap.at);
    for overlap in &overlaps {
        judge_overlap(trace, context, overlap, cell);
    }
}

/// Compares each interval of a lock with those that are still open when it begins.
fn sweep(trace: &Trace<'_>, index: usize, lock: &Lock, permits: usize, findings: &mut Findings) {
    let mut open: Vec<Interval> = Vec::new();
    for interval in intervals(trace, lock) {
        open.retain(|other| other.to >= interval.from);
        let open_intervals = OpenIntervals {
            trace,
            lock: index,
            permits,
            open: &open,
        };
        match interval.kind {
            Kind::Granted => open_intervals.granted(interval, findings),
            Kind::Valid => open_intervals.valid(interval, findings),
            Kind::Stale => {}
        }
        if interval.kind != Kind::Granted {
            open.push(interval);
        }
    }
}

fn intervals(trace: &Trace<'_>, lock: &Lock) -> Vec<Interval> {
    let mut intervals = Vec::new();
    for &hold in &lock.holds {
        let Hold {
            granted,
            valid,
            stale,
            ..
        } = &trace.holds[hold];
        intervals.push(Interval {
            kind: Kind::Granted,
            hold,
            from: *granted,
            to: *granted,
        });
        let spans = |kind| {
            move |span: &Span| Interval {
                kind,
                hold,
                from: span.from,
                to: span.to,
            }
        };
        intervals.extend(valid.iter().map(spans(Kind::Valid)));
        intervals.extend(stale.iter().map(spans(Kind::Stale)));
    }
    intervals.sort_unstable_by_key(|interval| (interval.from, interval.kind, interval.hold));
    intervals
}

/// The intervals of a lock that are open when another one begins.
struct OpenIntervals<'a> {
    trace: &'a Trace<'a>,
    lock: usize,
    permits: usize,
    open: &'a [Interval],
}

impl OpenIntervals<'_> {
    fn valid(&self, interval: Interval, findings: &mut Findings) {
        let mine = self.trace.holds[interval.hold].mode;
        for other in self
            .open(Kind::Valid)
            .filter(|other| other.hold != interval.hold)
        {
            if excludes(mine, self.trace.holds[other.hold].mode) {
                self.record(
                    interval,
                    &[*other],
                    pair(interval.hold, other.hold),
                    findings,
                );
            }
        }
        if mine == Mode::Permit {
            let others: Vec<Interval> = self.permits(Kind::Valid, interval).copied().collect();
            if others.len() >= self.permits {
                self.record(interval, &others, (interval.hold, interval.hold), findings);
            }
        }
    }

    fn record(&self, interval: Interval, others: &[Interval], pair: Pair, findings: &mut Findings) {
        let until = others
            .iter()
            .map(|other| other.to)
            .fold(interval.to, u64::min);
        let holds = others
            .iter()
            .map(|other| other.hold)
            .chain([interval.hold])
            .collect();
        let overlap = Overlap {
            lock: self.lock,
            at: interval.from,
            until,
            holds,
        };
        findings
            .valid
            .entry((pair, interval.from))
            .or_insert(overlap);
    }

    fn granted(&self, interval: Interval, findings: &mut Findings) {
        let mine = self.trace.holds[interval.hold].mode;
        for other in self
            .open(Kind::Stale)
            .filter(|other| other.hold != interval.hold)
        {
            if excludes(mine, self.trace.holds[other.hold].mode) {
                findings.invalid.insert(pair(interval.hold, other.hold));
            }
        }
        if mine == Mode::Permit {
            let valid = self.permits(Kind::Valid, interval).count();
            let stale = self.permits(Kind::Stale, interval).count();
            if valid < self.permits && valid + stale >= self.permits {
                findings.invalid.insert((interval.hold, interval.hold));
            }
        }
    }

    fn open(&self, kind: Kind) -> impl Iterator<Item = &Interval> {
        self.open.iter().filter(move |other| other.kind == kind)
    }

    fn permits(&self, kind: Kind, interval: Interval) -> impl Iterator<Item = &Interval> {
        let is_permit = |other: &Interval| self.trace.holds[other.hold].mode == Mode::Permit;
        self.open(kind)
            .filter(move |other| other.hold != interval.hold && is_permit(other))
    }
}

fn excludes(one: Mode, other: Mode) -> bool {
    one != other || one == Mode::Exclusive
}

fn pair(one: usize, other: usize) -> Pair {
    (one.min(other), one.max(other))
}

fn judge_overlap(trace: &Trace<'_>, context: &Context<'_>, overlap: &Overlap, cell: &mut Cell) {
    let participants = notice::participants(trace, context, overlap);
    notice::count(&participants, overlap.at, cell);
    let text = describe(trace, context, overlap);
    let Some(fault) = excuse(trace, context, overlap) else {
        cell.overlaps.valid += 1;
        cell.violations.push(text);
        return;
    };
    cell.overlaps.excused += 1;
    let text = format!("{text}, after {}", fault.describe(context.clock));
    let after = |noticed: u64| format_length(noticed - overlap.at);
    if let Some(noticed) = notice::noticed_in_time(&participants) {
        cell.explained.push(format!(
            "{text}; one holder noticed after {}",
            after(noticed)
        ));
    } else if notice::one_left(&participants) {
        cell.explained.push(format!(
            "{text}; one holder released it before it had to notice"
        ));
    } else if context.rules.tells_losses {
        let late = participants
            .iter()
            .filter_map(|participant| participant.noticed)
            .min();
        let late = late.map_or("no holder noticed".to_owned(), |noticed| {
            format!("a holder noticed only after {}", after(noticed))
        });
        let due = participants
            .first()
            .map_or(0, |participant| participant.due);
        let due = after(due.max(overlap.at));
        cell.violations.push(format!(
            "{text}, and {late}, although one had to notice within {due}"
        ));
    } else {
        cell.explained
            .push(format!("{text}; no holder noticed in time"));
    }
}

/// A fault that explains the overlap: the server that granted the last hold may not have known an
/// earlier one.
fn excuse<'a>(
    trace: &Trace<'_>,
    context: &'a Context<'_>,
    overlap: &Overlap,
) -> Option<&'a Fault<'a>> {
    let slot = trace.locks[overlap.lock].slot;
    // A server must know only the grants before its own. So a hold excuses the overlap only if its
    // grant may have been sent before another hold was granted.
    let last_grant_of_others = |hold: usize| {
        let others = overlap.holds.iter().filter(|other| **other != hold);
        others
            .map(|other| trace.holds[*other].granted)
            .max()
            .unwrap_or(0)
    };
    let earlier = overlap.holds.iter().filter(|index| {
        let grant = trace.holds[**index].lease_updates.first();
        grant.is_some_and(|grant| grant.earliest <= last_grant_of_others(**index))
    });
    let earlier: Vec<_> = earlier.map(|index| &trace.holds[*index]).collect();
    let faults = &context.faults;
    let forgotten = earlier
        .iter()
        .find_map(|hold| faults.forgetting_fault(slot, hold, overlap.at));
    forgotten.or_else(|| {
        // The replaced server may have given the last grant without knowing the earlier one, which
        // the new server has. The last grant was then lost with the replaced server.
        let last = overlap.holds.iter().map(|index| &trace.holds[*index]);
        let last = last.max_by_key(|hold| hold.granted)?;
        faults.forgetting_fault(slot, last, overlap.at)?;
        earlier
            .iter()
            .find_map(|hold| faults.dividing_fault(slot, hold, overlap.at))
    })
}

fn describe(trace: &Trace<'_>, context: &Context<'_>, overlap: &Overlap) -> String {
    let holders = overlap
        .holds
        .iter()
        .map(|hold| holder(trace, context, *hold));
    let holders = holders.collect::<Vec<_>>().join(" and ");
    let lock = &trace.locks[overlap.lock].name;
    let (at, until) = (
        context.clock.format(overlap.at),
        context.clock.format(overlap.until),
    );
    format!("{lock} was held by {holders} from {at} to {until}")
}

fn holder(trace: &Trace<'_>, context: &Context<'_>, hold: usize) -> String {
    let hold = &trace.holds[hold];
    let granted = context.clock.format(hold.granted);
    let mode = match hold.mode {
        Mode::Exclusive => "",
        Mode::Shared => "shared, ",
        Mode::Permit => "a permit, ",
    };
    format!(
        "{} ({mode}{} granted at {granted})",
        hold.worker,
        trace.name_of(hold)
    )
}
