//! Leases. A renewed lease keeps the lock for many times its length, a fixed or abandoned one ends in
//! time, and a lock that is forced open is noticed.

use std::time::Duration;

use leasehold::{Client, HoldState, Lease, LossReason};
use leasehold_testbed::{Borrowed, SOON, lost, release};
use tokio::time::{Instant, timeout};

use crate::harness::{SHORT, TWO_LEASES, builder};
use crate::redisson::Redisson;

const LOCK: &str = "lock:leased";
/// How late the end of a lease may be noticed. Without a notice it would take 30 s.
const LATE: Duration = Duration::from_secs(5);

async fn client_with_lease(server: &Borrowed, lease: Duration) -> Client {
    builder(&server.url())
        .lease(lease)
        .connect()
        .await
        .expect("connect")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redissons_watchdog_keeps_a_lock_from_us() {
    let server = Borrowed::take();
    let java = Redisson::start(&server.url(), Some(SHORT)).await;
    let client = client_with_lease(&server, SHORT).await;
    let lock = client.lock("leased");

    java.lock("a", LOCK, None).await;
    let refused = lock
        .try_lock(TWO_LEASES, Lease::Renewed)
        .await
        .expect_err("it is renewed");
    assert!(refused.is_timeout(), "{refused}");
    assert!(java.is_held("a", LOCK).await);
    java.unlock("a", LOCK).await.expect("unlock");
    release(lock.try_lock(SHORT, Lease::Renewed).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_watchdog_keeps_a_lock_from_redisson() {
    let server = Borrowed::take();
    let java = Redisson::start(&server.url(), Some(SHORT)).await;
    let client = client_with_lease(&server, SHORT).await;
    let lock = client.lock("leased");

    let guard = lock.lock().await.expect("lock");
    assert!(!java.try_lock("a", LOCK, TWO_LEASES, None).await);
    assert_eq!(guard.state(), HoldState::Held);
    guard.unlock().await.expect("unlock");
    assert!(java.try_lock("a", LOCK, SHORT, None).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn we_take_redissons_lock_when_its_fixed_lease_ends() {
    let server = Borrowed::take();
    let java = Redisson::start(&server.url(), None).await;
    let client = builder(&server.url()).connect().await.expect("connect");
    let lock = client.lock("leased");

    let taken = Instant::now();
    java.lock("a", LOCK, Some(SHORT)).await;
    let locked = Instant::now();
    let guard = timeout(SOON, lock.lock())
        .await
        .expect("at the end")
        .expect("lock");
    eprintln!(
        "rust has a java lease of {SHORT:?} after {:.2?}",
        locked.elapsed()
    );
    // The lease started after this measurement did, so it cannot have ended sooner.
    assert!(taken.elapsed() >= SHORT);
    assert!(locked.elapsed() < SHORT + LATE);
    guard.unlock().await.expect("unlock");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redisson_takes_our_lock_when_its_fixed_lease_ends_and_we_notice() {
    let server = Borrowed::take();
    let java = Redisson::start(&server.url(), None).await;
    let client = builder(&server.url()).connect().await.expect("connect");
    let lock = client.lock("leased");

    let taken = Instant::now();
    let guard = lock
        .try_lock(Duration::ZERO, Lease::Fixed(SHORT))
        .await
        .expect("free");
    java.lock("a", LOCK, None).await;
    assert!(taken.elapsed() >= SHORT);
    assert!(taken.elapsed() < SHORT + LATE, "{:?}", taken.elapsed());
    // Our deadline lies before the server's, so by now it has passed.
    assert_eq!(guard.state(), HoldState::Lost);
    assert!(guard.check().is_err());
    guard
        .unlock()
        .await
        .expect_err("there is nothing to unlock");
    assert!(java.is_held("a", LOCK).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lock_of_a_killed_jvm_is_free_after_its_lease() {
    let server = Borrowed::take();
    let mut java = Redisson::start(&server.url(), Some(SHORT)).await;
    let client = builder(&server.url()).connect().await.expect("connect");
    let lock = client.lock("leased");

    java.lock("a", LOCK, None).await;
    java.kill();
    let killed = Instant::now();
    let guard = timeout(SOON, lock.lock())
        .await
        .expect("at the end")
        .expect("lock");
    eprintln!(
        "rust has the lock of a killed jvm after {:.2?}",
        killed.elapsed()
    );
    assert!(killed.elapsed() < SHORT + LATE);
    guard.unlock().await.expect("unlock");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn we_notice_that_redisson_forced_our_lock_open() {
    let server = Borrowed::take();
    let java = Redisson::start(&server.url(), None).await;
    let client = client_with_lease(&server, SHORT).await;
    let lock = client.lock("leased");

    let guard = lock.lock().await.expect("lock");
    assert!(java.force_unlock(LOCK).await);
    let forced = Instant::now();
    assert!(java.try_lock("a", LOCK, Duration::ZERO, None).await);
    let reason = timeout(SOON, lost(&guard))
        .await
        .expect("noticed at the next renewal");
    // Not by the end of the lease, which would also have been a loss.
    assert_eq!(reason, LossReason::Gone);
    eprintln!("noticed after {:.2?}: {reason}", forced.elapsed());
    assert_eq!(guard.state(), HoldState::Lost);
    guard
        .unlock()
        .await
        .expect_err("there is nothing to unlock");
    // The next holder is not harmed.
    assert!(java.is_held("a", LOCK).await);
}
