//! How a hold of a thread ends, and what ends a wait.

use std::thread;

use leasehold::{Ended, Error, Lease, LossReason};
use leasehold_testbed::{ms, wait_until};

use crate::backend::{Backend, LIMIT, in_vain, on_another_thread, until_renewed, until_waiting};

pub(crate) fn an_unlock_frees_before_it_returns(backend: &Backend) {
    let client = backend.client();
    let guard = client.lock("x").lock().unwrap();
    assert!(backend.exists("x"));
    guard.unlock().unwrap();
    assert!(!backend.exists("x"));
}

pub(crate) fn a_drop_on_another_thread_frees(backend: &Backend) {
    let client = backend.client();
    let guard = client.lock("x").lock().unwrap();
    on_another_thread(move || drop(guard));
    backend.until_gone("x");
}

pub(crate) fn the_last_value_frees_though_it_is_dropped_in_async_code(backend: &Backend) {
    let client = backend.client();
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
    backend.until_gone("x");
    let other = backend.client();
    wait_until("the permit is back", LIMIT, || {
        other.semaphore("s").available().unwrap() == 1
    });
}

pub(crate) fn a_guard_is_renewed_when_its_client_is_gone(backend: &Backend) {
    let client = backend.client_with_lease(ms(3000));
    let guard = client.lock("x").lock().unwrap();
    drop(client);
    until_renewed(&guard);
    assert!(backend.exists("x"));
    guard.unlock().unwrap();
    assert!(!backend.exists("x"));
}

pub(crate) fn a_shutdown_ends_waits_and_holds(backend: &Backend) {
    let client = backend.client();
    let guard = client.lock("x").lock().unwrap();
    let other = backend.client();
    let elsewhere = other.lock("y").lock().unwrap();
    thread::scope(|scope| {
        let waits = ["x", "y"].map(|name| {
            let lock = client.lock(name);
            scope.spawn(move || lock.lock())
        });
        until_waiting(&client, 2);
        client.shutdown(LIMIT).unwrap();
        for wait in waits {
            let ended = wait.join().unwrap();
            assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
        }
    });
    assert!(!backend.exists("x"), "a shutdown has released it");
    assert_eq!(guard.ended(LIMIT), Some(Ended::Lost(LossReason::Closed)));
    assert!(matches!(guard.unlock(), Err(Error::Lost { .. })));
    assert!(matches!(
        client.lock("x").try_lock_now(Lease::Renewed),
        Err(Error::Closed)
    ));
    elsewhere.unlock().unwrap();
}

pub(crate) fn a_forgotten_guard_leaves_the_lock_to_its_lease(backend: &Backend) {
    let client = backend.client_with_lease(ms(600));
    client.lock("x").lock().unwrap().forget();
    assert!(backend.exists("x"));
    backend.until_gone("x");
}

pub(crate) fn a_hold_moves_to_another_client_as_text(backend: &Backend) {
    let (one, other) = (backend.client(), backend.client());
    let text = one.lock("x").lock().unwrap().hand_on().unwrap();
    let guard = other.lock("x").restore(&text).unwrap();
    in_vain(|| one.lock("x").try_lock_now(Lease::Renewed));
    guard.unlock().unwrap();
    assert!(matches!(
        other.lock("x").restore(&text),
        Err(Error::NotOwner { .. })
    ));
}

pub(crate) fn a_guard_goes_on_in_async_code(backend: &Backend) {
    let client = backend.client();
    let guard = client.lock("x").lock().unwrap().into_async();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    drop(client);
    runtime.block_on(guard.unlock()).unwrap();
    assert!(!backend.exists("x"));
}
