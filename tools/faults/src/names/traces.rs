//! The channels and keys that the server keeps after all names were released.

use std::time::{Duration, Instant};
use std::{iter, thread};

use leasehold_testbed::{Connection, Reply, Server};
use serde::Serialize;

use super::visit::is_semaphore;

/// The resources that the server uses.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Footprint {
    /// Used memory in bytes.
    pub(super) memory: u64,
    /// All keys. Expired keys that Redis has not deleted yet are included.
    pub(super) keys: u64,
    /// Connected clients, without the connection that asks.
    pub(super) clients: u64,
}

impl Footprint {
    pub(super) fn of(server: &Server) -> Self {
        let info = server.command(&["INFO"]).text();
        let number = |name: &str| {
            let rest = info.lines().find_map(|line| line.strip_prefix(name));
            let digits = rest.map(|rest| rest.split(',').next().unwrap_or(rest).trim());
            digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
        };
        Footprint {
            memory: number("used_memory:"),
            keys: number("db0:keys="),
            clients: number("connected_clients:") - 1,
        }
    }
}

/// Name and version of the server, for the report.
pub(super) fn version(server: &Server) -> String {
    let info = server.command(&["INFO", "server"]).text();
    let field = |name: &str| {
        info.lines()
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
    };
    match (field("valkey_version:"), field("redis_version:")) {
        (Some(version), _) => format!("Valkey {version}"),
        (None, version) => format!("Redis {}", version.unwrap_or("?")),
    }
}

/// Channels and keys that exist although no client holds or waits for a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Traces {
    pub(super) channels: u64,
    pub(super) patterns: u64,
    /// Keys `redisson_lock_token:…`. They must stay: docs/operations.md.
    pub(super) fence_counters: u64,
    /// Counters of semaphores that have all their permits. They must stay: docs/operations.md.
    pub(super) semaphores: u64,
    /// Keys `leasehold_reply:…`. They expire within [`REPLY`]: docs/operations.md.
    pub(super) replies: u64,
    /// The first keys that must not exist: any other key, and semaphores that lack a permit.
    pub(super) others: Vec<String>,
    pub(super) others_total: u64,
}

/// The channel of a living client, which hears there of forced releases.
const OF_CLIENT: &str = "leasehold_client:{";
const FENCE_COUNTER: &str = "redisson_lock_token:{";
const REPLY_PREFIX: &str = "leasehold_reply:{";
const REPLY: Duration = Duration::from_secs(30);
/// The reply to PTTL for a key that does not exist any more.
const GONE: i64 = -2;
const OTHERS_SHOWN: usize = 10;

impl Traces {
    /// Waits until everything that must go is gone, at most until `limit` after `since`. Replies
    /// may stay if they expire later than that.
    pub(super) fn after_waiting(server: &Server, since: Instant, limit: Duration) -> Self {
        let waits_for_replies = limit > REPLY;
        loop {
            let is_last = since.elapsed() >= limit;
            let traces = Traces::of(server);
            let must_go = traces.channels + traces.patterns + traces.others_total;
            let may_go = if waits_for_replies { traces.replies } else { 0 };
            if must_go + may_go == 0 || is_last {
                return traces;
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn of(server: &Server) -> Self {
        let channels = server.command(&["PUBSUB", "CHANNELS"]);
        let of_a_name = |channel: &&Reply| !channel.text().starts_with(OF_CLIENT);
        let mut traces = Traces {
            channels: channels.array().iter().filter(of_a_name).count() as u64,
            patterns: number(&server.command(&["PUBSUB", "NUMPAT"])),
            ..Traces::default()
        };
        let mut connection = server.connection();
        let mut cursor = "0".to_owned();
        loop {
            let page = ask(&mut connection, &["SCAN", &cursor, "COUNT", "10000"]);
            let keys: Vec<_> = page.array()[1].array().iter().map(Reply::text).collect();
            let (semaphores, others): (Vec<_>, Vec<_>) =
                keys.into_iter().partition(|key| is_semaphore(key));
            traces.add_semaphores(&mut connection, &semaphores);
            for key in others {
                traces.add(&mut connection, &key);
            }
            cursor = page.array()[0].text();
            if cursor == "0" {
                return traces;
            }
        }
    }

    fn add(&mut self, connection: &mut Connection, key: &str) {
        if key.starts_with(FENCE_COUNTER) {
            self.fence_counters += 1;
            return;
        }
        let expiry = ask(connection, &["PTTL", key]).int();
        if expiry == GONE {
            return;
        }
        let millis = u64::try_from(expiry).ok().map(Duration::from_millis);
        if key.starts_with(REPLY_PREFIX) && millis.is_some_and(|left| left <= REPLY) {
            self.replies += 1;
            return;
        }
        self.add_other(format!("{key} (PTTL {expiry})"));
    }

    fn add_semaphores(&mut self, connection: &mut Connection, keys: &[String]) {
        if keys.is_empty() {
            return;
        }
        let words: Vec<_> = iter::once("MGET")
            .chain(keys.iter().map(String::as_str))
            .collect();
        for (key, number) in keys.iter().zip(ask(connection, &words).array()) {
            if *number == Reply::Bulk(b"1".into()) {
                self.semaphores += 1;
            } else {
                self.add_other(format!("{key} ({number:?})"));
            }
        }
    }

    fn add_other(&mut self, text: String) {
        self.others_total += 1;
        if self.others.len() < OTHERS_SHOWN {
            self.others.push(text);
        }
    }
}

fn number(reply: &Reply) -> u64 {
    reply.int().try_into().expect("a count")
}

fn ask(connection: &mut Connection, words: &[&str]) -> Reply {
    connection
        .command(words)
        .expect("no fault is active any more")
}
