//! The table of `docs/specification.md`, written by the models.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::cases::{self, Case};

const BEGIN: &str =
    "<!-- Written by `cargo run -p leasehold-specification --profile test -- table`. -->\n";
const END: &str = "<!-- The end of what is written. -->";

/// Where the page is.
pub fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/specification.md")
}

/// The page with what the models say now.
///
/// # Panics
///
/// If a model does not come out as it should, or the page has no place for the table.
pub fn filled(page: &str) -> String {
    let (before, rest) = page.split_once(BEGIN).expect("a place for the table");
    let (_, after) = rest.split_once(END).expect("the end of the table");
    format!("{before}{BEGIN}\n{}\n{END}{after}", table(cases::small()))
}

/// The table of larger bounds, which takes minutes.
///
/// # Panics
///
/// If a model does not come out as it should.
pub fn larger() -> String {
    table(cases::large())
}

/// Explores all cases. Panics if one does not come out as it should.
fn table(cases: Vec<Case>) -> String {
    let mut text = "| model | bounds, or what is wrong | states | what comes out |\n| --- | --- | --- | --- |\n".to_owned();
    for case in cases {
        let (model, what, is_right) = (case.model, case.what.clone(), case.is_right);
        let explored = case.run();
        let comes_out = match (&explored.broken, &explored.unreached[..]) {
            (None, []) => "holds".to_owned(),
            (Some((invariant, steps)), _) => {
                format!("not *{invariant}*, after {} steps", steps.len())
            }
            (None, unreached) => format!("never *{}*", unreached.join(", ")),
        };
        assert_eq!(
            comes_out == "holds",
            is_right,
            "{model}, {what}: {explored:#?}"
        );
        let what = if what.contains(' ') {
            what
        } else {
            format!("`{what}`")
        };
        writeln!(
            text,
            "| {model} | {what} | {} | {comes_out} |",
            explored.states
        )
        .expect("a text takes all");
    }
    text
}
