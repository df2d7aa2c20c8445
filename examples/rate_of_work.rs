//! At most three jobs at once, over all processes; and the permits of a process that dies.
//!
//! ```text
//! cargo run --example rate_of_work
//! ```
//!
//! Watch that the peak never passes the number of permits, and that the permit of a worker which
//! died comes back when its lease ends.
#![expect(clippy::print_stdout, reason = "the example shows what happens")]

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use leasehold::{EmbeddedRedis, Error, Semaphore};
use tokio::time::sleep;

const NAME: &str = "example:encoder";
const PERMITS: u32 = 3;
/// The lease of the worker that dies: its permits are missing until then.
const LEASE: Duration = Duration::from_millis(300);

static BUSY: AtomicU32 = AtomicU32::new(0);
static PEAK: AtomicU32 = AtomicU32::new(0);

#[tokio::main]
async fn main() -> Result<(), Error> {
    let redis = EmbeddedRedis::new();
    let clients = [redis.client(), redis.client()];
    let encoders = clients
        .each_ref()
        .map(|client| client.semaphore(NAME).with_limit(PERMITS));

    let jobs = (0..20).map(|job| encode(&encoders[job % 2]));
    futures_util::future::try_join_all(jobs).await?;
    println!("20 jobs, at most {} at once", PEAK.load(SeqCst));
    assert!(PEAK.load(SeqCst) <= PERMITS);

    // Nobody renews the permits of a dead process or gives them back. Redisson would lose them.
    let dying = std::thread::spawn(move || die_at_work(&redis));
    dying.join().expect("it dies in good order")?;
    let all = encoders[0]
        .try_acquire(PERMITS, Duration::from_secs(5))
        .await?;
    println!("the permits of a dead worker came back");
    all.release().await
}

/// A process that takes all permits, and whose runtime then ends in the middle of its work.
fn die_at_work(redis: &EmbeddedRedis) -> Result<(), Error> {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let client = redis.builder().lease(LEASE).connect().await?;
        let encoders = client.semaphore(NAME);
        std::mem::forget(encoders.acquire(PERMITS).await?);
        assert_eq!(encoders.available().await?, 0);
        Ok(())
    })
}

async fn encode(encoders: &Semaphore) -> Result<(), Error> {
    let permit = encoders.acquire(1).await?;
    PEAK.fetch_max(BUSY.fetch_add(1, SeqCst) + 1, SeqCst);
    sleep(Duration::from_millis(10)).await;
    BUSY.fetch_sub(1, SeqCst);
    permit.release().await
}
