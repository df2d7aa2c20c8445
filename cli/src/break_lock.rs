//! `break`: frees a lock by force.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use leasehold::{Client, ClientBuilder, Error};
use leasehold_admin::Admin;
use serde::Serialize;

use crate::arguments::{BreakArguments, ServerArguments};
use crate::exit::Failure;
use crate::found::{Found, look};
use crate::name::Name;
use crate::output::{complain, say_json};
use crate::run::user_at_host;
use crate::server::close;
use crate::show::{Connections, text};

/// The exit code if the lock was free.
const WAS_FREE: u8 = 1;

#[derive(Debug, Serialize)]
struct Outcome<'a> {
    name: &'a Name,
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
    let named = |builder: ClientBuilder| builder.name(user_at_host());
    let client = server.connect_with(None, named, |_| ()).await?;
    let broken = broken(&client, asked).await;
    close(&client).await;
    let was = broken?;
    let (broken, name, reason) = (was.is_some(), &asked.name, &*asked.reason);
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
///
/// Frees only the holders that were found and shown. Redis compares each of them when it frees it.
async fn broken(client: &Client, asked: &BreakArguments) -> Result<Option<Found>, Failure> {
    let Some(found) = look(client, &asked.name).await? else {
        return Ok(None);
    };
    let found = chosen(found, asked)?;
    if !asked.yes {
        ask(&found)?;
    }
    let (mut freed, mut has_another) = (false, false);
    for holder in &found.holders {
        match free(client, &found, &holder.owner, &asked.reason).await {
            Ok(done) => freed |= done,
            Err(Error::NotOwner { .. }) => has_another = true,
            Err(error) => return Err(error.into()),
        }
    }
    if has_another && !freed {
        return Err(Failure::usage(format!(
            "`{}` has another holder by now: nothing was broken",
            asked.name
        )));
    }
    Ok(freed.then_some(found))
}

/// The lock with the holders that are to be freed.
fn chosen(mut found: Found, asked: &BreakArguments) -> Result<Found, Failure> {
    let name = &asked.name;
    if found.is_number() && asked.owner.is_none() {
        return Err(Failure::usage(format!(
            "`{name}` is a number, such as a semaphore or a latch, and deleting it would let in \
             more than it allows: nothing was broken. `--owner` gives back the permits of one \
             holder; those of a dead one come back when its lease ends. `leasehold permits` \
             changes their number",
        )));
    }
    if found.foreign && !found.is_number() && !asked.string {
        return Err(Failure::usage(format!(
            "`{name}` is a string that this library did not write: if it is a lock of another \
             program add --string",
        )));
    }
    // The reads within a write end with it.
    if found.kind == "write" {
        found
            .holders
            .retain(|holder| holder.owner.ends_with(":write"));
    }
    if let Some(owner) = &asked.owner {
        let others = found.holder();
        found.holders.retain(|holder| holder.owner == *owner);
        if found.holders.is_empty() {
            let by = match others.as_str() {
                "" => "nobody".to_owned(),
                others => format!("{others}, not by {owner}"),
            };
            return Err(Failure::usage(format!(
                "`{name}` is held by {by}: nothing was broken"
            )));
        }
    }
    Ok(found)
}

/// Frees what this owner holds. False if it holds nothing any more.
async fn free(client: &Client, found: &Found, owner: &str, reason: &str) -> Result<bool, Error> {
    // The text of another program need not be UTF-8, and then it cannot be compared.
    let is_known = !owner.contains(char::REPLACEMENT_CHARACTER);
    let Some(name) = found.name.text() else {
        let owner = if is_known { owner } else { "" };
        let admin = Admin::new(client);
        return admin.force_unlock_at(found.name.bytes(), owner).await;
    };
    match found.kind.as_str() {
        "semaphore" => {
            let semaphore = client.semaphore(name);
            semaphore.force_release_of(owner, reason).await
        }
        "permits" => {
            let semaphore = client.permit_expirable_semaphore(name);
            semaphore.force_release_of(owner, reason).await
        }
        _ if is_known => {
            let lock = found.lock(client, name);
            lock.force_unlock_of(owner, reason).await
        }
        _ => found.lock(client, name).force_unlock(reason).await,
    }
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
