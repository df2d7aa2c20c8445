//! The waiters of a queue.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::waiter::Waiter;

/// Waiters in the order in which they came. Most queues have none or one, which take no memory of
/// their own.
#[derive(Default)]
pub(super) enum Waiters {
    #[default]
    None,
    One(Arc<Waiter>),
    /// By id, which is the order in which they came.
    #[expect(clippy::box_collection, reason = "it is rare, and queues are many")]
    Several(Box<BTreeMap<u64, Arc<Waiter>>>),
}

impl Waiters {
    pub(super) fn insert(&mut self, waiter: Arc<Waiter>) {
        *self = match std::mem::take(self) {
            Waiters::None => Waiters::One(waiter),
            Waiters::One(one) => {
                let both = [one, waiter].map(|waiter| (waiter.id, waiter));
                Waiters::Several(Box::new(BTreeMap::from(both)))
            }
            Waiters::Several(mut waiters) => {
                waiters.insert(waiter.id, waiter);
                Waiters::Several(waiters)
            }
        };
    }

    pub(super) fn remove(&mut self, waiter: &Waiter) {
        match self {
            Waiters::One(one) if one.id == waiter.id => *self = Waiters::None,
            Waiters::Several(waiters) => {
                waiters.remove(&waiter.id);
                self.shrink();
            }
            Waiters::None | Waiters::One(_) => {}
        }
    }

    pub(super) fn first(&self) -> Option<&Arc<Waiter>> {
        self.iter().next()
    }

    pub(super) fn pop_first(&mut self) -> Option<Arc<Waiter>> {
        let first = self.first()?.clone();
        self.remove(&first);
        Some(first)
    }

    /// Takes those that began to wait before `then`.
    pub(super) fn take_older(&mut self, then: Instant) -> Vec<Arc<Waiter>> {
        let older = self.iter().filter(|waiter| waiter.since < then);
        let older: Vec<_> = older.cloned().collect();
        for waiter in &older {
            self.remove(waiter);
        }
        older
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Waiter>> {
        let (one, several) = match self {
            Waiters::None => (None, None),
            Waiters::One(one) => (Some(one), None),
            Waiters::Several(waiters) => (None, Some(waiters.values())),
        };
        one.into_iter().chain(several.into_iter().flatten())
    }

    /// Those that came before this one, the last one first.
    pub(super) fn before(&self, waiter: &Waiter) -> impl Iterator<Item = &Arc<Waiter>> {
        let several = match self {
            Waiters::Several(waiters) => Some(waiters.range(..waiter.id).rev()),
            Waiters::None | Waiters::One(_) => None,
        };
        several.into_iter().flatten().map(|(_, before)| before)
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Waiters::None => 0,
            Waiters::One(_) => 1,
            Waiters::Several(waiters) => waiters.len(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An empty map would keep its memory.
    fn shrink(&mut self) {
        if self.is_empty() {
            *self = Waiters::None;
        }
    }
}
