//! The remaining sections of the first page: long runs, many names, bad input, and the meanings of
//! faults and workloads.

use std::collections::BTreeMap;

use super::super::markdown;
use super::sum::Sum;
use super::{
    VIOLATIONS, in_order, long_run_command, out_of, overlaps, section, sentences, title, verdict,
};
use crate::report::Report;
use crate::report::facts::{Fuzz, ManyNames, Point};
use crate::report::statistics::median;
use markdown::{count, duration, escaped, heads, number, table};

pub(super) fn long(report: &Report) -> String {
    let long = &report.facts.long;
    let columns = [
        "deployment",
        "server",
        "length",
        "workloads",
        "injections",
        "met a holder",
        "grants",
        "renewals lost",
        "overlaps",
        "longest wait",
        "recovery: median, longest",
        "violations",
    ];
    let rows = in_order(long.iter().map(|cell| cell.deployment.as_str()))
        .into_iter()
        .map(|deployment| {
            let cells = || long.iter().filter(|cell| cell.deployment == deployment);
            let sum: Sum = cells().collect();
            let servers = in_order(cells().map(|cell| cell.server.as_str())).join(", ");
            vec![
                title(deployment),
                escaped(&servers),
                duration(cells().map(|cell| cell.seconds).max().unwrap_or_default() * 1000),
                number(sum.cells),
                number(sum.injections()),
                out_of(sum.met.holders, sum.met.injections),
                number(sum.operations),
                number(sum.renewals.lost),
                overlaps(sum.overlaps),
                sum.longest_wait(),
                sum.recovery(),
                verdict(sum.violations),
            ]
        });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return String::new();
    }
    let violations = sentences(
        long.iter(),
        |cell| &cell.violations,
        long_run_command(report),
        VIOLATIONS,
    );
    let about = "The seed chooses one fault after another, and sometimes two at once.";
    section(
        "Long runs, with mixed faults",
        about,
        &(table(&heads(&columns), rows) + &violations),
    )
}

pub(super) fn names(names: &ManyNames) -> String {
    let faults = names
        .faults
        .iter()
        .map(|(fault, times)| format!("{} × {}", number(*times), escaped(fault)));
    let faults = faults.collect::<Vec<_>>().join(", ");
    let faults = if faults.is_empty() {
        "no faults".to_owned()
    } else {
        faults
    };
    let left = &names.left;
    let done = format!(
        "{} names were locked and released in {:.0} s on {}, {} of them wanted by two clients at \
         once, under {faults} (seed {}).",
        number(names.names),
        names.seconds,
        escaped(&names.server),
        number(names.contended),
        names.seed
    );
    let rest = format!(
        "At the end, {} remained in the internal tables, {} at the server, and {} besides the {} \
         of fenced locks, which must remain. {}Violations: {}.",
        entries(names.at_rest.entries()),
        count(left.channels + left.patterns, "subscription"),
        count(left.others_total, "key"),
        count(left.fence_counters, "counter"),
        memory(&names.series),
        verdict(names.violations.len() as u64)
    );
    section(
        "Many names",
        "",
        &format!("{done} {rest}\n\n{}", markdown::list(&names.violations)),
    )
}

/// Compares the memory in the second quarter of the run and in the last one. The first quarter is
/// the warm-up.
fn memory(series: &[Point]) -> String {
    let quarter = series.len() / 4;
    let memory = |points: &[Point]| {
        median(&points.iter().map(|point| point.rss_kib).collect::<Vec<_>>()).unwrap_or_default()
    };
    if quarter == 0 {
        return String::new();
    }
    format!(
        "Resident memory, the median of the second quarter and of the last: {} and {} KiB. ",
        number(memory(&series[quarter..2 * quarter])),
        number(memory(&series[series.len() - quarter..]))
    )
}

fn entries(times: u64) -> String {
    if times == 1 {
        "1 entry".to_owned()
    } else {
        format!("{} entries", number(times))
    }
}

pub(super) fn fuzz(fuzz: &Fuzz) -> String {
    let columns = [
        "target",
        "inputs",
        "time",
        "panics",
        "hangs",
        "most memory for one input",
    ];
    let rows = fuzz.targets.iter().map(|target| {
        // A hang ends the fuzzer before it can report its time and memory.
        let known = |text: String| {
            if target.hangs > 0 && target.seconds == 0.0 {
                "–".to_owned()
            } else {
                text
            }
        };
        vec![
            escaped(&target.name),
            number(target.inputs),
            known(format!("{:.0} s", target.seconds)),
            bold_unless_zero(target.panics),
            bold_unless_zero(target.hangs),
            known(format!("{} KiB", number(target.peak_bytes.div_ceil(1024)))),
        ]
    });
    let inputs = number(fuzz.targets.iter().map(|target| target.inputs).sum());
    let table = table(&heads(&columns), rows);
    let (engine, seed) = (escaped(&fuzz.engine), fuzz.seed);
    format!("## Bad input\n\n{inputs} inputs for the parsers ({engine}, seed {seed}).\n\n{table}")
}

/// `0`, or the number in bold.
fn bold_unless_zero(times: u64) -> String {
    if times == 0 {
        "0".to_owned()
    } else {
        verdict(times)
    }
}

/// A table of the names that have a known meaning.
pub(super) fn meanings<'a>(
    head: &str,
    meanings: &BTreeMap<String, String>,
    names: impl Iterator<Item = &'a str>,
) -> String {
    let rows = in_order(names).into_iter().filter_map(|name| {
        meanings
            .get(name)
            .map(|meaning| vec![escaped(name), escaped(meaning)])
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return String::new();
    }
    let column = head.trim_end_matches('s').to_lowercase();
    format!(
        "## {head}\n\n{}",
        table(&heads(&[&column, "what is done"]), rows)
    )
}
