//! Helpers for tests with threads.

use std::time::Duration;

use leasehold::blocking::Client;
use leasehold::{Error, Lease, Lock, LockGuard};
use leasehold_testbed::{Bed, SOON, wait_until};
use tokio::runtime::{Builder, Runtime};

/// A client for threads, without polls.
pub(crate) fn client(bed: &Bed) -> Client {
    Client::connect(bed.without_polls().connect()).expect("a client")
}

pub(crate) fn client_with_lease(bed: &Bed, lease: Duration) -> Client {
    Client::connect(bed.without_polls().lease(lease).connect()).expect("a client")
}

/// Takes a lock that comes free.
pub(crate) fn take(client: &Client, lock: &Lock) -> Result<LockGuard, Error> {
    client.block_on(lock.try_lock(SOON, Lease::Renewed))
}

pub(crate) fn unlock(client: &Client, guard: LockGuard) {
    client.block_on(guard.unlock()).expect("held");
}

/// Waits until this many threads and tasks of a client wait for a lock.
pub(crate) fn until_waiting(client: &Client, waiters: u64) {
    wait_until("all queued", SOON, || client.stats().waiting == waiters);
}

/// A runtime of one thread, which nobody drives.
pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}
