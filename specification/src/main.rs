//! What is right, in models that are small enough to be explored whole: `docs/specification.md` says how to read them.
//! This program explores them, and writes what came out into that page.
//!
//! ```sh
//! cargo run -p leasehold-specification --profile test -- table    # writes the table of docs/specification.md
//! cargo run -p leasehold-specification --profile test -- large    # explores larger bounds, for minutes
//! ```

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for the terminal"
)]

mod cases;
mod explore;
mod failover;
mod fair;
mod plain;
mod quorum;
mod read_write;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use cases::Case;

const BEGIN: &str =
    "<!-- Written by `cargo run -p leasehold-specification --profile test -- table`. -->\n";
const END: &str = "<!-- The end of what is written. -->";

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("table") => {
            let page = std::fs::read_to_string(path()).expect("the page");
            std::fs::write(path(), filled(&page)).expect("the page");
        }
        Some("large") => println!("{}", table(cases::large())),
        _ => {
            eprintln!("one of: table, large");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/specification.md")
}

/// The page with what the models say now.
fn filled(page: &str) -> String {
    let (before, rest) = page.split_once(BEGIN).expect("a place for the table");
    let (_, after) = rest.split_once(END).expect("the end of the table");
    format!("{before}{BEGIN}\n{}\n{END}{after}", table(cases::small()))
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

#[test]
fn the_models_are_right_and_each_fault_shows_as_the_page_says() {
    let page = std::fs::read_to_string(path()).expect("the page");
    assert!(
        page == filled(&page),
        "docs/specification.md is not what the models say: see the head of this file"
    );
}

#[test]
#[ignore = "takes minutes: by hand"]
fn larger_bounds_change_nothing() {
    println!("{}", table(cases::large()));
}
