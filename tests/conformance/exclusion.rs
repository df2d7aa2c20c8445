//! Every acquisition is its own owner, and who may take a lock again.
#![expect(clippy::future_not_send, reason = "a test is polled in one task")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use futures::FutureExt;
use futures::future::join_all;
use leasehold::{Client, Ended, Error, Lease, Lock, LockGuard, LossReason};
use leasehold_testbed::{Bed, KINDS, Kind, connected, ms, timed};
use tokio::task::{JoinSet, LocalSet, yield_now};
use tokio::time::{sleep, timeout};

use crate::for_each_kind::{for_each_exclusive_kind, for_each_kind};

/// A critical section that counts who is inside.
#[derive(Clone, Debug, Default)]
struct Section(Arc<AtomicU32>);

impl Section {
    async fn visit(&self) {
        let inside = self.0.fetch_add(1, SeqCst) + 1;
        assert_eq!(inside, 1, "{inside} are inside");
        for _ in 0..3 {
            yield_now().await;
        }
        sleep(ms(1)).await;
        self.0.fetch_sub(1, SeqCst);
    }
}

async fn visit_and_unlock(section: Section, guard: LockGuard) {
    section.visit().await;
    guard.unlock().await.unwrap();
}

/// When a lock value was the owner, all ten tasks were inside at once with each of these patterns.
pub(crate) async fn every_pattern_of_a_service_excludes(bed: Bed) {
    let client = &bed.client().await;
    for_each_exclusive_kind(async |kind| {
        let (lock, section) = (kind.lock(client, kind.name), Section::default());
        // A loop that spawns a task with each guard.
        let mut tasks = JoinSet::new();
        for _ in 0..5 {
            let guard = lock.lock().await.unwrap();
            tasks.spawn(visit_and_unlock(section.clone(), guard));
        }
        // One lock value in shared state.
        let shared = Arc::new(lock.clone());
        for _ in 0..5 {
            let (lock, section) = (shared.clone(), section.clone());
            tasks.spawn(async move {
                let guard = lock.try_lock(ms(30_000), Lease::Renewed).await.unwrap();
                visit_and_unlock(section, guard).await;
            });
        }
        // Several futures of one task.
        let take = async || visit_and_unlock(section.clone(), lock.lock().await.unwrap()).await;
        tokio::join!(take(), take(), take());
        join_all((0..5).map(|_| take())).await;
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
    })
    .await;
}

fn reentrant() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().filter(|kind| kind.reentrant)
}

/// Asserts that the lock is taken again immediately, held until the outermost guard is gone, and
/// free then.
async fn is_nested(rival: &Lock, kind: &Kind, outer: LockGuard, inner: Result<LockGuard, Error>) {
    let inner = inner.unwrap();
    inner.check().unwrap();
    let refused = async || !kind.exclusive || rival.try_lock_now(Lease::Renewed).await.is_err();
    assert!(refused().await);
    inner.unlock().await.unwrap();
    assert!(refused().await, "the outer one holds it still");
    outer.unlock().await.unwrap();
    rival.lock().await.unwrap().unlock().await.unwrap();
}

pub(crate) async fn nested_sections_re_enter(bed: Bed) {
    let (client, elsewhere) = (&bed.client().await, &bed.client().await);
    for kind in reentrant() {
        let (lock, rival) = (
            kind.lock(client, kind.name),
            kind.lock(elsewhere, kind.name),
        );
        let is_nested = async |outer, inner| is_nested(&rival, kind, outer, inner).await;
        // By its name, inside a section.
        let outer = lock.lock().await.unwrap();
        let by_name = kind.lock(client, kind.name);
        let inner = outer
            .run(by_name.try_lock(ms(5000), Lease::Renewed))
            .await
            .unwrap();
        is_nested(outer, inner).await;
        // By the guard.
        let outer = lock.lock().await.unwrap();
        let inner = outer.reenter().await;
        is_nested(outer, inner).await;
        let outer = lock.lock().await.unwrap();
        let inner = lock
            .acquire()
            .wait(ms(5000))
            .lease(Lease::Fixed(ms(5000)))
            .within(&outer)
            .await;
        is_nested(outer, inner).await;
        // From a section inside a section.
        let deep = async |_guard| {
            let inner = lock.run(ms(5000), Lease::Renewed, async |_| {
                let innermost = lock.try_lock_now(Lease::Renewed).await?;
                innermost.unlock().await
            });
            inner.await
        };
        timed(
            "three deep",
            lock.try_run(ms(5000), Lease::Renewed, async |guard| deep(guard).await?),
        )
        .await
        .0
        .unwrap();
        rival.lock().await.unwrap().unlock().await.unwrap();
    }
}

