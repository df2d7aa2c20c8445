//! The published fault run: locks under faults, with several processes, a history, and a checker.
//!
//! `cargo run --release -p leasehold-faults -- --help` says what it can do; `docs/faults/README.md`, what it has
//! shown.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for people at a keyboard")]
#![expect(clippy::panic, reason = "a run that cannot go on ends")]
#![expect(
    clippy::disallowed_methods,
    reason = "processes, servers and clocks of a real machine are waited for"
)]

mod client;
mod clients;
mod clock;
mod fault;
mod history;
mod log;
mod memory;
mod process;
mod resource;
mod result;
mod run;
#[path = "../../support/mod.rs"]
mod support;
mod worker;
mod workload;
mod world;

use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand};

use client::ClientArguments;
use fault::Needs;
use run::{Prepared, RunArguments};

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
    /// One of the client processes of a run.
    #[command(hide = true)]
    Client(ClientArguments),
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
        Some(What::Client(client)) => client::main(client).map(|()| true),
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
    let needs_network = arguments.faults()?.iter().any(|fault| fault.needs == Needs::Namespace);
    if needs_network && std::env::var_os(OWN_NETWORK).is_none() {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let status = Command::new("unshare")
            .args(["--net", "sh", "-c", "ip link set lo up && exec \"$0\" \"$@\""])
            .arg(own)
            .args(std::env::args_os().skip(1))
            .env(OWN_NETWORK, "1")
            .status();
        return status.map(|status| status.success()).map_err(|error| error.to_string());
    }
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
    let resource = resource::serve();
    let ran = run::run(arguments, seed, |prepared| ours(arguments, prepared, resource))?;
    println!("{} events, {:?} {:?} {}", ran.history.len(), ran.wrong, ran.keys, ran.server);
    let file = arguments.out.join("history.jsonl");
    let mut out = std::io::BufWriter::new(std::fs::File::create(file).map_err(|error| error.to_string())?);
    for event in &ran.history {
        history::write(&mut out, event).map_err(|error| error.to_string())?;
    }
    Ok(ran.wrong.is_empty())
}

/// How a client of this library is started.
fn ours(arguments: &RunArguments, prepared: &Prepared, resource: std::net::SocketAddr) -> clients::Start {
    let own = std::env::current_exe().expect("this program");
    let workloads: Vec<_> = arguments.workloads().iter().map(|one| one.name()).collect();
    let options = [
        ("--workers", arguments.workers.to_string()),
        ("--workloads", workloads.join(",")),
        ("--lease-ms", arguments.lease_ms.to_string()),
        ("--wait-ms", arguments.lease_ms.to_string()),
        ("--hold-ms", "5-60".to_owned()),
        ("--think-ms", "0-20".to_owned()),
        ("--seed", prepared.seed.to_string()),
        ("--resource", resource.to_string()),
    ];
    let environment = prepared.client_environment.clone();
    let memory = prepared.memory.clone();
    Box::new(move |urls, number, seat| {
        let mut command = Command::new(&own);
        command.arg("client").args(["--urls", &urls.join(" ")]);
        command.args(["--process", &number.to_string()]);
        for (name, value) in &options {
            command.args([name, value.as_str()]);
        }
        if seat > 0 {
            return command;
        }
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        match &memory {
            Some(group) => group.of(&command),
            None => command,
        }
    })
}
