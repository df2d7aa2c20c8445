//! A client process of the published fault run that uses the locks of rslock:
//! `tools/faults/src/peers.rs`.
//!
//! It writes events to standard output in the format of `history.rs`. `orders.rs` reads orders from
//! standard input.

#[path = "../../../src/clock.rs"]
mod clock;
mod habits;
#[path = "../../../src/history.rs"]
#[allow(dead_code, reason = "only the program that reads histories uses all of it")]
mod history;
mod orders;
mod recorder;
mod worker;

use std::collections::BTreeMap;
use std::error::Error;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use rslock::LockManager;

use history::What;
use orders::Orders;
use recorder::Recorder;
use worker::Worker;

#[derive(Debug, Parser)]
struct Arguments {
    #[arg(long)]
    url: String,
    #[arg(long)]
    deployment: String,
    #[arg(long)]
    process: u32,
    #[arg(long)]
    workers: u32,
    #[arg(long, value_parser = ["plain"])]
    workloads: String,
    #[arg(long)]
    lease_ms: u64,
    #[arg(long)]
    wait_ms: u64,
    #[arg(long, value_parser = millis)]
    hold_ms: RangeInclusive<u64>,
    #[arg(long)]
    step_ms: u64,
    #[arg(long, value_parser = millis)]
    long_ms: RangeInclusive<u64>,
    #[arg(long, value_parser = millis)]
    think_ms: RangeInclusive<u64>,
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    seconds: u64,
    #[arg(long)]
    resource: String,
}

/// `FROM-TO`.
fn millis(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (from, to) = text.split_once('-').ok_or("expected FROM-TO")?;
    let number = |text: &str| text.parse().map_err(|error| format!("{text}: {error}"));
    Ok(number(from)?..=number(to)?)
}

fn manager(arguments: &Arguments) -> Result<LockManager, Box<dyn Error>> {
    let (_, servers) = arguments.url.split_once("://").ok_or("a URL has a scheme")?;
    match &*arguments.deployment {
        "single" | "five" => Ok(LockManager::new(arguments.url.split(',').collect())),
        "cluster" => {
            let nodes = servers.split(',').map(|node| format!("redis://{node}")).collect();
            Ok(LockManager::new_cluster(nodes)?)
        }
        other => Err(format!("rslock does not support {other}").into()),
    }
}

/// The name of the library, with the version that this program was built with.
fn library() -> String {
    let manifest = include_str!("../Cargo.toml");
    let (_, version) = manifest.split_once("rslock = { version = \"=").expect("an exact version");
    let (version, _) = version.split_once('"').expect("a closing quote");
    format!("rslock {version}")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arc::new(Arguments::parse());
    let recorder = Recorder::new(arguments.process);
    let locks = manager(&arguments)?;
    // Connect now: the manager connects on its first use.
    locks.query_redis_for_key_value(b"plain:0").await?;
    let pid = std::process::id();
    recorder.record(0, "", What::Started { pid, library: library() });
    recorder.sample_every_second();

    let orders = Orders::listen(Duration::from_secs(arguments.seconds));
    let mut workers = Vec::new();
    for number in 0..arguments.workers {
        let worker =
            Worker::new(number, arguments.clone(), locks.clone(), recorder, orders.clone());
        workers.push(tokio::spawn(worker.await?.run()));
    }
    for worker in workers {
        worker.await??;
    }
    recorder.record(0, "", What::Ended { counts: BTreeMap::new(), error: None });
    // Exit directly, because the thread that reads standard input never ends.
    std::process::exit(0);
}
