//! A thread learns that its lock is lost: by checking, from another thread, or at the end of its
//! work.

use std::thread;
use std::time::Duration;

use leasehold::{Ended, Error, HoldState, Lease, LossReason};
use leasehold_testbed::{Bed, SOON, assert_lost, ms, wait_until};
use tokio::time::Instant;

use crate::harness::until_renewed;

/// A stall of the machine of one second loses nothing.
const LEASE: Duration = ms(3000);
/// A lease that ends.
const SHORT: Duration = ms(300);

pub(crate) fn another_thread_learns_of_the_loss(bed: &Bed) {
    let guard = bed
        .blocking_client_with_lease(LEASE)
        .lock("x")
        .lock()
        .unwrap();
    thread::scope(|scope| {
        let watching = scope.spawn(|| guard.ended(SOON));
        bed.delete("x");
        assert_eq!(
            watching.join().unwrap(),
            Some(Ended::Lost(LossReason::Gone))
        );
    });
    assert_eq!(guard.state(), HoldState::Lost);
    assert_lost(&guard.check().unwrap_err(), LossReason::Gone);
    assert!(matches!(guard.reenter(), Err(Error::Lost { .. })));
}

pub(crate) fn an_unlock_after_a_loss_says_so(bed: &Bed) {
    let (client, other) = (bed.blocking_client(), bed.blocking_client());
    let guard = client.lock("x").lock().unwrap();
    assert!(other.lock("x").force_unlock("a test").unwrap());
    let theirs = other.lock("x").try_lock_now(Lease::Renewed).unwrap();
    assert!(matches!(guard.unlock(), Err(Error::Lost { .. })));
    assert!(bed.exists("x"), "the other's hold is untouched");
    theirs.unlock().unwrap();
}

pub(crate) fn a_fixed_lease_ends(bed: &Bed) {
    let client = bed.blocking_client();
    let guard = client
        .lock("x")
        .try_lock(SOON, Lease::Fixed(SHORT))
        .unwrap();
    assert!(guard.remaining() <= SHORT);
    assert_eq!(guard.ended(SOON), Some(Ended::Lost(LossReason::Expired)));
    assert!(Instant::now() >= guard.deadline());
    bed.wait_until_gone("x");
}

pub(crate) fn a_renewed_lease_does_not_end(bed: &Bed) {
    let client = bed.blocking_client_with_lease(LEASE);
    let guard = client.lock("x").lock().unwrap();
    assert_eq!(guard.ended(ms(50)), None);
    until_renewed(&guard);
    guard.unlock().unwrap();
}

pub(crate) fn a_lease_that_is_extended_ends_later(bed: &Bed) {
    let client = bed.blocking_client();
    let guard = client.lock("x").try_lock(SOON, Lease::Fixed(SOON)).unwrap();
    guard.extend(SOON * 10).unwrap();
    assert!(guard.remaining() > SOON * 9);
    guard.unlock().unwrap();
}

pub(crate) fn the_longest_hold_ends(bed: &Bed) {
    let client = bed.blocking_client();
    let lock = client.lock("x");
    let guard = lock.acquire().wait(SOON).max_hold(SHORT).lock().unwrap();
    assert_eq!(guard.ended(SOON), Some(Ended::Lost(LossReason::MaxHold)));
    bed.wait_until_gone("x");
}

pub(crate) fn work_is_not_begun_without_the_lock(bed: &Bed) {
    let client = bed.blocking_client();
    let guard = client.lock("x").lock().unwrap();
    let refused = client
        .lock("x")
        .run(ms(50), Lease::Renewed, |_| panic!("it is held"));
    assert!(refused.unwrap_err().is_timeout());
    client.shutdown(SOON).unwrap();
    let refused: Result<(), _> = guard.run(|| panic!("it is lost"));
    assert_lost(&refused.unwrap_err(), LossReason::Closed);
}

pub(crate) fn work_that_outlives_the_lock_ends_with_the_loss(bed: &Bed) {
    let client = bed.blocking_client_with_lease(LEASE);
    let mut ended = false;
    let done = client.lock("x").run(SOON, Lease::Renewed, |guard| {
        bed.delete("x");
        wait_until("the guard knows", SOON, || guard.check().is_err());
        ended = true;
    });
    assert!(ended, "nothing stops it");
    assert_lost(&done.unwrap_err(), LossReason::Gone);

    // Lost but not yet noticed: the release finds out.
    let done = client
        .lock("x")
        .run(SOON, Lease::Fixed(SOON), |_| bed.delete("x"));
    assert!(matches!(done, Err(Error::Lost { .. })), "{done:?}");
}
