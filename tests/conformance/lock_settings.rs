//! Settings of one lock value: lease, safety poll, number of retries and pauses.

use std::time::Duration;

use leasehold::{Client, ConfigError, Error, HoldState, Lease, Lock};
use leasehold_testbed::{Bed, eventually, ms, take_and_release, timed, until_certain, waiting};
use tokio::time::{Instant, sleep};

use crate::faulty_connection::FaultyConnection;
use crate::for_each_kind::for_each_kind;

pub(crate) async fn a_lock_has_a_lease_of_its_own(bed: Bed) {
    let client = bed.client().await;
    let lease = bed.lease(300);
    for_each_kind(async |kind| {
        let lock = kind.lock(&client, kind.name).with_lease(lease);
        let guard = lock.lock().await.unwrap();
        assert!(guard.remaining() <= lease);
        for key in kind.keys(kind.name) {
            assert!(ms(u64::try_from(bed.left(&key)).unwrap()) <= lease);
        }
        sleep(lease * 2).await;
        assert_ne!(guard.state(), HoldState::Lost, "it is renewed");
        guard.unlock().await.unwrap();
        let guard = lock
            .try_lock_now(Lease::RenewedFor(lease * 3))
            .await
            .unwrap();
        assert!(
            guard.remaining() > lease,
            "an acquisition has the last word"
        );
        guard.unlock().await.unwrap();
        let guard = kind.lock(&client, kind.name).lock().await.unwrap();
        assert!(
            guard.remaining() > lease * 3,
            "another value has what the client has"
        );
        guard.unlock().await.unwrap();
    })
    .await;
}

pub(crate) async fn permits_have_a_lease_of_their_own(bed: Bed) {
    let client = bed.client().await;
    let lease = bed.lease(300);
    let semaphore = client.semaphore("s").with_lease(lease);
    semaphore.try_set_permits(1).await.unwrap();
    let permit = semaphore.acquire(1).await.unwrap();
    assert!(permit.guard().unwrap().remaining() <= lease);
    let expirable = client.permit_expirable_semaphore("p").with_lease(lease);
    expirable.try_set_permits(1).await.unwrap();
    let other = expirable.acquire(1, Lease::Renewed).await.unwrap();
    assert!(other.remaining() <= lease);
    sleep(lease * 2).await;
    assert_ne!(permit.guard().unwrap().state(), HoldState::Lost);
    assert_ne!(other.state(), HoldState::Lost);
}

pub(crate) async fn each_hold_is_renewed_by_its_own_lease(bed: Bed) {
    let client = bed.client().await;
    let lease = bed.lease(600);
    let short = client.lock("short").with_lease(lease).lock().await.unwrap();
    let long = client
        .lock("long")
        .with_lease(lease * 100)
        .lock()
        .await
        .unwrap();
    let (start, deadline) = (Instant::now(), long.deadline());
    sleep(lease * 2).await;
    let (renewed, thirds) = (
        client.stats().renewed,
        start.elapsed().as_millis() / (lease / 3).as_millis(),
    );
    // One renewal for each third of a lease, over two leases.
    assert!(
        renewed >= 4 && u128::from(renewed) <= thirds + 1,
        "{renewed} in {thirds} thirds"
    );
    until_certain(&short).await;
    assert_eq!(long.deadline(), deadline);
}

/// Waiters of other clients know how long the lock is held at most.
pub(crate) async fn a_hold_passes_to_no_shorter_lease(bed: Bed) {
    let client = bed.client_with_long_streaks().await;
    let with_lease = |lease| {
        let lock = client.lock("x").with_lease(lease);
        tokio::spawn(async move { lock.lock().await })
    };
    let guard = client.lock("x").lock().await.unwrap();
    let shorter = with_lease(ms(10_000));
    waiting(&client, 1).await;
    guard.unlock().await.unwrap();
    let guard = timed("granted", shorter).await.0.unwrap().unwrap();
    assert_eq!(client.stats().handed_over, 0);
    assert!(bed.left("x") <= 10_000);
    let longer = with_lease(ms(20_000));
    waiting(&client, 1).await;
    let owner = guard.owner().to_owned();
    guard.unlock().await.unwrap();
    let guard = timed("granted", longer).await.0.unwrap().unwrap();
    assert_eq!((client.stats().handed_over, guard.owner()), (1, &*owner));
    eventually("it has its own lease", async || bed.left("x") > 10_000).await;
}

