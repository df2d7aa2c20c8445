//! Prints a line for each change, for logs and programs.

use std::time::{Duration, SystemTime};

use leasehold::Client;
use serde::Serialize;
use tokio::time::Instant;

use super::changes::{Change, Seen};
use super::look;
use crate::arguments::WatchArguments;
use crate::exit::Failure;
use crate::found::Found;
use crate::output::{complain, harmless, say, say_json, short};

#[derive(Debug, Serialize)]
struct Line<'a> {
    time: &'a str,
    #[serde(flatten)]
    change: &'a Change,
}

pub(super) async fn watch(client: &Client, asked: &WatchArguments) -> Result<(), Failure> {
    let mut seen = Seen::default();
    let mut looks = 0;
    loop {
        match look(client, &asked.pattern).await {
            Ok(found) => {
                let time = wall_time();
                for change in seen.update(found, Instant::now()) {
                    if asked.json {
                        say_json(&Line {
                            time: &time,
                            change: &change,
                        })?;
                    } else {
                        say(&format!("{time} {}", harmless(&text(&change))))?;
                    }
                }
            }
            // The next poll may succeed.
            Err(error) if error.is_retryable() => complain(&Failure::from(error).text),
            Err(error) => return Err(error.into()),
        }
        looks += 1;
        if asked.count.is_some_and(|count| looks >= count) {
            return Ok(());
        }
        tokio::time::sleep(asked.interval).await;
    }
}

fn text(change: &Change) -> String {
    let held = |found: &Found| {
        if found.holders.is_empty() {
            return format!("at {}", found.holds_text());
        }
        let left = found.lease_ms.map_or("no expiry".to_owned(), |left| {
            format!("{} left", short(Duration::from_millis(left)))
        });
        format!("by {}, {left}", found.holder())
    };
    match change {
        Change::Held { lock } => format!("held    {} ({}) {}", lock.name, lock.kind, held(lock)),
        Change::Changed { from, to } => {
            format!(
                "changed {} ({}) {}, before by {}",
                to.name,
                to.kind,
                held(to),
                from.holder()
            )
        }
        Change::Free { name } => format!("free    {name}"),
    }
}

fn wall_time() -> String {
    #[expect(clippy::disallowed_methods, reason = "people and logs have this clock")]
    let now = SystemTime::now();
    humantime::format_rfc3339_millis(now).to_string()
}
