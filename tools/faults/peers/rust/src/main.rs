//! One client process of the published fault run, with the locks of rslock: `tools/faults/src/peers.rs`.
//!
//! Events go to standard output as `history.rs` has them; `orders.rs` reads those of standard input.

#[path = "../../../src/clock.rs"]
mod clock;
mod habits;
#[path = "../../../src/history.rs"]
#[allow(dead_code, reason = "the program that reads histories has more of it")]
mod history;
mod orders;
mod told;
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
use told::Told;
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
    let (from, to) = text.split_once('-').ok_or("FROM-TO is wanted")?;
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
        other => Err(format!("rslock has no {other}").into()),
    }
}

/// With the version that this program was built with.
fn library() -> String {
    let manifest = include_str!("../Cargo.toml");
    let (_, version) = manifest.split_once("rslock = { version = \"=").expect("an exact version");
    let (version, _) = version.split_once('"').expect("the end of it");
    format!("rslock {version}")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arc::new(Arguments::parse());
    let told = Told::new(arguments.process);
    let locks = manager(&arguments)?;
    // It connects when it is first used.
    locks.query_redis_for_key_value(b"plain:0").await?;
    let pid = std::process::id();
    told.tell(0, "", What::Started { pid, library: library() });
    told.sample_every_second();

    let orders = Orders::listen(Duration::from_secs(arguments.seconds));
    let mut workers = Vec::new();
    for number in 0..arguments.workers {
        let worker =
            Worker::new(number, arguments.clone(), locks.clone(), told.clone(), orders.clone());
        workers.push(tokio::spawn(worker.await?.run()));
    }
    for worker in workers {
        worker.await??;
    }
    told.tell(0, "", What::Ended { counts: BTreeMap::new(), error: None });
    // The thread that reads the standard input goes on reading.
    std::process::exit(0);
}
