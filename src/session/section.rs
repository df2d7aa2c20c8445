//! Being inside a section: what runs in `guard.run(..)` may take the same locks again.
//!
//! The sections are on a stack of the thread for as long as their future is polled, or their closure runs, so
//! that a lock taken inside finds the hold of the section it is in, and nothing else does: not a task that was
//! spawned there, and not a future that was made there and is first polled elsewhere. The hold outlives what
//! runs inside, because the future or the call around it borrows the guard.

use std::cell::RefCell;
use std::sync::Arc;

use tokio::task;

use super::hold::Hold;

thread_local! {
    static SECTIONS: RefCell<Vec<Section>> = const { RefCell::new(Vec::new()) };
}

struct Section {
    /// Tasks of a `LocalSet` are polled within the section that polls the set, but are not inside.
    task: Option<task::Id>,
    holds: Arc<[Arc<Hold>]>,
}

/// The thread is inside until this is dropped.
pub(crate) struct Inside(());

/// Enters for one poll.
pub(crate) fn enter(holds: &Arc<[Arc<Hold>]>) -> Inside {
    let section = Section {
        task: task::try_id(),
        holds: holds.clone(),
    };
    SECTIONS.with_borrow_mut(|sections| sections.push(section));
    Inside(())
}

impl Drop for Inside {
    fn drop(&mut self) {
        let section = SECTIONS.with_borrow_mut(Vec::pop);
        drop(section);
    }
}

/// The holds of all sections that the running future is inside of, the innermost first.
pub(crate) fn holds() -> Vec<Arc<Hold>> {
    SECTIONS.with_borrow(|sections| {
        if sections.is_empty() {
            return Vec::new();
        }
        let task = task::try_id();
        let inside = sections.iter().rev().filter(|section| section.task == task);
        inside
            .flat_map(|section| section.holds.iter().cloned())
            .collect()
    })
}

#[cfg(all(test, feature = "embedded"))]
mod tests;
