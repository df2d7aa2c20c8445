//! What every kind of lock does, in the simplest form.

use std::time::Duration;

use leasehold::inspect::LockKind;
use leasehold::{Error, Lease, Lock, Owner};
use leasehold_testbed::{Bed, eventually, holds, ms, take_turn, timed, waiting};

use crate::semaphores::in_vain;

pub(crate) async fn every_kind_of_lock_excludes_and_wakes(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let make: [fn(&leasehold::Client) -> Lock; 6] = [
        |client| client.fair_lock("fair"),
        |client| client.fenced_lock("fenced").into(),
        |client| client.lock("non-reentrant").non_reentrant(),
        |client| client.spin_lock("spin"),
        |client| client.string_lock("string"),
        |client| Lock::multi(["multi:a", "multi:b"].map(|name| client.lock(name))),
    ];
    for kind in make {
        let (first, second) = (kind(&one), kind(&other));
        let name = first.name().to_owned();
        let held = first
            .lock()
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(second.is_locked().await.unwrap(), "{name}");
        assert_eq!(holds(&first).await.unwrap(), 1, "{name}");
        assert!(
            first.remaining_lease().await.unwrap() > Some(ms(20_000)),
            "{name}"
        );
        bed.in_vain(async || second.try_lock_now(Lease::Renewed).await)
            .await;
        in_vain(async || kind(&other).try_lock(bed.span(50), Lease::Renewed).await).await;
        let (next, ()) = tokio::join!(timed(&name, second.lock()), async {
            waiting(&other, 1).await;
            held.unlock().await.unwrap();
        });
        let next = next.0.unwrap();
        next.check().unwrap();
        drop(next);
        eventually("free", async || !second.is_locked().await.unwrap()).await;
    }
}

pub(crate) async fn a_lock_can_be_awaited(bed: Bed) {
    let client = bed.client().await;
    let guard = client.lock("x").await.unwrap();
    bed.in_vain(async || client.lock("x").try_lock_now(Lease::Renewed).await)
        .await;
    guard.unlock().await.unwrap();

    let fenced = client.fenced_lock("f");
    let first = (&fenced).await.unwrap();
    let token = first.token();
    first.unlock().await.unwrap();
    assert!(fenced.await.unwrap().token() > token);

    let refused = client.lock("").await.unwrap_err();
    assert!(matches!(refused, Error::Config(_)), "{refused:?}");
}

pub(crate) async fn tokens_grow(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let (first, second) = (one.fenced_lock("f"), other.fenced_lock("f"));
    let guard = first.lock().await.unwrap();
    let nested = guard.reenter().await.unwrap();
    assert_eq!(guard.token().value(), 1);
    assert_eq!(nested.token(), guard.token());
    nested.unlock().await.unwrap();
    guard.unlock().await.unwrap();
    let guard = second.lock().await.unwrap();
    assert_eq!(guard.token().value(), 2);
    one.set_fenced("data", guard.token(), "new").await.unwrap();
    let old = leasehold::FencingToken::from_value(1);
    let stale = one.set_fenced("data", old, "old").await.unwrap_err();
    assert!(matches!(stale, Error::StaleToken { .. }), "{stale}");
    assert_eq!(bed.command(&["GET", "data"]), "new");
    assert_eq!(bed.command(&["PTTL", "redisson_lock_token:{f}"]), "-1");
}

pub(crate) async fn readers_share_and_a_writer_is_alone(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let first = one.read_write_lock("rw").owned_by(&Owner::new());
    let second = other.read_write_lock("rw").owned_by(&Owner::new());
    let read = first.read().lock().await.unwrap();
    let also = second
        .read()
        .try_lock_now(Lease::Fixed(ms(5000)))
        .await
        .unwrap();
    let refused = first.write().lock().await.unwrap_err();
    assert!(matches!(refused, Error::AlreadyHeld { .. }), "{refused}");
    also.unlock().await.unwrap();
    let refused = second
        .write()
        .try_lock_now(Lease::Renewed)
        .await
        .unwrap_err();
    assert!(refused.is_timeout(), "{refused}");
    let (write, ()) = tokio::join!(timed("the writer", second.write().lock()), async {
        waiting(&other, 1).await;
        read.unlock().await.unwrap();
    });
    let write = write.0.unwrap();
    let (read, downgraded) = tokio::join!(timed("a reader", first.read().lock()), async {
        waiting(&one, 1).await;
        let below = second.read().lock().await.unwrap();
        write.unlock().await.unwrap();
        below
    });
    read.0.unwrap().unlock().await.unwrap();
    assert!(first.read().is_locked().await.unwrap());
    assert!(!first.write().is_locked().await.unwrap());
    downgraded.unlock().await.unwrap();
    assert!(!first.read().is_locked().await.unwrap());
    assert!(!bed.exists("rw"));
}

