//! Locks as they are shown: the columns of the tables, and the fields of the JSON.

use std::time::Duration;

use leasehold::{Holder, LockInfo};
use serde::Serialize;

use crate::output::{Tone, short};

/// A lock that is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) holders: Vec<FoundHolder>,
    /// What is left of the longest lease; none: no expiry.
    pub(crate) lease_ms: Option<u64>,
    /// Waiters in the queue of a fair lock. Those of other kinds are not in Redis.
    pub(crate) waiters: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FoundHolder {
    pub(crate) owner: String,
    pub(crate) holds: u64,
    pub(crate) lease_ms: Option<u64>,
}

impl From<LockInfo> for Found {
    fn from(lock: LockInfo) -> Self {
        let is_fair = lock.kind == leasehold::LockKind::Fair;
        Found {
            name: lock.key,
            kind: lock.kind.to_string(),
            holders: lock.holders.into_iter().map(FoundHolder::from).collect(),
            lease_ms: lock.lease.map(ms),
            waiters: is_fair.then_some(lock.queue),
        }
    }
}

impl From<Holder> for FoundHolder {
    fn from(holder: Holder) -> Self {
        let Holder { owner, holds, lease, .. } = holder;
        FoundHolder { owner, holds, lease_ms: lease.map(ms) }
    }
}

impl Found {
    /// The first holder, and how many more.
    pub(crate) fn holder(&self) -> String {
        match self.holders.as_slice() {
            [] => String::new(),
            [one] => one.owner.clone(),
            [first, others @ ..] => format!("{} +{}", first.owner, others.len()),
        }
    }

    pub(crate) fn holds(&self) -> u64 {
        self.holders.iter().map(|holder| holder.holds).sum()
    }

    pub(crate) fn waiters(&self) -> String {
        self.waiters.map_or("-".to_owned(), |waiters| waiters.to_string())
    }
}

/// A lease that is nearly over, or has no end, is to be looked at.
pub(crate) fn lease(lease_ms: Option<u64>) -> (String, Tone) {
    match lease_ms {
        None => ("no expiry".to_owned(), Tone::Warning),
        Some(left) if left < 3_000 => (short(Duration::from_millis(left)), Tone::Warning),
        Some(left) => (short(Duration::from_millis(left)), Tone::Good),
    }
}

fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
