//! What must not be.

use super::load::{Gauges, Size};
use super::visit::{FENCED, SEMAPHORE};
use super::{Outcome, Point};

/// Memory is flat if its median in the last quarter of the samples is at most so much above that in the second.
/// The first quarter warms up.
const FLAT_KIB: u64 = 4 * 1024;

type Of = fn(&Point) -> u64;

/// Equal all the time, but for moments in which a connection is made again.
const STEADY: [(&str, Of); 3] = [
    ("descriptors", |point| point.load.usage.descriptors),
    ("threads", |point| point.load.usage.threads),
    ("connections at the server", |point| point.server.clients),
];

/// Fewer tell nothing about quarters.
const SAMPLES_MIN: usize = 8;

/// Of what the clients count, these stay zero.
const NEVER: [&str; 2] = ["lost", "releases_failed"];

pub(super) fn violations(outcome: &Outcome, size: &Size) -> Vec<String> {
    let mut violations = work(outcome, size);
    violations.extend(growth(&outcome.series, &outcome.at_rest));
    violations.extend(rest(outcome));
    violations
}

/// Was all done, and did it meet what it was to meet?
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
            .map(|error| format!("an error that may not be: {error}")),
    );
    let counter = |name: &str| totals.counters.get(name).copied().unwrap_or_default();
    for name in NEVER.into_iter().filter(|name| counter(name) > 0) {
        found.push(format!("the clients counted {name}={}", counter(name)));
    }
    let waited = counter("acquired_after_waiting");
    if waited * 4 < totals.contended {
        let contended = totals.contended;
        found.push(format!(
            "{waited} grants came after a wait, with {contended} contended names"
        ));
    }
    for (fault, _) in outcome.faults.iter().filter(|(_, times)| **times == 0) {
        found.push(format!(
            "the names were done before this fault came: {fault}"
        ));
    }
    found
}

/// Is anything more in the last quarter than in the second, or at rest than before the first name?
fn growth(series: &[Point], at_rest: &Point) -> Vec<String> {
    let quarter = series.len() / 4;
    if series.len() < SAMPLES_MIN {
        return vec![format!(
            "{} samples do not show whether anything grows",
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
    for (what, of) in STEADY {
        let (before, after) = (median(second, of), median(last, of));
        if after != before {
            found.push(format!(
                "{what}: {before} in the second quarter, {after} in the last"
            ));
        }
    }
    for (what, of) in STEADY {
        let (before, after) = (of(&series[0]), of(at_rest));
        if after != before {
            found.push(format!(
                "{what}: {before} before the first name, {after} at rest"
            ));
        }
    }
    // Those of the load itself have ended when a sample is taken.
    let (usual, after) = (median(second, |point| point.load.tasks), at_rest.load.tasks);
    if after > usual {
        found.push(format!("{after} tasks at rest, {usual} between two rounds"));
    }
    found
}

/// Is anything left?
fn rest(outcome: &Outcome) -> Vec<String> {
    let (mut found, left) = (Vec::new(), &outcome.left);
    if outcome.at_rest.load.gauges != Gauges::default() {
        found.push(format!(
            "the clients do not come to rest: {:?}",
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
            "{} keys are left: {}",
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

fn median(points: &[Point], of: Of) -> u64 {
    let mut values: Vec<_> = points.iter().map(of).collect();
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

    /// Samples of so much memory.
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

    /// What is said of a run that was good but for this.
    fn said(spoil: impl FnOnce(&mut Outcome)) -> String {
        let mut outcome = good();
        spoil(&mut outcome);
        violations(&outcome, &SIZE).join("; ")
    }

    #[test]
    fn a_good_run_reports_no_problem() {
        assert_eq!(said(|_| {}), "");
    }

    #[test]
    fn memory_may_warm_up_and_not_grow() {
        // Half of the samples warm, then it stays.
        assert_eq!(
            said(|outcome| outcome.series = series(|at| 10_000 + 9_000 * u64::from(at >= 10))),
            ""
        );
        let grows = said(|outcome| outcome.series = series(|at| 10_000 + 300 * at));
        assert_eq!(grows, "resident memory grew from 14500 to 20500 KiB");
    }

    #[test]
    fn one_sample_in_an_outage_is_no_growth_and_a_descriptor_more_is() {
        assert_eq!(
            said(|outcome| outcome.series[39].load.usage.descriptors = 19),
            ""
        );
        let grows = said(|outcome| {
            for point in &mut outcome.series[20..] {
                point.load.usage.descriptors += 1;
            }
        });
        assert_eq!(
            grows,
            "descriptors: 20 in the second quarter, 21 in the last"
        );
        let task = said(|outcome| outcome.at_rest.load.tasks += 1);
        assert_eq!(task, "1 tasks at rest, 0 between two rounds");
        assert!(said(|outcome| outcome.series.truncate(7)).starts_with("7 samples do not show"));
    }

    #[test]
    fn missing_work_is_reported() {
        let few = said(|outcome| outcome.totals.names = 69);
        assert_eq!(few, "69 names of 70 were locked and released");
        let alone = said(|outcome| outcome.totals.counters.clear());
        assert_eq!(alone, "0 grants came after a wait, with 7 contended names");
        let dry = said(|outcome| outcome.faults = [("rain".to_owned(), 0)].into());
        assert_eq!(dry, "the names were done before this fault came: rain");
    }

    #[test]
    fn errors_and_losses_are_reported() {
        let refused = said(|outcome| outcome.totals.refused.push("no".into()));
        assert_eq!(refused, "an error that may not be: no");
        let lost = said(|outcome| *outcome.totals.counters.entry("lost".into()).or_default() = 2);
        assert_eq!(lost, "the clients counted lost=2");
    }

    #[test]
    fn leftovers_are_reported() {
        let listener = said(|outcome| outcome.at_rest.load.gauges.listeners = 1);
        assert!(listener.contains("do not come to rest") && listener.contains("listeners: 1"));
        let channel = said(|outcome| outcome.left.channels = 1);
        assert_eq!(channel, "the server has 1 channels and 0 patterns left");
        let key = said(|outcome| {
            (outcome.left.others, outcome.left.others_total) = (vec!["x (PTTL -1)".into()], 1);
        });
        assert_eq!(key, "1 keys are left: x (PTTL -1)");
        let counter = said(|outcome| outcome.left.fence_counters = 11);
        assert_eq!(counter, "11 fence counters for 10 fenced names");
        let permit = said(|outcome| outcome.left.semaphores = 8);
        assert_eq!(permit, "8 of 9 semaphores have their permits");
    }
}
