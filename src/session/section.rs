//! Code that runs inside `guard.run(..)` may re-enter the locks of that guard.
//!
//! While the future of a section is polled, or its closure runs, the section is on a stack of the
//! thread. A lock taken inside finds the section's hold there. Tasks that were spawned inside do
//! not find it, nor do futures that were made inside and are first polled elsewhere. The hold
//! outlives the code inside, because the section borrows the guard.

use std::cell::RefCell;
use std::sync::Arc;

use tokio::task;

use super::hold::Hold;

thread_local! {
    static SECTIONS: RefCell<Vec<Section>> = const { RefCell::new(Vec::new()) };
}

struct Section {
    /// Tasks of a `LocalSet` may be polled while the section is on the stack, but they are not
    /// inside.
    task: Option<task::Id>,
    holds: Arc<[Arc<Hold>]>,
}

/// The thread is inside the section until this is dropped.
pub(crate) struct Inside(());

/// Enters a section for one poll.
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

/// The holds of all sections around the running future, the innermost first.
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
