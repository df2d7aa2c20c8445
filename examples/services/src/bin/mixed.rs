//! Rust and Java write one ledger, under one lock: `examples/services/java/Ledger.java` is the
//! other half.
//!
//! ```text
//! REDIS_URL=redis://127.0.0.1:6379 cargo run -p leasehold-examples --bin mixed -- \
//!   --ledger ledger.txt --entries 20
//! java -cp 'tests/redisson/target/deps/*' examples/services/java/Ledger.java \
//!   redis://127.0.0.1:6379 ledger.txt 20
//! ```
//!
//! Both read the last line, add one to its number, and write the next line: two at once would lose
//! an entry.
#![expect(clippy::print_stdout, reason = "the tests read what happens")]

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::time::Duration;

use leasehold::Lease;
use leasehold_examples::{Failure, client, required};

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let (ledger, entries): (String, u32) = (required("--ledger")?, required("--entries")?);
    let client = client()?.connect().await?;
    // In turns with Java: the queue of a fair lock is the same for both.
    let lock = client.fair_lock("example:ledger");
    for _ in 0..entries {
        let wait = Duration::from_secs(60);
        lock.try_run(wait, Lease::Renewed, async |_guard| add_entry(&ledger))
            .await?;
    }
    println!("{entries} entries");
    Ok(client.shutdown(Duration::from_secs(5)).await?)
}

fn add_entry(ledger: &str) -> Result<(), Failure> {
    let text = fs::read_to_string(ledger)?;
    let last = text
        .lines()
        .next_back()
        .and_then(|line| line.split(' ').next());
    let number: u32 = last.map_or(Ok(0), str::parse)?;
    let mut file = OpenOptions::new().append(true).open(ledger)?;
    writeln!(file, "{} rust {}", number + 1, std::process::id())?;
    Ok(())
}
