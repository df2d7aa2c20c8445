//! Turns the events of a history into holds, waits and faults with a beginning and an end.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::history::{Event, Mode, What};

pub(super) type Span = Range<u64>;

/// A lock that was granted to a worker.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Hold {
    pub(super) process: u32,
    pub(super) worker: u32,
    pub(super) lock: String,
    pub(super) mode: Mode,
    /// From the grant to the release or the reported loss. If there is neither, until the deadline,
    /// or until the last event of the process if that was later.
    pub(super) all: Span,
    /// The times in which the lock was reported as held and its deadline had not passed.
    pub(super) valid: Vec<Span>,
    /// When the release was called.
    pub(super) releasing: Option<u64>,
    /// The last event of the process, if the process ended or the history stopped during the hold.
    pub(super) last_sign: Option<u64>,
}

/// Process, lock, time.
pub(super) type Mark = (u32, String, u64);

/// What the processes did with the locks.
#[derive(Default)]
pub(super) struct Activity {
    pub(super) holds: Vec<Hold>,
    /// Process, lock, from the request to its end.
    pub(super) waits: Vec<(u32, String, Span)>,
    /// Writes that the protected resource refused.
    pub(super) refused_writes: Vec<Mark>,
    /// Notices to a holder that its lock is lost.
    pub(super) reported_losses: Vec<Mark>,
}

#[derive(Default)]
struct Worker<'a> {
    asked: Option<(&'a Event, Mode)>,
    /// The events of the current hold, from `Granted` on.
    hold: Vec<&'a Event>,
    mode: Mode,
}

impl Activity {
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
                            .reported_losses
                            .extend(event.locks().map(|lock| (event.process, lock, event.at)));
                    }
                    worker.add(event);
                    found.end(worker, None);
                }
                What::Wrote {
                    accepted: false, ..
                } => {
                    let refused = event.locks().map(|lock| (event.process, lock, event.at));
                    found.refused_writes.extend(refused);
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

    /// Ends the hold and the wait of a worker. `last_sign` is set if the worker has no event that
    /// ends them: the process disappeared.
    fn end(&mut self, worker: &mut Worker<'_>, last_sign: Option<u64>) {
        let events = std::mem::take(&mut worker.hold);
        if let (Some((asked, _)), Some(last_sign)) = (worker.asked, last_sign) {
            worker.asked = None;
            self.wait(asked, last_sign);
        }
        let (Some(first), Some(last)) = (events.first(), events.last()) else {
            return;
        };
        let mut valid = valid(&events, last_sign);
        let releasing = events
            .iter()
            .find(|event| event.what == What::Releasing)
            .map(|event| event.at);
        let end = last_sign.map_or(last.at, |last_sign| {
            deadline(&events).unwrap_or(last_sign).max(last_sign)
        });
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
            last_sign,
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

/// Returns the times in which a hold is valid. Each `Granted` and `Held` begins or continues such a
/// time. It ends at the deadline or at `Releasing`. If the hold is doubted or lost before the
/// deadline, its time ends at the last `Granted` or `Held` instead, because nothing is known about
/// the time in between.
fn valid(events: &[&Event], last_sign: Option<u64>) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let mut last_report = None;
    for event in events {
        match &event.what {
            What::Granted { until, .. } | What::Held { until } => {
                let until = until.unwrap_or(NO_DEADLINE);
                let continues = last_report.is_some_and(|(_, before)| event.at <= before);
                match spans.last_mut() {
                    Some(span) if continues => span.end = until,
                    _ => spans.push(event.at..until),
                }
                last_report = Some((event.at, until));
            }
            what => {
                if let (Some(span), Some((seen, until))) = (spans.last_mut(), last_report.take()) {
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
    if let (Some(span), Some((seen, until)), Some(last_sign)) =
        (spans.last_mut(), last_report, last_sign)
    {
        span.end = if until <= last_sign { until } else { seen };
    }
    spans.retain(|span| span.start <= span.end);
    spans
}

/// The last known deadline.
fn deadline(events: &[&Event]) -> Option<u64> {
    events.iter().rev().find_map(|event| match event.what {
        What::Granted { until, .. } | What::Held { until } => until,
        _ => None,
    })
}

/// A fault that was injected into a server, a connection or a process.
pub(super) struct Fault {
    pub(super) name: String,
    pub(super) detail: String,
    pub(super) time: Span,
}

/// The faults of a history. A fault without an end event, such as a kill, ends when it begins.
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

/// The times in which two workers had a valid hold of a lock that only one of them may have.
pub(super) fn overlaps(holds: &[&Hold]) -> Vec<Span> {
    let mut sorted: Vec<_> = holds.to_vec();
    sorted.sort_by_key(|hold| hold.all.start);
    let mut found = Vec::new();
    for (at, one) in sorted.iter().enumerate() {
        let simultaneous = sorted[at + 1..]
            .iter()
            .take_while(|other| other.all.start < one.all.end);
        for other in simultaneous.filter(|other| excludes(one, other)) {
            for (a, b) in one
                .valid
                .iter()
                .flat_map(|a| other.valid.iter().map(move |b| (a, b)))
            {
                let common = a.start.max(b.start)..a.end.min(b.end);
                found.extend((common.start < common.end).then_some(common));
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
