//! A future that nobody polls blocks nobody: it is polled a few times, kept, and never dropped.

use std::pin::Pin;
use std::time::Duration;

use leasehold::{Client, Lease, Lock};
use leasehold_testbed::{Bed, Kind, eventually, ms, release, timed};
use tokio::time::{Instant, timeout};

use crate::for_each_kind::{for_each_exclusive_kind, for_each_kind};

/// Polls a future for a while and not afterwards.
async fn polled_for<F: Future>(span: Duration, future: F) -> Pin<Box<F>> {
    let mut future = Box::pin(future);
    assert!(
        timeout(span, future.as_mut()).await.is_err(),
        "it has to wait"
    );
    future
}

/// The time within which the next waiter goes on. Polling waiters notice one pause later.
fn limit(bed: &Bed, kind: &Kind) -> Duration {
    let pause = if kind.quorum {
        2 * kind.late_ms()
    } else {
        kind.late_ms()
    };
    Lock::POLL_WITHIN + bed.late(pause)
}

/// Once, the grant was renewed forever: another client timed out after 24 hours.
pub(crate) async fn a_grant_that_is_not_picked_up_goes_to_another_client(bed: Bed) {
    let (client, elsewhere) = (&bed.client().await, &bed.client().await);
    for_each_exclusive_kind(async |kind| {
        let (lock, rival) = (
            kind.lock(client, kind.name),
            kind.lock(elsewhere, kind.name),
        );
        let guard = lock.lock().await.unwrap();
        let kept = polled_for(bed.span(60), lock.lock()).await;
        guard.unlock().await.unwrap();
        let (rivals, took) = timed("the rival gets it", rival.lock()).await;
        assert!(took < limit(&bed, kind), "{}: {took:?}", kind.name);
        // If it is polled again, it starts over like any other.
        let kept = polled_for(bed.span(60), kept).await;
        rivals.unwrap().unlock().await.unwrap();
        release(timed("it is polled again", kept).await.0).await;
    })
    .await;
    assert!(client.stats().cancelled_as_unpolled > 0);
}

pub(crate) async fn a_grant_that_is_not_picked_up_goes_to_the_next_waiter(bed: Bed) {
    let client = &bed.client().await;
    for_each_exclusive_kind(async |kind| {
        let lock = kind.lock(client, kind.name);
        let guard = lock.lock().await.unwrap();
        let kept = [
            polled_for(bed.span(40), lock.lock()).await,
            polled_for(bed.span(40), lock.lock()).await,
            polled_for(bed.span(40), lock.lock()).await,
        ];
        let release = async {
            tokio::task::yield_now().await;
            guard.unlock().await.unwrap();
        };
        let (next, ()) = tokio::join!(timed("granted", lock.lock()), release);
        let (next, took) = next;
        // Each such future ahead costs as much.
        assert!(took < limit(&bed, kind) * 4, "{}: {took:?}", kind.name);
        next.unwrap().unlock().await.unwrap();
        drop(kept);
    })
    .await;
}

/// The reply with the grant has arrived, and nobody takes it.
pub(crate) async fn a_grant_that_nobody_picks_up_is_released(bed: Bed) {
    let elsewhere = &bed.client().await;
    for_each_kind(async |kind| {
        let client = &bed.client().await;
        let (lock, rival) = (
            kind.lock(client, kind.name),
            kind.lock(elsewhere, kind.name),
        );
        // Load the script first: a caller that is polled again would have to send it.
        lock.lock().await.unwrap().unlock().await.unwrap();
        let mut kept = Box::pin(lock.try_lock(ms(60_000), Lease::Renewed));
        assert!(
            futures::poll!(kept.as_mut()).is_pending(),
            "its call is on the way"
        );
        let start = Instant::now();
        // The lock is taken for a moment, which a stalled machine may not see.
        eventually("cancelled", async || {
            client.stats().cancelled_as_unpolled > 0
        })
        .await;
        eventually("given back", async || !rival.is_locked().await.unwrap()).await;
        let took = start.elapsed();
        assert!(took < limit(&bed, kind), "{}: {took:?}", kind.name);
        assert_eq!(client.stats().renewed, 0, "it was not renewed meanwhile");
        release(timed("polled again", kept).await.0).await;
    })
    .await;
}

/// Once, it starved the waiters of this client although the key was gone.
pub(crate) async fn an_unlock_is_carried_out_whether_it_is_polled_or_not(bed: Bed) {
    let (client, elsewhere) = (&bed.client().await, &bed.client().await);
    for_each_exclusive_kind(async |kind| {
        let (lock, rival) = (
            kind.lock(client, kind.name),
            kind.lock(elsewhere, kind.name),
        );
        for polls in 0..2 {
            // For a waiter of another client, and for one of this client that nothing else wakes.
            for next in [&rival, &lock] {
                let guard = lock.lock().await.unwrap();
                let waits = next.lock();
                let mut kept = None;
                let release = async {
                    tokio::task::yield_now().await;
                    let mut unlock = Box::pin(guard.unlock());
                    for _ in 0..polls {
                        let _handed_over_or_sent = futures::poll!(unlock.as_mut());
                    }
                    kept = Some(unlock);
                };
                let ((next, took), ()) = tokio::join!(timed("granted", waits), release);
                assert!(
                    took < limit(&bed, kind),
                    "{}, {polls} polls: {took:?}",
                    kind.name
                );
                next.unwrap().unlock().await.unwrap();
                drop(kept);
            }
        }
        // If it is polled after all, it reports the release.
        let kept = lock.lock().await.unwrap().unlock();
        eventually("free", async || !rival.is_locked().await.unwrap()).await;
        timed("released", kept).await.0.unwrap();
    })
    .await;
}

