//! A suspended machine: the timers of its clients stood still, but not the leases in Redis.

use std::time::Duration;

use leasehold::test_util::Machine;
use leasehold::{Client, Ended, Error, HoldState, Lease, Lock, LockGuard, LossReason};
use leasehold_testbed::{Bed, assert_lost, eventually, release, timed};
use tokio::time::Instant;

const LEASE: Duration = Duration::from_secs(30);

async fn client_on(machine: &Machine, bed: &Bed) -> Client {
    bed.unjudged()
        .lease(LEASE)
        .machine(machine)
        .connect()
        .await
        .unwrap()
}

/// Checks the guard before anything has run after the wake-up.
async fn assert_lost_at_once(guard: &LockGuard, why: LossReason) {
    let checked = guard.check().unwrap_err();
    assert!(
        matches!(&checked, Error::Lost { reason, .. } if *reason == why),
        "{checked}"
    );
    assert_eq!(guard.state(), HoldState::Lost);
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert!(guard.deadline() <= Instant::now());
    let run = guard.run(async { panic!("the work is not polled") }).await;
    assert!(matches!(run, Err(Error::Lost { .. })));
}

pub(crate) async fn a_hold_is_lost_at_once_when_the_suspension_was_longer_than_its_lease(bed: Bed) {
    let machine = Machine::default();
    let (client, rival) = (client_on(&machine, &bed).await, bed.client().await);
    for (lost, lease) in [(1, Lease::Renewed), (2, Lease::Fixed(LEASE))] {
        let guard = client.lock("x").try_lock_now(lease).await.unwrap();
        let ended = tokio::spawn(guard.ended());
        // Let it set its timer.
        tokio::task::yield_now().await;
        machine.suspend_for(LEASE);
        assert_lost_at_once(&guard, LossReason::Expired).await;
        let (ended, _) = timed("ended", ended).await;
        assert_eq!(ended.unwrap(), Ended::Lost(LossReason::Expired));
        // Here no time has passed in Redis: the client gives back what it no longer trusts.
        release(timed("the lock is free", rival.lock("x").lock()).await.0).await;
        eventually("it is counted", async || client.stats().lost == lost).await;
        let late = guard.unlock().await.unwrap_err();
        assert_lost(&late, LossReason::Expired);
    }
    assert_eq!((client.stats().holds, rival.stats().lost), (0, 0));
}

pub(crate) async fn a_hold_is_renewed_soon_when_the_suspension_was_shorter_than_its_lease(
    bed: Bed,
) {
    let machine = Machine::default();
    let client = client_on(&machine, &bed).await;
    let guard = client.lock("x").lock().await.unwrap();
    machine.suspend_for(LEASE / 3 * 2);
    guard.check().unwrap();
    assert!(guard.remaining() < LEASE / 3, "{:?}", guard.remaining());
    let renewed = async || guard.remaining() > LEASE / 3 * 2;
    let since = Instant::now();
    eventually("renewed", renewed).await;
    // A timer set before would fire after a third of the lease.
    assert!(since.elapsed() < bed.late(2_000), "{:?}", since.elapsed());
    assert_eq!((guard.state(), client.stats().lost), (HoldState::Held, 0));
    guard.unlock().await.unwrap();
}

pub(crate) async fn the_longest_hold_counts_a_suspension(bed: Bed) {
    let machine = Machine::default();
    let client = client_on(&machine, &bed).await;
    let guard = client
        .lock("x")
        .acquire()
        .max_hold(LEASE / 2)
        .await
        .unwrap();
    machine.suspend_for(LEASE / 2);
    assert_lost_at_once(&guard, LossReason::MaxHold).await;
}

pub(crate) async fn several_locks_are_lost_as_one_is(bed: Bed) {
    let machine = Machine::default();
    let client = client_on(&machine, &bed).await;
    let guard = Lock::multi(["x", "y"].map(|name| client.lock(name)))
        .lock()
        .await
        .unwrap();
    machine.suspend_for(LEASE);
    assert_lost_at_once(&guard, LossReason::Expired).await;
}

pub(crate) async fn a_waiter_of_the_same_client_goes_on(bed: Bed) {
    let machine = Machine::default();
    let client = client_on(&machine, &bed).await;
    let guard = client.lock("x").lock().await.unwrap();
    let lock = client.lock("x");
    let waiter = tokio::spawn(async move { lock.lock().await });
    eventually("queued", async || client.stats().waiting == 1).await;
    machine.suspend_for(LEASE);
    let (next, _) = timed("the waiter goes on", waiter).await;
    next.unwrap().unwrap().check().unwrap();
    guard.check().unwrap_err();
}