pub(crate) async fn permits_are_counted(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let (first, second) = (one.semaphore("s"), other.semaphore("s"));
    assert!(first.try_set_permits(3).await.unwrap());
    assert!(!second.try_set_permits(5).await.unwrap());
    let two = first.acquire(2).await.unwrap();
    assert_eq!(second.available().await.unwrap(), 1);
    bed.in_vain(async || second.try_acquire(2, Duration::ZERO).await)
        .await;
    let (all, ()) = tokio::join!(timed("three permits", second.acquire(3)), async {
        waiting(&other, 1).await;
        drop(two);
    });
    let all = all.0.unwrap();
    assert_eq!(second.available().await.unwrap(), 0);
    all.forget();
    let side = "leasehold_semaphore:{s}";
    eventually("removed", async || !bed.exists(side)).await;
    first.add_permits(2).await.unwrap();
    assert_eq!(second.drain().await.unwrap(), 2);

    let (first, second) = (
        one.permit_expirable_semaphore("p"),
        other.permit_expirable_semaphore("p"),
    );
    assert!(first.try_set_permits(1).await.unwrap());
    let permit = first.acquire(1, Lease::Renewed).await.unwrap();
    assert_eq!(permit.id().len(), 32);
    assert_eq!(second.acquired().await.unwrap(), 1);
    let (next, ()) = tokio::join!(
        timed("a permit", second.acquire(1, Lease::Fixed(ms(5000)))),
        async {
            waiting(&other, 1).await;
            permit.release().await.unwrap();
        }
    );
    let next = next.0.unwrap();
    let id = next.id().to_owned();
    next.forget();
    first.release(&id).await.unwrap();
    assert!(matches!(
        first.release(&id).await,
        Err(Error::NotOwner { .. })
    ));
    assert_eq!(second.available().await.unwrap(), 1);
}

pub(crate) async fn a_latch_lets_all_go(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let latch = one.count_down_latch("l");
    latch.wait(Duration::ZERO).await.unwrap();
    assert!(latch.try_set_count(2).await.unwrap());
    bed.in_vain(async || latch.wait(bed.span(20)).await).await;
    let waiters: Vec<_> = (0..5).map(|_| other.count_down_latch("l")).collect();
    let waits = waiters.iter().map(|latch| latch.wait(Duration::MAX));
    let (done, ()) = tokio::join!(
        timed("the latch", futures::future::join_all(waits)),
        async {
            waiting(&other, 5).await;
            assert_eq!(latch.count_down().await.unwrap(), 1);
            assert_eq!(latch.count_down().await.unwrap(), 0);
        }
    );
    done.0.into_iter().for_each(|waited| waited.unwrap());
    assert_eq!(latch.count_down().await.unwrap(), 0);
}

pub(crate) async fn held_locks_are_listed(bed: Bed) {
    let client = bed.client().await;
    let (plain, fair) = (client.lock("list:plain"), client.fair_lock("list:fair"));
    let (string, rw) = (
        client.string_lock("list:s"),
        client.read_write_lock("list:rw"),
    );
    let _plain = plain.lock().await.unwrap();
    let _fair = fair.lock().await.unwrap();
    let _string = string.lock().await.unwrap();
    let _read = rw.read().lock().await.unwrap();
    bed.command(&["SET", "list:data", "x"]);
    let found = client.locks("list:*").await.unwrap();
    let seen: Vec<_> = found
        .iter()
        .map(|lock| format!("{} {}", lock.key, lock.kind))
        .collect();
    assert_eq!(
        seen,
        [
            "list:fair fair",
            "list:plain lock",
            "list:rw read",
            "list:s string"
        ]
    );
    assert!(!found.is_truncated());
}

pub(crate) async fn a_crowd_of_readers_is_listed(bed: Bed) {
    let client = bed.client().await;
    let reading = client.read_write_lock("list:rw");
    let mut guards = Vec::new();
    for _ in 0..100 {
        guards.push(reading.read().lock().await.unwrap());
    }
    let fields: Vec<_> = (0..100).map(|field| format!("field{field}")).collect();
    for field in &fields {
        bed.command(&["HSET", "list:data", field, "1"]);
    }
    let found = client.locks("list:*").await.unwrap();
    let seen: Vec<_> = found.iter().map(|lock| (&*lock.key, lock.kind)).collect();
    assert_eq!(seen, [("list:rw", LockKind::Read)]);
    assert_eq!(found[0].holders.len(), 100);
}

pub(crate) async fn a_quorum_survives_a_minority(bed: Bed) {
    let clients = [bed.client().await, bed.client().await, bed.client().await];
    let member = |at: usize| clients[at].string_lock(format!("q:{at}"));
    let one = Lock::quorum((0..3).map(member));
    let other = Lock::quorum((0..3).map(member));
    let guard = one.lock().await.unwrap();
    bed.in_vain(async || other.try_lock_now(Lease::Renewed).await)
        .await;
    bed.command(&["DEL", "q:1"]);
    assert!(other.try_lock(bed.span(20), Lease::Renewed).await.is_err());
    guard.check().unwrap();
    guard.unlock().await.unwrap();
    let guard = other
        .try_lock(ms(1000), Lease::Fixed(ms(3000)))
        .await
        .unwrap();
    guard.unlock().await.unwrap();
}

pub(crate) async fn a_name_that_reads_like_another_kind_is_a_lock_of_its_own(bed: Bed) {
    let (client, elsewhere) = (bed.client_with_long_streaks().await, bed.client().await);
    let rival = elsewhere.read_write_lock("x").write().lock().await.unwrap();
    let mut guards = Vec::new();
    for kind in ["write lock", "read lock", "semaphore", "permit", "latch"] {
        guards.push(client.lock(format!("{kind} x")).lock().await.unwrap());
    }
    // Two waiters behind the rival, to which nothing of this client may be handed over.
    let lock = client.read_write_lock("x");
    let writing = tokio::spawn(async move { lock.write().lock().await });
    let lock = client.read_write_lock("x");
    let reading = tokio::spawn(async move { lock.read().lock().await });
    eventually("all queued", async || client.stats().waiting == 2).await;
    for guard in guards {
        guard.unlock().await.unwrap();
    }
    assert_eq!(client.stats().handed_over, 0);
    assert!(!writing.is_finished() && !reading.is_finished());
    rival.unlock().await.unwrap();
    for taking in [writing, reading] {
        take_turn("granted", taking).await;
    }
}
