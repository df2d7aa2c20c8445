//! Since when something has been so that may be so for a moment only.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use tokio::time::Instant;

use crate::ledger::Ledger;

pub(crate) struct Lasting<K>(BTreeMap<K, Instant>);

impl<K> Default for Lasting<K> {
    fn default() -> Self {
        Lasting(BTreeMap::new())
    }
}

impl<K: Ord + Debug> Lasting<K> {
    /// It is so of these now; what is not named any more begins anew.
    pub(crate) fn are(&mut self, now: impl IntoIterator<Item = K>) {
        self.are_from(now.into_iter().map(|key| (key, None)));
    }

    /// As [`are`](Self::are), where the time of each may begin at a moment of its own, be it later
    /// than now.
    pub(crate) fn are_from(&mut self, now: impl IntoIterator<Item = (K, Option<Instant>)>) {
        let since = |(key, from): (K, Option<Instant>)| {
            let since = self.0.get(&key).copied().unwrap_or_else(Instant::now);
            (key, from.map_or(since, |from| since.max(from)))
        };
        self.0 = now.into_iter().map(since).collect();
    }

    /// Says what has been so for longer than it may.
    pub(crate) fn check(&self, ledger: &Ledger, what: &str, limit: Option<Duration>) {
        let Some(limit) = limit else { return };
        for (key, since) in &self.0 {
            if since.elapsed() > limit {
                let waiters = ledger.wishes();
                let text = format!("{what} {key:?} for {:?}, {waiters:?}", since.elapsed());
                ledger.violation(text);
            }
        }
    }
}
