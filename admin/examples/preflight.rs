//! A look at the server before its locks are relied on, and a program that refuses a server that
//! gives less.
//!
//! ```text
//! REDIS_URL=redis://127.0.0.1:6379 cargo run -p leasehold-admin --example preflight
//! ```
//!
//! Runs on the embedded engine, or on the server of `REDIS_URL` if that is set. The embedded engine
//! keeps nothing over a restart, and neither does a server without persistence: there the second
//! step is refused.
#![expect(clippy::print_stdout, reason = "the example shows what happens")]

use std::time::Duration;

use leasehold::{Client, EmbeddedRedis};
use leasehold_admin::preflight::{Persistence, Requirements, Severity, Use};
use leasehold_admin::{Admin, Refusal};

#[tokio::main]
async fn main() -> Result<(), Refusal> {
    let builder = match std::env::var("REDIS_URL") {
        Ok(url) => Client::builder(&url),
        Err(_) => EmbeddedRedis::new().builder(),
    };
    let client = builder.connect().await?;
    let admin = Admin::new(&client);

    println!("== what this deployment gives");
    let uses = [Use::Lock, Use::FencedLock];
    let report = admin.preflight().uses(uses).name("orders:1").await?;
    println!("{report}");
    if report.worst() >= Some(Severity::Danger) {
        println!("Locks here are not to be relied on.");
    }

    println!("== a service that needs more than that");
    let requirements = Requirements::new()
        .no_eviction()
        .persistence(Persistence::EverySecond)
        .rights_for(uses, "orders:1");
    match admin.require(&requirements).await {
        Ok(()) => println!("the deployment gives all of it"),
        Err(Refusal::Unmet { unmet }) => {
            for unmet in unmet {
                println!("refused: {unmet}");
            }
        }
        Err(refusal) => return Err(refusal),
    }
    Ok(client.shutdown(Duration::from_secs(5)).await?)
}