pub(crate) async fn code_outside_a_section_is_excluded(bed: Bed) {
    let (client, elsewhere) = (&bed.client().await, &bed.client().await);
    for_each_exclusive_kind(async |kind| {
        let lock = kind.lock(client, kind.name);
        let now = async |lock: &Lock| lock.try_lock_now(Lease::Renewed).await.map(drop);
        let is_out = |tried: Result<(), Error>| bed.timed_out(&tried.unwrap_err());
        let guard = lock.lock().await.unwrap();
        // A task spawned inside a section, also on the same thread.
        let spawned = lock.clone();
        is_out(
            guard
                .run(async {
                    tokio::spawn(
                        async move { spawned.try_lock_now(Lease::Renewed).await.map(drop) },
                    )
                    .await
                    .unwrap()
                })
                .await
                .unwrap(),
        );
        // Another client.
        is_out(
            guard
                .run(now(&kind.lock(elsewhere, kind.name)))
                .await
                .unwrap(),
        );
        // A future made inside and polled outside.
        let mut made_inside = None;
        let make = async { made_inside = Some(lock.try_lock_now(Lease::Renewed)) };
        guard.run(make).await.unwrap();
        is_out(made_inside.unwrap().await.map(drop));
        // Anybody after the section has ended.
        is_out(now(&lock).await);
        guard.unlock().await.unwrap();
    })
    .await;
}

/// A task of a `LocalSet` is polled while the section that polls the set is on the stack.
pub(crate) async fn a_task_of_a_local_set_is_not_inside(bed: Bed) {
    let client = bed.client().await;
    let lock = client.lock("x");
    let guard = lock.lock().await.unwrap();
    let set = LocalSet::new();
    let tried = set.run_until(async {
        let other = lock.clone();
        tokio::task::spawn_local(async move { other.try_lock_now(Lease::Renewed).await.map(drop) })
            .await
            .unwrap()
    });
    bed.timed_out(&guard.run(tried).await.unwrap().unwrap_err());
    guard.unlock().await.unwrap();
}

/// An inner acquisition is an ordinary acquisition: if the outer hold is lost, it stands alone.
pub(crate) async fn a_section_whose_hold_is_lost_lets_nobody_in(bed: Bed) {
    let (client, elsewhere) = (bed.client().await, bed.client().await);
    let lock = client.lock("x");
    let guard = lock.lock().await.unwrap();
    let inner = guard.run(async {
        assert!(elsewhere.lock("x").force_unlock("a test").await.unwrap());
        let rival = elsewhere.lock("x").lock().await.unwrap();
        let inner = lock.try_lock(ms(50), Lease::Renewed).await;
        (rival, inner.map(drop))
    });
    // The inner call is how the outer section learns that it is lost.
    let lost = inner.await.unwrap_err();
    assert!(matches!(lost, Error::Lost { .. }), "{lost:?}");
    assert!(
        guard.reenter().await.is_err(),
        "a guard whose hold is lost proves nothing"
    );
}

pub(crate) async fn a_guard_of_another_lock_proves_nothing(bed: Bed) {
    let (client, elsewhere) = (bed.client().await, bed.client().await);
    let guard = client.lock("x").lock().await.unwrap();
    for other in [
        client.lock("y"),
        elsewhere.lock("x"),
        Lock::multi(["y", "z"].map(|name| client.lock(name))),
    ] {
        let refused = other.acquire().within(&guard).await.unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("belongs to another lock or client"),
            "{refused}"
        );
    }
    let both = Lock::multi(["x", "y"].map(|name| client.lock(name)))
        .acquire()
        .within(&guard)
        .await
        .unwrap();
    both.unlock().await.unwrap();
    guard.unlock().await.unwrap();
}

