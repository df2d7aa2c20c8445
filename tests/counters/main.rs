//! What each basic operation costs, counted exactly: Redis commands, bytes, allocations and
//! instructions. The numbers are in `counted.txt`. The test fails if one of them has grown, and
//! also if one has become much smaller, so that the file stays true:
//!
//! ```text
//! cargo test --release --package leasehold-tests --test counters             # compares
//! cargo test --release --package leasehold-tests --test counters -- write    # writes
//! ```
//!
//! Neither the speed of the machine nor what runs beside it matters (`operation.rs`). Instructions
//! need valgrind. They depend on the compiler, and contain those of the program itself: a change of
//! two percent says something, the number itself does not. Allocations are those of the library.
//! A debug build may take the metrics for heard, so it counts something else.

mod instructions;
mod operation;
mod redis;
mod table;

use std::path::Path;
use std::process::ExitCode;

use leasehold_testbed::{Server, is_missing};

use operation::{Operation, Prepared};
use table::Table;

/// The operations of a measurement.
const MANY: u32 = 400;

#[expect(
    clippy::print_stdout,
    reason = "it is a program that prints what it counts"
)]
fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    if let ["run", operation, times, url] = arguments[..] {
        let times = times.parse().expect("a number");
        let prepared = Prepared::new(Operation::named(operation), url);
        prepared.run(times);
        prepared.end();
        return ExitCode::SUCCESS;
    }
    if is_missing() {
        println!("no server: nothing is counted");
        return ExitCode::SUCCESS;
    }
    let counted = count_all();
    println!("{counted}");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("counters/counted.txt");
    if arguments == ["write"] {
        std::fs::write(&file, counted.to_string()).expect("the file is written");
        return ExitCode::SUCCESS;
    }
    let allowed = std::fs::read_to_string(&file).expect("counted.txt");
    let wrong = Table::parse(&allowed).compare(&counted);
    for line in &wrong {
        println!("{line}");
    }
    let verdict = if wrong.is_empty() { "ok" } else { "FAILED" };
    println!(
        "test result: {verdict}. {} numbers, {} differ",
        counted.len(),
        wrong.len()
    );
    if !wrong.is_empty() {
        println!(
            "Built as the head of tests/counters/main.rs says? Intended? Then write the file anew."
        );
    }
    ExitCode::from(u8::from(!wrong.is_empty()))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the totals are less than a million"
)]
fn count_all() -> Table {
    let mut table = Table::default();
    for operation in Operation::ALL {
        let server = Server::start();
        let prepared = Prepared::new(operation, &server.url());
        let idle = redis::Counters::of(&server, &prepared);
        let before = redis::Counters::of(&server, &prepared);
        let allocated = allocation_counter::measure(|| prepared.run(MANY));
        let spent = before.until(&redis::Counters::of(&server, &prepared), &idle);
        prepared.end();
        let each = |total: u64| total as f64 / f64::from(MANY);
        table.add(operation, "commands", each(spent.commands));
        table.add(operation, "bytes to the server", each(spent.bytes_in));
        table.add(operation, "bytes from the server", each(spent.bytes_out));
        table.add(operation, "allocations", each(allocated.count_total));
        let instructions = instructions::of(operation, &server.url());
        table.add(operation, "instructions", instructions);
    }
    table
}
