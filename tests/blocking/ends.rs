//! How a hold of a thread ends, and what ends a wait.

use std::thread;

use leasehold::{Ended, Error, Lease, LossReason};
use leasehold_testbed::{Bed, SOON, ms, wait_until};

use crate::harness::{client, client_with_lease, runtime, take, unlock, until_waiting};

pub(crate) fn a_drop_on_another_thread_frees(bed: &Bed) {
    let client = client(bed);
    let guard = take(&client, &client.lock("x")).unwrap();
    thread::scope(|scope| scope.spawn(move || drop(guard)).join().unwrap());
    bed.wait_until_gone("x");
}

pub(crate) fn the_last_value_frees_though_it_is_dropped_in_async_code(bed: &Bed) {
    let last = client(bed);
    let guard = take(&last, &last.lock("x")).unwrap();
    let permits = last.semaphore("s");
    assert!(last.block_on(permits.try_set_permits(1)).unwrap());
    let permit = last.block_on(permits.acquire(1)).unwrap();
    drop(permits);
    runtime().block_on(async move {
        drop(last);
        drop(permit);
        drop(guard);
    });
    bed.wait_until_gone("x");
    let other = client(bed);
    wait_until("the permit is back", SOON, || {
        other.block_on(other.semaphore("s").available()).unwrap() == 1
    });
}

pub(crate) fn a_guard_is_renewed_when_its_client_is_gone(bed: &Bed) {
    let client = client_with_lease(bed, ms(3000));
    let guard = take(&client, &client.lock("x")).unwrap();
    drop(client);
    let first = guard.deadline();
    wait_until("renewed", SOON, || guard.deadline() > first);
    guard.check().expect("held");
    assert!(bed.exists("x"));
    runtime().block_on(guard.unlock()).unwrap();
    assert!(!bed.exists("x"));
}

pub(crate) fn a_shutdown_ends_waits_and_holds(bed: &Bed) {
    let (ends, other) = (client(bed), client(bed));
    let guard = take(&ends, &ends.lock("x")).unwrap();
    let elsewhere = take(&other, &other.lock("y")).unwrap();
    thread::scope(|scope| {
        let waits = ["x", "y"].map(|name| {
            let client = &ends;
            scope.spawn(move || client.block_on(client.lock(name).lock()))
        });
        until_waiting(&ends, 2);
        ends.shutdown(SOON).unwrap();
        for wait in waits {
            let ended = wait.join().unwrap();
            assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
        }
    });
    assert!(!bed.exists("x"), "a shutdown has released it");
    let ended = ends.block_on(guard.ended());
    assert_eq!(ended, Ended::Lost(LossReason::Closed));
    let unlocked = ends.block_on(guard.unlock());
    assert!(matches!(unlocked, Err(Error::Lost { .. })));
    let refused = ends.block_on(ends.lock("x").try_lock_now(Lease::Renewed));
    assert!(matches!(refused, Err(Error::Closed)));
    unlock(&other, elsewhere);
}

/// A thread of the blocking client drives the connections.
pub(crate) fn connections_outlive_the_last_blocking_value(bed: &Bed) {
    let (client, runtime) = (client(bed), runtime());
    let session = leasehold::Client::clone(&client);
    let lock = client.lock("x");
    drop(client);
    // Connections are closed soon after their thread has ended.
    for _ in 0..300 {
        runtime
            .block_on(async { lock.lock().await.unwrap().unlock().await })
            .unwrap();
    }
    assert_eq!(session.stats().reconnects, 0);
}
