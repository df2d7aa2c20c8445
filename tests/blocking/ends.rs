//! How a hold of a thread ends, and what ends a wait.

use std::thread;

use leasehold::{Ended, Error, Lease, LossReason};
use leasehold_testbed::{Bed, SOON, ms, wait_until};

use crate::harness::{in_vain, on_another_thread, until_renewed, until_waiting};

pub(crate) fn an_unlock_frees_before_it_returns(bed: &Bed) {
    let client = bed.blocking_client();
    let guard = client.lock("x").lock().unwrap();
    assert!(bed.exists("x"));
    guard.unlock().unwrap();
    assert!(!bed.exists("x"));
}

pub(crate) fn a_drop_on_another_thread_frees(bed: &Bed) {
    let client = bed.blocking_client();
    let guard = client.lock("x").lock().unwrap();
    on_another_thread(move || drop(guard));
    bed.wait_until_gone("x");
}

pub(crate) fn the_last_value_frees_though_it_is_dropped_in_async_code(bed: &Bed) {
    let client = bed.blocking_client();
    let guard = client.lock("x").lock().unwrap();
    let permit = client.semaphore("s");
    assert!(permit.try_set_permits(1).unwrap());
    let permit = permit.acquire(1).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async move {
        drop(client);
        drop(permit);
        drop(guard);
    });
    bed.wait_until_gone("x");
    let other = bed.blocking_client();
    wait_until("the permit is back", SOON, || {
        other.semaphore("s").available().unwrap() == 1
    });
}

pub(crate) fn a_guard_is_renewed_when_its_client_is_gone(bed: &Bed) {
    let client = bed.blocking_client_with_lease(ms(3000));
    let guard = client.lock("x").lock().unwrap();
    drop(client);
    until_renewed(&guard);
    assert!(bed.exists("x"));
    guard.unlock().unwrap();
    assert!(!bed.exists("x"));
}

pub(crate) fn a_shutdown_ends_waits_and_holds(bed: &Bed) {
    let client = bed.blocking_client();
    let guard = client.lock("x").lock().unwrap();
    let other = bed.blocking_client();
    let elsewhere = other.lock("y").lock().unwrap();
    thread::scope(|scope| {
        let waits = ["x", "y"].map(|name| {
            let lock = client.lock(name);
            scope.spawn(move || lock.lock())
        });
        until_waiting(&client, 2);
        client.shutdown(SOON).unwrap();
        for wait in waits {
            let ended = wait.join().unwrap();
            assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
        }
    });
    assert!(!bed.exists("x"), "a shutdown has released it");
    assert_eq!(guard.ended(SOON), Some(Ended::Lost(LossReason::Closed)));
    assert!(matches!(guard.unlock(), Err(Error::Lost { .. })));
    assert!(matches!(
        client.lock("x").try_lock_now(Lease::Renewed),
        Err(Error::Closed)
    ));
    elsewhere.unlock().unwrap();
}

pub(crate) fn a_forgotten_guard_leaves_the_lock_to_its_lease(bed: &Bed) {
    let client = bed.blocking_client_with_lease(ms(600));
    client.lock("x").lock().unwrap().forget();
    assert!(bed.exists("x"));
    bed.wait_until_gone("x");
}

pub(crate) fn a_hold_moves_to_another_client_as_text(bed: &Bed) {
    let (one, other) = (bed.blocking_client(), bed.blocking_client());
    let text = one.lock("x").lock().unwrap().hand_on().unwrap();
    let guard = other.lock("x").restore(&text).unwrap();
    in_vain(|| one.lock("x").try_lock_now(Lease::Renewed));
    guard.unlock().unwrap();
    assert!(matches!(
        other.lock("x").restore(&text),
        Err(Error::NotOwner { .. })
    ));
}

pub(crate) fn a_guard_goes_on_in_async_code(bed: &Bed) {
    let client = bed.blocking_client();
    let guard = client.lock("x").lock().unwrap().into_async();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    drop(client);
    runtime.block_on(guard.unlock()).unwrap();
    assert!(!bed.exists("x"));
}
