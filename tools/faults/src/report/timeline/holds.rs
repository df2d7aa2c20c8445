//! The holds, waits and faults of a history, as spans of time.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::history::{Event, Mode, What};

pub(super) type Span = Range<u64>;

/// A worker that was let in, to a lock.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Hold {
    pub(super) process: u32,
    pub(super) worker: u32,
    pub(super) lock: String,
    pub(super) mode: Mode,
    /// From the grant until it was released, told as lost, or without a sign of life beyond its deadline.
    pub(super) all: Span,
    /// When it was said to be held, and its deadline had not passed.
    pub(super) valid: Vec<Span>,
    /// When the release was called.
    pub(super) releasing: Option<u64>,
    /// The last sign of a process that ended in its middle.
    pub(super) cut: Option<u64>,
}

#[derive(Default)]
pub(super) struct Story {
    pub(super) holds: Vec<Hold>,
    /// Process, lock, time.
    pub(super) waits: Vec<(u32, String, Span)>,
    /// Writes that the resource refused: process, lock, moment.
    pub(super) refused: Vec<(u32, String, u64)>,
    /// When a holder was told that its lock is lost: process, lock, moment.
    pub(super) told: Vec<(u32, String, u64)>,
}

#[derive(Default)]
struct Worker<'a> {
    asked: Option<(&'a Event, Mode)>,
    /// From `Granted` on.
    hold: Vec<&'a Event>,
    mode: Mode,
}

impl Story {
    pub(super) fn of(history: &[Event]) -> Self {
        let mut found = Self::default();
        let mut workers: BTreeMap<(u32, u32), Worker<'_>> = BTreeMap::new();
        let mut last_signs: BTreeMap<u32, u64> = BTreeMap::new();
        for event in history {
            let key = (event.process, event.worker);
            match &event.what {
                What::Started { .. } => {
                    let sign = last_signs.get(&event.process).copied().unwrap_or(event.at);
                    let of_the_process = (event.process, 0)..=(event.process, u32::MAX);
                    for (_, worker) in workers.range_mut(of_the_process) {
                        found.end(worker, Some(sign));
                    }
                }
                What::Asked { mode, .. } => {
                    let worker = workers.entry(key).or_default();
                    found.end(worker, None);
                    worker.asked = Some((event, *mode));
                }
                What::Granted { .. } => {
                    let worker = workers.entry(key).or_default();
                    found.end(worker, None);
                    if let Some((asked, mode)) = worker.asked.take() {
                        worker.mode = mode;
                        found.wait(asked, event.at);
                    }
                    worker.hold.push(event);
                }
                What::Refused { .. } => {
                    if let Some((asked, _)) = workers.entry(key).or_default().asked.take() {
                        found.wait(asked, event.at);
                    }
                }
                What::Held { .. } | What::Doubted | What::Releasing => {
                    workers.entry(key).or_default().add(event);
                }
                What::Lost { .. } | What::Released { .. } => {
                    let worker = workers.entry(key).or_default();
                    if matches!(event.what, What::Lost { .. }) && !worker.hold.is_empty() {
                        found
                            .told
                            .extend(event.locks().map(|lock| (event.process, lock, event.at)));
                    }
                    worker.add(event);
                    found.end(worker, None);
                }
                What::Wrote {
                    accepted: false, ..
                } => {
                    let refused = event.locks().map(|lock| (event.process, lock, event.at));
                    found.refused.extend(refused);
                }
                What::Wrote { .. }
                | What::Did { .. }
                | What::Stalled { .. }
                | What::Sample { .. }
                | What::Fault { .. }
                | What::Ended { .. } => {}
            }
            last_signs.insert(event.process, event.at);
        }
        for ((process, _), worker) in &mut workers {
            found.end(worker, last_signs.get(process).copied());
        }
        found
    }

    fn wait(&mut self, asked: &Event, until: u64) {
        let waits = asked
            .locks()
            .map(|lock| (asked.process, lock, asked.at..until));
        self.waits.extend(waits);
    }

