//! Workers of many processes that share a number of slots: licences, encoders, connections to an
//! old system.
//!
//! ```text
//! REDIS_URL=redis://127.0.0.1:6379 cargo run -p leasehold-examples --bin slots -- \
//!     --slots 3 --tasks 2 --jobs 10 --resource 127.0.0.1:7000
//! ```
//!
//! A slot is a permit of a semaphore. The permits of a process that died come back when its lease
//! ends.
#![expect(clippy::print_stdout, reason = "the tests read what happens")]

use std::time::Duration;

use leasehold::Semaphore;
use leasehold_examples::{Failure, client, option, required, visit};
use tokio::task::JoinSet;

const WAIT: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let client = client()?.connect().await?;
    let limit = required("--slots")?;
    let (tasks, jobs) = (option("--tasks")?.unwrap_or(1), required("--jobs")?);
    let mut workers = JoinSet::new();
    for task in 0..tasks {
        let slots = client.semaphore("example:slots").with_limit(limit);
        workers.spawn(work(slots, task, jobs, required("--resource")?));
    }
    while let Some(ended) = workers.join_next().await {
        ended??;
    }
    println!("all jobs are done");
    Ok(client.shutdown(Duration::from_secs(5)).await?)
}

async fn work(slots: Semaphore, task: u32, jobs: u32, resource: String) -> Result<(), Failure> {
    let visitor = format!("{}/{task}", std::process::id());
    for job in 0..jobs {
        let slot = slots.try_acquire(1, WAIT).await?;
        println!("task {task} begins job {job}");
        // Dropped if the slot is lost.
        slot.run(visit(&resource, &visitor)).await??;
        slot.release().await?;
    }
    Ok(())
}