/// The outer guard relies on its lease to survive an outage of that length.
pub(crate) async fn a_nested_lease_does_not_shorten_renewals(bed: Bed) {
    let client = bed.client().await;
    let (long, short) = (bed.lease(1000), bed.lease(300));
    let outer = client.lock("x").with_lease(long).lock().await.unwrap();
    let brief = client.lock("x").with_lease(short);
    let inner = brief.acquire().within(&outer).await.unwrap();
    for _ in 0..5 {
        sleep(long / 4).await;
        assert!(outer.remaining() > long / 2, "{:?}", outer.remaining());
    }
    inner.unlock().await.unwrap();
    sleep(long / 2).await;
    assert!(outer.remaining() > long / 2, "{:?}", outer.remaining());
    // A fixed lease is not renewed, so the inner guard has its own.
    let lock = client.lock("y");
    let outer = lock.try_lock_now(Lease::Fixed(long)).await.unwrap();
    let brief = client.lock("y").with_lease(short);
    let inner = brief.acquire().within(&outer).await.unwrap();
    sleep(long + short * 2).await;
    until_certain(&inner).await;
    assert!(inner.remaining() <= short, "{:?}", inner.remaining());
    drop(outer);
}

/// Waits for a foreign key, which is deleted without a message.
async fn deletion_is_found_after(bed: &Bed, client: &Client, lock: Lock) -> Duration {
    bed.command(&["HSET", "x", "somebody:1", "1"]);
    bed.command(&["PEXPIRE", "x", "600000"]);
    let waiter = tokio::spawn(async move { lock.lock().await });
    eventually("listening", async || client.stats().listeners == 1).await;
    bed.command(&["DEL", "x"]);
    let (guard, took) = timed("a poll finds it", waiter).await;
    guard.unwrap().unwrap().unlock().await.unwrap();
    took
}

pub(crate) async fn a_lock_has_a_safety_poll_of_its_own(bed: Bed) {
    let client = bed.client_without_polls().await;
    let lock = client.lock("x").with_safety_poll(ms(200));
    let took = deletion_is_found_after(&bed, &client, lock).await;
    assert!(took < bed.late(300), "{took:?}");
    assert_eq!(client.stats().polls, 0, "it asked for itself");
}

pub(crate) async fn a_lock_that_waits_for_long_asks_again(bed: Bed) {
    let client = bed.client_without_polls().await;
    let held = bed.client().await.lock("x").lock().await.unwrap();
    let lock = client.lock("x").with_safety_poll(ms(50));
    let waiter = tokio::spawn(async move { lock.lock().await });
    waiting(&client, 1).await;
    let calls = client.stats().calls;
    eventually("asked again", async || client.stats().calls >= calls + 5).await;
    held.unlock().await.unwrap();
    drop(timed("granted", waiter).await.0.unwrap().unwrap());
    eventually("released", async || client.stats().releases_pending == 0).await;
    // Nobody waits, so nobody asks.
    let calls = client.stats().calls;
    sleep(ms(500)).await;
    assert_eq!(client.stats().calls, calls);
}

pub(crate) async fn permits_and_latches_are_asked_for_as_often(bed: Bed) {
    let client = bed.client_without_polls().await;
    let semaphore = client.semaphore("s").with_safety_poll(ms(200));
    semaphore.try_set_permits(0).await.unwrap();
    let taking = tokio::spawn(async move { semaphore.acquire(1).await });
    let latch = client.count_down_latch("l").with_safety_poll(ms(200));
    latch.try_set_count(1).await.unwrap();
    let open = tokio::spawn(async move { latch.wait(Duration::MAX).await });
    eventually("both listen", async || client.stats().listeners == 2).await;
    bed.command(&["SET", "s", "1"]);
    bed.command(&["DEL", "l"]);
    let (done, took) = timed("both go on", async { (taking.await, open.await) }).await;
    drop(done.0.unwrap().unwrap());
    done.1.unwrap().unwrap();
    assert!(took < bed.late(500), "{took:?}");
}

