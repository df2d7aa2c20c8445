//! Who calls: a task, or a thread that runs no task.

use std::thread::{self, ThreadId};

use tokio::task;

/// The work that waits as one while a call of it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Caller {
    Task(task::Id),
    /// `block_on` runs its future outside of all tasks.
    Thread(ThreadId),
}

impl Caller {
    pub(crate) fn current() -> Self {
        task::try_id().map_or_else(|| Caller::Thread(thread::current().id()), Caller::Task)
    }
}
