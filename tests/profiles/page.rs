//! The page with the table.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::Matrix;
use crate::cell::Result;
use crate::columns::{CLIENT, columns};
use crate::servers::servers;

const BEGIN: &str =
    "<!-- Written by `cargo run -p leasehold-profiles --profile test -- table`. -->\n";
const END: &str = "<!-- The end of what is written. -->";

pub(crate) fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/servers.md")
}

/// The page with the present table.
pub(crate) fn filled(page: &str, matrix: &Matrix) -> String {
    let (before, _, after) = parts(page);
    let (rows, reasons) = lines(matrix)
        .into_iter()
        .partition::<Vec<_>, _>(|line| line.starts_with('|'));
    let names: Vec<_> = columns().map(|column| column.name).collect();
    let head = format!(
        "| server | what | {} |\n|{}",
        names.join(" | "),
        " --- |".repeat(names.len() + 2)
    );
    let (rows, reasons) = (rows.join("\n"), reasons.join("\n"));
    format!("{before}{BEGIN}\n{head}\n{rows}\n\n{reasons}\n\n{END}{after}")
}

fn parts(page: &str) -> (&str, &str, &str) {
    let (before, rest) = page.split_once(BEGIN).expect("a place for the table");
    let (written, after) = rest.split_once(END).expect("the end of the table");
    (before, written, after)
}

/// How many servers the page has.
#[cfg(test)]
pub(crate) fn rows(page: &str) -> usize {
    let (_, written, _) = parts(page);
    written
        .lines()
        .filter(|line| line.starts_with("| ["))
        .count()
}

/// What the page says of the servers that ran.
#[cfg(test)]
pub(crate) fn said(page: &str, matrix: &Matrix) -> Vec<String> {
    let ran = |line: &&str| {
        matrix.keys().any(|(name, _)| {
            line.starts_with(&format!("| [{name}](")) || line.starts_with(&format!("- {name}: "))
        })
    };
    let (_, written, _) = parts(page);
    written.lines().filter(ran).map(str::to_owned).collect()
}

/// The rows of the servers that ran, then the reasons of their cells.
pub(crate) fn lines(matrix: &Matrix) -> Vec<String> {
    let ran = || servers().filter(|server| matrix.keys().any(|(name, _)| *name == server.name()));
    let rows = ran().map(|server| {
        let cells = columns().map(|column| matrix[&(server.name(), column.name)].to_string());
        let cells = cells.collect::<Vec<_>>().join(" | ");
        format!(
            "| [{}]({}) | {} | {cells} |",
            server.name(),
            server.source(),
            server.what()
        )
    });
    let reasons = ran().flat_map(|server| {
        let reasons = reasons(matrix, server.name()).into_iter();
        reasons.map(move |(reason, names)| {
            let all = names.len() == columns().count();
            let names = if all {
                "everything".to_owned()
            } else {
                names.join(", ")
            };
            format!("- {}: {names}: {reason}", server.name())
        })
    });
    rows.chain(reasons).collect()
}

/// Why cells do not work, each with its columns.
fn reasons(matrix: &Matrix, server: &'static str) -> BTreeMap<String, Vec<&'static str>> {
    let mut reasons = BTreeMap::<_, Vec<_>>::new();
    for column in columns() {
        let reason = match &matrix[&(server, column.name)] {
            Result::Works | Result::With(_) => continue,
            Result::Refused(why) => format!("refused at the start: `{why}`."),
            // Without this one, there are no others.
            Result::Fails(failed, why)
                if failed[0] == column.behaviours[0].name && column.name != CLIENT =>
            {
                format!("cannot be taken: `{why}`.")
            }
            Result::Fails(failed, why) => format!("{}: `{why}`.", failed.join(", ")),
        };
        reasons.entry(reason).or_default().push(column.name);
    }
    reasons
}
