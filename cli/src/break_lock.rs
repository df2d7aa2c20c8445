//! `break`: frees a lock by force.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use leasehold::Client;
use serde::Serialize;

use crate::arguments::{BreakArguments, ServerArguments};
use crate::exit::Failure;
use crate::found::{Found, look};
use crate::output::{complain, say_json};
use crate::server::close;
use crate::show::{Connections, text};

/// The exit code if the lock was free.
const WAS_FREE: u8 = 1;

#[derive(Debug, Serialize)]
struct Outcome<'a> {
    name: &'a str,
    broken: bool,
    reason: &'a str,
    was: Option<Found>,
}

/// Returns the exit code.
pub(crate) async fn break_lock(
    asked: &BreakArguments,
    server: &ServerArguments,
) -> Result<u8, Failure> {
    if !asked.yes && !io::stdin().is_terminal() {
        return Err(Failure::usage("there is no terminal to ask on: add --yes"));
    }
    let client = server.connect().await?;
    let broken = broken(&client, asked).await;
    close(&client).await;
    let was = broken?;
    let (broken, name, reason) = (was.is_some(), &*asked.name, &*asked.reason);
    match &was {
        Some(was) => complain(&format!(
            "broke `{name}`, held by {}: {reason}",
            was.holder()
        )),
        None => complain(&format!("`{name}` is free: nothing was broken")),
    }
    if asked.json {
        say_json(&Outcome {
            name,
            broken,
            reason,
            was,
        })?;
    }
    Ok(if broken { 0 } else { WAS_FREE })
}

/// Frees the lock, and returns what it was. `None` if it was free.
async fn broken(client: &Client, asked: &BreakArguments) -> Result<Option<Found>, Failure> {
    let Some(found) = look(client, &asked.name).await? else {
        return Ok(None);
    };
    if found.is_number() {
        return Err(Failure::usage(format!(
            "`{}` is a number, such as a semaphore or a latch, and deleting it would let in more than it allows: \
             nothing was broken. The permits of a dead holder come back when its lease ends; \
             `leasehold permits` changes their number",
            asked.name
        )));
    }
    if found.foreign && !asked.string {
        return Err(Failure::usage(format!(
            "`{}` is a string that this library did not write: if it is a lock of another program add --string",
            asked.name
        )));
    }
    let found = if asked.yes {
        found
    } else {
        ask(&found)?;
        let Some(now) = look(client, &asked.name).await? else {
            return Ok(None);
        };
        let owners = |found: &Found| -> Vec<_> {
            found
                .holders
                .iter()
                .map(|holder| holder.owner.clone())
                .collect()
        };
        if owners(&now) != owners(&found) {
            return Err(Failure::usage(format!(
                "`{}` has another holder by now: nothing was broken",
                asked.name
            )));
        }
        now
    };
    Ok(found.lock(client).force_unlock().await?.then_some(found))
}

/// Asks for confirmation. Fails unless the answer is yes.
fn ask(found: &Found) -> Result<(), Failure> {
    let mut answer = String::new();
    let question = format!(
        "{}\n\nFree it? Its holder goes on until it notices. [y/N] ",
        text(found, &[], &Connections::default())
    );
    write!(io::stderr(), "{question}")
        .and_then(|()| io::stdin().lock().read_line(&mut answer))
        .map_err(Failure::internal("the terminal"))?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::usage("nothing was broken")),
    }
}
