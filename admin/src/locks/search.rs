//! Searches the keys of all nodes step by step.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use leasehold::Error;
use leasehold::parts::{self, Parts, slot_fault};
use leasehold_transport::{CallError, Lane, NodeId, Value};
use tokio::time::Instant;

use super::scan::{self, Cursor, Look, Publish, Unexpected};
use super::{LockInfo, LockList, mark_own};

/// The number of keys that Redis visits in one step.
const STEP: i64 = 500;
/// The largest number of locks in a list.
const LOCKS_MAX: usize = 10_000;
/// The largest number of steps of one search, for about five million keys.
const STEPS_MAX: usize = 10_000;
/// No step begins after this time. Each step may take as long as any call, so a slow server could
/// take hours.
const SEARCH_MAX: Duration = Duration::from_secs(30);
/// How many looks at keys are in flight.
const LOOKS_AT_ONCE: usize = 100;
/// How often a lock is looked at whose readers change meanwhile.
const LOOKS_MAX: u32 = 2;

/// A key that SCAN returns twice is listed once.
pub(crate) async fn search(parts: &Parts, pattern: &str) -> Result<LockList, Error> {
    let pattern = format!("{}{pattern}", escaped(parts.key_prefix()));
    let search = Search::new(parts, pattern);
    let mut locks: Vec<LockInfo> = Vec::new();
    let mut steps = 0;
    let mut truncated = false;
    let until = Instant::now() + SEARCH_MAX;
    for node in parts.transport().all_nodes() {
        let mut cursor: Cursor = Arc::from("0");
        loop {
            let (next, found) = search.step(node, &cursor).await?;
            locks.extend(found);
            steps += 1;
            cursor = next;
            if &*cursor == "0" {
                break;
            }
            if locks.len() > LOCKS_MAX || steps == STEPS_MAX || Instant::now() >= until {
                truncated = true;
                break;
            }
        }
    }
    locks.sort_by(|left, right| left.bytes.cmp(&right.bytes));
    locks.dedup_by(|left, right| left.bytes == right.bytes);
    truncated |= locks.len() > LOCKS_MAX;
    locks.truncate(LOCKS_MAX);
    for lock in &mut locks {
        mark_own(parts, lock);
    }
    Ok(LockList { locks, truncated })
}

pub(super) struct Search<'a> {
    parts: &'a Parts,
    pattern: String,
    pub(super) publish: Publish,
}

/// Where to continue, and what was found.
type Step = (Cursor, Vec<LockInfo>);

impl<'a> Search<'a> {
    pub(super) fn new(parts: &'a Parts, pattern: String) -> Self {
        Search {
            parts,
            pattern,
            // A channel in the slot of its key, as those of locks are.
            publish: parts.transport().publish_command(|| "x", "x"),
        }
    }

    /// One step on a node. A script does it all, unless the server has refused it.
    async fn step(&self, node: NodeId, cursor: &Cursor) -> Result<Step, Error> {
        if self.parts.transport().wants_declared_keys() {
            return self.step_by_key(node, cursor).await;
        }
        let call = scan::step(cursor, &self.pattern, STEP, self.publish);
        match self.parts.call_node(node, call).await {
            Err(CallError::Refused(fault)) => {
                // Whatever the reason is, the other way works, or tells the reason as well.
                let step = self.step_by_key(node, cursor).await?;
                self.parts.transport().note_search_refused(node, &fault);
                Ok(step)
            }
            reply => self.understood(reply, scan::found),
        }
    }

    /// SCAN, and a call for each key that it has found.
    async fn step_by_key(&self, node: NodeId, cursor: &Cursor) -> Result<Step, Error> {
        let count = STEP.to_string();
        let words = ["SCAN", cursor, "MATCH", &self.pattern, "COUNT", &count];
        let reply = self.parts.command(node, &words.map(str::as_bytes)).await;
        let (next, keys) = self.understood(reply, scan::scanned)?;
        let mut found = Vec::new();
        for keys in keys.chunks(LOOKS_AT_ONCE) {
            let looks = keys.iter().map(|key| Box::pin(self.look(key)));
            found.extend(try_join_all(looks).await?.into_iter().flatten());
        }
        Ok((next, found))
    }

    pub(super) async fn look(&self, key: &Arc<str>) -> Result<Option<LockInfo>, Error> {
        let mut leases: Option<Vec<Arc<str>>> = None;
        for _ in 0..LOOKS_MAX {
            let call = scan::look(key, self.publish, leases.as_deref());
            match self.parts.call(Lane::Caller, call).await {
                // No lock with several keys has such a name, so data may be refused.
                Err(CallError::Refused(_)) if slot_fault(key).is_some() => return Ok(None),
                reply => match self.understood(reply, |reply| Ok(scan::looked(&reply)))? {
                    Look::Data => return Ok(None),
                    Look::Lock(found) => return Ok(Some(found)),
                    Look::Again(keys) => leases = Some(keys),
                },
            }
        }
        Ok(None)
    }

    fn understood<T>(
        &self,
        reply: Result<Value, CallError>,
        read: impl Fn(Value) -> Result<T, Unexpected>,
    ) -> Result<T, Error> {
        let value = reply.map_err(|error| parts::error(&self.pattern, error))?;
        read(value).map_err(|Unexpected(reply)| parts::unexpected(&self.pattern, reply))
    }
}

/// Escapes the special letters of SCAN patterns in a prefix.
fn escaped(prefix: &str) -> String {
    let special = |letter| matches!(letter, '*' | '?' | '[' | ']' | '\\' | '^');
    let mut text = String::with_capacity(prefix.len());
    for letter in prefix.chars() {
        if special(letter) {
            text.push('\\');
        }
        text.push(letter);
    }
    text
}
