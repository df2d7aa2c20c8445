//! The page that compares this library with others.

use super::super::lessons::Example;
use super::super::statistics::{approximate, median, share};
use super::super::{markdown, repeat_command};
use super::sum::Sum;
use super::{
    EXCUSES, GENERATED, VIOLATIONS, in_order, is_peer, section, sentences, timelines, title,
    verdict,
};
use crate::report::Report;
use crate::report::facts::{Library, Promise};
use crate::result::Cell;
use markdown::{code, count, duration, escaped, heads, number, table};

/// Deployment, fault and workload. The cells of a group differ only in library and seed, so they
/// can be compared.
type Group<'a> = (&'a str, &'a str, &'a str);

fn group(cell: &Cell) -> Group<'_> {
    (&cell.deployment, &cell.fault, &cell.workload)
}

/// The cells of the other libraries, and the cells of this library in the same groups.
pub(super) fn compared(cells: &[Cell]) -> Vec<&Cell> {
    let peers: Vec<_> = cells
        .iter()
        .filter(|cell| is_peer(cell))
        .map(group)
        .collect();
    cells
        .iter()
        .filter(|cell| peers.contains(&group(cell)))
        .collect()
}

/// A table with the number of seeds in which two processes held a lock at once.
pub(super) fn at_a_glance(compared: &[&Cell]) -> String {
    let libraries = in_order(compared.iter().map(|cell| cell.library.as_str()));
    let mut columns = heads(&["fault", "deployment"]);
    columns.extend(libraries.iter().map(|name| escaped(name)));
    let rows = groups(compared)
        .into_iter()
        .map(|(deployment, fault, workload)| {
            let name = if workload == "plain" {
                escaped(fault)
            } else {
                escaped(&format!("{fault}, {workload}"))
            };
            let mut row = vec![name, title(deployment)];
            row.extend(libraries.iter().map(|library| {
                let sum: Sum = cells_of(compared, (deployment, fault, workload), library).collect();
                match (sum.cells, sum.with_two_holders) {
                    (0, _) => "–".to_owned(),
                    (all, 0) => format!("0 of {all}"),
                    (all, some) => format!("**{some} of {all}**"),
                }
            }));
            row
        });
    table(&columns, rows)
}

fn groups<'a>(compared: &[&'a Cell]) -> Vec<Group<'a>> {
    let mut groups = Vec::new();
    for cell in compared {
        if !groups.contains(&group(cell)) {
            groups.push(group(cell));
        }
    }
    groups
}

fn cells_of<'a>(
    compared: &[&'a Cell],
    wanted: Group<'_>,
    library: &str,
) -> impl Iterator<Item = &'a Cell> {
    compared
        .iter()
        .copied()
        .filter(move |cell| group(cell) == wanted && cell.library == library)
}

pub(super) fn page(report: &Report, examples: &[&Example<'_>]) -> String {
    let compared = compared(&report.compared);
    let sum: Sum = compared.iter().copied().collect();
    let parts = [
        format!(
            "# Faults: other libraries\n\n{GENERATED}All libraries ran the same program, \
             workloads, faults, deployments and seeds: {} with {} and {}. Each library is used as \
             its documentation recommends, and checked for what that documentation promises. \
             [Definitions](README.md#what-counts-as-an-overlap).\n\n",
            count(sum.runs(), "program run"),
            count(sum.cells, "compared cell"),
            count(sum.injections(), "injection"),
        ),
        section(
            "Two holders at once",
            "*Seeds with two holders*: the seeds in which two processes were told at the same time \
             that they held a lock, excused or not, with Wilson's 95 % interval for the share. \
             *Per met*: such overlaps per injection that met a holder. An overlap is *excused* if \
             the library does not promise to prevent it. *Longest wait*: the median and the range \
             over the seeds.",
            &by_group(&compared),
        ),
        section(
            "Violations",
            "Each breaks a promise of that library.",
            &sentences(
                compared.iter().copied(),
                |cell| &cell.violations,
                repeat_command,
                VIOLATIONS,
            ),
        ),
        section("Timelines", "", &timelines(examples)),
        section(
            "Excused events",
            "",
            &sentences(
                compared.iter().copied(),
                |cell| &cell.explained,
                repeat_command,
                EXCUSES,
            ),
        ),
        section(
            "Versions, settings and promises",
            "",
            &libraries(&compared, report),
        ),
    ];
    parts.concat().trim_end().to_owned() + "\n"
}

fn by_group(compared: &[&Cell]) -> String {
    let columns = [
        "deployment",
        "fault",
        "workload",
        "library",
        "seeds with two holders",
        "overlaps",
        "met a holder",
        "per met",
        "holds lost",
        "longest wait",
        "violations",
    ];
    let libraries = in_order(compared.iter().map(|cell| cell.library.as_str()));
    let mut rows = Vec::new();
    for group in groups(compared) {
        for library in &libraries {
            let sum: Sum = cells_of(compared, group, library).collect();
            if sum.cells > 0 {
                rows.push(row(group, library, &sum));
            }
        }
    }
    table(&heads(&columns), rows)
}

fn row((deployment, fault, workload): Group<'_>, library: &str, sum: &Sum) -> Vec<String> {
    vec![
        title(deployment),
        escaped(fault),
        escaped(workload),
        escaped(library),
        share(sum.with_two_holders, sum.cells),
        super::overlaps(sum.overlaps),
        super::out_of(sum.met.holders, sum.met.injections),
        ratio(sum.two_holders(), sum.met.holders),
        number(sum.losses.with_cause + sum.losses.without_cause),
        spread(&sum.longest_waits_ms),
        verdict(sum.violations),
    ]
}

/// `0.25`, or a dash if there is nothing to divide by.
fn ratio(some: u64, all: u64) -> String {
    if all == 0 {
        return "–".to_owned();
    }
    format!("{:.2}", approximate(some) / approximate(all))
}

/// The median and the range: `2 s (1 s–3 s)`.
fn spread(times: &[u64]) -> String {
    let (Some(median), Some(least), Some(most)) =
        (median(times), times.iter().min(), times.iter().max())
    else {
        return "–".to_owned();
    };
    format!(
        "{} ({}–{})",
        duration(median),
        duration(*least),
        duration(*most)
    )
}

fn libraries(compared: &[&Cell], report: &Report) -> String {
    let ran = in_order(compared.iter().map(|cell| cell.library.as_str()));
    let known = |name: &&str| {
        report
            .facts
            .libraries
            .iter()
            .find(|library| library.name == **name)
    };
    ran.iter().filter_map(known).map(library).collect()
}

fn library(library: &Library) -> String {
    let Library {
        name,
        version,
        language,
        settings,
        promises,
    } = library;
    let name = format!(
        "{} {} ({})",
        escaped(name),
        escaped(version),
        escaped(language)
    );
    let settings: Vec<_> = settings
        .iter()
        .map(|setting| format!("- {}", code(setting)))
        .collect();
    let promise = |promise: &Promise| {
        format!(
            "- {} ({})",
            escaped(&promise.says),
            escaped(&promise.source)
        )
    };
    let promises: Vec<_> = promises.iter().map(promise).collect();
    format!(
        "### {name}\n\nSettings:\n\n{}\n\nWhat its documentation promises:\n\n{}\n\n",
        settings.join("\n"),
        promises.join("\n")
    )
}
