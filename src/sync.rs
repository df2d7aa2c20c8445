//! What the threads of a connection share, under one name, so that a model can take it over: with
//! `--cfg shuttle` the tests of this crate get locks and atomics that hand over to another thread
//! wherever the system might, see `transport/redis/tests/model.rs`. Otherwise these are re-exports.

#[cfg(not(all(test, shuttle)))]
pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize};

#[cfg(not(all(test, shuttle)))]
pub(crate) use futures::task::AtomicWaker;
#[cfg(not(all(test, shuttle)))]
pub(crate) use parking_lot::{Mutex, RwLock};

#[cfg(all(test, shuttle))]
pub(crate) use self::model::{AtomicWaker, Mutex, RwLock, step};
#[cfg(all(test, shuttle))]
pub(crate) use shuttle::sync::atomic::{AtomicU64, AtomicUsize};

/// The same calls over those of shuttle.
#[cfg(all(test, shuttle))]
mod model {
    use std::sync::atomic::Ordering;
    use std::task::Waker;

    use shuttle::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

    const UNPOISONED: &str = "a panic ends the model";

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Mutex(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect(UNPOISONED)
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }

        #[cfg(feature = "fred")]
        pub(crate) fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().expect(UNPOISONED)
        }
    }

    #[derive(Debug, Default)]
    pub(crate) struct RwLock<T>(shuttle::sync::RwLock<T>);

    impl<T> RwLock<T> {
        pub(crate) fn new(value: T) -> Self {
            RwLock(shuttle::sync::RwLock::new(value))
        }

        pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().expect(UNPOISONED)
        }

        pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().expect(UNPOISONED)
        }
    }

    /// The real one, which does not block; others may run before and after.
    #[derive(Debug, Default)]
    pub(crate) struct AtomicWaker(futures::task::AtomicWaker);

    impl AtomicWaker {
        pub(crate) fn new() -> Self {
            AtomicWaker::default()
        }

        pub(crate) fn register(&self, waker: &Waker) {
            step();
            self.0.register(waker);
            step();
        }

        pub(crate) fn wake(&self) {
            step();
            self.0.wake();
            step();
        }
    }

    /// Another thread may run here.
    pub(crate) fn step() {
        shuttle::sync::atomic::AtomicBool::new(false).store(true, Ordering::SeqCst);
    }
}
