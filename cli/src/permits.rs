//! `permits`: sets how many permits a semaphore has.

use leasehold::Client;
use serde::Serialize;

use crate::arguments::{PermitsArguments, ServerArguments};
use crate::exit::Failure;
use crate::found::look;
use crate::name::Name;
use crate::output::{say, say_json};
use crate::server::close;

#[derive(Debug, Serialize)]
struct Outcome<'a> {
    name: &'a Name,
    permits: u32,
    available: i64,
}

/// Returns the exit code.
pub(crate) async fn permits(
    asked: &PermitsArguments,
    server: &ServerArguments,
) -> Result<u8, Failure> {
    let client = server.connect().await?;
    let available = set(&client, asked).await;
    close(&client).await;
    let (name, permits, available) = (&asked.name.key(), asked.permits, available?);
    if asked.json {
        say_json(&Outcome {
            name,
            permits,
            available,
        })?;
    } else {
        say(&format!(
            "{name} has {permits} permits, {available} are available"
        ))?;
    }
    Ok(0)
}

/// Sets the total, and returns how many permits are available. A total is kept as a limit, by which
/// others know the semaphore. Zero is none: it would refuse those who wait for several permits.
async fn set(client: &Client, asked: &PermitsArguments) -> Result<i64, Failure> {
    let (name, permits) = (&asked.name, asked.permits);
    let found = look(client, &name.key()).await?;
    let kind = found.as_ref().map_or("semaphore", |found| &found.kind);
    match kind {
        // A number that nobody waits for may be a semaphore whose permits are all available.
        "semaphore" | "number" => {
            let mut semaphore = client.semaphore(name);
            if permits > 0 {
                semaphore = semaphore.with_limit(permits);
            }
            Ok(semaphore.set_permits(permits).await?)
        }
        "permits" => {
            let mut semaphore = client.permit_expirable_semaphore(name);
            if permits > 0 {
                semaphore = semaphore.with_limit(permits);
            }
            Ok(semaphore.set_permits(permits).await?)
        }
        other => Err(Failure::new(
            crate::exit::REFUSED,
            format!("`{name}` is no semaphore: its kind is {other}"),
        )),
    }
}
