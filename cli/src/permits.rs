//! `permits`: sets how many permits a semaphore has.

use leasehold::Client;
use serde::Serialize;

use crate::arguments::{PermitsArguments, ServerArguments};
use crate::exit::Failure;
use crate::found::look;
use crate::output::{harmless, say, say_json};
use crate::server::close;

#[derive(Debug, Serialize)]
struct Outcome<'a> {
    name: &'a str,
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
    let (name, permits, available) = (&*asked.name, asked.permits, available?);
    if asked.json {
        say_json(&Outcome {
            name,
            permits,
            available,
        })?;
    } else {
        say(&format!(
            "{} has {permits} permits, {available} are available",
            harmless(name)
        ))?;
    }
    Ok(0)
}

/// Sets the total, and returns how many permits are available.
async fn set(client: &Client, asked: &PermitsArguments) -> Result<i64, Failure> {
    let found = look(client, &asked.name).await?;
    let kind = found.as_ref().map_or("semaphore", |found| &found.kind);
    match kind {
        // A number that nobody waits for looks the same as a semaphore whose permits are all available.
        "semaphore" | "number" => {
            let semaphore = client.semaphore(&asked.name);
            Ok(semaphore.set_permits(asked.permits).await?)
        }
        "permits" => {
            let semaphore = client.permit_expirable_semaphore(&asked.name);
            Ok(semaphore.set_permits(asked.permits).await?)
        }
        other => Err(Failure::new(
            crate::exit::REFUSED,
            format!("`{}` is no semaphore: its kind is {other}", asked.name),
        )),
    }
}
