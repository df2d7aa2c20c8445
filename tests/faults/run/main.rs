//! The published fault run: locks under faults, with several processes, a history, and a checker.
//!
//! `cargo run --release -p leasehold-faults -- --help` says what it can do; `docs/faults/README.md`, what it has
//! shown.
#![expect(clippy::print_stdout, reason = "a program for people at a keyboard")]

mod clock;
mod history;
#[cfg_attr(not(test), expect(dead_code, reason = "the run of a cell is to use them"))]
mod peers;
mod result;

fn main() {
    println!("{}", clock::monotonic());
}
