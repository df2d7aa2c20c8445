//! The read/write lock: readers and writers on both sides.

use std::cell::Cell;
use std::time::Duration;

use leasehold::{Client, HoldState, Lease, Lock, LockGuard, ReadWriteLock};
use leasehold_testbed::{SOON, connected, lost};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::crowd;
use crate::harness::{
    Harness, NOW, SHORT, TWO_LEASES, all_joined, assert_nearly_whole, assert_timed_out, builder,
    joined, soon,
};
use crate::observer::Observer;
use crate::redisson::contention::Contenders;

const READ: &str = "read:stock";
const WRITE: &str = "write:stock";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    Read,
    Write,
}

impl Side {
    fn of(self, lock: &ReadWriteLock) -> &Lock {
        match self {
            Side::Read => lock.read(),
            Side::Write => lock.write(),
        }
    }
}

/// Enters one side, checks who else is inside, and leaves. False if somebody was inside who must
/// not be.
async fn round(lock: &ReadWriteLock, redis: &mut Observer, side: Side) -> bool {
    let guard = side.of(lock).lock().await.expect("lock");
    // Everybody counts themselves before the check. So if two are inside that must not be, the
    // later one finds out.
    let (own, others, most) = match side {
        Side::Read => ("inside:readers", "inside:writers", i64::MAX),
        Side::Write => ("inside:writers", "inside:readers", 1),
    };
    let count = redis.integer(&format!("INCR {own}")).await;
    let fine = count <= most && redis.integer(&format!("INCRBY {others} 0")).await == 0;
    sleep(Duration::from_millis(1)).await;
    redis.integer(&format!("DECR {own}")).await;
    guard.unlock().await.expect("unlock");
    fine
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_share_and_writers_are_alone_across_both_sides() {
    let mut harness = Harness::with(None, |ours| ours).await;
    let who = Contenders {
        rounds: 100,
        ..crowd::THREADS
    };
    let threads = harness.java.contend("contendrw", who, "stock", Some(30));
    let lock = harness.client.read_write_lock("stock");
    let writes = Cell::new(0);
    let enters = async |redis: &mut Observer| {
        let side = if fastrand::u8(..100) < 30 {
            Side::Write
        } else {
            Side::Read
        };
        assert!(round(&lock, redis, side).await, "{side:?}");
        writes.set(writes.get() + u64::from(side == Side::Write));
    };
    let counters = "inside:readers inside:writers";
    let (_, threads) = crowd::beside(&mut harness, threads, counters, enters).await;
    assert_eq!(threads.number("reads") + threads.number("writes"), 300);
    assert!(threads.number("writes") > 0 && writes.get() > 0);
    let inside = harness.observer.ask(&format!("MGET {counters}")).await;
    assert_eq!(inside, ["0", "0"]);
    // Neither the lock nor the key of a read hold is left.
    harness.java_has_cleaned_up().await;
    assert_eq!(harness.observer.keys().await, 2);
}

/// Lets a future of ours wait for one side.
async fn task_waits(harness: &mut Harness, side: Side) -> JoinHandle<LockGuard> {
    let wait = harness.waiting(|harness| {
        let lock = harness.client.read_write_lock("stock");
        async move { side.of(&lock).lock().await.expect("lock") }
    });
    wait.await
}

/// Lets a thread wait for one side until it sleeps. A thread on its way to sleep misses the message
/// of a leaving writer, and sleeps until the lease that it last saw ends.
async fn thread_waits(harness: &mut Harness, thread: &str, lock: &str) -> JoinHandle<()> {
    let waiting = harness
        .waiting(|harness| harness.java.lock(thread, lock, None))
        .await;
    soon("it sleeps", harness.java.until_parked(thread)).await;
    waiting
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_wake_when_a_writer_of_the_other_side_leaves() {
    let mut harness = Harness::start().await;
    let lock = harness.client.read_write_lock("stock");
    let writing = lock.write().lock().await.expect("lock");
    let mut readers = Vec::new();
    for thread in ["a", "b", "c"] {
        readers.push(thread_waits(&mut harness, thread, READ).await);
    }
    writing.unlock().await.expect("unlock");
    all_joined("a java reader wakes", readers).await;
    for thread in ["a", "b", "c"] {
        harness.java.unlock(thread, READ).await.expect("unlock");
    }

    harness.java.lock("a", WRITE, None).await;
    let read = |client: &Client| {
        let lock = client.read_write_lock("stock");
        async move { lock.read().lock().await.expect("lock") }
    };
    let readers = harness.tasks_wait(3, read).await;
    harness.java.unlock("a", WRITE).await.expect("unlock");
    let _held = all_joined("a rust reader wakes", readers).await;
    assert_eq!(
        harness.observer.integer("HLEN stock").await,
        4,
        "all three are in, and the mode"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_wakes_when_the_last_reader_leaves() {
    let mut harness = Harness::start().await;
    let lock = harness.client.read_write_lock("stock");
    let ours = lock.read().lock().await.expect("lock");
    harness.java.lock("a", READ, None).await;
    let writer = thread_waits(&mut harness, "w", WRITE).await;
    harness.java.unlock("a", READ).await.expect("unlock");
    assert!(harness.java.is_locked(READ).await, "ours is still there");
    ours.unlock().await.expect("unlock");
    joined("a java writer wakes when our reader leaves last", writer).await;

    let writer = task_waits(&mut harness, Side::Write).await;
    harness.java.unlock("w", WRITE).await.expect("unlock");
    let writing = joined("a rust writer wakes when a java writer leaves", writer).await;
    let writer = thread_waits(&mut harness, "w", WRITE).await;
    writing.unlock().await.expect("unlock");
    joined("a java writer wakes when a rust writer leaves", writer).await;
    harness.java.unlock("w", WRITE).await.expect("unlock");

    harness.java.lock("a", READ, None).await;
    let ours = lock.read().lock().await.expect("lock");
    let other = harness.client.read_write_lock("stock");
    let writer = harness
        .waiting(|_| async move { other.write().lock().await.expect("lock") })
        .await;
    ours.unlock().await.expect("unlock");
    assert!(!writer.is_finished());
    harness.java.unlock("a", READ).await.expect("unlock");
    drop(joined("a rust writer wakes when a java reader leaves last", writer).await);
}

/// Redisson publishes no downgrade. Our readers find it by polling about once a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_enter_after_a_downgrade_of_the_other_side() {
    let mut harness = Harness::with(None, |ours| ours).await;
    let lock = harness.client.read_write_lock("stock");
    let writing = lock.write().lock().await.expect("lock");
    let reading = lock
        .read()
        .acquire()
        .within(&writing)
        .await
        .expect("re-entered");
    assert!(harness.java.is_locked(READ).await && harness.java.is_locked(WRITE).await);
    let reader = thread_waits(&mut harness, "a", READ).await;
    let writer = thread_waits(&mut harness, "w", WRITE).await;
    writing.unlock().await.expect("unlock");
    joined("a java reader comes in after our downgrade", reader).await;
    assert!(!harness.java.is_locked(WRITE).await);
    harness.java.unlock("a", READ).await.expect("unlock");
    assert!(!writer.is_finished());
    reading.unlock().await.expect("unlock");
    joined("a java writer comes in after our read", writer).await;

    harness.java.lock("w", READ, None).await;
    let reader = task_waits(&mut harness, Side::Read).await;
    harness.java.unlock("w", WRITE).await.expect("unlock");
    let reading = joined("a rust reader comes in after java's downgrade", reader).await;
    harness.java.unlock("w", READ).await.expect("unlock");
    assert_eq!(reading.state(), HoldState::Held);
    assert!(!harness.java.try_lock("w", WRITE, NOW, None).await);
    reading.unlock().await.expect("unlock");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_are_seen_by_the_other_side() {
    let mut harness = Harness::start().await;
    let lock = harness.client.read_write_lock("stock");

    let first = lock.read().lock().await.expect("lock");
    let second = lock.read().lock().await.expect("lock again");
    harness.java.lock("a", READ, None).await;
    harness.java.lock("a", READ, None).await;
    let theirs = harness.java.owner("a").await;
    assert_eq!(harness.observer.ask("HGET stock mode").await, ["read"]);
    assert_eq!(
        harness.observer.ask(&format!("HGET stock {theirs}")).await,
        ["2"]
    );
    // Ours has a field for each hold, theirs a count. Each hold has a key with the same lease.
    for owner in [first.owner(), second.owner()] {
        assert_eq!(
            harness.observer.ask(&format!("HGET stock {owner}")).await,
            ["1"]
        );
        let key = format!("{{stock}}:{owner}:rwlock_timeout:1");
        assert!(
            harness.observer.integer(&format!("PTTL {key}")).await > 15_000,
            "{key}"
        );
    }
    assert_eq!(
        harness
            .observer
            .ask("KEYS {stock}:*:rwlock_timeout:*")
            .await
            .len(),
        4
    );
    assert!(harness.java.is_locked(READ).await && !harness.java.is_locked(WRITE).await);
    harness.java.assert_nearly_whole(READ).await;
    assert!(lock.read().is_locked().await.expect("is_locked"));
    assert!(!lock.write().is_locked().await.expect("is_locked"));
    assert_nearly_whole(lock.read()).await;
    harness.java.assert_not_held("b", READ).await;
    harness.java.unlock("a", READ).await.expect("unlock");
    harness.java.unlock("a", READ).await.expect("unlock");
    second.unlock().await.expect("unlock");
    assert!(harness.java.is_locked(READ).await);
    first.unlock().await.expect("unlock");
    harness.java_has_cleaned_up().await;
    assert_eq!(harness.observer.keys().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_is_seen_by_the_other_side() {
    let mut harness = Harness::start().await;
    let lock = harness.client.read_write_lock("stock");

    let writing = lock.write().lock().await.expect("lock");
    assert!(writing.owner().ends_with(":write"), "{}", writing.owner());
    assert_eq!(harness.observer.ask("HGET stock mode").await, ["write"]);
    assert!(harness.java.is_locked(WRITE).await && !harness.java.is_locked(READ).await);
    assert!(!harness.java.try_lock("a", READ, NOW, None).await);
    assert!(!harness.java.try_lock("a", WRITE, NOW, None).await);
    harness.java.assert_not_held("a", WRITE).await;
    writing.unlock().await.expect("unlock");

    harness.java.lock("a", WRITE, None).await;
    harness.java.lock("a", READ, None).await;
    let theirs = harness.java.owner("a").await;
    assert!(lock.write().is_locked().await.expect("is_locked"));
    assert!(lock.read().is_locked().await.expect("is_locked"));
    let holder = lock.write().holder().await.expect("holder").expect("held");
    assert_eq!(holder.owner, format!("{theirs}:write"));
    assert_timed_out(lock.read().try_lock(NOW, Lease::Fixed(SHORT)).await);
    assert_timed_out(lock.write().try_lock(NOW, Lease::Fixed(SHORT)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_and_writers_notice_a_forced_release() {
    let harness = Harness::with_short_leases().await;
    let lock = harness.client.read_write_lock("stock");
    let reading = lock.read().lock().await.expect("lock");
    assert!(!harness.java.force_unlock(WRITE).await, "nobody writes");
    assert!(harness.java.force_unlock(READ).await);
    assert!(harness.java.try_lock("w", WRITE, NOW, None).await);
    soon("a rust reader notices", lost(&reading)).await;
    reading
        .unlock()
        .await
        .expect_err("there is nothing to unlock");
    assert!(
        harness.java.is_held("w", WRITE).await,
        "the next holder is not harmed"
    );

    assert!(
        !lock
            .read()
            .force_unlock("a test")
            .await
            .expect("force_unlock"),
        "nobody reads"
    );
    assert!(
        lock.write()
            .force_unlock("a test")
            .await
            .expect("force_unlock")
    );
    let writing = lock
        .write()
        .try_lock(NOW, Lease::Renewed)
        .await
        .expect("free");
    harness.java.assert_not_held("w", WRITE).await;
    assert!(harness.java.force_unlock(WRITE).await);
    harness.java.lock("a", READ, None).await;
    soon("a rust writer notices", lost(&writing)).await;
    drop(writing);
    assert!(
        lock.read()
            .force_unlock("a test")
            .await
            .expect("force_unlock")
    );
    harness.java.assert_not_held("a", READ).await;
}

/// Each read hold ends at its own time. A living one keeps the lock; after the last one, a writer
/// gets it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_and_write_leases_end_for_the_other_side() {
    let mut harness = Harness::with_short_leases().await;
    let lock = harness.client.read_write_lock("stock");

    let reading = lock
        .read()
        .try_lock(NOW, Lease::Fixed(SHORT))
        .await
        .expect("free");
    soon(
        "a java writer gets in after our reader's lease",
        harness.java.lock("w", WRITE, None),
    )
    .await;
    assert_eq!(reading.state(), HoldState::Lost);
    drop(reading);
    assert_timed_out(lock.read().try_lock(TWO_LEASES, Lease::Renewed).await);
    harness.java.unlock("w", WRITE).await.expect("renewed");

    harness.java.lock("a", READ, Some(SHORT)).await;
    let writing = soon(
        "a rust writer gets in after java's reader's lease",
        lock.write().lock(),
    );
    let writing = writing.await.expect("lock");
    assert!(
        !harness.java.try_lock("a", READ, TWO_LEASES, None).await,
        "it is renewed"
    );
    writing.unlock().await.expect("renewed");

    // One reader of ours, and one in a JVM that renews its lease until it is killed.
    let reading = lock.read().lock().await.expect("lock");
    harness.java.lock("a", READ, None).await;
    let other = harness.client.read_write_lock("stock");
    assert_timed_out(other.write().try_lock(TWO_LEASES, Lease::Renewed).await);
    harness.java.kill();
    harness
        .observer
        .wait_until("EVAL return#redis.call('keys','*rwlock_timeout*') 0", 1)
        .await;
    reading.check().expect("the living reader keeps it");
    reading.unlock().await.expect("unlock");
    let writing = soon(
        "a rust writer passes a dead java reader",
        other.write().lock(),
    )
    .await;
    writing.expect("lock").unlock().await.expect("unlock");
}

/// A dead reader of ours and a living one of Java hold the lock when the writer comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_java_writer_passes_a_dead_reader_of_ours() {
    let mut harness = Harness::start().await;
    let dying = connected(builder(&harness.server.url()).lease(SHORT)).await;
    dying
        .read_write_lock("stock")
        .read()
        .lock()
        .await
        .expect("lock")
        .forget();
    harness.java.lock("a", READ, None).await;
    harness
        .observer
        .wait_until("EVAL return#redis.call('keys','*rwlock_timeout*') 0", 1)
        .await;
    assert_eq!(
        harness.observer.integer("HLEN stock").await,
        3,
        "its field is still there"
    );
    let writer = thread_waits(&mut harness, "w", WRITE).await;
    harness.java.unlock("a", READ).await.expect("unlock");
    tokio::time::timeout(SOON, joined("a java writer gets in", writer))
        .await
        .expect("soon");
}
