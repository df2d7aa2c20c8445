//! The process that made a client.
//!
//! A fork copies the memory of a client: both processes have its sockets then, and only one has its threads. What the
//! child sent would stand between the bytes of its parent, and nobody in the child would read the answer. So a client
//! works in the process that made it. It fails in a child before it sends anything, and before it waits for another
//! thread.

use forkguard::Guard;

/// A process, told from its forks by `pthread_atfork`. A raw system call that forks is not noticed.
#[derive(Clone, Debug)]
pub(crate) struct Process(Guard);

impl Process {
    pub(crate) fn this() -> Self {
        Process(forkguard::new())
    }

    pub(crate) fn is_this(&self) -> bool {
        // The copy forgets the fork that it has seen.
        !self.0.clone().detected_fork()
    }
}
