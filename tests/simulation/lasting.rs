//! How long a temporary state has lasted.

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
    /// The state holds for these now. Those that are not named start over.
    pub(crate) fn are(&mut self, now: impl IntoIterator<Item = K>) {
        self.are_from(now.into_iter().map(|key| (key, None)));
    }

    /// Like [`are`](Self::are), but each may count from its own instant, which may be in the
    /// future.
    pub(crate) fn are_from(&mut self, now: impl IntoIterator<Item = (K, Option<Instant>)>) {
        let since = |(key, from): (K, Option<Instant>)| {
            let since = self.0.get(&key).copied().unwrap_or_else(Instant::now);
            (key, from.map_or(since, |from| since.max(from)))
        };
        self.0 = now.into_iter().map(since).collect();
    }

    /// Reports what has lasted for longer than allowed.
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
