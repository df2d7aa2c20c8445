//! The replicas of the engine: how many follow, and what the others have.

use super::store::Keys;

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
