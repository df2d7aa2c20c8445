//! A value in Redis that a holder which was paused for too long cannot overwrite.
//!
//! ```text
//! cargo run --example fenced_redis
//! ```
//!
//! The slow holder stands still until its lease is over, and goes on in the middle of a step. The
//! write is refused because a later token has been there. `docs/fencing.md` explains it.
#![expect(clippy::print_stdout, reason = "the example shows what happens")]

use std::time::Duration;

use leasehold::{EmbeddedRedis, Error, Lease, LockGuard};
use tokio::time::sleep;

const LOCK: &str = "example:report";
const VALUE: &str = "example:report:latest";
const LEASE: Duration = Duration::from_millis(300);

#[tokio::main]
async fn main() -> Result<(), Error> {
    // Two clients of one engine, as two processes on one server.
    let redis = EmbeddedRedis::new();
    let (slow, quick) = (redis.client(), redis.client());

    let stale = slow
        .fenced_lock(LOCK)
        .try_lock_now(Lease::Fixed(LEASE))
        .await?;
    let old = stale.token();
    slow.set_fenced(VALUE, old, "the first half of the slow one")
        .await?;
    println!("the slow one holds token {old}, has written, and stands still");
    sleep(LEASE * 2).await; // a collection of garbage, a moved machine, a laptop that was closed

    let guard = quick.fenced_lock(LOCK).lock().await?;
    let new = guard.token();
    quick.set_fenced(VALUE, new, "all of the quick one").await?;
    println!("the quick one holds token {new} and has written");

    // It was past its last `check` when it was stopped: only the resource can refuse it now.
    let written = slow
        .set_fenced(VALUE, old, "the second half of the slow one")
        .await;
    let refused = written.expect_err("a stale holder has written");
    assert!(matches!(refused, Error::StaleToken { .. }), "{refused}");
    println!("the slow one writes with token {old}: {refused}");
    is_lost(&stale);

    quick
        .set_fenced(VALUE, new, "the quick one, mended")
        .await?;
    println!("the quick one writes again with token {new}: done");
    guard.unlock().await?;
    quick.shutdown(Duration::from_secs(5)).await?;
    slow.shutdown(Duration::from_secs(5)).await
}

fn is_lost(guard: &LockGuard) {
    let error = guard.check().expect_err("its lease is over");
    println!("the slow one looks at its guard: {error}");
}