fn asking(client: &Client) -> [(&'static str, Lock); 3] {
    let members = ["q:a", "q:b", "q:c"].map(|name| client.string_lock(name));
    [
        ("spin", client.spin_lock("spin")),
        ("string", client.string_lock("string")),
        ("quorum", Lock::quorum(members)),
    ]
}

pub(crate) async fn retries_end_an_acquisition(bed: Bed) {
    let (client, other) = (bed.client_without_polls().await, bed.client().await);
    let pause = bed.span(100);
    for ((name, lock), (_, held)) in asking(&client).into_iter().zip(asking(&other)) {
        let guard = held.lock().await.unwrap();
        for retries in [0, 3] {
            let lock = lock
                .clone()
                .with_retry_count(retries)
                .with_retry_pause(pause, pause);
            let (before, start) = (client.stats().calls, Instant::now());
            let error = timed("ended", lock.lock()).await.0.unwrap_err();
            assert!(error.is_timeout(), "{name}: {error}");
            if name != "quorum" {
                let calls = client.stats().calls - before;
                let who = 1; // is in the way
                assert_eq!(calls, u64::from(retries) + 1 + who, "{name}");
            }
            let took = start.elapsed();
            let most = pause * retries + bed.late(50);
            assert!(
                took >= pause / 2 * retries && took <= most,
                "{name}: {took:?}"
            );
        }
        assert!(client.stats().waiting == 0);
        guard.unlock().await.unwrap();
        take_and_release(&lock.with_retry_count(0)).await;
    }
}

/// A multi lock continues until its wait is over, unless a member has used up its retries.
pub(crate) async fn retries_end_an_acquisition_of_several_locks(bed: Bed) {
    let (client, other) = (bed.client_without_polls().await, bed.client().await);
    let strings = || ["a", "b", "c"].map(|name| client.string_lock(name));
    for held in ["a", "b", "c"] {
        let guard = other.string_lock(held).lock().await.unwrap();
        for retries in [0, 3] {
            let lock = Lock::multi(strings()).with_retry_count(retries);
            // On a stalled machine a reply is lost, and what was in doubt is given back a little
            // later.
            timed("ended", bed.in_vain(async || lock.lock().await)).await;
            for free in ["a", "b", "c"].into_iter().filter(|name| *name != held) {
                let is_engine = bed.is_embedded();
                assert!(!is_engine || !bed.exists(free), "{held}: {free}");
                bed.until_gone(free).await;
            }
        }
        guard.unlock().await.unwrap();
    }
    take_and_release(&Lock::multi(strings()).with_retry_count(0)).await;
}

pub(crate) async fn pauses_are_as_they_were_set(bed: Bed) {
    let (client, other) = (bed.client_without_polls().await, bed.client().await);
    for ((name, lock), (_, held)) in asking(&client).into_iter().zip(asking(&other)).take(2) {
        let guard = held.lock().await.unwrap();
        let lock = lock.with_retry_pause(ms(400), ms(400));
        let waiter = tokio::spawn(async move { lock.lock().await });
        waiting(&client, 1).await;
        let (before, start) = (client.stats().calls, Instant::now());
        sleep(ms(2000)).await;
        let calls = client.stats().calls - before;
        let most = u64::try_from(start.elapsed().as_millis()).unwrap() / 200 + 2;
        assert!((2..=most).contains(&calls), "{name}: {calls} calls");
        guard.unlock().await.unwrap();
        drop(timed("granted", waiter).await.0.unwrap().unwrap());
    }
}

pub(crate) async fn bad_settings_are_refused_before_anything_is_sent(bed: Bed) {
    let client = bed.client_without_polls().await;
    let names = || ["a", "b"].map(|name| client.lock(name));
    let bad = ms(99);
    let out_of_range = [
        client.lock("x").with_lease(bad),
        client.fair_lock("x").with_lease(Duration::MAX),
        client.lock("x").with_safety_poll(ms(9)),
        client.string_lock("x").with_retry_pause(ms(0), ms(5)),
        client.string_lock("x").with_retry_pause(ms(5), ms(4)),
        client.read_write_lock("x").with_lease(bad).read().clone(),
        Lock::multi(names()).with_lease(bad),
        Lock::multi([client.lock("a"), client.lock("b").with_lease(bad)]),
        // A quorum would continue without that member.
        Lock::quorum(["a", "b", "c"].map(|name| {
            let lock = client.lock(name);
            if name == "b" {
                lock.with_lease(bad)
            } else {
                lock
            }
        })),
        Lock::quorum(names()).with_retry_pause(ms(0), ms(5)),
    ];
    let before = client.stats().calls;
    for lock in out_of_range {
        let refused = [
            lock.lock().await.map(drop),
            lock.try_lock_now(Lease::Fixed(ms(1000))).await.map(drop),
            lock.is_locked().await.map(drop),
        ];
        for refused in refused {
            let refused = refused.unwrap_err();
            let is_range = matches!(refused, Error::Config(ConfigError::OutOfRange { .. }));
            assert!(is_range, "{refused}");
        }
    }
    let of_another_kind = [
        client.lock("x").with_retry_count(1),
        client.fair_lock("x").with_retry_pause(ms(5), ms(5)),
        client.fair_lock("x").with_safety_poll(ms(100)),
        Lock::multi([client.string_lock("a"), client.lock("b")]).with_retry_count(1),
    ];
    for lock in of_another_kind {
        let refused = lock.lock().await.unwrap_err();
        let is_setting = matches!(refused, Error::Config(ConfigError::Setting { .. }));
        assert!(is_setting, "{refused}");
    }
    let semaphore = client.semaphore("s").with_lease(bad);
    assert!(matches!(semaphore.acquire(1).await, Err(Error::Config(_))));
    assert!(matches!(semaphore.available().await, Err(Error::Config(_))));
    let latch = client.count_down_latch("l").with_safety_poll(ms(9));
    assert!(matches!(
        latch.wait(Duration::MAX).await,
        Err(Error::Config(_))
    ));
    assert_eq!((client.stats().calls, client.stats().holds), (before, 0));
    // The last setting counts.
    let mended = client.lock("x").with_lease(bad).with_lease(ms(100));
    mended.lock().await.unwrap().unlock().await.unwrap();
}

/// If one lock got the lease of another, Redis could free it while its guard still says *held*.
pub(crate) async fn locks_that_are_taken_by_one_call_have_their_own_leases(bed: Bed) {
    let client = bed.client().await;
    let (short, long) = (ms(5000), ms(60_000));
    for (a, b) in [(short, long), (long, short)] {
        let both = Lock::multi([
            client.lock("a").with_lease(a),
            client.string_lock("b").with_lease(b),
            client.fenced_lock("c").with_lease(b).into(),
            client.read_write_lock("d").with_lease(a).write().clone(),
        ]);
        let guard = both.lock().await.unwrap();
        for (key, lease) in [("a", a), ("b", b), ("c", b), ("d", a)] {
            let left = bed.left(key);
            let lease = i64::try_from(lease.as_millis()).unwrap();
            assert!(
                left > lease - 5000 && left <= lease,
                "{key}: {left} of {lease}"
            );
        }
        guard.unlock().await.unwrap();
    }
}

pub(crate) async fn a_lost_reply_of_one_call_reports_the_longest_lease(bed: Bed) {
    let (client, line) =
        FaultyConnection::with(&bed, |builder| builder.command_timeout(ms(300))).await;
    let (short, long) = (ms(5000), ms(60_000));
    line.lose_replies();
    // Of other names each time: the undo of the first call gets no reply either.
    for (one, a, other, b) in [("{s}a", short, "{s}b", long), ("{s}c", long, "{s}d", short)] {
        let both = Lock::multi([
            client.lock(one).with_lease(a),
            client.lock(other).with_lease(b),
        ]);
        let error = timed("ended", both.try_lock_now(Lease::Renewed))
            .await
            .0
            .unwrap_err();
        assert!(
            matches!(error, Error::Unknown { lease, .. } if lease == long),
            "{error}"
        );
    }
}
