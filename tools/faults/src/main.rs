//! The published fault run: locks under faults, with several processes, a history, and a checker.
//!
//! `cargo run --release -p leasehold-faults -- --help` says what it can do; `docs/faults/README.md`, what it has
//! shown.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for people at a keyboard"
)]
#![expect(clippy::panic, reason = "a run that cannot go on ends")]
#![expect(
    clippy::disallowed_methods,
    reason = "processes, servers and clocks of a real machine are waited for"
)]

mod cell;
mod check;
mod client;
mod clients;
mod clock;
mod elections;
mod fault;
mod habit;
mod history;
mod log;
mod matrix;
mod memory;
mod names;
mod orders;
mod peers;
mod process;
mod publish;
mod report;
mod resource;
mod result;
mod run;
mod stalls;
mod start;
mod wall_clocks;
mod worker;
mod workload;
mod world;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand};

use client::ClientArguments;
use fault::Needs;
use matrix::MatrixArguments;
use peers::Peer;
use publish::PublishArguments;
use result::Cell;
use run::{Ran, RunArguments};

/// Locks under faults, with several processes, a history, and a checker.
#[derive(Parser, Debug)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(flatten)]
    run: RunArguments,
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Subcommand, Debug)]
enum What {
    /// The faults: where they apply, and what they are.
    Faults,
    /// Every fault on every deployment.
    Matrix(MatrixArguments),
    /// Very many names, each locked and released once: is anything left of them?
    Names(names::Options),
    /// Writes the report from what the runs have left.
    Report(PublishArguments),
    /// One of the client processes of a run.
    #[command(hide = true)]
    Client(ClientArguments),
    /// Started by `names`.
    #[command(hide = true)]
    NamesLoad(names::LoadOptions),
}

/// Set where the program has a network of its own.
const OWN_NETWORK: &str = "LEASEHOLD_OWN_NETWORK";

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let ended = match arguments.what {
        None => one(&arguments.run),
        Some(What::Faults) => {
            faults();
            Ok(true)
        }
        Some(What::Matrix(matrix)) => matrix
            .run()
            .map(|cells| cells.iter().filter(|cell| cell.is_ours()).all(Cell::passes)),
        Some(What::Names(options)) => {
            let outcome = names::run(&options);
            println!("{outcome}");
            Ok(outcome.passes())
        }
        Some(What::Report(publish)) => publish.run().map(|()| true),
        Some(What::Client(client)) => client::main(client).map(|()| true),
        Some(What::NamesLoad(options)) => {
            names::load(&options);
            Ok(true)
        }
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn faults() {
    for fault in fault::all() {
        let on: Vec<_> = fault.on.iter().map(|kind| kind.name()).collect();
        println!("{:22} {:32} {}", fault.name, on.join(" "), fault.what);
    }
}

/// In a network of its own, if a fault needs that.
fn one(arguments: &RunArguments) -> Result<bool, String> {
    let needs_network = arguments
        .faults()?
        .iter()
        .any(|fault| fault.needs == Needs::Namespace);
    if needs_network && std::env::var_os(OWN_NETWORK).is_none() {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let status = Command::new("unshare")
            .args([
                "--net",
                "sh",
                "-c",
                "ip link set lo up && exec \"$0\" \"$@\"",
            ])
            .arg(own)
            .args(std::env::args_os().skip(1))
            .env(OWN_NETWORK, "1")
            .status();
        return status
            .map(|status| status.success())
            .map_err(|error| error.to_string());
    }
    if let Some(file) = &arguments.history {
        return check_again(arguments, file);
    }
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
    if let Some(peer) = Peer::named(&arguments.library) {
        peer.prepare()?;
    }
    let resource = resource::serve();
    let ran = run::run(arguments, seed, |prepared| {
        start::client(arguments, prepared, resource)
    })?;
    let rules = cell::rules(arguments, &ran.history);
    let cells = cell::all(arguments, seed, &ran, &rules);
    cell::write(&cells, &ran, &arguments.out)?;
    if arguments.keep_history || !cells.iter().all(Cell::passes) {
        cell::write_history(&ran, seed, &arguments.out)?;
    }
    show(&cells);
    println!("seed {seed}; again: leasehold-faults {}", again(seed));
    Ok(cells.iter().all(|cell| cell.passes() || !cell.is_ours()))
}

/// The options of this run, with its seed.
fn again(seed: u64) -> String {
    let mut all = std::env::args().skip(1);
    let mut words = Vec::new();
    while let Some(word) = all.next() {
        if ["--seed", "--out"].contains(&word.as_str()) {
            all.next();
        } else {
            words.push(word);
        }
    }
    format!("{} --seed {seed}", words.join(" "))
}

/// What a history of an earlier run shows, by the rules of today.
fn check_again(arguments: &RunArguments, file: &Path) -> Result<bool, String> {
    let told = |error: std::io::Error| format!("{}: {error}", file.display());
    let history = history::read(BufReader::new(File::open(file).map_err(told)?))?;
    let ran = Ran {
        history,
        server: String::new(),
        keys: Vec::new(),
        wrong: Vec::new(),
    };
    let rules = cell::rules(arguments, &ran.history);
    let cells = cell::all(arguments, 0, &ran, &rules);
    show(&cells);
    Ok(cells.iter().all(Cell::passes))
}

fn show(cells: &[Cell]) {
    for cell in cells {
        let Cell {
            workload,
            operations,
            longest_wait_ms,
            outage_ms,
            excusable_permille,
            ..
        } = cell;
        println!(
            "{workload}: {operations} grants, longest wait {longest_wait_ms} ms, outage {outage_ms} ms, errors {:?}",
            cell.errors
        );
        println!(
            "  {:?}, {excusable_permille} \u{2030} of the held time excusable",
            cell.overlaps
        );
        println!("  {:?}, {:?}, {:?}", cell.met, cell.renewals, cell.losses);
        for violation in &cell.violations {
            println!("  VIOLATION: {violation}");
        }
    }
}