/// A re-entry raised the count, and nobody has its guard.
pub(crate) async fn a_re_entry_that_is_not_picked_up_keeps_nothing(bed: Bed) {
    let (client, elsewhere) = (&bed.client().await, &bed.client().await);
    for_each_kind(async |kind| {
        if !kind.reentrant {
            return;
        }
        let (lock, rival) = (
            kind.lock(client, kind.name),
            kind.lock(elsewhere, kind.name),
        );
        let guard = lock.lock().await.unwrap();
        let mut kept = Box::pin(guard.reenter());
        assert!(futures::poll!(kept.as_mut()).is_pending());
        let mut shown = Box::pin(lock.acquire().within(&guard).into_future());
        assert!(futures::poll!(shown.as_mut()).is_pending());
        eventually("they are cancelled", async || {
            client.stats().cancelled_as_unpolled >= 2
        })
        .await;
        // They borrow the guard, so dropping it drops them first.
        drop((kept, shown));
        guard.unlock().await.unwrap();
        let (next, _took) = timed("granted", rival.lock()).await;
        next.unwrap().unlock().await.unwrap();
    })
    .await;
}

/// Members are not kept for a future that does not wait for the rest.
pub(crate) async fn members_of_a_lock_of_several_are_not_kept(bed: Bed) {
    let (client, elsewhere) = (bed.client().await, bed.client().await);
    let both = Lock::multi(["a", "b"].map(|name| client.lock(name)));
    let last = elsewhere.lock("b").lock().await.unwrap();
    let kept = polled_for(bed.span(100), both.lock()).await;
    // After its time the future lets go of `a`, or would if it were polled.
    let (first, took) = timed("the first member", elsewhere.lock("a").lock()).await;
    assert!(took < ms(2000) + bed.late(200), "{took:?}");
    last.unlock().await.unwrap();
    let (second, _took) = timed("the other member", elsewhere.lock("b").lock()).await;
    first.unwrap().unlock().await.unwrap();
    second.unwrap().unlock().await.unwrap();
    release(timed("polled again", kept).await.0).await;
}

pub(crate) async fn permits_and_latches_do_not_wait_for_it_either(bed: Bed) {
    let client: Client = bed.client().await;
    let semaphore = client.semaphore("s");
    semaphore.try_set_permits(1).await.unwrap();
    let held = semaphore.acquire(1).await.unwrap();
    let kept = polled_for(bed.span(40), semaphore.acquire(1)).await;
    held.release().await.unwrap();
    let (next, took) = timed("granted", semaphore.acquire(1)).await;
    assert!(took < Lock::POLL_WITHIN + bed.late(1500), "{took:?}");
    next.unwrap().release().await.unwrap();
    drop(kept);

    let permits = client.permit_expirable_semaphore("p");
    permits.try_set_permits(1).await.unwrap();
    let held = permits.acquire(1, Lease::Renewed).await.unwrap();
    let kept = polled_for(bed.span(40), permits.acquire(1, Lease::Renewed)).await;
    held.release().await.unwrap();
    let (next, took) = timed("granted", permits.acquire(1, Lease::Renewed)).await;
    assert!(took < Lock::POLL_WITHIN + bed.late(1500), "{took:?}");
    next.unwrap().release().await.unwrap();
    drop(kept);

    let latch = client.count_down_latch("l");
    latch.try_set_count(1).await.unwrap();
    let kept = polled_for(bed.span(40), latch.wait(Duration::MAX)).await;
    let waits = timed("it opens", latch.wait(Duration::MAX));
    let (opened, left) = tokio::join!(waits, latch.count_down());
    assert_eq!(left.unwrap(), 0);
    opened.0.unwrap();
    timed("polled again", kept).await.0.unwrap();
}

/// A fair queue is in Redis, where heartbeats kept the place of a future that nobody polled.
pub(crate) async fn a_place_in_a_fair_queue_is_not_kept_for_it(bed: Bed) {
    let (client, elsewhere) = (bed.client().await, bed.client().await);
    let guard = elsewhere.fair_lock("x").lock().await.unwrap();
    let lock = client.fair_lock("x");
    let queue = || bed.list(&["LRANGE", "redisson_lock_queue:{x}", "0", "-1"]);
    let mut kept = Box::pin(lock.lock());
    let queued = async || !queue().is_empty();
    tokio::select! {
        taken = kept.as_mut() => panic!("it is held: {taken:?}"),
        () = eventually("in the queue", queued) => {}
    }
    let first = queue();
    let kept = polled_for(bed.span(100), kept).await;
    let rival = client.fair_lock("x");
    let releasing = async {
        // Its own place may be lost by then.
        let comes = async || queue().iter().any(|owner| !first.contains(owner));
        eventually("the rival is in the queue", comes).await;
        guard.unlock().await.unwrap();
    };
    let ((next, took), ()) = tokio::join!(timed("granted", rival.lock()), releasing);
    assert!(took < Lock::POLL_WITHIN + bed.late(250), "{took:?}");
    next.unwrap().unlock().await.unwrap();
    release(timed("polled again", kept).await.0).await;
}
