//! A caller that polls its future late is slow but not gone: it gets what it waits for.
//!
//! Such a caller is an actor: a `select!` over its future and a channel that is never empty, with
//! work for each item.

use std::pin::pin;
use std::time::Duration;

use leasehold::inspect::Holder;
use leasehold::{Error, Lease, Lock};
use leasehold_testbed::{Bed, eventually, forget, ms};
use tokio::time::Instant;

use crate::for_each_kind::{for_each_exclusive_kind, for_each_kind};

/// The work between two polls.
const SPANS: [u64; 7] = [30, 60, 90, 150, 250, 400, 3000];
/// A slow caller needs two polls: the first sends the call, the second gets the reply. Before, it
/// is cancelled once for each doubling of its patience, and each further call costs a poll.
const FEW: u32 = 30;

/// Polls a future between pieces of work of this length, and counts the polls.
async fn polled_between_work<F: Future>(work: Duration, future: F) -> (F::Output, u32) {
    let mut future = pin!(future);
    for polls in 1..=500 {
        tokio::select! {
            biased;
            done = future.as_mut() => return (done, polls),
            () = std::future::ready(()) => {}
        }
        tokio::time::sleep(work).await;
    }
    panic!("500 polls, {work:?} apart, were not enough")
}

/// The spans that make sense in real time.
fn spans(bed: &Bed) -> impl Iterator<Item = Duration> {
    let paused = bed.is_embedded();
    SPANS
        .into_iter()
        .filter(move |span| paused || (60..=250).contains(span))
        .map(ms)
}

/// Once, it was never granted: not with 500 polls in up to 200 s.
pub(crate) async fn a_rarely_polled_caller_gets_a_free_lock(bed: Bed) {
    let client = &bed.client().await;
    let bed = &bed;
    for_each_kind(async |kind| {
        for span in spans(bed) {
            let lock = kind.lock(client, kind.name);
            let (guard, polls) = polled_between_work(span, lock.lock()).await;
            assert!(polls <= FEW, "{}: {polls} polls, {span:?} apart", kind.name);
            guard.unwrap().unlock().await.unwrap();
        }
    })
    .await;
}

/// The first poll sends the call and the last one gets the reply. In between, each doubling costs a
/// poll: after 40 ms, 80 ms, and so on.
pub(crate) async fn each_doubling_costs_one_poll(bed: Bed) {
    let client = bed.client().await;
    let lock = client.lock("n");
    for (span, needed) in SPANS.into_iter().zip([2, 2, 3, 4, 5, 6, 9]) {
        // The looks start when something is woken.
        tokio::time::sleep(ms(1000)).await;
        let before = client.stats().cancelled_as_unpolled;
        let (guard, polls) = polled_between_work(ms(span), lock.lock()).await;
        guard.unwrap().unlock().await.unwrap();
        let cancelled = client.stats().cancelled_as_unpolled - before;
        if bed.is_embedded() {
            assert_eq!(
                (polls, cancelled),
                (needed, u64::from(needed) - 2),
                "{span} ms apart"
            );
        } else {
            assert!(polls <= FEW, "{polls} polls, {span} ms apart");
        }
    }
}

pub(crate) async fn a_rarely_polled_caller_gets_a_contended_lock_in_the_end(bed: Bed) {
    let (client, elsewhere) = (&bed.client().await, &bed.client().await);
    let bed = &bed;
    for_each_kind(async |kind| {
        for span in spans(bed) {
            let (lock, rival) = (
                kind.lock(client, kind.name),
                kind.lock(elsewhere, kind.name),
            );
            let holds = async |lock: &Lock| {
                let guard = lock.lock().await.unwrap();
                tokio::time::sleep(ms(100)).await;
                guard.unlock().await.unwrap();
            };
            let guard = rival.lock().await.unwrap();
            let first = async {
                tokio::time::sleep(ms(100)).await;
                guard.unlock().await.unwrap();
            };
            let slow = async {
                let (guard, polls) = polled_between_work(span, lock.lock()).await;
                assert!(
                    polls <= FEW * 2,
                    "{}: {polls} polls, {span:?} apart",
                    kind.name
                );
                guard.unwrap().unlock().await.unwrap();
            };
            tokio::join!(first, slow, holds(&lock), holds(&rival));
        }
    })
    .await;
}

pub(crate) async fn a_rarely_polled_caller_gets_a_further_guard(bed: Bed) {
    let client = &bed.client().await;
    let bed = &bed;
    for_each_kind(async |kind| {
        if !kind.reentrant {
            return;
        }
        for span in spans(bed) {
            let guard = kind.lock(client, kind.name).lock().await.unwrap();
            let (inner, polls) = polled_between_work(span, guard.reenter()).await;
            assert!(polls <= FEW, "{}: {polls} polls, {span:?} apart", kind.name);
            drop(inner.unwrap());
            guard.unlock().await.unwrap();
        }
    })
    .await;
}