pub(crate) async fn a_time_out_says_whether_its_own_client_is_in_the_way(bed: Bed) {
    let (client, elsewhere) = (&bed.client().await, &bed.client().await);
    for_each_exclusive_kind(async |kind| {
        let guard = kind.lock(client, kind.name).lock().await.unwrap();
        for (asks, in_this_task) in [(client, true), (client, false), (elsewhere, true)] {
            for wait in [ms(0), ms(60)] {
                let lock = kind.lock(asks, kind.name);
                let try_it = |lock: Lock| async move { lock.try_lock(wait, Lease::Renewed).await };
                let error = bed
                    .in_vain(async || {
                        if in_this_task {
                            return try_it(lock.clone()).await;
                        }
                        tokio::spawn(try_it(lock.clone())).await.unwrap()
                    })
                    .await;
                let text = error.to_string();
                let Error::Timeout { in_the_way, .. } = error else {
                    panic!("{error}")
                };
                let holder = in_the_way.as_ref();
                let by_this_client = holder.is_some_and(|holder| holder.is_this_client);
                let by_this_task = holder.is_some_and(|holder| holder.is_this_task);
                let own = std::ptr::eq(asks, client);
                assert_eq!(by_this_client, own, "{text}");
                assert_eq!(by_this_task, own && in_this_task, "{text}");
                assert_eq!(text.contains("reenter"), by_this_task, "{text}");
                let told = holder.map(|holder| &*holder.owner);
                assert!(told.is_some() || !own, "{text}");
                assert_eq!(
                    text.contains("holder="),
                    told.is_some() && !by_this_task,
                    "{text}"
                );
                assert!(kind.is_single() || !own || told.is_some());
                assert!(
                    !kind.is_single() || !own || told == Some(guard.owner()),
                    "{text}"
                );
            }
        }
        guard.unlock().await.unwrap();
    })
    .await;
}

/// An upgrade would wait for the release of its own owner.
pub(crate) async fn the_sides_of_a_lock_follow_the_same_rule(bed: Bed) {
    let (client, elsewhere) = (bed.client().await, bed.client().await);
    let (both, others) = (client.read_write_lock("x"), elsewhere.read_write_lock("x"));
    let upgrade = both.read().run(ms(5000), Lease::Renewed, async |guard| {
        let by_guard = both.write().acquire().within(&*guard).await.map(drop);
        [by_guard, both.write().lock().await.map(drop)]
    });
    for refused in timed("at once", upgrade).await.0.unwrap() {
        assert!(
            matches!(refused, Err(Error::AlreadyHeld { .. })),
            "{refused:?}"
        );
    }
    // Reading under the owner's write hold, and after it.
    let reading = both.write().run(ms(5000), Lease::Renewed, async |guard| {
        let inside = both.read().lock().await.unwrap();
        let shown = both.read().acquire().within(&*guard).await.unwrap();
        assert!(
            others.read().try_lock_now(Lease::Renewed).await.is_err(),
            "it is written"
        );
        [inside, shown]
    });
    for guard in reading.await.unwrap() {
        assert!(
            others.write().try_lock_now(Lease::Renewed).await.is_err(),
            "it is read"
        );
        guard.check().unwrap();
        guard.unlock().await.unwrap();
    }
    others.write().lock().await.unwrap().unlock().await.unwrap();
    // Without a proof, another acquisition of this client is a rival.
    let writing = both.write().lock().await.unwrap();
    bed.in_vain(async || both.read().try_lock_now(Lease::Renewed).await)
        .await;
    writing.unlock().await.unwrap();
}

