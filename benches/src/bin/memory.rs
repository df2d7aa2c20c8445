//! What lives in this process for each hold, and for each task that waits.
//!
//! ```text
//! memory hold|waiter NUMBER URL
//! ```
//!
//! It prints the bytes and the allocations of each, without what `malloc` adds, and the size of the
//! future of `lock.lock()`, which is a part of the waiting task.

use std::alloc::System;
use std::time::Duration;

use leasehold::{Client, Error, LockGuard};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::task::JoinSet;
use tokio::time::sleep;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// All wait by then, and what was needed for a moment is freed.
const SETTLE: Duration = Duration::from_secs(3);

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "the result is what it prints")]
#[expect(clippy::cast_precision_loss, reason = "rounded in the end")]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [what, number, url] = &arguments[..] else {
        return Err("expected: hold|waiter NUMBER URL".into());
    };
    let number: usize = number.parse()?;
    let (one, other) = (Client::connect(url).await?, Client::connect(url).await?);
    // Connections and scripts are there.
    hold(&one, 1).await?;
    drop(hold(&other, 1).await?);
    let (mut guards, mut waiters) = (Vec::new(), JoinSet::new());
    if what == "waiter" {
        guards = hold(&one, number).await?;
        sleep(SETTLE).await;
    }
    let lives = Region::new(ALLOCATOR);
    if what == "waiter" {
        for item in 0..number {
            let lock = other.lock(key(item));
            waiters.spawn(async move { lock.lock().await });
        }
    } else {
        guards = hold(&one, number).await?;
    }
    sleep(SETTLE).await;
    let lives = lives.change();
    let each = |more: usize, less: usize| (more as f64 - less as f64) / number as f64;
    println!(
        "{what}s={number} bytes={:.0} allocations={:.1} future={}",
        each(lives.bytes_allocated, lives.bytes_deallocated),
        each(lives.allocations, lives.deallocations),
        size_of_val(&one.lock("any").lock()),
    );
    waiters.shutdown().await;
    drop(guards);
    Ok(())
}

async fn hold(client: &Client, number: usize) -> Result<Vec<LockGuard>, Error> {
    let mut guards = Vec::with_capacity(number);
    for item in 0..number {
        guards.push(client.lock(key(item)).lock().await?);
    }
    Ok(guards)
}

fn key(item: usize) -> String {
    format!("bench:many:{item}")
}
