//! Other libraries, by the same program.

use super::super::{markdown, picture_of};
use super::sum::Sum;
use super::{WRITTEN, in_order, is_peer, overlaps, section, sentences, title, verdict};
use crate::report::{Facts, OURS};
use crate::result::Cell;
use markdown::{code, duration, escaped, heads, link, number, table};

const SHOWN: usize = 3;

/// The cells of the libraries, and ours of the same faults, workloads and deployments.
pub(super) fn compared(cells: &[Cell]) -> Vec<&Cell> {
    let same = |a: &Cell, b: &Cell| {
        (&a.deployment, &a.fault, &a.workload) == (&b.deployment, &b.fault, &b.workload)
    };
    let peers: Vec<_> = cells.iter().filter(|cell| is_peer(cell)).collect();
    let ours = cells.iter().filter(|cell| !is_peer(cell));
    let mut compared: Vec<_> =
        ours.filter(|our| peers.iter().any(|peer| same(our, peer))).collect();
    compared.extend(peers);
    compared
}

/// A line for each library.
pub(super) fn at_a_glance(compared: &[&Cell]) -> String {
    let columns = [
        "library",
        "runs",
        "grants",
        "two valid holders",
        "of them excused",
        "one was told",
        "longest wait",
        "keys left",
        "violations",
    ];
    let rows =
        in_order(compared.iter().map(|cell| cell.library.as_str())).into_iter().map(|library| {
            let of = || compared.iter().copied().filter(|cell| cell.library == library);
            let sum: Sum = of().collect();
            let versions = in_order(of().map(|cell| cell.version.as_str())).join(", ");
            vec![
                format!("{} {}", escaped(library), escaped(&versions)),
                number(sum.cells as u64),
                number(sum.operations),
                number(sum.two_holders()),
                number(sum.overlaps.excused),
                sum.told(),
                duration(sum.longest_wait_ms),
                number(sum.keys_left as u64),
                verdict(sum.violations),
            ]
        });
    table(&heads(&columns), rows)
}

/// Faults by libraries: how often two believed that they hold the lock.
pub(super) fn by_fault(compared: &[&Cell]) -> String {
    let libraries = in_order(compared.iter().map(|cell| cell.library.as_str()));
    let mut columns = vec!["fault".to_owned()];
    columns.extend(libraries.iter().map(|name| escaped(name)));
    let rows = in_order(compared.iter().map(|cell| cell.fault.as_str())).into_iter().map(|fault| {
        let mut row = vec![escaped(fault)];
        row.extend(libraries.iter().map(|library| {
            let of = compared
                .iter()
                .copied()
                .filter(|cell| cell.fault == fault && cell.library == *library);
            let of: Vec<_> = of.collect();
            let shown = of.iter().max_by_key(|cell| cell.overlaps.valid + cell.overlaps.excused);
            let holders = of.iter().copied().collect::<Sum>().two_holders();
            let text =
                if holders > 0 { format!("**{}**", number(holders)) } else { "0".to_owned() };
            shown.map_or("–".to_owned(), |cell| link(&text, &picture_of(cell)))
        }));
        row
    });
    table(&columns, rows)
}

pub(super) fn page(cells: &[Cell], facts: &Facts) -> String {
    let compared = compared(cells);
    let head = format!("# Faults: other libraries\n\n{WRITTEN}");
    let parts = [
        head,
        "The same program, faults and servers for all. Each library is checked for what its own documentation promises: \
         an overlap that it does not exclude is *excused*. [What the words mean](README.md).\n\n"
            .to_owned(),
        section("Versions and settings", "", &libraries(&compared, facts)),
        section("At a glance", "", &at_a_glance(&compared)),
        section(
            "Two valid holders at once",
            "How often, excused or not, with the timeline. – does not apply, or did not run.",
            &by_fault(&compared),
        ),
        section("Each run", "The grants lead to the timeline.", &each(&compared)),
        section(
            "Violations",
            "What must not be, by what the library promises.",
            &sentences(&compared, |cell| &cell.violations, SHOWN),
        ),
        section(
            "What explains the excused overlaps",
            "",
            &sentences(&compared, |cell| &cell.explained, SHOWN),
        ),
    ];
    parts.concat().trim_end().to_owned() + "\n"
}

fn libraries(compared: &[&Cell], facts: &Facts) -> String {
    let columns = ["library", "version", "settings", "what its documentation promises"];
    let rows =
        in_order(compared.iter().map(|cell| cell.library.as_str())).into_iter().map(|name| {
            let library = facts.libraries.get(name).cloned().unwrap_or_default();
            let ours = if name == OURS { "../guarantees.md" } else { &library.documentation };
            let safe = !ours.is_empty()
                && !ours.contains(|c: char| c.is_whitespace() || "<>()|".contains(c));
            let source = if safe { format!(" [source]({ours})") } else { escaped(ours) };
            let promises = escaped(&library.promises) + &source;
            vec![escaped(name), escaped(&library.version), code(&library.settings), promises]
        });
    table(&heads(&columns), rows)
}

fn each(compared: &[&Cell]) -> String {
    let columns = [
        "library",
        "fault",
        "workload",
        "deployment",
        "grants",
        "overlaps",
        "one was told",
        "longest wait",
        "keys left",
        "seed",
    ];
    let rows = compared.iter().map(|cell| {
        let sum: Sum = [*cell].into_iter().collect();
        vec![
            escaped(&cell.library),
            escaped(&cell.fault),
            escaped(&cell.workload),
            title(&cell.deployment),
            link(&number(cell.operations), &picture_of(cell)),
            overlaps(cell.overlaps),
            sum.told(),
            duration(cell.longest_wait_ms),
            number(sum.keys_left as u64),
            cell.seed.to_string(),
        ]
    });
    table(&heads(&columns), rows)
}
