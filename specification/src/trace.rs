//! Whether what clients did is something that the plain lock of the specification allows.
//!
//! A history has what clients sent, what was answered, and until when they trusted their holds.
//! What Redis did in between is not seen. So [`Replay`] keeps every state in which the model can
//! be, and carries out calls that are on their way where that explains a reply. A step that is
//! possible in none of these states is wrong.
//!
//! It judges each key by itself, of every kind of lock that has one holder: re-entrant, fair,
//! fenced, string, and each lock of a multi or quorum lock. An acquisition may be refused at any
//! time, because others may be queued before it. Locks with several holders, and permits, are
//! judged by what their holders may trust (`shared.rs`).
//!
//! # What it cannot judge
//!
//! What a server may have forgotten is forgotten in some of the states ([`Said::Forgets`]). While
//! two servers may answer, replies are believed ([`Said::Replaced`]). So are they for the longest
//! lease after calls that the model does not have ([`Said::Unmodelled`]): releases by force, and
//! holds that are forgotten. What clients do by themselves is judged all the same: fields,
//! deadlines, hand-overs.

pub mod coverage;
mod reader;
mod recorder;
mod replay;
mod shared;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use coverage::Transition;
pub use recorder::Recorder;
use replay::Replay;
use shared::Shared;

use crate::plain::Span;

/// Longer than any run, in milliseconds. Sums of it fit.
const FOR_EVER: Span = Span::MAX / 4;

/// What happened to one key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Nanoseconds of a clock that all clients share.
    pub at: u64,
    /// Who did it.
    pub client: u32,
    /// Which of several independent servers.
    #[serde(default)]
    pub server: u32,
    /// The key of the lock.
    pub key: String,
    /// What it was.
    #[serde(flatten)]
    pub said: Said,
}

/// What a client said about a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "said", rename_all = "snake_case")]
pub enum Said {
    /// A call was sent, or may have been.
    Sent {
        /// The number of the call. Each field of a call has one of its own.
        call: u64,
        /// What it asks for.
        kind: Asked,
        /// The field of the hold.
        field: String,
        /// The lease that it asks for, in milliseconds.
        lease: Span,
        /// The write hold under which it reads, if any.
        #[serde(default)]
        under: String,
    },
    /// The reply came: the lock was granted, or the field was there.
    Answered {
        /// The number of the call.
        call: u64,
        /// What the reply was.
        answer: Answer,
    },
    /// The call was not carried out, and never will be.
    NotRun {
        /// The number of the call.
        call: u64,
    },
    /// A hold is trusted for a while.
    Trusted {
        /// The number of the hold in its client.
        hold: u64,
        /// The field of the hold.
        field: String,
        /// The end of the trust, in nanoseconds.
        until: u64,
    },
    /// The server may lose what it has, or its clock may jump, until this time in nanoseconds.
    Forgets {
        /// The end.
        until: u64,
    },
    /// Another server may take over, and both may answer until this time in nanoseconds.
    Replaced {
        /// The end.
        until: u64,
    },
    /// A hold is forgotten, or restored by its owner. Any client may do so.
    HandedOn {
        /// The field of the hold.
        field: String,
    },
    /// A call that the model does not have.
    Unmodelled,
}

/// Whether the lock was granted, or the field was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It was.
    Yes,
    /// It was not.
    No,
}

/// What a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    /// A lock with one holder.
    Acquire,
    /// The read side of a lock.
    Read,
    /// The write side.
    Write,
    /// Permits.
    Permits,
    /// A longer lease.
    Renew,
    /// To end the hold.
    Release,
}

/// A step that the model does not allow.
#[derive(Debug)]
pub struct Rejected {
    /// The key.
    pub key: String,
    /// The step, and those before it.
    pub steps: Vec<Entry>,
    /// What is wrong with it.
    pub why: &'static str,
}

/// What was judged.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Steps that the model allows.
    pub allowed: usize,
    /// Grants among them.
    pub grants: usize,
    /// Grants whose reply was believed, because a server may have lost data.
    pub believed: usize,
    /// What the acquisitions have gone through.
    pub walked: BTreeSet<Transition>,
    /// The most states in which the model could be at a time.
    pub states: usize,
    /// The first wrong step of each key.
    pub rejected: Vec<Rejected>,
}

/// Judges a history. `noise` is by how much the clocks of servers and clients may differ within a
/// lease, in milliseconds.
pub fn judge(mut history: Vec<Entry>, noise: Span) -> Verdict {
    history.sort_by_key(|entry| entry.at);
    let mut keys: BTreeMap<(u32, String), Vec<Entry>> = BTreeMap::new();
    for entry in history {
        let key = (entry.server, entry.key.clone());
        keys.entry(key).or_default().push(entry);
    }
    let mut verdict = Verdict::default();
    for ((_, key), entries) in keys {
        let wrong = if entries.iter().any(Entry::is_of_several) {
            let mut shared = Shared::of(noise);
            let wrong = first_wrong(&entries, |entry| shared.step(entry));
            verdict.grants += shared.grants;
            verdict.believed += shared.believed;
            wrong
        } else {
            let mut replay = Replay::of(&entries, noise);
            let wrong = first_wrong(&entries, |entry| replay.step(entry));
            verdict.grants += replay.grants;
            verdict.believed += replay.believed;
            verdict.walked.append(&mut replay.walked);
            verdict.states = verdict.states.max(replay.most);
            wrong
        };
        verdict.allowed += wrong.map_or(entries.len(), |(at, _)| at);
        verdict.rejected.extend(wrong.map(|(at, why)| {
            let steps = entries[at.saturating_sub(30)..=at].to_vec();
            Rejected { key, steps, why }
        }));
    }
    verdict
}

/// The first entry that is wrong, and why.
fn first_wrong(
    entries: &[Entry],
    mut step: impl FnMut(&Entry) -> Result<(), &'static str>,
) -> Option<(usize, &'static str)> {
    entries.iter().enumerate().find_map(|(at, entry)| {
        let step = step(entry);
        step.err().map(|why| (at, why))
    })
}

impl Entry {
    /// Several may have such a lock, or such permits.
    fn is_of_several(&self) -> bool {
        matches!(
            self.said,
            Said::Sent {
                kind: Asked::Read | Asked::Write | Asked::Permits,
                ..
            }
        )
    }
}

impl Verdict {
    /// What is not allowed, in words.
    pub fn disallowed(&self) -> Option<String> {
        let told = self
            .rejected
            .iter()
            .map(|rejected| format!("not allowed: {rejected}"));
        let told: String = told.collect();
        (!told.is_empty()).then_some(told)
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.key, self.why)?;
        for Entry {
            at, client, said, ..
        } in &self.steps
        {
            let millis = at / 1_000_000;
            writeln!(f, "  {millis} ms, client {client}: {said:?}")?;
        }
        Ok(())
    }
}

/// What one client said about one key, for tests.
#[cfg(test)]
fn at(millis: u64, said: Said) -> Entry {
    let (client, server, key) = (1, 0, "key".to_owned());
    Entry {
        at: millis * 1_000_000,
        client,
        server,
        key,
        said,
    }
}
