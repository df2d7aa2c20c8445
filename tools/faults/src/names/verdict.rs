//! Lists the problems of a run.

use super::load::{Gauges, Size};
use super::visit::{FENCED, SEMAPHORE};
use super::{Outcome, Point};

/// Memory has not grown if its median in the last quarter of the samples exceeds the median in the
/// second quarter by at most this much. The first quarter is the warm-up.
const FLAT_KIB: u64 = 4 * 1024;

type Metric = fn(&Point) -> u64;

/// Numbers that stay the same for the whole run, except during a reconnect.
const STEADY: [(&str, Metric); 3] = [
    ("descriptors", |point| point.load.usage.descriptors),
    ("threads", |point| point.load.usage.threads),
    ("connections at the server", |point| point.server.clients),
];

/// Fewer samples are not enough to compare quarters.
const SAMPLES_MIN: usize = 8;

pub(super) fn violations(outcome: &Outcome, size: &Size) -> Vec<String> {
    let mut violations = work(outcome, size);
    violations.extend(growth(&outcome.series, &outcome.at_rest));
    violations.extend(leftovers(outcome));
    violations
}

/// Problems of the work itself: names that were not locked, errors, and contention or faults that
/// did not occur.
fn work(outcome: &Outcome, size: &Size) -> Vec<String> {
    let (mut found, totals) = (Vec::new(), &outcome.totals);
    if totals.names != size.names {
        found.push(format!(
            "{} names of {} were locked and released",
            totals.names, size.names
        ));
    }
    found.extend(
        totals
            .refused
            .iter()
            .map(|error| format!("unexpected error: {error}")),
    );
    let counter = |name: &str| totals.counters.get(name).copied().unwrap_or_default();
    let never = [
        (
            "lost",
            counter("lost").saturating_sub(totals.lost_in_stalls),
        ),
        ("releases_failed", counter("releases_failed")),
    ];
    for (name, count) in never.into_iter().filter(|(_, count)| *count > 0) {
        found.push(format!("the clients counted {name}={count}"));
    }
    let waited = counter("acquired_after_waiting");
    if waited * 4 < totals.contended {
        let contended = totals.contended;
        found.push(format!(
            "only {waited} grants had to wait, with {contended} contended names"
        ));
    }
    for (fault, _) in outcome.faults.iter().filter(|(_, times)| **times == 0) {
        found.push(format!(
            "the run ended before this fault was injected: {fault}"
        ));
    }
    found
}

/// Numbers that are higher in the last quarter than in the second, or higher at rest than before
/// the first name.
fn growth(series: &[Point], at_rest: &Point) -> Vec<String> {
    let quarter = series.len() / 4;
    if series.len() < SAMPLES_MIN {
        return vec![format!(
            "{} samples are too few to detect growth",
            series.len()
        )];
    }
    let (second, last) = (
        &series[quarter..2 * quarter],
        &series[series.len() - quarter..],
    );
    let mut found = Vec::new();
    let rss = |points| median(points, |point| point.load.usage.rss_kib);
    let (before, after) = (rss(second), rss(last));
    if after > before + FLAT_KIB {
        found.push(format!("resident memory grew from {before} to {after} KiB"));
    }
    for (what, metric) in STEADY {
        let (before, after) = (median(second, metric), median(last, metric));
        if after != before {
            found.push(format!(
                "{what}: {before} in the second quarter, {after} in the last"
            ));
        }
    }
    for (what, metric) in STEADY {
        let (before, after) = (metric(&series[0]), metric(at_rest));
        if after != before {
            found.push(format!(
                "{what}: {before} before the first name, {after} at rest"
            ));
        }
    }
    // The tasks of the load have ended whenever a sample is taken, so only tasks of the library
    // count here.
    let (usual, after) = (median(second, |point| point.load.tasks), at_rest.load.tasks);
    if after > usual {
        found.push(format!("{after} tasks at rest, {usual} between two rounds"));
    }
    found
}

/// What is left after all names were released.
fn leftovers(outcome: &Outcome) -> Vec<String> {
    let (mut found, left) = (Vec::new(), &outcome.left);
    if outcome.at_rest.load.gauges != Gauges::default() {
        found.push(format!(
            "the clients did not become idle: {:?}",
            outcome.at_rest.load.gauges
        ));
    }
    if left.channels + left.patterns > 0 {
        let (channels, patterns) = (left.channels, left.patterns);
        found.push(format!(
            "the server has {channels} channels and {patterns} patterns left"
        ));
    }
    if left.others_total > 0 {
        found.push(format!(
            "{} unexpected keys are left: {}",
            left.others_total,
            left.others.join(", ")
        ));
    }
    let by_kind = |kind| {
        outcome
            .totals
            .by_kind
            .get(kind)
            .copied()
            .unwrap_or_default()
    };
    let (fenced, semaphores) = (by_kind(FENCED), by_kind(SEMAPHORE));
    if left.fence_counters != fenced {
        found.push(format!(
            "{} fence counters for {fenced} fenced names",
            left.fence_counters
        ));
    }
    if left.semaphores != semaphores {
        found.push(format!(
            "{} of {semaphores} semaphores have their permits",
            left.semaphores
        ));
    }
    found
}

