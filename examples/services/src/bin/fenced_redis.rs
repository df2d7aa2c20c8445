//! A value in Redis that a holder which was paused for too long cannot overwrite.
//!
//! ```text
//! REDIS_URL=redis://127.0.0.1:6379 cargo run -p leasehold-examples --bin fenced_redis
//! ```
//!
//! The slow holder stands still until its lease is over, and goes on in the middle of a step. The
//! write is refused because a later token has been there. `src/fenced_value.rs` has the script, and
//! `docs/fencing.md` explains it.
#![expect(clippy::print_stdout, reason = "the example shows what happens")]

use std::time::Duration;

use leasehold::{Lease, LockGuard};
use leasehold_examples::{Failure, FencedError, FencedValue, client, server};
use tokio::time::sleep;

const LOCK: &str = "example:report";
const VALUE: &str = "example:report:latest";
const LEASE: Duration = Duration::from_millis(300);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    // Two clients, as of two processes.
    let (slow, quick) = (client()?.connect().await?, client()?.connect().await?);
    let report = FencedValue::open(&server()?, VALUE).await?;

    let lease = Lease::Fixed(LEASE);
    let stale = slow.fenced_lock(LOCK).try_lock_now(lease).await?;
    let old = stale.token();
    report.set(old, "the first half of the slow one").await?;
    println!("the slow one holds token {old}, has written, and stands still");
    sleep(LEASE * 2).await; // a collection of garbage, a moved machine, a laptop that was closed

    let guard = quick.fenced_lock(LOCK).lock().await?;
    let new = guard.token();
    report.set(new, "all of the quick one").await?;
    println!("the quick one holds token {new} and has written");

    // It was past its last `check` when it was stopped: only the resource can refuse it now.
    let written = report.set(old, "the second half of the slow one").await;
    let refused = written.expect_err("a stale holder has written");
    assert!(matches!(refused, FencedError::Stale(_)), "{refused}");
    println!("the slow one writes with token {old}: {refused}");
    is_lost(&stale);

    report.set(new, "the quick one, mended").await?;
    println!("the quick one writes again: {}", report.get(new).await?);
    guard.unlock().await?;
    quick.shutdown(Duration::from_secs(5)).await?;
    Ok(slow.shutdown(Duration::from_secs(5)).await?)
}

fn is_lost(guard: &LockGuard) {
    let error = guard.check().expect_err("its lease is over");
    println!("the slow one looks at its guard: {error}");
}
