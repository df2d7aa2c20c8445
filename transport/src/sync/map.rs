//! The map of `dashmap`, with a count of the locks that the thread holds. Entries are independent,
//! and each shard of the names has its own lock.

use std::borrow::Borrow;
use std::hash::{BuildHasher as _, Hash};
use std::sync::LazyLock;

use dashmap::DashMap;
use dashmap::Entry;
use dashmap::mapref::one::{Ref, RefMut};
use foldhash::fast::RandomState;

use super::{CountedGuard, Held};

/// A hash for a name that is looked up again and again. Its seed is random.
pub fn hash_of(name: &impl Hash) -> u64 {
    static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::default);
    SEED.hash_one(name)
}

/// A map with independent entries by name.
#[derive(Debug)]
pub struct Map<K: Eq + Hash, V>(DashMap<K, V, RandomState>);

/// A locked entry. A thread may hold one at a time.
pub(crate) type Locked<'a, K, V> = CountedGuard<Ref<'a, K, V>>;
pub(crate) type LockedMut<'a, K, V> = CountedGuard<RefMut<'a, K, V>>;

impl<K: Eq + Hash + Clone, V> Map<K, V> {
    /// Locks the entry with this name.
    pub fn get<Q>(&self, name: &Q) -> Option<Locked<'_, K, V>>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.0.get(name).map(CountedGuard::new)
    }

    /// Locks the entry with this name to change it.
    pub fn get_mut<Q>(&self, name: &Q) -> Option<LockedMut<'_, K, V>>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.0.get_mut(name).map(CountedGuard::new)
    }

    /// Locks the entry with this name, and makes it if it is missing.
    pub fn get_or_insert_with(&self, name: &K, make: impl FnOnce() -> V) -> LockedMut<'_, K, V> {
        CountedGuard::new(self.0.entry(name.clone()).or_insert_with(make))
    }

    /// Changes the entry with this name, if there is one, and removes it if the second result of
    /// the change says so. The entry is locked during that call.
    pub fn change<T>(&self, name: &K, change: impl FnOnce(&mut V) -> (T, bool)) -> Option<T> {
        let held = Held::counted();
        let Entry::Occupied(mut entry) = self.0.entry(name.clone()) else {
            return None;
        };
        let (result, is_over) = change(entry.get_mut());
        // Dropped once nothing is locked.
        let removed = is_over.then(|| entry.remove());
        drop(held);
        drop(removed);
        Some(result)
    }

    /// Collects a value from each entry, in no particular order. Each entry is locked while `pick`
    /// looks at it.
    pub fn collect<T>(&self, mut pick: impl FnMut(&K, &V) -> Option<T>) -> Vec<T> {
        let _held = Held::counted();
        self.0
            .iter()
            .filter_map(|entry| pick(entry.key(), entry.value()))
            .collect()
    }

    /// The sum of what each entry counts. Each entry is locked while `number` looks at it.
    pub fn sum(&self, number: impl Fn(&V) -> usize) -> usize {
        let _held = Held::counted();
        self.0.iter().map(|entry| number(entry.value())).sum()
    }

    /// Removes the entries for which `keeps` is false.
    pub fn retain(&self, mut keeps: impl FnMut(&V) -> bool) {
        let _held = Held::counted();
        self.0.retain(|_, value| keeps(value));
    }

    /// The number of entries.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

impl<K: Eq + Hash, V> Default for Map<K, V> {
    fn default() -> Self {
        Map(DashMap::default())
    }
}
