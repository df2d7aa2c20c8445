//! `deadlocks`: finds waiters that wait for each other.

use leasehold::inspect::{Deadlock, DeadlockedWaiter};
use serde::Serialize;

use crate::arguments::{DeadlocksArguments, ServerArguments};
use crate::exit::Failure;
use crate::name::Name;
use crate::output::{Rows, Tone, complain, say, say_json, short};
use crate::server::close;

/// The exit code if there is a deadlock.
const FOUND: u8 = 1;

/// The JSON of a waiter. A deadlock is a list of them.
#[derive(Debug, Serialize)]
struct Waiter<'a> {
    name: Option<&'a str>,
    purpose: Option<&'a str>,
    owner: &'a str,
    holds: Name,
    waits_for: Name,
    waited_ms: u128,
}

impl<'a> From<&'a DeadlockedWaiter> for Waiter<'a> {
    fn from(waiter: &'a DeadlockedWaiter) -> Self {
        Waiter {
            name: waiter.name.as_deref(),
            purpose: waiter.purpose.as_deref(),
            owner: &waiter.owner,
            holds: Name::new(&*waiter.holds),
            waits_for: Name::new(&*waiter.waits_for),
            waited_ms: waiter.waited.as_millis(),
        }
    }
}

/// Returns the exit code.
pub(crate) async fn deadlocks(
    asked: &DeadlocksArguments,
    server: &ServerArguments,
) -> Result<u8, Failure> {
    let client = server.connect().await?;
    let found = client.deadlocks().await;
    close(&client).await;
    let found = found?;
    let code = if found.is_empty() { 0 } else { FOUND };
    if asked.json {
        let waiters = found
            .iter()
            .map(|deadlock| deadlock.iter().map(Waiter::from));
        say_json(&waiters.map(Iterator::collect).collect::<Vec<Vec<_>>>())?;
        return Ok(code);
    }
    if found.is_empty() {
        complain("no deadlock is known. Only clients that describe their holds are seen");
    }
    for deadlock in &found {
        say(&text(deadlock))?;
    }
    Ok(code)
}

fn text(deadlock: &Deadlock) -> String {
    let titles = ["NAME", "PURPOSE", "HOLDS", "WAITS FOR", "WAITED", "OWNER"];
    let mut rows = Rows::new(&titles);
    let known = |text: &Option<String>| (text.as_deref().unwrap_or("-").to_owned(), Tone::Plain);
    let name = |name: &str| (Name::new(name).to_string(), Tone::Plain);
    for waiter in deadlock.iter() {
        rows.add([
            known(&waiter.name),
            known(&waiter.purpose),
            name(&waiter.holds),
            name(&waiter.waits_for),
            (short(waiter.waited), Tone::Warning),
            (waiter.owner.clone(), Tone::Faint),
        ]);
    }
    rows.text()
}
