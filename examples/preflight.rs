//! A look at the server before its locks are relied on, and a client that refuses a server that gives less.
//!
//! ```text
//! REDIS_URL=redis://127.0.0.1:6379 cargo run --example preflight
//! ```
//!
//! Runs on the embedded engine, or on the server of `REDIS_URL` if that is set. The embedded engine keeps nothing
//! over a restart, and neither does a server without persistence: there the second step is refused.
#![expect(clippy::print_stdout, reason = "the example shows what happens")]

use std::time::Duration;

use leasehold::preflight::{Persistence, Requirements, Severity, Use};
use leasehold::{Client, ClientBuilder, EmbeddedRedis, Error};

fn builder() -> ClientBuilder {
    match std::env::var("REDIS_URL") {
        Ok(url) => Client::builder(&url),
        Err(_) => EmbeddedRedis::new().builder(),
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    println!("== what this deployment gives");
    let client = builder().connect().await?;
    let report = client
        .preflight()
        .uses([Use::Lock, Use::FencedLock])
        .name("orders:1")
        .await?;
    println!("{report}");
    if report.worst() >= Some(Severity::Danger) {
        println!("Locks here are not to be relied on.");
    }
    client.shutdown(Duration::from_secs(5)).await?;

    println!("== a service that needs more than that");
    let requirements = Requirements::new()
        .no_eviction()
        .persistence(Persistence::EverySecond)
        .rights_for([Use::Lock, Use::FencedLock], "orders:1");
    match builder().require(requirements).connect().await {
        Ok(client) => {
            println!("connected: the deployment gives all of it");
            client.shutdown(Duration::from_secs(5)).await
        }
        Err(Error::Requirements { unmet }) => {
            for unmet in unmet {
                println!("refused: {unmet}");
            }
            Ok(())
        }
        Err(error) => Err(error),
    }
}
