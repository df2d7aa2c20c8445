//! Locks, wake-ups, and calls of foreign code.
//!
//! # Invariants
//!
//! - **FOREIGN-1** No foreign code runs while a lock of this crate or of `leasehold` is held: no
//!   waker, no recorder or subscriber, no function of the user, and no drop of what they provide.
//!   Such code may re-enter the crate and take the same lock. Call it through [`call_out`], which
//!   also catches its panics.
//!
//! All locks of both crates come from this module (`tests/architecture`). In debug builds with the
//! feature `test-util`, each thread counts the locks that it holds, and [`call_out`] panics if
//! there is one. So every test checks the rule.
//!
//! With `--cfg shuttle`, the tests use locks and atomics that may switch to another thread wherever
//! the system might: those of `sync/shuttled.rs`.

mod map;
#[cfg(all(test, shuttle))]
pub(crate) mod shuttled;

#[cfg(all(debug_assertions, feature = "test-util"))]
use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::futures::Notified;

#[cfg(not(all(test, shuttle)))]
pub use self::counted::{AtomicU64, AtomicUsize, AtomicWaker, Mutex, MutexGuard};
#[cfg(all(test, shuttle))]
pub use self::shuttled::{AtomicU64, AtomicUsize, AtomicWaker, MutexGuard, ShuttleMutex as Mutex};

pub use map::{Map, hash_of};

/// Calls foreign code (FOREIGN-1). `None` if that code panics.
pub fn call_out<T>(code: impl FnOnce() -> T) -> Option<T> {
    no_lock_is_held();
    catch_unwind(AssertUnwindSafe(code)).ok()
}

/// Asserts that foreign code may be called here (FOREIGN-1).
///
/// # Panics
///
/// In debug builds with the feature `test-util`, if this thread holds a lock.
#[inline]
pub fn no_lock_is_held() {
    #[cfg(all(debug_assertions, feature = "test-util"))]
    assert_eq!(LOCKS.get(), 0, "BUG: foreign code is called under a lock");
}

/// tokio's `Notify`. It wakes through [`call_out`], because wakers are foreign code.
#[derive(Debug, Default)]
pub struct Notify(tokio::sync::Notify);

impl Notify {
    /// Creates a `Notify` without waiters.
    pub fn new() -> Self {
        Notify::default()
    }

    /// Waits for a notification.
    pub fn notified(&self) -> Notified<'_> {
        self.0.notified()
    }

    /// Wakes one waiter, or the next one that comes.
    pub fn notify_one(&self) {
        call_out(|| self.0.notify_one());
    }

    /// Wakes all waiters.
    pub fn notify_waiters(&self) {
        call_out(|| self.0.notify_waiters());
    }
}

#[cfg(all(debug_assertions, feature = "test-util"))]
thread_local! {
    /// How many locks of this crate the current thread holds.
    static LOCKS: Cell<u32> = const { Cell::new(0) };
}

/// Counts one lock that this thread holds.
#[derive(Debug)]
struct Held(());

impl Held {
    #[inline]
    fn counted() -> Self {
        #[cfg(all(debug_assertions, feature = "test-util"))]
        LOCKS.set(LOCKS.get() + 1);
        Held(())
    }
}

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        #[cfg(all(debug_assertions, feature = "test-util"))]
        LOCKS.set(LOCKS.get() - 1);
    }
}

/// The guard of a lock. It counts as a held lock until it is dropped.
#[derive(Debug)]
pub struct CountedGuard<G> {
    guard: G,
    _held: Held,
}

impl<G> CountedGuard<G> {
    #[inline]
    fn new(guard: G) -> Self {
        CountedGuard {
            guard,
            _held: Held::counted(),
        }
    }
}

impl<G: Deref> Deref for CountedGuard<G> {
    type Target = G::Target;

    #[inline]
    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for CountedGuard<G> {
    #[inline]
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

/// Atomics, and the locks of `parking_lot`, which count the locks that a thread holds.
#[cfg(not(all(test, shuttle)))]
mod counted {
    pub use std::sync::atomic::{AtomicU64, AtomicUsize};

    pub use futures_util::task::AtomicWaker;

    use super::CountedGuard;

    /// The guard of a locked mutex.
    pub type MutexGuard<'a, T> = CountedGuard<parking_lot::MutexGuard<'a, T>>;

    /// A mutex without poisoning.
    #[derive(Debug, Default)]
    pub struct Mutex<T>(parking_lot::Mutex<T>);

    impl<T> Mutex<T> {
        /// Makes an unlocked mutex.
        pub fn new(value: T) -> Self {
            Mutex(parking_lot::Mutex::new(value))
        }

        /// Waits for the lock.
        #[inline]
        pub fn lock(&self) -> MutexGuard<'_, T> {
            CountedGuard::new(self.0.lock())
        }

        /// Takes the lock if it is free.
        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().map(CountedGuard::new)
        }

        /// The value, which nobody else can have.
        pub fn get_mut(&mut self) -> &mut T {
            self.0.get_mut()
        }
    }
}