pub(crate) async fn every_end_of_a_hold_is_reported(bed: Bed) {
    let (client, elsewhere) = (
        &bed.client_with_lease(bed.lease(400)).await,
        &bed.client().await,
    );
    for_each_kind(async |kind| {
        let lock = kind.lock(client, kind.name);
        let taken = async || lock.lock().await.unwrap();
        let told = async |ended| timed("ended", ended).await.0;
        let guard = taken().await;
        let ended = guard.ended();
        assert!(
            timeout(bed.span(20), guard.ended()).await.is_err(),
            "it has not ended"
        );
        guard.unlock().await.unwrap();
        assert_eq!(told(ended).await, Ended::Released);
        let guard = taken().await;
        let ended = guard.ended();
        drop(guard);
        assert_eq!(told(ended).await, Ended::Released);
        let guard = taken().await;
        let ended = guard.ended();
        assert!(
            kind.lock(elsewhere, kind.name)
                .force_unlock("a test")
                .await
                .unwrap()
        );
        let lost = told(ended).await;
        let is_gone = matches!(lost, Ended::Lost(LossReason::Gone | LossReason::Forced(_)));
        assert!(is_gone, "{lost:?}");
        drop(guard);
        let guard = taken().await;
        let ended = guard.ended();
        guard.forget();
        assert_eq!(told(ended).await, Ended::Forgotten);
        kind.lock(elsewhere, kind.name)
            .force_unlock("a test")
            .await
            .unwrap();
        // The shared hold ends when both guards are gone.
        if kind.reentrant && kind.exclusive {
            let guard = taken().await;
            let (inner, ended) = (guard.reenter().await.unwrap(), guard.ended());
            guard.unlock().await.unwrap();
            let mut ended = Box::pin(ended);
            assert!(
                ended.as_mut().now_or_never().is_none(),
                "the inner guard holds it"
            );
            inner.unlock().await.unwrap();
            assert_eq!(timed("ended", ended).await.0, Ended::Released);
        }
    })
    .await;
}

/// Otherwise a wrapper that retries would pay twice.
pub(crate) async fn the_result_of_the_work_is_returned_even_if_the_release_fails(bed: Bed) {
    let client = connected(bed.builder().command_timeout(bed.span(100))).await;
    let lock = client.lock("account");
    let paid = lock.run(ms(5000), Lease::Renewed, async |_| {
        bed.pause();
        "paid"
    });
    assert_eq!(timed("a result", paid).await.0.unwrap(), "paid");
    assert!(client.stats().releases_pending > 0, "the release goes on");
    bed.resume();
    bed.until_gone("account").await;
    let refused: Result<u32, Error> = lock
        .acquire()
        .try_run(async |guard| {
            assert!(client.lock("account").force_unlock("a test").await?);
            guard.extend(ms(1000)).await.unwrap_err();
            Ok(42)
        })
        .await;
    assert!(
        matches!(refused, Err(Error::Lost { .. })),
        "lost while the work ran: {refused:?}"
    );
}

/// `run` exists for everything that is held.
pub(crate) async fn work_runs_under_permits_too(bed: Bed) {
    let client: Client = bed.client().await;
    let semaphore = client.semaphore("s");
    semaphore.try_set_permits(3).await.unwrap();
    let permit = semaphore.acquire(2).await.unwrap();
    assert_eq!(
        permit
            .run(async { semaphore.available().await.unwrap() })
            .await
            .unwrap(),
        1
    );
    let failed: Result<(), Error> = permit.try_run(async { Err(Error::Closed) }).await;
    assert!(matches!(failed, Err(Error::Closed)), "{failed:?}");
    permit.release().await.unwrap();
    let expirable = client.permit_expirable_semaphore("p");
    expirable.try_set_permits(1).await.unwrap();
    let permit = expirable
        .acquire(1, Lease::RenewedFor(ms(5000)))
        .await
        .unwrap();
    assert_eq!(
        permit
            .run(async { expirable.available().await.unwrap() })
            .await
            .unwrap(),
        0
    );
    assert!(matches!(
        permit.reenter().await,
        Err(Error::AlreadyHeld { .. })
    ));
    permit.release().await.unwrap();
    assert_eq!(expirable.available().await.unwrap(), 1);
}