/// Once, the hold was given back after it was taken over, and nobody could restore it any more.
pub(crate) async fn a_rarely_polled_caller_restores_a_hold(bed: Bed) {
    let lock = bed.client().await.string_lock("x");
    for span in spans(&bed) {
        let owner = forget(lock.lock().await.unwrap());
        let (restored, polls) = polled_between_work(span, lock.restore(&owner)).await;
        assert!(polls <= FEW, "{polls} polls, {span:?} apart");
        restored.unwrap().unlock().await.unwrap();
    }
}

pub(crate) async fn a_rarely_polled_caller_gets_permits_and_passes_an_open_latch(bed: Bed) {
    let client = bed.client().await;
    let (semaphore, permits) = (
        client.semaphore("s"),
        client.permit_expirable_semaphore("p"),
    );
    semaphore.try_set_permits(1).await.unwrap();
    permits.try_set_permits(1).await.unwrap();
    let latch = client.count_down_latch("l");
    for span in spans(&bed) {
        let (permit, polls) = polled_between_work(span, semaphore.acquire(1)).await;
        assert!(polls <= FEW, "{polls} polls, {span:?} apart");
        permit.unwrap().release().await.unwrap();
        let (permit, polls) = polled_between_work(span, permits.acquire(1, Lease::Renewed)).await;
        assert!(polls <= FEW, "{polls} polls, {span:?} apart");
        permit.unwrap().release().await.unwrap();
        latch.try_set_count(1).await.unwrap();
        let open = async {
            tokio::time::sleep(ms(200)).await;
            latch.count_down().await.unwrap();
        };
        let waits = polled_between_work(span, latch.wait(Duration::MAX));
        let ((opened, polls), ()) = tokio::join!(waits, open);
        assert!(polls <= FEW, "{polls} polls, {span:?} apart");
        opened.unwrap();
    }
}

/// Once, the error said that another owner held the lock, which was free.
pub(crate) async fn a_time_out_says_that_its_future_was_polled_too_rarely(bed: Bed) {
    let client = &bed.client().await;
    for_each_kind(async |kind| {
        let lock = kind.lock(client, kind.name);
        lock.lock().await.unwrap().unlock().await.unwrap();
        // On a stalled machine the look is late, and the caller gets the lock. Then try again.
        for _ in 0..5 {
            let wait = lock.try_lock(ms(600), Lease::Renewed);
            match polled_between_work(ms(300), wait).await.0 {
                Ok(guard) => guard.unlock().await.unwrap(),
                // Or its last question gets no answer in time.
                Err(error) if !error.is_timeout() => bed.timed_out(&error),
                Err(error) => {
                    let cancelled = matches!(
                        error,
                        Error::Timeout {
                            cancelled_as_unpolled: 1..,
                            ..
                        }
                    );
                    assert!(cancelled, "{}: {error}", kind.name);
                    let told = error.to_string().contains("polled too rarely");
                    assert!(told, "{}: {error}", kind.name);
                    return;
                }
            }
        }
        panic!("{}: it was had each time", kind.name);
    })
    .await;
}

/// Nobody has read the answers of its last round.
pub(crate) async fn a_late_time_out_says_whether_its_own_client_is_in_the_way(bed: Bed) {
    let client = &bed.client().await;
    for_each_exclusive_kind(async |kind| {
        let lock = kind.lock(client, kind.name);
        let guard = lock.lock().await.unwrap();
        let wait = lock.try_lock(ms(600), Lease::Renewed);
        let error = polled_between_work(ms(300), wait).await.0.unwrap_err();
        bed.timed_out(&error);
        if let Error::Timeout { in_the_way, .. } = &error {
            let is_own = |holder: &Holder| holder.is_this_client && holder.is_this_task;
            let is_told = in_the_way.as_deref().is_some_and(is_own);
            assert!(is_told, "{}: {error}", kind.name);
        }
        guard.unlock().await.unwrap();
    })
    .await;
}

/// Patience grows with the caller's lateness, and no faster. A future that is kept afterwards
/// blocks others for no longer.
pub(crate) async fn a_late_caller_delays_others_for_at_most_twice_its_lateness(bed: Bed) {
    let (client, elsewhere) = (bed.client().await, bed.client().await);
    let (lock, rival) = (client.lock("n"), elsewhere.lock("n"));
    lock.lock().await.unwrap().unlock().await.unwrap();
    let mut kept = Box::pin(lock.lock());
    for late in 0..3 {
        // It asks once what it took before is given back.
        eventually("given back", async || client.stats().releases_pending == 0).await;
        assert!(
            futures::poll!(kept.as_mut()).is_pending(),
            "its call is on the way"
        );
        eventually("granted", async || rival.is_locked().await.unwrap()).await;
        let granted = Instant::now();
        eventually("cancelled", async || {
            client.stats().cancelled_as_unpolled > late
        })
        .await;
        let limit = Lock::POLL_WITHIN * 2_u32.pow(u32::try_from(late).unwrap());
        assert!(
            granted.elapsed() < limit + bed.late(20),
            "{:?}",
            granted.elapsed()
        );
    }
    drop(kept);
    rival.lock().await.unwrap().unlock().await.unwrap();
}