fn median(points: &[Point], metric: Metric) -> u64 {
    let mut values: Vec<_> = points.iter().map(metric).collect();
    values.sort_unstable();
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::load::{Sample, Totals};
    use crate::names::traces::Traces;
    use crate::process::Usage;

    const SIZE: Size = Size {
        names: 70,
        round: 1,
        tasks: 1,
        lease_ms: 1_000,
    };

    /// Samples with this resident memory.
    fn series(rss_kib: impl Fn(u64) -> u64) -> Vec<Point> {
        let usage = |at| Usage {
            rss_kib: rss_kib(at),
            descriptors: 20,
            threads: 4,
        };
        let point = |at| Point {
            load: Sample {
                usage: usage(at),
                ..Sample::default()
            },
            ..Point::default()
        };
        (0..40).map(point).collect()
    }

    fn good() -> Outcome {
        let totals = Totals {
            names: 70,
            contended: 7,
            by_kind: [(FENCED, 10), (SEMAPHORE, 9)]
                .map(|(kind, number)| (kind.to_owned(), number))
                .into(),
            counters: [("acquired_after_waiting".to_owned(), 6)].into(),
            ..Totals::default()
        };
        Outcome {
            totals,
            faults: [("rain".to_owned(), 1)].into(),
            left: Traces {
                fence_counters: 10,
                semaphores: 9,
                replies: 3,
                ..Traces::default()
            },
            at_rest: series(|_| 10_000).remove(0),
            series: series(|_| 10_000),
            ..Outcome::default()
        }
    }

    /// The problems that are reported for a good run after `spoil` has changed it.
    fn problems(spoil: impl FnOnce(&mut Outcome)) -> String {
        let mut outcome = good();
        spoil(&mut outcome);
        violations(&outcome, &SIZE).join("; ")
    }

    #[test]
    fn a_good_run_reports_no_problem() {
        assert_eq!(problems(|_| {}), "");
    }

    #[test]
    fn memory_may_grow_only_during_the_warm_up() {
        // Memory grows in the first quarter, and then stays the same.
        assert_eq!(
            problems(|outcome| outcome.series = series(|at| 10_000 + 9_000 * u64::from(at >= 10))),
            ""
        );
        let grows = problems(|outcome| outcome.series = series(|at| 10_000 + 300 * at));
        assert_eq!(grows, "resident memory grew from 14500 to 20500 KiB");
    }

    #[test]
    fn one_odd_sample_is_ignored_and_a_lasting_increase_is_reported() {
        assert_eq!(
            problems(|outcome| outcome.series[39].load.usage.descriptors = 19),
            ""
        );
        let grows = problems(|outcome| {
            for point in &mut outcome.series[20..] {
                point.load.usage.descriptors += 1;
            }
        });
        assert_eq!(
            grows,
            "descriptors: 20 in the second quarter, 21 in the last"
        );
        let task = problems(|outcome| outcome.at_rest.load.tasks += 1);
        assert_eq!(task, "1 tasks at rest, 0 between two rounds");
        assert!(
            problems(|outcome| outcome.series.truncate(7)).starts_with("7 samples are too few")
        );
    }

    #[test]
    fn missing_work_is_reported() {
        let few = problems(|outcome| outcome.totals.names = 69);
        assert_eq!(few, "69 names of 70 were locked and released");
        let alone = problems(|outcome| outcome.totals.counters.clear());
        assert_eq!(alone, "only 0 grants had to wait, with 7 contended names");
        let dry = problems(|outcome| outcome.faults = [("rain".to_owned(), 0)].into());
        assert_eq!(dry, "the run ended before this fault was injected: rain");
    }

    #[test]
    fn errors_and_losses_are_reported() {
        let refused = problems(|outcome| outcome.totals.refused.push("no".into()));
        assert_eq!(refused, "unexpected error: no");
        let lost =
            problems(|outcome| *outcome.totals.counters.entry("lost".into()).or_default() = 2);
        assert_eq!(lost, "the clients counted lost=2");
        let in_a_stall = |totals: &mut Totals| {
            totals.counters.insert("lost".into(), 3);
            totals.lost_in_stalls = 2;
        };
        let one = problems(|outcome| in_a_stall(&mut outcome.totals));
        assert_eq!(one, "the clients counted lost=1");
    }

    #[test]
    fn leftovers_are_reported() {
        let listener = problems(|outcome| outcome.at_rest.load.gauges.listeners = 1);
        assert!(listener.contains("did not become idle") && listener.contains("listeners: 1"));
        let channel = problems(|outcome| outcome.left.channels = 1);
        assert_eq!(channel, "the server has 1 channels and 0 patterns left");
        let key = problems(|outcome| {
            (outcome.left.others, outcome.left.others_total) = (vec!["x (PTTL -1)".into()], 1);
        });
        assert_eq!(key, "1 unexpected keys are left: x (PTTL -1)");
        let counter = problems(|outcome| outcome.left.fence_counters = 11);
        assert_eq!(counter, "11 fence counters for 10 fenced names");
        let permit = problems(|outcome| outcome.left.semaphores = 8);
        assert_eq!(permit, "8 of 9 semaphores have their permits");
    }
}
