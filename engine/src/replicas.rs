//! The replicas of the engine: how many follow, and what the others have. The id of each run of a server.

use std::sync::atomic::{AtomicU64, Ordering};

use super::store::Keys;

/// Each run of a server in this process has another id.
static RUNS: AtomicU64 = AtomicU64::new(1);

/// The id of a run that begins now.
pub(crate) fn next_run() -> u64 {
    RUNS.fetch_add(1, Ordering::Relaxed)
}

pub(crate) struct Replicas {
    /// How many have each write as soon as it is made.
    pub(crate) following: u32,
    /// The keys of the replicas since none follows. `None`: the same as those of the primary.
    pub(crate) behind: Option<Keys>,
}

impl Replicas {
    pub(crate) fn new() -> Self {
        Replicas {
            following: 1,
            behind: None,
        }
    }

    /// Sets how many follow. Replicas that stop following keep `keys`.
    pub(crate) fn follow(&mut self, following: u32, keys: Keys) {
        self.behind = (following == 0).then(|| self.behind.take().unwrap_or(keys));
        self.following = following;
    }
}
