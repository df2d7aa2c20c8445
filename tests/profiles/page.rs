//! The page with the table.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use leasehold_testbed::{KINDS, PROFILES};

use crate::Matrix;
use crate::behaviours::OF_KINDS;
use crate::cell::Result;
use crate::expected::CLIENT;

const BEGIN: &str =
    "<!-- Written by `cargo run -p leasehold-profiles --profile test -- table`. -->\n";
const END: &str = "<!-- The end of what is written. -->";

pub(crate) fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/servers.md")
}

/// The page with the present table.
pub(crate) fn filled(page: &str, matrix: &Matrix) -> String {
    let (before, rest) = page.split_once(BEGIN).expect("a place for the table");
    let (_, after) = rest.split_once(END).expect("the end of the table");
    format!("{before}{BEGIN}\n{}\n{END}{after}", table(matrix))
}

fn columns() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| kind.name).chain([CLIENT])
}

fn table(matrix: &Matrix) -> String {
    let names: Vec<_> = columns().collect();
    let mut text = format!("| server | {} |\n|", names.join(" | "));
    text.extend(std::iter::repeat_n(" --- |", names.len() + 1));
    text.push('\n');
    let add = |text: &mut String, line: String| writeln!(text, "{line}").expect("a text takes all");
    for profile in PROFILES {
        let cells = columns().map(|column| matrix[&(profile.name, column)].to_string());
        let cells = cells.collect::<Vec<_>>().join(" | ");
        let server = format!("[{}]({})", profile.name, profile.source);
        add(&mut text, format!("| {server} | {cells} |"));
    }
    text.push('\n');
    for profile in PROFILES {
        for (reason, columns) in reasons(matrix, profile.name) {
            let columns = if columns.len() == names.len() {
                "everything".to_owned()
            } else {
                columns.join(", ")
            };
            add(
                &mut text,
                format!("- {}, {columns}: {reason}", profile.name),
            );
        }
    }
    text
}

/// Why cells do not work, each with its columns.
fn reasons(matrix: &Matrix, profile: &'static str) -> BTreeMap<String, Vec<&'static str>> {
    let mut reasons = BTreeMap::<_, Vec<_>>::new();
    for column in columns() {
        let reason = match &matrix[&(profile, column)] {
            Result::Works | Result::With(_) => continue,
            Result::Refused(why) => format!("refused at the start: `{why}`."),
            // Without this one, there are no others.
            Result::Fails(failed, why) if failed[0] == OF_KINDS[0].name => {
                format!("cannot be taken: `{why}`.")
            }
            Result::Fails(failed, why) => format!("{}: `{why}`.", failed.join(", ")),
        };
        reasons.entry(reason).or_default().push(column);
    }
    reasons
}
