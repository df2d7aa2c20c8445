//! Two locks as one: transfers in both directions that never wait for each other in a circle.
//!
//! ```text
//! cargo run --example two_accounts
//! ```
//!
//! Each transfer locks both of its accounts, and names them in either order. Watch that all
//! transfers come to an end, and that no money is made or lost.
#![expect(clippy::print_stdout, reason = "the example shows what happens")]

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use leasehold::{Client, EmbeddedRedis, Error, Lease, Lock};
use tokio::time::sleep;

const TRANSFERS: usize = 60;

/// Read and written in two steps, as a database without transactions would be.
static ACCOUNTS: [AtomicI64; 3] = [const { AtomicI64::new(100) }; 3];

#[tokio::main]
async fn main() -> Result<(), Error> {
    let redis = EmbeddedRedis::new();
    let branches = [redis.client(), redis.client()];
    let transfers = (0..TRANSFERS).map(|number| {
        let from = number % 3;
        // 0 to 1, 1 to 2, 2 to 0; then the other way round.
        let to = if number % 6 < 3 {
            (from + 1) % 3
        } else {
            (from + 2) % 3
        };
        transfer(&branches[number % 2], from, to)
    });
    futures_util::future::try_join_all(transfers).await?;
    let balances: Vec<_> = ACCOUNTS
        .iter()
        .map(|balance| balance.load(Relaxed))
        .collect();
    println!("{TRANSFERS} transfers, and the accounts have {balances:?}");
    assert_eq!(balances.iter().sum::<i64>(), 300);
    Ok(())
}

async fn transfer(branch: &Client, from: usize, to: usize) -> Result<(), Error> {
    let both = Lock::multi(
        [from, to]
            .map(|account| format!("example:account:{account}"))
            .map(|name| branch.lock(name)),
    );
    let guard = both
        .try_lock(Duration::from_secs(30), Lease::Renewed)
        .await?;
    let (source, target) = (ACCOUNTS[from].load(Relaxed), ACCOUNTS[to].load(Relaxed));
    sleep(Duration::from_millis(1)).await; // without the locks, another transfer would come between
    ACCOUNTS[from].store(source - 1, Relaxed);
    ACCOUNTS[to].store(target + 1, Relaxed);
    guard.unlock().await
}
