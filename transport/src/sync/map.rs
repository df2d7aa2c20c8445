//! The map of `dashmap`, with a count of the locks that the thread holds. Entries are independent,
//! and each shard of the names has its own lock.

use std::sync::Arc;

use dashmap::DashMap;
use dashmap::mapref::one::{Ref, RefMut};

use super::{Guard, Held};

/// A map with independent entries by name.
#[derive(Debug)]
pub struct Map<V>(DashMap<Arc<str>, V>);

/// A locked entry. A thread may hold one at a time.
pub(crate) type Entry<'a, V> = Guard<Ref<'a, Arc<str>, V>>;
pub(crate) type EntryMut<'a, V> = Guard<RefMut<'a, Arc<str>, V>>;

impl<V> Map<V> {
    /// Locks the entry with this name.
    pub fn get(&self, name: &str) -> Option<Entry<'_, V>> {
        self.0.get(name).map(Guard::new)
    }

    /// Locks the entry with this name to change it.
    pub fn get_mut(&self, name: &str) -> Option<EntryMut<'_, V>> {
        self.0.get_mut(name).map(Guard::new)
    }

    /// Locks the entry with this name, and makes it if it is missing.
    pub fn get_or_insert_with(&self, name: &Arc<str>, make: impl FnOnce() -> V) -> EntryMut<'_, V> {
        Guard::new(self.0.entry(name.clone()).or_insert_with(make))
    }

    /// Removes an entry if `is_over` says so. The entry is locked during that call.
    pub fn remove_if(&self, name: &str, is_over: impl FnOnce(&V) -> bool) {
        let held = Held::one();
        let removed = self.0.remove_if(name, |_, value| is_over(value));
        drop(held);
        drop(removed);
    }

    /// Collects a value from each entry, in no particular order. Each entry is locked while `of`
    /// looks at it.
    pub fn collect<T>(&self, mut of: impl FnMut(&Arc<str>, &V) -> Option<T>) -> Vec<T> {
        let _held = Held::one();
        self.0
            .iter()
            .filter_map(|entry| of(entry.key(), entry.value()))
            .collect()
    }

    /// Removes the entries for which `keeps` is false.
    pub fn retain(&self, mut keeps: impl FnMut(&V) -> bool) {
        let _held = Held::one();
        self.0.retain(|_, value| keeps(value));
    }

    /// The number of entries.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

impl<V> Default for Map<V> {
    fn default() -> Self {
        Map(DashMap::new())
    }
}
