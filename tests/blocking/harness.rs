//! What threads wait for.

use std::fmt::Debug;
use std::thread;

use leasehold::Error;
use leasehold::blocking::{Client, Guard};
use leasehold_testbed::{SOON, wait_until};

/// Waits in vain. A machine that stalls loses the last answer of a wait: then once more.
pub(crate) fn in_vain<T: Debug>(wait: impl Fn() -> Result<T, Error>) {
    wait_until("a wait is answered", SOON, || {
        let error = wait().expect_err("it is held");
        assert!(error.is_timeout() || error.may_be_held(), "{error}");
        error.is_timeout()
    });
}

/// Waits until so many threads and tasks of a client wait for a lock.
pub(crate) fn until_waiting(client: &Client, waiters: u64) {
    wait_until("they wait", SOON, || client.stats().waiting == waiters);
}

/// Waits for a renewal, which moves the deadline on.
pub(crate) fn until_renewed(guard: &Guard) {
    let first = guard.deadline();
    wait_until("it is renewed", SOON, || guard.deadline() > first);
    guard.check().expect("it is held");
}

/// What `work` gives on a thread of its own.
pub(crate) fn on_another_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join().expect("no panic"))
}
