//! How futures are kept: a task that ends with its owner, and a future that seldom runs.

use std::pin::Pin;

use tokio::task::JoinHandle;

/// Puts a future that seldom runs on the heap, at the moment when it runs.
///
/// A future has space for every future that it may ever await, and a client may have ten thousand
/// waiters. So what most of them never await, or only for a moment, must not be part of them.
pub fn rarely<F: Future>(work: F) -> Pin<Box<F>> {
    Box::pin(work)
}

/// A task that ends when this is dropped.
#[derive(Debug)]
pub struct AbortOnDrop<T>(pub JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
