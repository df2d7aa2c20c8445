//! What a test can see of the engine without a connection.

use std::collections::BTreeMap;

use super::data::Data;
use super::engine::Engine;
use super::number::format_float;
use super::reply::{Bytes, ErrorReply, Reply};

/// A key in the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dumped {
    /// `string`, `hash`, `list` or `zset`.
    pub kind: &'static str,
    /// The milliseconds until it expires.
    pub pttl: Option<i64>,
    /// The string; the elements in order; or fields and members, each followed by its value or
    /// score.
    pub content: Vec<Vec<u8>>,
}

impl Engine {
    /// Runs one command like a client, but without a connection and its faults.
    ///
    /// # Errors
    ///
    /// The error reply of Redis.
    pub fn command<W: AsRef<[u8]>>(&self, words: &[W]) -> Result<Reply, ErrorReply> {
        let words: Vec<Bytes> = words.iter().map(|word| word.as_ref().to_vec()).collect();
        self.execute(&words)
    }

    /// Every key, by name.
    pub fn dump(&self) -> BTreeMap<Vec<u8>, Dumped> {
        self.with_store(|store| {
            let now = store.now_ms();
            store
                .live()
                .map(|(key, entry)| {
                    let pttl = entry.expires_at.map(|deadline| (deadline - now).max(0));
                    let kind = entry.data.type_name();
                    (
                        key.clone(),
                        Dumped {
                            kind,
                            pttl,
                            content: content(&entry.data),
                        },
                    )
                })
                .collect()
        })
    }

    /// How often each command ran, by clients and by scripts. Names in lower case.
    pub fn commands_run(&self) -> BTreeMap<String, u64> {
        self.with_store(|store| store.commands_run.clone())
    }
}

fn content(data: &Data) -> Vec<Bytes> {
    match data {
        Data::Text(text) => vec![text.clone()],
        Data::List(list) => list.iter().cloned().collect(),
        Data::Hash(hash) => hash
            .in_order()
            .into_iter()
            .flat_map(|(field, value)| [field, value])
            .collect(),
        Data::Zset(zset) => zset
            .in_order()
            .flat_map(|(score, member)| [member.clone(), format_float(score).into_bytes()])
            .collect(),
    }
}