    /// `cut`: no event of the worker tells the end.
    fn end(&mut self, worker: &mut Worker<'_>, cut: Option<u64>) {
        let events = std::mem::take(&mut worker.hold);
        if let (Some((asked, _)), Some(cut)) = (worker.asked, cut) {
            worker.asked = None;
            self.wait(asked, cut);
        }
        let (Some(first), Some(last)) = (events.first(), events.last()) else {
            return;
        };
        let mut valid = valid(&events, cut);
        let releasing = events
            .iter()
            .find(|event| event.what == What::Releasing)
            .map(|event| event.at);
        let end = cut.map_or(last.at, |cut| deadline(&events).unwrap_or(cut).max(cut));
        for span in &mut valid {
            span.end = span.end.min(end);
        }
        let (process, worker, mode) = (first.process, first.worker, worker.mode);
        let all = first.at..end;
        let holds = first.locks().map(|lock| Hold {
            process,
            worker,
            lock,
            mode,
            all: all.clone(),
            valid: valid.clone(),
            releasing,
            cut,
        });
        self.holds.extend(holds);
    }
}

impl<'a> Worker<'a> {
    fn add(&mut self, event: &'a Event) {
        if !self.hold.is_empty() {
            self.hold.push(event);
        }
    }
}

const NO_DEADLINE: u64 = u64::MAX;

/// A hold is valid from each `Granted` and `Held` until its deadline, if nothing came before that; else until `Releasing`,
/// or if it was doubted or lost, until it was last said to be held: what came in between is not known.
fn valid(events: &[&Event], cut: Option<u64>) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let mut belief = None;
    for event in events {
        match &event.what {
            What::Granted { until, .. } | What::Held { until } => {
                let until = until.unwrap_or(NO_DEADLINE);
                let goes_on = belief.is_some_and(|(_, before)| event.at <= before);
                match spans.last_mut() {
                    Some(span) if goes_on => span.end = until,
                    _ => spans.push(event.at..until),
                }
                belief = Some((event.at, until));
            }
            what => {
                if let (Some(span), Some((seen, until))) = (spans.last_mut(), belief.take()) {
                    let end = if *what == What::Releasing {
                        event.at
                    } else {
                        seen
                    };
                    span.end = if until <= event.at { until } else { end };
                }
            }
        }
    }
    if let (Some(span), Some((seen, until)), Some(cut)) = (spans.last_mut(), belief, cut) {
        span.end = if until <= cut { until } else { seen };
    }
    spans.retain(|span| span.start <= span.end);
    spans
}

/// The last one that was named.
fn deadline(events: &[&Event]) -> Option<u64> {
    events.iter().rev().find_map(|event| match event.what {
        What::Granted { until, .. } | What::Held { until } => until,
        _ => None,
    })
}

/// Something that was done to a server, a line or a process.
pub(super) struct Fault {
    pub(super) name: String,
    pub(super) detail: String,
    pub(super) time: Span,
}

/// What ends at once has no end of its own.
pub(super) fn faults(history: &[Event]) -> Vec<Fault> {
    let mut faults: Vec<Fault> = Vec::new();
    for event in history {
        let What::Fault {
            fault, on, detail, ..
        } = &event.what
        else {
            continue;
        };
        if *on {
            let time = event.at..event.at;
            faults.push(Fault {
                name: fault.clone(),
                detail: detail.clone(),
                time,
            });
        } else if let Some(begun) = faults.iter_mut().rev().find(|begun| begun.name == *fault) {
            begun.time.end = event.at;
        }
    }
    faults
}

/// The times in which two workers were both told, rightly, that they have a lock that only one of them can have.
pub(super) fn overlaps(holds: &[&Hold]) -> Vec<Span> {
    let mut sorted: Vec<_> = holds.to_vec();
    sorted.sort_by_key(|hold| hold.all.start);
    let mut found = Vec::new();
    for (at, one) in sorted.iter().enumerate() {
        let meets = sorted[at + 1..]
            .iter()
            .take_while(|other| other.all.start < one.all.end);
        for other in meets.filter(|other| excludes(one, other)) {
            for (a, b) in one
                .valid
                .iter()
                .flat_map(|a| other.valid.iter().map(move |b| (a, b)))
            {
                let both = a.start.max(b.start)..a.end.min(b.end);
                found.extend((both.start < both.end).then_some(both));
            }
        }
    }
    found
}

fn excludes(one: &Hold, other: &Hold) -> bool {
    let permits = one.mode == Mode::Permit || other.mode == Mode::Permit;
    let readers = one.mode == Mode::Shared && other.mode == Mode::Shared;
    (one.process, one.worker) != (other.process, other.worker) && !permits && !readers
}
