//! Which kinds of locks work on which servers.
//!
//! Each kind runs on an engine in memory that refuses what the server of a vendor refuses:
//! `PROFILES` of the testbed, which name the documentation that they are made from. Time is paused,
//! so that a hang is seen at once. It also runs on the engines and behind the proxies that packages
//! carry, in real time.
//!
//! ```sh
//! # Runs all, and writes the table of the page:
//! cargo run -p leasehold-others --bin leasehold-profiles --profile test -- table
//! # Runs the servers whose name has this word:
//! cargo run -p leasehold-others --bin leasehold-profiles --profile test -- run Envoy
//! ```

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for the terminal"
)]

mod backend;
mod behaviour;
mod cell;
mod columns;
mod expected;
mod locks;
mod page;
mod preflight;
mod real;
mod servers;

mod stalls;
mod synchronizers;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use cell::Result;
use columns::columns;
use servers::{Server, on_engines, on_real, servers};

/// The result of each cell, by the names of server and kind.
type Matrix = BTreeMap<(&'static str, &'static str), Result>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["table"] => {
            let before = std::fs::read_to_string(page::path()).expect("the page");
            let (mut matrix, (real, missing)) = (on_data(""), on_installed(""));
            if !missing.is_empty() {
                eprintln!(
                    "not installed: {}; tests/run servers installs them",
                    missing.join(", ")
                );
                return ExitCode::FAILURE;
            }
            matrix.extend(real);
            std::fs::write(page::path(), page::filled(&before, &matrix)).expect("the page");
            print(&matrix);
        }
        ["run", name] => {
            let (mut matrix, (real, missing)) = (on_data(name), on_installed(name));
            matrix.extend(real);
            print(&matrix);
            if !missing.is_empty() {
                eprintln!("not installed: {}", missing.join(", "));
            }
        }
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

/// Runs the cells of the profiles whose name has this word, on each core.
fn on_data(word: &str) -> Matrix {
    let profiles = servers().filter(|server| server.name().contains(word));
    let cells: Vec<_> = profiles
        .filter_map(|server| match server {
            Server::Data(profile) => Some(profile),
            Server::Real(_) => None,
        })
        .flat_map(|profile| columns().map(move |column| (profile, column)))
        .collect();
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Matrix::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((profile, column)) = cells.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let result = on_engines(*profile, *column);
                    let mut found = found.lock().expect("no panic");
                    found.insert((profile.name, column.name), result);
                }
            });
        }
    });
    found.into_inner().expect("no panic")
}

/// Runs the cells of the real servers whose name has this word. Also names those that are not
/// installed.
fn on_installed(word: &str) -> (Matrix, Vec<&'static str>) {
    let wanted = servers().filter(|server| server.name().contains(word));
    let wanted = wanted.filter_map(|server| match server {
        Server::Real(real) => Some(real),
        Server::Data(_) => None,
    });
    // Their time is real, and most of it is waiting.
    let threads = wanted.map(|real| std::thread::spawn(move || (real.name, on_real(&real))));
    let threads: Vec<_> = threads.collect();
    let (mut found, mut missing) = (Matrix::new(), Vec::new());
    for thread in threads {
        match thread.join().expect("no panic") {
            (name, None) => missing.push(name),
            (name, Some(cells)) => {
                found.extend(
                    cells
                        .into_iter()
                        .map(|(column, result)| ((name, column), result)),
                );
            }
        }
    }
    (found, missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(matrix: &Matrix) {
        let wrong: Vec<_> = matrix
            .iter()
            .filter(|((server, column), result)| !expected::expected(server, column).is(result))
            .map(|((server, column), result)| format!("{server}, {column}: {result:?}"))
            .collect();
        assert!(wrong.is_empty(), "not as expected:\n{}", wrong.join("\n"));
        let page = std::fs::read_to_string(page::path()).expect("the page");
        assert_eq!(
            page::said(&page, matrix),
            page::lines(matrix),
            "write it: cargo run -p leasehold-others --bin leasehold-profiles --profile test -- \
             table"
        );
    }

    #[test]
    fn each_cell_is_as_expected_and_the_page_says_so() {
        check(&on_data(""));
    }

    #[test]
    fn each_cell_of_a_real_server_is_as_expected_and_the_page_says_so() {
        let (matrix, missing) = on_installed("");
        let may_be_missing = std::env::var_os("LEASEHOLD_REQUIRE_SERVERS").is_none();
        assert!(
            may_be_missing || missing.is_empty(),
            "not installed: {}",
            missing.join(", ")
        );
        check(&matrix);
    }

    #[test]
    fn the_page_has_no_other_servers() {
        let page = std::fs::read_to_string(page::path()).expect("the page");
        assert_eq!(page::rows(&page), servers().count());
    }
}
