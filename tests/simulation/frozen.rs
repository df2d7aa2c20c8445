//! When each process was frozen. Its lateness is excused for that time and no longer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// From when to when; it may last.
type Span = (Instant, Option<Instant>);

#[derive(Clone, Default)]
pub(crate) struct Frozen(Arc<Mutex<BTreeMap<usize, Vec<Span>>>>);

impl Frozen {
    pub(crate) fn freezes(&self, process: usize) {
        self.0
            .lock()
            .entry(process)
            .or_default()
            .push((Instant::now(), None));
    }

    pub(crate) fn thaws(&self, process: usize) {
        let mut all = self.0.lock();
        let open = all.get_mut(&process).and_then(|spans| spans.last_mut());
        if let Some((_, to @ None)) = open {
            *to = Some(Instant::now());
        }
    }

    /// For how much of the time since then the process was frozen.
    pub(crate) fn since(&self, process: usize, at: Instant) -> Duration {
        let now = Instant::now();
        let part = |(from, to): &Span| to.unwrap_or(now).saturating_duration_since(at.max(*from));
        self.0
            .lock()
            .get(&process)
            .into_iter()
            .flatten()
            .map(part)
            .sum()
    }

    /// True if the process is frozen or was a moment ago.
    pub(crate) fn lately(&self, process: usize) -> bool {
        let moment = Duration::from_millis(60);
        Instant::now()
            .checked_sub(moment)
            .is_some_and(|at| !self.since(process, at).is_zero())
    }
}
