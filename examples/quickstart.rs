//! Two contenders, a nested section, and a lock that is lost: what each side sees.
//!
//! ```text
//! cargo run -p leasehold --example quickstart
//! ```
//!
//! Runs on the embedded engine, and then on the server of `REDIS_URL` if that is set. Watch who
//! gets the lock, that the nested section needs no second lock, and how the holder learns that its
//! lock is gone.
#![expect(clippy::print_stdout, reason = "the example shows what happens")]

use std::sync::Arc;
use std::time::Duration;

use leasehold::{Client, ClientBuilder, EmbeddedRedis, Ended, Error, Lease, LockGuard};
use tokio::time::{Instant, sleep};

const NAME: &str = "example:orders:42";
const WAIT: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> Result<(), Error> {
    println!("== on the embedded engine");
    tour(EmbeddedRedis::new().builder()).await?;
    let Ok(url) = std::env::var("REDIS_URL") else {
        println!("== set REDIS_URL to see the same on a server");
        return Ok(());
    };
    println!("== on the server of REDIS_URL");
    tour(Client::builder(&url)).await
}

async fn tour(builder: ClientBuilder) -> Result<(), Error> {
    // Renewed holds are renewed every third of this. The default is 30 s; a short one lets you see
    // within a moment that a loss is noticed.
    let client = builder.lease(Duration::from_millis(600)).connect().await?;
    contend(&client).await?;
    ship(&client).await?;
    lose(&client).await?;
    client.shutdown(Duration::from_secs(5)).await
}

/// Every acquisition is an owner of its own: two acquisitions exclude each other, here as in two
/// processes.
async fn contend(client: &Client) -> Result<(), Error> {
    let (anna, bert) = (client.lock(NAME), client.lock(NAME));
    let held = anna.lock().await?;
    println!("anna holds {} as {}", held.name(), held.owner());

    match bert.try_lock_now(Lease::Renewed).await {
        Ok(_) => println!("BUG: both hold it"),
        Err(error) => println!("bert does not wait: {error}"),
    }

    let anna = async {
        sleep(Duration::from_millis(100)).await;
        held.unlock().await
    };
    let start = Instant::now();
    let (unlocked, taken) = tokio::join!(anna, bert.try_lock(WAIT, Lease::Renewed));
    unlocked?;
    println!("bert waits: it is his after {:?}", start.elapsed());
    taken?.unlock().await
}

/// A section that calls another one under the same lock: inside, the name is enough to take it
/// again.
async fn ship(client: &Client) -> Result<(), Error> {
    let shipping = async |guard: Arc<LockGuard>| {
        charge(client).await?;
        println!("back outside: {} guard", guard.hold_count());
        Ok(())
    };
    client
        .lock(NAME)
        .try_run(WAIT, Lease::Renewed, shipping)
        .await
}

/// Called from outside of a section, this function waits for the lock.
async fn charge(client: &Client) -> Result<(), Error> {
    let charging = client.lock(NAME).try_lock(WAIT, Lease::Renewed).await?;
    println!("in the nested section: {} guards", charging.hold_count());
    charging.unlock().await
}

/// The lock is taken away while it is held: the guard finds out, and the hold never comes back.
async fn lose(client: &Client) -> Result<(), Error> {
    let guard = client.lock(NAME).lock().await?;
    println!(
        "held: {:?}, for {:?} at least",
        guard.state(),
        guard.remaining()
    );

    client.lock(NAME).force_unlock("its job hangs").await?; // an operator, a failover, a DEL
    let start = Instant::now();
    if let Ended::Lost(reason) = guard.ended().await {
        println!("lost: {reason}; noticed after {:?}", start.elapsed());
    }
    if let Err(error) = guard.check() {
        println!("the next step is not taken: {error}");
    }
    Ok(())
}
