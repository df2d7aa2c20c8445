//! What a client dropped is free for its own next call.

use leasehold::{Error, Lease};
use leasehold_testbed::{Bed, LIMIT, connected, ms, timed};

use crate::for_each_kind::{for_each_exclusive_kind, for_each_kind};

/// How often each test repeats. Without the wait, about one of thirty found the lock free.
const TIMES: usize = 40;

pub(crate) async fn a_dropped_guard_is_in_nobodys_way_at_home(bed: Bed) {
    let client = bed.client().await;
    for_each_kind(async |kind| {
        let lock = kind.lock(&client, kind.name);
        for time in 0..TIMES {
            let guard = lock.try_lock_now(Lease::Renewed).await;
            drop(guard.unwrap_or_else(|error| panic!("{time}: {error}")));
        }
        assert!(!lock.is_locked().await.unwrap());
    })
    .await;
}

pub(crate) async fn a_question_comes_after_what_was_dropped(bed: Bed) {
    let client = bed.client().await;
    for_each_exclusive_kind(async |kind| {
        let lock = kind.lock(&client, kind.name);
        for _ in 0..TIMES {
            drop(lock.lock().await.unwrap());
            assert!(!lock.is_locked().await.unwrap(), "it was dropped");
            drop(lock.lock().await.unwrap());
            assert_eq!(lock.remaining_lease().await.unwrap(), None);
        }
    })
    .await;
}

pub(crate) async fn dropped_permits_are_available_at_home(bed: Bed) {
    let client = bed.client().await;
    let semaphore = client.semaphore("s");
    semaphore.try_set_permits(3).await.unwrap();
    for _ in 0..TIMES {
        drop(semaphore.acquire(2).await.unwrap());
        assert_eq!(semaphore.available().await.unwrap(), 3);
        let all = semaphore.try_acquire(3, ms(0)).await.unwrap();
        drop(all);
        drop(semaphore.try_acquire(3, ms(0)).await.unwrap());
    }
}

pub(crate) async fn an_abandoned_acquisition_is_in_nobodys_way_at_home(bed: Bed) {
    let client = bed.client().await;
    let lock = client.lock("x");
    for _ in 0..TIMES {
        {
            // Sent at the first poll, and dropped before its reply is read.
            let mut sent = Box::pin(lock.lock());
            assert!(futures::poll!(&mut sent).is_pending());
        }
        let guard = lock.try_lock_now(Lease::Renewed).await.unwrap();
        guard.unlock().await.unwrap();
    }
}

/// A release without a reply delays its client's next call, but not beyond a command's timeout.
pub(crate) async fn a_release_without_a_reply_does_not_hold_up_its_client(bed: Bed) {
    let timeout = ms(400);
    let client = connected(bed.builder().command_timeout(timeout)).await;
    let lock = client.lock("x");
    let guard = lock.lock().await.unwrap();
    bed.pause();
    drop(guard);
    let (refused, took) = timed("it gives up", lock.try_lock_now(Lease::Renewed)).await;
    bed.resume();
    assert!(matches!(refused, Err(Error::Unknown { .. })), "{refused:?}");
    assert!(took <= bed.late(2 * 400), "{took:?}");
    let again = lock.try_lock(LIMIT, Lease::Renewed).await;
    again.expect("the release arrives").unlock().await.unwrap();
}
