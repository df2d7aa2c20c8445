//! The engine's switches and inspection for this crate's own tests; no promise of stability.

use std::collections::BTreeMap;
use std::time::Duration;

use super::EmbeddedRedis;
use super::data::Data;
use super::faults::Activity;
pub use super::faults::{Delay, Direction, Faults, Restart};
use super::number::format_float;
use super::reply::Bytes;
pub use super::reply::{ErrorReply, Reply};
pub use super::resp_server::{ConnectionControl, LinkControl};
use crate::protocol::all_scripts;

/// Name, text and SHA-1 of every script.
pub fn scripts() -> Vec<(&'static str, &'static str, &'static str)> {
    all_scripts().map(|script| (script.name, script.text, script.sha1())).collect()
}

/// A key as it is in the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dumped {
    /// `string`, `hash`, `list` or `zset`.
    pub kind: &'static str,
    /// The rest of its lease in milliseconds.
    pub pttl: Option<i64>,
    /// The string; the elements in order; fields or members each followed by value or score.
    pub content: Vec<Vec<u8>>,
}

impl EmbeddedRedis {
    /// Runs one command, as if a client had sent it; needs no client and knows no faults.
    ///
    /// # Errors
    ///
    /// The error reply of Redis.
    pub fn command<W: AsRef<[u8]>>(&self, words: &[W]) -> Result<Reply, ErrorReply> {
        let words: Vec<Bytes> = words.iter().map(|word| word.as_ref().to_vec()).collect();
        self.engine.command(&words)
    }

    /// Every key, by name.
    pub fn dump(&self) -> BTreeMap<Vec<u8>, Dumped> {
        self.engine.with_store(|store| {
            let now = store.now_ms();
            store
                .live()
                .map(|(key, entry)| {
                    let pttl = entry.expires_at.map(|deadline| (deadline - now).max(0));
                    let kind = entry.data.type_name();
                    (key.clone(), Dumped { kind, pttl, content: content(&entry.data) })
                })
                .collect()
        })
    }

    /// How often each command ran, by clients and by scripts; names in lower case.
    pub fn commands_run(&self) -> BTreeMap<String, u64> {
        self.engine.with_store(|store| store.commands_run.clone())
    }

    /// How often clients ran each script.
    pub fn scripts_run(&self) -> BTreeMap<&'static str, u64> {
        self.engine.scripts_run()
    }

    /// How many connections are subscribed to each channel.
    pub fn listeners(&self) -> BTreeMap<String, usize> {
        self.engine.subscribers()
    }

    /// Executes no request until [`resume`](Self::resume); calls pile up and time out.
    pub fn pause(&self) {
        self.engine.set_activity(Activity::Paused);
    }

    /// Executes the requests that piled up, and goes on.
    pub fn resume(&self) {
        self.engine.set_activity(Activity::Runs);
    }

    /// All connections break and come back; the script cache is empty, and with [`Restart::Empty`] the
    /// keyspace too.
    pub fn restart(&self, data: Restart) {
        self.engine.cut();
        self.engine.forget(data);
        self.engine.heal();
    }

    /// Moves the server's clock, and only that: leases end early.
    pub fn jump_clock(&self, by: Duration) {
        self.engine.jump_clock(by);
    }
}

fn content(data: &Data) -> Vec<Bytes> {
    match data {
        Data::Text(text) => vec![text.clone()],
        Data::List(list) => list.iter().cloned().collect(),
        Data::Hash(hash) => {
            hash.in_order().into_iter().flat_map(|(field, value)| [field, value]).collect()
        }
        Data::Zset(zset) => zset
            .in_order()
            .flat_map(|(score, member)| [member.clone(), format_float(score).into_bytes()])
            .collect(),
    }
}
