//! Which kinds of locks work on which servers.
//!
//! Each kind runs on an engine in memory that refuses what the server of a vendor refuses: `PROFILES` of the testbed,
//! which name the documentation that they are made from. Time is paused, so that a hang is seen at once.
//!
//! ```sh
//! cargo run -p leasehold-profiles --profile test -- table        # runs all, and writes the table of docs/servers.md
//! cargo run -p leasehold-profiles --profile test -- run Envoy    # runs the servers whose name has this word
//! ```

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for the terminal"
)]

mod behaviours;
mod cell;
mod expected;
mod page;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use leasehold_testbed::{KINDS, PROFILES};

use cell::Result;
use expected::CLIENT;

/// The result of each cell, by the names of server and kind.
type Matrix = BTreeMap<(&'static str, &'static str), Result>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["table"] => {
            let before = std::fs::read_to_string(page::path()).expect("the page");
            let matrix = matrix("");
            std::fs::write(page::path(), page::filled(&before, &matrix)).expect("the page");
            print(&matrix);
        }
        ["run", name] => print(&matrix(name)),
        _ => {
            eprintln!("one of: table, run NAME");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn print(matrix: &Matrix) {
    for ((profile, kind), result) in matrix {
        let expected = expected::expected(profile, kind);
        let differs = if expected.is(result) {
            ""
        } else {
            "  <-- not as expected"
        };
        println!("{profile}, {kind}: {result:?}{differs}");
    }
}

/// Runs all cells of the servers whose name has this word, on each core.
fn matrix(word: &str) -> Matrix {
    let servers = PROFILES
        .iter()
        .filter(|profile| profile.name.contains(word));
    let cells: Vec<_> = servers
        .flat_map(|profile| {
            let kinds = KINDS
                .iter()
                .map(|kind| (kind.name, *kind, behaviours::OF_KINDS));
            let client = (CLIENT, KINDS[0], behaviours::OF_CLIENTS);
            kinds.chain([client]).map(|cell| (*profile, cell))
        })
        .collect();
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Matrix::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((profile, (name, kind, behaviours))) =
                    cells.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let result = cell::run(*profile, *kind, behaviours);
                    found
                        .lock()
                        .expect("no panic")
                        .insert((profile.name, name), result);
                }
            });
        }
    });
    found.into_inner().expect("no panic")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cell_is_as_expected_and_the_page_says_so() {
        let matrix = matrix("");
        let wrong: Vec<_> = matrix
            .iter()
            .filter(|((profile, kind), result)| !expected::expected(profile, kind).is(result))
            .map(|((profile, kind), result)| format!("{profile}, {kind}: {result:?}"))
            .collect();
        assert!(wrong.is_empty(), "not as expected:\n{}", wrong.join("\n"));
        let page = std::fs::read_to_string(page::path()).expect("the page");
        let is_current = page::filled(&page, &matrix) == page;
        assert!(
            is_current,
            "write it: cargo run -p leasehold-profiles --profile test -- table"
        );
    }
}
