//! A waiter wakes when the other side unlocks, long before the lease of 30 s would have ended.

use std::time::Duration;

use leasehold::{Lock, LockGuard};
use leasehold_testbed::{SOON, connected};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::harness::{Harness, builder};

/// Before each round in which a task waits, its client must have given up a subscription that it keeps for a while.
const ROUNDS: usize = 5;

/// Lets a task wait for the lock, which somebody else holds.
async fn task_waits(harness: &mut Harness, lock: &Lock) -> JoinHandle<(Instant, LockGuard)> {
    let lock = lock.clone();
    harness
        .waiting(|_| async move {
            let guard = lock.lock().await.expect("lock");
            (Instant::now(), guard)
        })
        .await
}

/// Lets a JVM thread wait for the lock; resolves when it has got it.
async fn thread_waits(harness: &mut Harness, thread: &str, name: &str) -> JoinHandle<()> {
    harness
        .waiting(|harness| harness.java.lock(thread, &format!("lock:{name}"), None))
        .await
}

/// Prints how long the waiters took, and fails if one of them may have waited for the end of a
/// lease.
fn judge(what: &str, mut waits: Vec<Duration>) {
    waits.sort_unstable();
    let (median, longest) = (waits[waits.len() / 2], waits[waits.len() - 1]);
    eprintln!(
        "{what}: median {median:.2?}, longest {longest:.2?} of {}",
        waits.len()
    );
    // Only a message can have woken it: the next poll comes after a minute, and the lease ends after
    // half a minute.
    assert!(longest < SOON, "{what}: {longest:?}");
}

async fn task_wakes_on_unlock_of_a_thread(name: &str) {
    let mut harness = Harness::start().await;
    let java_lock = format!("lock:{name}");
    let lock = harness.client.lock(name);
    let mut waits = Vec::new();
    for _ in 0..ROUNDS {
        harness.java.lock("a", &java_lock, None).await;
        let mut waiting = task_waits(&mut harness, &lock).await;
        let freed = Instant::now();
        harness.java.unlock("a", &java_lock).await.expect("unlock");
        let woken = timeout(SOON, &mut waiting)
            .await
            .expect("woken before the lease");
        let (got, guard) = woken.expect("no panic");
        waits.push(got.saturating_duration_since(freed));
        guard.unlock().await.expect("unlock");
    }
    judge(&format!("rust wakes on an unlock in java, {name}"), waits);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_wakes_when_a_thread_unlocks() {
    task_wakes_on_unlock_of_a_thread("wake").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_wakes_when_a_thread_unlocks_a_tagged_name() {
    task_wakes_on_unlock_of_a_thread("{tag}:wake").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_wakes_when_a_task_unlocks() {
    let mut harness = Harness::start().await;
    for name in ["wake", "{tag}:wake"] {
        let lock = harness.client.lock(name);
        let mut waits = Vec::new();
        for _ in 0..ROUNDS {
            let guard = lock.lock().await.expect("lock");
            let waiting = thread_waits(&mut harness, "a", name).await;
            let freed = Instant::now();
            guard.unlock().await.expect("unlock");
            waiting.await.expect("no panic");
            waits.push(freed.elapsed());
            harness
                .java
                .unlock("a", &format!("lock:{name}"))
                .await
                .expect("unlock");
        }
        judge(&format!("java wakes on an unlock in rust, {name}"), waits);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_wakes_when_a_guard_is_dropped() {
    let mut harness = Harness::start().await;
    let lock = harness.client.lock("dropped");
    let guard = lock.lock().await.expect("lock");
    let waiting = thread_waits(&mut harness, "a", "dropped").await;
    let freed = Instant::now();
    drop(guard);
    waiting.await.expect("no panic");
    judge("java wakes on a drop in rust", vec![freed.elapsed()]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_wakes_when_a_client_shuts_down() {
    let mut harness = Harness::start().await;
    let other = connected(builder(&harness.server.url())).await;
    let lock = other.lock("closing");
    let guard = lock.lock().await.expect("lock");
    let waiting = thread_waits(&mut harness, "a", "closing").await;
    let freed = Instant::now();
    other
        .shutdown(Duration::from_secs(5))
        .await
        .expect("shutdown");
    waiting.await.expect("no panic");
    judge("java wakes on a shutdown in rust", vec![freed.elapsed()]);
    drop(guard);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_wakes_when_we_force_its_lock_open() {
    let mut harness = Harness::start().await;
    harness.java.lock("a", "lock:forced", None).await;
    let waiting = thread_waits(&mut harness, "b", "forced").await;
    let freed = Instant::now();
    assert!(
        harness
            .client
            .lock("forced")
            .force_unlock("a test")
            .await
            .expect("force_unlock")
    );
    waiting.await.expect("no panic");
    judge(
        "java wakes on a forced unlock in rust",
        vec![freed.elapsed()],
    );
    let refused = harness
        .java
        .unlock("a", "lock:forced")
        .await
        .expect_err("a lost the lock");
    assert!(
        refused.0.starts_with("IllegalMonitorStateException"),
        "{refused:?}"
    );
    assert!(harness.java.is_held("b", "lock:forced").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_wakes_when_a_thread_forces_a_lock_open() {
    let mut harness = Harness::start().await;
    harness.java.lock("a", "lock:forced", None).await;
    let lock = harness.client.lock("forced");
    let mut waiting = task_waits(&mut harness, &lock).await;
    let freed = Instant::now();
    assert!(harness.java.force_unlock("lock:forced").await);
    let woken = timeout(SOON, &mut waiting)
        .await
        .expect("woken before the lease");
    let (got, guard) = woken.expect("no panic");
    judge(
        "rust wakes on a forced unlock in java",
        vec![got.saturating_duration_since(freed)],
    );
    guard.unlock().await.expect("unlock");
}
