//! The page with the table.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::Matrix;
use crate::cell::Result;
use crate::columns::{CLIENT, columns};
use crate::preflight::preflight;
use crate::servers::{Server, servers};

const BEGIN: &str = "<!-- Written by `cargo run -p leasehold-others --bin leasehold-profiles \
    --profile test -- table`. -->\n";
const END: &str = "<!-- The end of what is written. -->";

pub(crate) fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/managed-services.md")
}

/// The page with the present table.
pub(crate) fn filled(page: &str, matrix: &Matrix) -> String {
    let (before, _, after) = parts(page);
    let (rows, reasons) = lines(matrix)
        .into_iter()
        .partition::<Vec<_>, _>(|line| line.starts_with('|'));
    let head = "| server | locks and synchronizers | preflight |\n| --- | --- | --- |";
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
        let (name, source) = (server.name(), server.source());
        let results = results(matrix, name);
        match server {
            Server::Data(profile) => {
                format!(
                    "| [{name}]({source}) | {results} | {} |",
                    preflight(profile)
                )
            }
            Server::Real(_) => format!("| [{name}]({source}) *(real)* | {results} | |"),
        }
    });
    let reasons = ran().flat_map(|server| {
        let reasons = reasons(matrix, server.name()).into_iter();
        reasons.map(move |(reason, names)| {
            let is_all = names.len() == columns().count();
            let only = if is_all {
                String::new()
            } else {
                format!(" {}:", names.join(", "))
            };
            format!("- {}:{only} {reason}", server.name())
        })
    });
    rows.chain(reasons).collect()
}

/// What came out of most columns, and then what came out of others.
fn results(matrix: &Matrix, server: &'static str) -> String {
    let mut names_of = BTreeMap::<_, Vec<_>>::new();
    for column in columns() {
        let result = matrix[&(server, column.name)].to_string();
        names_of.entry(result).or_default().push(column.name);
    }
    let mut parts: Vec<_> = names_of.into_iter().collect();
    parts.sort_by_key(|(_, names)| Reverse(names.len()));
    let parts = parts.into_iter().enumerate();
    let parts = parts.map(|(at, (result, names))| match at {
        0 => result,
        _ => format!("{}: {result}", names.join(", ")),
    });
    parts.collect::<Vec<_>>().join("; ")
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
