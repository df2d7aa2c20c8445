//! A job that takes longer than its lease, and stops when the lock is lost.
//!
//! ```text
//! cargo run --example long_job
//! ```
//!
//! Runs on the embedded engine, or on the server of `REDIS_URL` if that is set. Watch that the
//! remaining lease never runs out although the job takes several leases, and that the second job
//! stops in the middle, before the step that may not be done twice.
#![expect(clippy::print_stdout, reason = "the example shows what happens")]

use std::time::Duration;

use leasehold::{Client, ClientBuilder, EmbeddedRedis, Error, Lock, LockGuard};
use tokio::time::sleep;

const NAME: &str = "example:nightly-report";
/// Far shorter than the default of 30 s, so that the example ends soon.
const LEASE: Duration = Duration::from_millis(600);
const STEP: Duration = Duration::from_millis(200);

fn builder() -> ClientBuilder {
    match std::env::var("REDIS_URL") {
        Ok(url) => Client::builder(&url),
        Err(_) => EmbeddedRedis::new().builder(),
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let client = builder().lease(LEASE).connect().await?;
    let lock = client.lock(NAME);

    println!("== a job of {:?} under a lease of {LEASE:?}", STEP * 12);
    report(&lock, 12).await?;
    println!("renewed {} times", client.stats().renewed);

    println!(
        "== the same job, and an operator frees its lock after {:?}",
        STEP * 3
    );
    let operator = client.lock(NAME);
    let operator = async {
        sleep(STEP * 3).await;
        println!("(an operator frees the lock)");
        operator.force_unlock("its job hangs").await
    };
    let (job, freed) = tokio::join!(report(&lock, 12), operator);
    freed?;
    match job {
        Err(error @ Error::Lost { .. }) => println!("the job stopped: {error}"),
        Err(error) => return Err(error),
        Ok(()) => println!("BUG: the job went on without its lock"),
    }
    client.shutdown(Duration::from_secs(5)).await
}

async fn report(lock: &Lock, steps: u32) -> Result<(), Error> {
    let guard = lock.lock().await?;
    // `run` polls the work only while the lock is held: at a loss it is dropped where it stands.
    guard.run(work(&guard, steps)).await?;
    // The job is done, but is the lock still ours? Local and free.
    guard.check()?;
    println!("publishing the report: the step that may not be done twice");
    guard.unlock().await
}

async fn work(guard: &LockGuard, steps: u32) {
    for step in 1..=steps {
        sleep(STEP).await;
        let left = guard.remaining();
        println!("step {step}: {:?}, at least {left:?} left", guard.state());
    }
}
