//! Helpers for tests with threads.

use std::fmt::Debug;
use std::thread;

use leasehold::Error;
use leasehold::blocking::{Client, Guard};
use leasehold_testbed::{SOON, wait_until};

/// Expects a wait to fail. Tries once more if a stalled machine lost the last reply.
pub(crate) fn in_vain<T: Debug>(wait: impl Fn() -> Result<T, Error>) {
    wait_until("a wait is answered", SOON, || {
        let error = wait().expect_err("it is held");
        assert!(error.is_timeout() || error.may_be_held(), "{error}");
        error.is_timeout()
    });
}

/// Waits until this many threads and tasks of a client wait for a lock.
pub(crate) fn until_waiting(client: &Client, waiters: u64) {
    wait_until("all queued", SOON, || client.stats().waiting == waiters);
}

/// Waits for a renewal, which moves the deadline.
pub(crate) fn until_renewed(guard: &Guard) {
    let first = guard.deadline();
    wait_until("renewed", SOON, || guard.deadline() > first);
    guard.check().expect("held");
}

/// Runs `work` on another thread and returns its result.
pub(crate) fn on_another_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join().expect("no panic"))
}
