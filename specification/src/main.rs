//! Explores the models, and writes what came out into `docs/dev/specification.md`.
//!
//! ```sh
//! # Writes the table of docs/dev/specification.md:
//! cargo run -p leasehold-specification --profile test -- table
//! # Explores larger bounds, for minutes:
//! cargo run -p leasehold-specification --profile test -- large
//! ```
//!
//! The test explores the larger bounds too if `LEASEHOLD_BOUNDS` is `large`.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for the terminal"
)]

use std::process::ExitCode;

use leasehold_specification::{filled, larger, path};

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("table") => {
            let page = std::fs::read_to_string(path()).expect("the page");
            std::fs::write(path(), filled(&page)).expect("the page");
        }
        Some("large") => println!("{}", larger()),
        _ => {
            eprintln!("one of: table, large");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

#[test]
fn the_models_are_right_and_each_fault_shows_as_the_page_says() {
    let page = std::fs::read_to_string(path()).expect("the page");
    assert!(
        page == filled(&page),
        "docs/dev/specification.md is not what the models say: see the head of this file"
    );
    if std::env::var("LEASEHOLD_BOUNDS").is_ok_and(|bounds| bounds == "large") {
        println!("{}", larger());
    }
}
