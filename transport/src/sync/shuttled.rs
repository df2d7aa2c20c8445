//! The API of `sync.rs` on top of shuttle's locks and atomics.

use std::sync::atomic::Ordering;
use std::task::Waker;

pub use shuttle::sync::MutexGuard;
pub use shuttle::sync::atomic::{AtomicU64, AtomicUsize};

const UNPOISONED: &str = "a panic ends the model";

/// A mutex without poisoning.
#[derive(Debug, Default)]
pub struct ShuttleMutex<T>(shuttle::sync::Mutex<T>);

impl<T> ShuttleMutex<T> {
    /// Makes an unlocked mutex.
    pub fn new(value: T) -> Self {
        ShuttleMutex(shuttle::sync::Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().expect(UNPOISONED)
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }

    /// The value, which nobody else can have.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().expect(UNPOISONED)
    }
}

/// The real `AtomicWaker`, which needs no model because it never blocks. Other threads may run
/// before and after each call.
#[derive(Debug, Default)]
pub struct AtomicWaker(futures_util::task::AtomicWaker);

impl AtomicWaker {
    /// Creates an `AtomicWaker` without a waker.
    pub fn new() -> Self {
        AtomicWaker::default()
    }

    /// Stores the waker of a task.
    pub fn register(&self, waker: &Waker) {
        step();
        self.0.register(waker);
        step();
    }

    /// Wakes the task.
    pub fn wake(&self) {
        step();
        self.0.wake();
        step();
    }
}

/// Lets another thread run here.
pub(crate) fn step() {
    shuttle::sync::atomic::AtomicBool::new(false).store(true, Ordering::SeqCst);
}
