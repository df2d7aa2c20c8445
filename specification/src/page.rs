//! The table of `docs/dev/specification.md`, written by the models.

use std::fmt::{self, Write as _};
use std::path::PathBuf;

use crate::cases::{self, Case};

const BEGIN: &str =
    "<!-- Written by `cargo run -p leasehold-specification --profile test -- table`. -->\n";
const END: &str = "<!-- The end of what is written. -->";

const HOLDS: &str = "holds";

/// Where the page is.
pub fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/dev/specification.md")
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

/// What comes out of a model, and the cases in which it does.
type Rows = Vec<(&'static str, String, Vec<String>)>;

/// Explores all cases. Panics if one does not come out as it should.
fn table(cases: Vec<Case>) -> String {
    let mut rows = Rows::new();
    for case in cases {
        let (model, comes_out, what) = explored(case);
        match rows
            .iter_mut()
            .find(|row| (row.0, &row.1) == (model, &comes_out))
        {
            Some(row) => row.2.push(what),
            None => rows.push((model, comes_out, vec![what])),
        }
    }
    // What holds is the first row of its model.
    let order: Vec<_> = rows.iter().map(|row| row.0).collect();
    let place = |model| order.iter().position(|other| *other == model);
    rows.sort_by_key(|(model, comes_out, _)| (place(*model), comes_out != HOLDS));
    let mut text =
        "| model | what comes out | with which bounds, or with what wrong |\n| --- | --- | --- |\n"
            .to_owned();
    for (model, comes_out, cases) in rows {
        writeln!(text, "| {model} | {comes_out} | {} |", cases.join("; "))
            .expect("a text takes all");
    }
    text
}

/// What comes out of one case, and the case with its number: of states, or of the steps to what is
/// broken.
fn explored(case: Case) -> (&'static str, String, String) {
    let (model, what, is_right) = (case.model, case.what.clone(), case.is_right);
    let explored = case.run();
    let shown = if what.contains(' ') {
        what.clone()
    } else {
        format!("`{what}`")
    };
    let (comes_out, shown) = match (&explored.broken, &explored.unreached[..]) {
        (None, []) => {
            let states = with_thousands(explored.states);
            (HOLDS.to_owned(), format!("{shown} ({states} states)"))
        }
        (Some((invariant, steps)), _) => (
            format!("not *{invariant}*"),
            format!("{shown} ({})", steps.len()),
        ),
        (None, unreached) => (format!("never *{}*", unreached.join(", ")), shown),
    };
    assert_eq!(
        comes_out == HOLDS,
        is_right,
        "{model}, {what}: {explored:#?}"
    );
    (model, comes_out, shown)
}

fn with_thousands(number: impl fmt::Display) -> String {
    let digits = number.to_string();
    let from_end = |at: usize| digits.len() - at;
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && from_end(at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
