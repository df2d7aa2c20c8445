//! The published fault run: locks under faults, with several processes, a history, and a checker.
//!
//! `cargo run --release -p leasehold-faults -- --help` says what it can do; `docs/faults/README.md`, what it has
//! shown.
#![expect(clippy::print_stdout, reason = "a program for people at a keyboard")]

#[expect(dead_code, reason = "the clients use it")]
mod clock;
#[expect(dead_code, reason = "the clients use it")]
mod history;
mod names;
mod process;
#[expect(dead_code, reason = "the clients use it")]
mod result;
#[path = "../../support/mod.rs"]
mod support;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Locks under faults")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Very many names, each locked and released once: is anything left of them?
    Names(names::Options),
    /// Started by `names`.
    #[command(hide = true)]
    NamesLoad(names::LoadOptions),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Names(options) => {
            let outcome = names::run(&options);
            println!("{outcome}");
            if outcome.passes() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Command::NamesLoad(options) => {
            names::load(&options);
            ExitCode::SUCCESS
        }
    }
}
