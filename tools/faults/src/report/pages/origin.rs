//! The sections that say what ran, when and where, and which commands reproduce it.

use std::collections::{BTreeMap, BTreeSet};

use super::super::facts::Origin;
use super::super::markdown;
use super::sum::Sum;
use super::{is_peer, section};
use crate::report::Report;
use crate::report::runs::Run;
use crate::result::Cell;
use markdown::{code, count, duration, escaped, heads, number, table};

/// A table with the numbers of runs, cells, seeds, injections and grants of each part.
pub(super) fn what_ran(report: &Report) -> String {
    let compared = |ours: bool| {
        report
            .compared
            .iter()
            .filter(move |cell| is_peer(cell) != ours)
    };
    let rows = [
        (
            "the matrix: each fault on each deployment",
            report.matrix.iter().collect::<Sum>(),
        ),
        (
            "the long runs, with mixed faults",
            report.facts.long.iter().collect(),
        ),
        ("the comparison: this library", compared(true).collect()),
        ("the comparison: the others", compared(false).collect()),
    ];
    let rows = rows.into_iter().map(|(what, sum)| {
        vec![
            what.to_owned(),
            number(sum.runs()),
            number(sum.cells),
            number(sum.seeds()),
            number(sum.injections()),
            number(sum.operations),
        ]
    });
    let columns = [
        "part",
        "program runs",
        "cells",
        "seeds",
        "injections",
        "grants",
    ];
    let cells = report.matrix.iter().chain(&report.compared);
    let repeated = cells.filter(|cell| cell.again > 0).count() as u64;
    table(&heads(&columns), rows)
        + &format!(
            "A cell whose fault met no holder says nothing about losses. It is repeated with \
             another seed, up to four times, and only its last run counts here. {} ran again.\n",
            count(repeated, "cell")
        )
}

/// The section with the commit, the machine, the servers and the commands.
pub(super) fn reproduce(report: &Report) -> String {
    let Origin {
        commit,
        is_clean,
        began,
        ended,
        parts,
    } = &report.facts.origin;
    let machine = &report.facts.machine;
    let clean = if *is_clean {
        "the work tree was clean"
    } else {
        "**the work tree was not clean**"
    };
    let rows = [
        (
            "commit",
            format!(
                "{}, {clean}",
                if commit.is_empty() {
                    "not known".to_owned()
                } else {
                    code(commit)
                }
            ),
        ),
        (
            "time",
            format!(
                "{} to {}: {}",
                markdown::time(*began),
                markdown::time(*ended),
                duration(ended.saturating_sub(*began) * 1000)
            ),
        ),
        (
            "machine",
            format!(
                "{}, {} MiB, Linux {}",
                count(machine.cores as u64, "core"),
                number(machine.memory_mib),
                escaped(&machine.kernel)
            ),
        ),
        ("servers", servers(report)),
        ("seeds of the matrix", seeds(&report.matrix)),
        ("seeds of the comparison", seeds(&report.compared)),
        ("seeds of the long runs", seeds(&report.facts.long)),
    ];
    let rows = rows.map(|(what, value)| vec![what.to_owned(), value]);
    let about = "`tools/faults/publish` repeats everything and writes these pages. The seed \
                 decides the schedule of the faults. The timing of threads still differs from run \
                 to run.";
    section(
        "Reproduce it",
        about,
        &(table(&heads(&["", ""]), rows) + &commands(&commands_of(parts)) + ONE_CELL),
    )
}

const ONE_CELL: &str = "\nOne run of the matrix, with all its cells and the timeline of \
    each:\n\n```sh\ncargo run --release -p leasehold-faults -- --deployment sentinel --fault \
    partition --seconds 30 --seed 1 --keep-history --out target/one-run\ncargo run --release -p \
    leasehold-faults -- --deployment sentinel --fault partition --history \
    target/one-run/history-1.jsonl\n```\n\nThe first command writes `cells.json`, a picture \
    `WORKLOAD.svg` for each cell, and the history. The second command checks that history again. \
    `LEASEHOLD_SERVER=PATH` chooses another server. After the whole run, \
    `target/fault-run/results.json` has the result of each cell. \
    `target/fault-run/runs/LIBRARY-DEPLOYMENT-FAULT-SEED` has its timeline and, if there was a \
    violation, its history.\n";

/// The command line, how many seconds it took, and its exit code.
type Command<'a> = (&'a str, u64, i32);

fn commands_of(parts: &[super::super::facts::Part]) -> Vec<Command<'_>> {
    let parts = parts.iter();
    parts
        .map(|part| {
            (
                part.command.as_str(),
                part.ended.saturating_sub(part.began),
                part.code,
            )
        })
        .collect()
}

fn commands(parts: &[Command<'_>]) -> String {
    if parts.is_empty() {
        return String::new();
    }
    let lines = parts.iter().map(|(command, seconds, code)| {
        let command = command.replace('\n', " ").replace("```", "'''");
        let ended = if *code == 0 {
            String::new()
        } else {
            format!(", exit code {code}")
        };
        format!("{command}   # {}{ended}\n", duration(seconds * 1000))
    });
    format!(
        "The commands, and how long each took. Some ran in parallel:\n\n```sh\n{}```\n",
        lines.collect::<String>()
    )
}

/// The servers, each with its number of runs.
fn servers(report: &Report) -> String {
    let mut servers: BTreeMap<&str, [BTreeSet<Run>; 3]> = BTreeMap::new();
    let parts = [&report.matrix, &report.facts.long, &report.compared];
    for (part, cells) in parts.into_iter().enumerate() {
        for cell in cells {
            servers.entry(&cell.server).or_default()[part].insert(Run::of(cell));
        }
    }
    let lines = servers.into_iter().map(|(server, parts)| {
        let runs: usize = parts.iter().map(BTreeSet::len).sum();
        format!("{}: {}", escaped(server), count(runs as u64, "program run"))
    });
    lines.collect::<Vec<_>>().join("<br>")
}

/// `1 to 10`, or the number and the range if some seeds in between did not run.
fn seeds(cells: &[Cell]) -> String {
    let seeds: Vec<u64> = cells
        .iter()
        .map(|cell| cell.seed)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    match seeds[..] {
        [] => "–".to_owned(),
        [one] => one.to_string(),
        [first, .., last] if last - first + 1 == seeds.len() as u64 => format!("{first} to {last}"),
        [first, .., last] => format!("{}, between {first} and {last}", seeds.len()),
    }
}
