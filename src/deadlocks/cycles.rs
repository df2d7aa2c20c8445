//! Finds cycles in a graph of waiters.

/// The waiters for which each waiter waits, by number.
pub(super) type Edges = Vec<Vec<usize>>;

/// Cycles that have no waiter in common. Without these waiters, the graph has no cycle. Each cycle is in
/// order: each waiter waits for the next one, and the last one for the first.
pub(super) fn cycles(edges: &Edges) -> Vec<Vec<usize>> {
    let mut left = Left::all_of(edges);
    let mut found = Vec::new();
    while let Some(cycle) = left.cycle() {
        for waiter in &cycle {
            left.remove(*waiter);
        }
        found.push(cycle);
    }
    found
}

/// The waiters that may be part of a further cycle: each of them waits for another one of them.
struct Left<'a> {
    edges: &'a Edges,
    /// The opposite edges.
    waited_for_by: Edges,
    /// For how many of the others each one waits; `None` if it cannot be part of a cycle.
    waits_for: Vec<Option<usize>>,
}

impl<'a> Left<'a> {
    fn all_of(edges: &'a Edges) -> Self {
        let mut waited_for_by = vec![Vec::new(); edges.len()];
        for (waiter, others) in edges.iter().enumerate() {
            for other in others {
                waited_for_by[*other].push(waiter);
            }
        }
        let waits_for = edges.iter().map(|others| Some(others.len())).collect();
        let mut left = Left {
            edges,
            waited_for_by,
            waits_for,
        };
        for (waiter, others) in edges.iter().enumerate() {
            if others.is_empty() {
                left.remove(waiter);
            }
        }
        left
    }

    /// Removes a waiter, and all those that waited only for removed ones.
    fn remove(&mut self, waiter: usize) {
        let mut removed = vec![waiter];
        while let Some(waiter) = removed.pop() {
            if self.waits_for[waiter].take().is_none() {
                continue;
            }
            for before in &self.waited_for_by[waiter] {
                if let Some(others) = &mut self.waits_for[*before] {
                    *others -= 1;
                    if *others == 0 {
                        removed.push(*before);
                    }
                }
            }
        }
    }

    /// Goes from one waiter to the next until it meets one again.
    fn cycle(&self) -> Option<Vec<usize>> {
        let is_left = |waiter: &usize| self.waits_for[*waiter].is_some();
        let mut path = vec![(0..self.edges.len()).find(is_left)?];
        let mut at = vec![None; self.edges.len()];
        loop {
            let last = *path.last()?;
            at[last] = Some(path.len() - 1);
            let next = *self.edges[last].iter().find(|other| is_left(other))?;
            if let Some(begin) = at[next] {
                return Some(path.split_off(begin));
            }
            path.push(next);
        }
    }
}
