//! A task that ends when its owner is dropped.

use tokio::task::JoinHandle;

/// A task that ends when this is dropped.
#[derive(Debug)]
pub struct AbortOnDrop<T>(pub JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
