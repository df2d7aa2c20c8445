//! The process that made a client.
//!
//! A fork copies the memory of a client. Both processes then have its sockets, but only the parent
//! has its threads. Bytes that the child sent would be mixed with those of the parent, and nobody
//! in the child would read the reply. So a client works only in the process that made it. In a
//! child it fails before it sends anything, and before it waits for another thread.

use forkguard::Guard;

/// A process. `pthread_atfork` distinguishes it from its forks. A fork by a raw system call is not
/// detected.
#[derive(Clone, Debug)]
pub struct Process(Guard);

impl Process {
    /// The current process.
    pub fn this() -> Self {
        Process(forkguard::new())
    }

    /// True in the process that made this value, and false in its forks.
    pub fn is_this(&self) -> bool {
        // A clone, because the guard itself would report a fork only once.
        !self.0.clone().detected_fork()
    }
}
