//! The published fault run: locks under faults, with several processes, a history, and a checker.
//!
//! `cargo run --release -p leasehold-faults -- --help` lists the commands. The published results
//! are in `docs/dev/faults/README.md`.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for people at a keyboard"
)]
#![expect(clippy::panic, reason = "a run that cannot continue aborts")]
#![expect(
    clippy::disallowed_methods,
    reason = "the program waits for real processes, servers and clocks"
)]

mod cell;
mod check;
mod client;
mod clients;
mod clock;
mod elections;
mod fault;
mod history;
mod log;
mod matrix;
mod memory;
mod names;
mod orders;
mod peers;
mod plan;
mod process;
mod publish;
mod report;
mod resource;
mod result;
mod run;
mod stalls;
mod start;
mod steps;
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
    action: Option<Action>,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Lists the faults: where they apply and what they do.
    Faults,
    /// Runs every fault on every deployment.
    Matrix(MatrixArguments),
    /// Locks and releases very many names once each, and checks that nothing is left of them.
    Names(names::Options),
    /// Writes the report from the results of earlier runs.
    Report(PublishArguments),
    /// Runs one client process. Started by a run.
    #[command(hide = true)]
    Client(ClientArguments),
    /// Runs the load of `names`. Started by `names`.
    #[command(hide = true)]
    NamesLoad(names::LoadOptions),
}

/// This environment variable is set if the program runs in its own network namespace.
const OWN_NETWORK: &str = "LEASEHOLD_OWN_NETWORK";

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.action {
        None => run_once(&arguments.run),
        Some(Action::Faults) => {
            list_faults();
            Ok(true)
        }
        Some(Action::Matrix(matrix)) => matrix
            .run()
            .map(|cells| cells.iter().filter(|cell| cell.is_ours()).all(Cell::passes)),
        Some(Action::Names(options)) => {
            let outcome = names::run(&options);
            println!("{outcome}");
            Ok(outcome.passes())
        }
        Some(Action::Report(publish)) => publish.run().map(|()| true),
        Some(Action::Client(client)) => client::main(client).map(|()| true),
        Some(Action::NamesLoad(options)) => {
            names::load(&options);
            Ok(true)
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn list_faults() {
    for fault in fault::all() {
        let on: Vec<_> = fault.on.iter().map(|kind| kind.name()).collect();
        println!("{:22} {:32} {}", fault.name, on.join(" "), fault.what);
    }
}

/// Performs one run. Starts itself again in a new network namespace if a fault needs that.
fn run_once(arguments: &RunArguments) -> Result<bool, String> {
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
    println!(
        "seed {seed}; to repeat: leasehold-faults {}",
        repeated_arguments(seed)
    );
    Ok(cells.iter().all(|cell| cell.passes() || !cell.is_ours()))
}

/// The command line that repeats this run: its options, with its seed.
fn repeated_arguments(seed: u64) -> String {
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

/// Checks the history of an earlier run with the present rules.
fn check_again(arguments: &RunArguments, file: &Path) -> Result<bool, String> {
    let with_path = |error: std::io::Error| format!("{}: {error}", file.display());
    let (history, steps) = history::read(BufReader::new(File::open(file).map_err(with_path)?))?;
    let ran = Ran {
        history,
        steps,
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
            "{workload}: {operations} grants, longest wait {longest_wait_ms} ms, outage \
             {outage_ms} ms, errors {:?}",
            cell.errors
        );
        println!(
            "  {:?}, {excusable_permille} \u{2030} of the held time excusable",
            cell.overlaps
        );
        println!("  {:?}, {:?}, {:?}", cell.met, cell.renewals, cell.losses);
        println!("  {:?}", cell.steps);
        for violation in &cell.violations {
            println!("  VIOLATION: {violation}");
        }
    }
}
