//! `show`: describes one lock.

use std::time::Duration;

use leasehold::{Client, Error};
use leasehold_admin::{Admin, Connection};
use serde::Serialize;

use crate::arguments::{ServerArguments, ShowArguments};
use crate::exit::Failure;
use crate::found::{Found, FoundHolder, lease, look, part, total};
use crate::name::Name;
use crate::output::{Rows, Tone, say, say_json, short};
use crate::server::close;

/// The JSON. A free lock has only a name.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    held: bool,
    #[serde(flatten)]
    lock: Lock<'a>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Lock<'a> {
    Held {
        #[serde(flatten)]
        found: &'a Found,
        /// The owners in the queue of a fair lock, the next one first.
        queue: Vec<String>,
        /// For each holder, the addresses of its client's connections, as far as they are known.
        addresses: Vec<Vec<String>>,
    },
    Free {
        name: &'a Name,
    },
}

/// Returns the exit code.
pub(crate) async fn show(asked: &ShowArguments, server: &ServerArguments) -> Result<u8, Failure> {
    let client = server.connect().await?;
    let seen = see(&client, &asked.name).await;
    close(&client).await;
    let Seen {
        found,
        queue,
        connections,
    } = seen?;
    if asked.json {
        let lock = match &found {
            Some(found) => {
                let addresses = found
                    .holders
                    .iter()
                    .map(|holder| connections.of(holder))
                    .collect();
                Lock::Held {
                    found,
                    queue,
                    addresses,
                }
            }
            None => Lock::Free { name: &asked.name },
        };
        say_json(&Shown {
            held: found.as_ref().is_some_and(Found::is_held),
            lock,
        })?;
        return Ok(0);
    }
    match found {
        Some(found) => say(&text(&found, &queue, &connections))?,
        None => say(&format!("{} is free", asked.name))?,
    }
    Ok(0)
}

/// Everything that is known about one name.
struct Seen {
    found: Option<Found>,
    queue: Vec<String>,
    connections: Connections,
}

async fn see(client: &Client, name: &Name) -> Result<Seen, Error> {
    let found = look(client, name).await?;
    let (mut queue, mut connections) = (Vec::new(), Connections::default());
    if let Some(found) = &found {
        if let Some(name) = name.text().filter(|_| found.waiters.is_some()) {
            queue = client.fair_lock(name).waiters().await?.queue;
        }
        // Not every user has the permission to list connections.
        connections = Connections(Admin::new(client).connections().await.unwrap_or_default());
    }
    Ok(Seen {
        found,
        queue,
        connections,
    })
}

#[derive(Debug, Default)]
pub(crate) struct Connections(Vec<Connection>);

impl Connections {
    /// The hosts from which the holder's client is connected.
    fn of(&self, holder: &FoundHolder) -> Vec<String> {
        let is_its = |connection: &&Connection| {
            let id = connection.client.as_deref();
            id.is_some() && id == holder.owner.split(':').next()
        };
        let host = |connection: &Connection| match connection.address.rsplit_once(':') {
            Some((host, _)) => host.to_owned(),
            None => connection.address.clone(),
        };
        let mut hosts: Vec<_> = self.0.iter().filter(is_its).map(host).collect();
        hosts.sort();
        hosts.dedup();
        hosts
    }
}

/// What the lock is, in a few words.
fn what(found: &Found) -> String {
    let held = found.holds();
    match (found.available, found.count) {
        (Some(available), _) if held == 0 => match found.limit {
            Some(limit) => format!("has {} permits free", part(available, limit)),
            None => format!("has {available} permits, and nobody is known to hold one"),
        },
        (Some(available), _) => {
            format!("is held: {held} of {} permits", total(held, available))
        }
        (_, Some(count)) if found.foreign => format!(
            "is at {count}, and nobody holds or waits for it: a semaphore without a declared \
             number, a latch, or any data"
        ),
        (_, Some(count)) => format!("is at {count}"),
        _ if found.foreign => {
            "is a string that this library did not write: a lock of another program, or any data"
                .to_owned()
        }
        _ => "is held".to_owned(),
    }
}

pub(crate) fn text(found: &Found, queue: &[String], connections: &Connections) -> String {
    let waiters = match (found.waiters, found.listening) {
        (Some(waiters), _) => format!(", {waiters} waiting in its queue"),
        (None, Some(1)) if found.is_number() => ", 1 client waits for it".to_owned(),
        (None, Some(clients @ 2..)) if found.is_number() => {
            format!(", {clients} clients wait for it")
        }
        (None, Some(1)) => ", 1 client listens for its release".to_owned(),
        (None, Some(clients @ 2..)) => format!(", {clients} clients listen for its release"),
        (None, _) => String::new(),
    };
    let mut rows = Rows::new(&["OWNER", "HOLDS", "LEASE", "FOR", "NAME", "PURPOSE", "HOST"]);
    let known = |text: Option<&str>| (text.unwrap_or("-").to_owned(), Tone::Plain);
    for holder in &found.holders {
        let held_for = holder
            .held_for_ms
            .map(|span| short(Duration::from_millis(span)));
        rows.add([
            (holder.owner.clone(), Tone::Plain),
            (holder.holds.to_string(), Tone::Plain),
            lease(holder.lease_ms),
            known(held_for.as_deref()),
            known(holder.name.as_deref()),
            known(holder.purpose.as_deref()),
            known(
                Some(connections.of(holder).join(", "))
                    .filter(|host| !host.is_empty())
                    .as_deref(),
            ),
        ]);
    }
    let mut text = format!("{} ({}) {}{waiters}", found.name, found.kind, what(found));
    if !found.holders.is_empty() {
        text = format!("{text}\n\n{}", rows.text());
    }
    if !queue.is_empty() {
        let mut rows = Rows::new(&["NEXT"]);
        for owner in queue {
            rows.add([(owner.clone(), Tone::Plain)]);
        }
        text = format!("{text}\n\n{}", rows.text());
    }
    text
}
