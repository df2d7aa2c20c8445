//! `show`: one lock.

use serde::Serialize;

use crate::arguments::{ServerArguments, ShowArguments};
use crate::exit::Failure;
use crate::found::{Found, lease, look};
use crate::output::{Rows, Tone, say, say_json};
use crate::server::close;

/// Free locks have a name alone.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    held: bool,
    #[serde(flatten)]
    lock: Lock<'a>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Lock<'a> {
    Held(&'a Found),
    Free { name: &'a str },
}

/// The exit code.
pub(crate) async fn show(asked: &ShowArguments, server: &ServerArguments) -> Result<u8, Failure> {
    let client = server.connect().await?;
    let found = look(&client, &asked.name).await;
    close(&client).await;
    let found = found?;
    if asked.json {
        let lock = found.as_ref().map_or(Lock::Free { name: &asked.name }, Lock::Held);
        say_json(&Shown { held: found.is_some(), lock })?;
        return Ok(0);
    }
    match found {
        Some(found) => say(&text(&found))?,
        None => say(&format!("{} is free", asked.name))?,
    }
    Ok(0)
}

pub(crate) fn text(found: &Found) -> String {
    let waiters = match found.waiters {
        Some(waiters) => format!(", {waiters} waiting in its queue"),
        None => String::new(),
    };
    let what = if found.foreign {
        "is a string that this library did not write: a lock of another program, or any data"
    } else {
        "is held"
    };
    let mut rows = Rows::new(&["HOLDER", "HOLDS", "LEASE"]);
    for holder in &found.holders {
        rows.add([
            (holder.owner.clone(), Tone::Plain),
            (holder.holds.to_string(), Tone::Plain),
            lease(holder.lease_ms),
        ]);
    }
    format!("{} ({}) {what}{waiters}\n\n{}", found.name, found.kind, rows.text())
}
