//! Nested holds count up and down in one hash field; only the last release lets the other side in.

use std::time::Duration;

use leasehold::Lease;
use leasehold_testbed::{Borrowed, holds};

use crate::harness::builder;
use crate::redisson::Redisson;

const NOW: Duration = Duration::ZERO;
const LOCK: &str = "lock:nested";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_gets_the_lock_after_the_outermost_release_of_a_task() {
    let server = Borrowed::take();
    let java = Redisson::start(&server.url(), None).await;
    let client = builder(&server.url()).connect().await.expect("connect");
    let lock = client.lock("nested");

    let outer = lock.lock().await.expect("lock");
    let inner = outer.reenter().await.expect("re-entered");
    assert_eq!(holds(&lock).await.expect("asked"), 2);
    inner.unlock().await.expect("unlock");
    assert!(!java.try_lock("a", LOCK, NOW, None).await);
    outer.unlock().await.expect("unlock");
    assert!(java.try_lock("a", LOCK, NOW, None).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_gets_the_lock_after_the_outermost_release_of_a_thread() {
    let server = Borrowed::take();
    let java = Redisson::start(&server.url(), None).await;
    let client = builder(&server.url()).connect().await.expect("connect");
    let lock = client.lock("nested");

    java.lock("a", LOCK, None).await;
    java.lock("a", LOCK, None).await;
    assert_eq!(java.hold_count("a", LOCK).await, 2);
    java.unlock("a", LOCK).await.expect("unlock");
    let refused = lock
        .try_lock(NOW, Lease::Renewed)
        .await
        .expect_err("still held");
    assert!(refused.is_timeout(), "{refused}");
    java.unlock("a", LOCK).await.expect("unlock");
    let guard = lock.try_lock(NOW, Lease::Renewed).await.expect("free");
    guard.unlock().await.expect("unlock");
}
