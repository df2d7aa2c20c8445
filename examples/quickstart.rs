//! Two contenders, a nested section, and a lock that is lost: what each side sees.
//!
//! ```text
//! cargo run --example quickstart --features embedded
//! ```
//!
//! Runs on the embedded engine, and then on the server of `REDIS_URL` if that is set. Watch who
//! gets the lock, that the nested section needs no second lock, and how the holder learns that its
//! lock is gone.
#![expect(clippy::print_stdout, reason = "the example shows what happens")]

use std::time::Duration;

use leasehold::{Client, ClientBuilder, EmbeddedRedis, Error, Lease, Owner};
use tokio::time::{Instant, sleep};

const NAME: &str = "example:orders:42";

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

/// Two lock values are two owners: they exclude each other, here as in two processes.
async fn contend(client: &Client) -> Result<(), Error> {
    let (mut anna, mut bert) = (client.lock(NAME), client.lock(NAME));
    let held = anna.lock().await?;
    println!("anna holds {} as {}", held.name(), held.owner());

    match bert.try_lock(Duration::ZERO, Lease::Renewed).await {
        Ok(_) => println!("BUG: both hold it"),
        Err(error) => println!("bert does not wait: {error}"),
    }

    let anna = async {
        sleep(Duration::from_millis(100)).await;
        held.unlock().await
    };
    let start = Instant::now();
    let wait = Duration::from_secs(5);
    let (unlocked, taken) = tokio::join!(anna, bert.try_lock(wait, Lease::Renewed));
    unlocked?;
    println!("bert waits: it is his after {:?}", start.elapsed());
    taken?.unlock().await
}

/// A section that calls another one under the same lock: an owner that is passed along re-enters.
async fn ship(client: &Client) -> Result<(), Error> {
    let owner = Owner::new();
    let shipping = client.lock(NAME).owned_by(&owner).lock().await?;
    charge(client, &owner).await?;
    println!("back outside: {} hold", shipping.hold_count());
    shipping.unlock().await
}

async fn charge(client: &Client, owner: &Owner) -> Result<(), Error> {
    let charging = client.lock(NAME).owned_by(owner).lock().await?;
    println!("in the nested section: {} holds", charging.hold_count());
    charging.unlock().await
}

/// The lock is taken away while it is held. The guard tells, and nothing brings it back.
async fn lose(client: &Client) -> Result<(), Error> {
    let guard = client.lock(NAME).lock().await?;
    println!("held: {:?}, for {:?} at least", guard.state(), guard.deadline() - Instant::now());

    client.lock(NAME).force_unlock().await?; // an operator, a failover, a DEL
    let start = Instant::now();
    let reason = guard.lost().await;
    println!("lost: {reason}; noticed after {:?}", start.elapsed());
    if let Err(error) = guard.check() {
        println!("the next step is not taken: {error}");
    }
    Ok(())
}
