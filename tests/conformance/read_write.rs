//! Readers and writers: who is admitted beside whom, and how long holds last.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};
use std::time::Duration;

use leasehold::{Client, Error, HoldState, Lease, LockGuard};
use leasehold_testbed::{Bed, eventually, in_turns, ms, release, timed, waiting};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

type Taking = JoinHandle<Result<LockGuard, Error>>;

pub(crate) async fn read(client: &Client, lease: Lease) -> Result<LockGuard, Error> {
    let lock = client.read_write_lock("x");
    asked(client, async || lock.read().try_lock_now(lease).await).await
}

pub(crate) async fn write(client: &Client, lease: Lease) -> Result<LockGuard, Error> {
    let lock = client.read_write_lock("x");
    asked(client, async || lock.write().try_lock_now(lease).await).await
}

pub(crate) fn reader(client: &Client) -> Taking {
    let lock = client.read_write_lock("x");
    tokio::spawn(async move { lock.read().lock().await })
}

pub(crate) fn writer(client: &Client) -> Taking {
    let lock = client.read_write_lock("x");
    tokio::spawn(async move { lock.write().lock().await })
}

pub(crate) async fn listens(client: &Client) {
    eventually("listening", async || client.stats().listeners > 0).await;
}

pub(crate) async fn nothing_is_left(bed: &Bed) {
    eventually("no key left", async || bed.number(&["DBSIZE"]) == 0).await;
}

/// Asserts that a time is as expected or a little more.
fn about(bed: &Bed, took: Duration, expected: Duration) {
    let late = expected + bed.late(100);
    assert!(
        took + ms(50) > expected && took < late,
        "{took:?}, expected {expected:?}"
    );
}

pub(crate) async fn a_writer_waits_for_the_last_lease_of_readers(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let start = Instant::now();
    read(&one, Lease::Fixed(bed.lease(500)))
        .await
        .unwrap()
        .forget();
    let second = read(&other, Lease::Fixed(bed.lease(250))).await.unwrap();
    second.unlock().await.unwrap();
    let guard = timed("after the first lease", writer(&other))
        .await
        .0
        .unwrap()
        .unwrap();
    about(&bed, start.elapsed(), bed.lease(500));
    guard.unlock().await.unwrap();
    // A later reader that comes and goes does not extend the first reader's hold.
    let start = Instant::now();
    read(&one, Lease::Fixed(bed.lease(500)))
        .await
        .unwrap()
        .forget();
    let writing = writer(&one);
    sleep(bed.lease(250)).await;
    release(read(&other, Lease::Fixed(bed.lease(5000))).await).await;
    let guard = timed("after the first lease", writing)
        .await
        .0
        .unwrap()
        .unwrap();
    about(&bed, start.elapsed(), bed.lease(500));
    guard.unlock().await.unwrap();
    nothing_is_left(&bed).await;
}

pub(crate) async fn the_lease_falls_back_to_what_is_left_of_the_first_read(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let lock = one.read_write_lock("x");
    let start = Instant::now();
    let outer = lock
        .read()
        .try_lock_now(Lease::Fixed(bed.lease(500)))
        .await
        .unwrap();
    sleep(bed.lease(300)).await;
    let inner = lock
        .read()
        .try_lock_now(Lease::Fixed(bed.lease(600)))
        .await
        .unwrap();
    assert!(ms(bed.left("x").unsigned_abs()) > bed.lease(300));
    inner.unlock().await.unwrap();
    assert!(ms(bed.left("x").unsigned_abs()) <= bed.lease(200));
    let guard = timed("at the first one's end", writer(&other))
        .await
        .0
        .unwrap()
        .unwrap();
    about(&bed, start.elapsed(), bed.lease(500));
    assert_eq!(outer.state(), HoldState::Lost);
    assert!(matches!(outer.unlock().await, Err(Error::Lost { .. })));
    guard.unlock().await.unwrap();
    nothing_is_left(&bed).await;
}

pub(crate) async fn many_readers_hold_longer_than_a_lease(bed: Bed) {
    let lease = bed.lease(300);
    let clients = [
        bed.client_with_lease(lease).await,
        bed.client_with_lease(lease).await,
    ];
    let mut guards = Vec::new();
    for number in 0..50 {
        guards.push(read(&clients[number % 2], Lease::Renewed).await.unwrap());
    }
    sleep(lease * 3).await;
    bed.in_vain(async || write(&clients[0], Lease::Fixed(ms(1000))).await)
        .await;
    for guard in guards {
        guard.unlock().await.unwrap();
    }
    nothing_is_left(&bed).await;
}

pub(crate) async fn nested_reads_leave_no_entry(bed: Bed) {
    let client = bed.client_with_lease(bed.lease(300)).await;
    let lock = client.read_write_lock("x");
    let guards = [
        lock.read().lock().await.unwrap(),
        lock.read().lock().await.unwrap(),
    ];
    assert_eq!(client.stats().holds, 2);
    assert_eq!(
        bed.number(&["DBSIZE"]),
        3,
        "the hash, and a lease for each hold"
    );
    for (left, guard) in guards.into_iter().enumerate().rev() {
        guard.unlock().await.unwrap();
        assert_eq!(client.stats().holds, left as u64);
        assert_eq!(lock.read().is_locked().await.unwrap(), left > 0);
    }
    sleep(bed.lease(500)).await;
    assert_eq!(bed.number(&["DBSIZE"]), 0, "nothing is renewed any more");
}

pub(crate) async fn waiting_readers_come_in_together(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let guard = write(&one, Lease::Renewed).await.unwrap();
    let readings: Vec<_> = (0..20)
        .map(|number| reader(if number % 2 == 0 { &one } else { &other }))
        .collect();
    waiting(&one, 10).await;
    waiting(&other, 10).await;
    listens(&one).await;
    listens(&other).await;
    guard.unlock().await.unwrap();
    let start = Instant::now();
    let mut guards = Vec::new();
    for reading in readings {
        // Readers do not wait for each other's release.
        guards.push(timed("it reads", reading).await.0.unwrap().unwrap());
    }
    assert!(start.elapsed() < bed.late(300), "{:?}", start.elapsed());
    assert_eq!(bed.number(&["HLEN", "x"]), 21);
    for guard in guards {
        guard.unlock().await.unwrap();
    }
    nothing_is_left(&bed).await;
}

pub(crate) async fn a_side_is_forced_without_the_other(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client_without_polls().await);
    let seen = other.read_write_lock("x");
    let reading = read(&one, Lease::Renewed).await.unwrap();
    assert!(
        !seen.write().force_unlock("a test").await.unwrap(),
        "nobody writes"
    );
    assert!(seen.read().is_locked().await.unwrap());
    let late = writer(&other);
    listens(&other).await;
    assert!(seen.read().force_unlock("a test").await.unwrap());
    let (writing, took) = timed("a forced release wakes", late).await;
    assert!(took < bed.late(500), "{took:?}");
    assert!(matches!(reading.unlock().await, Err(Error::Lost { .. })));
    assert!(
        !seen.read().force_unlock("a test").await.unwrap(),
        "nobody reads"
    );
    assert!(seen.write().is_locked().await.unwrap());
    assert!(seen.write().force_unlock("a test").await.unwrap());
    assert!(matches!(
        writing.unwrap().unwrap().unlock().await,
        Err(Error::Lost { .. })
    ));
    assert!(!bed.exists("x"));
    release(write(&one, Lease::Fixed(ms(9000))).await).await;
}

pub(crate) async fn readers_and_writers_mix(bed: Bed) {
    let clients = [bed.client().await, bed.client().await, bed.client().await];
    // Readers inside. A writer counts as minus one thousand.
    let inside = Arc::new(AtomicI64::new(0));
    let tasks: Vec<_> = (0..12)
        .map(|number| {
            let (client, inside) = (clients[number % 3].clone(), inside.clone());
            tokio::spawn(async move {
                let mut random = fastrand::Rng::with_seed(number as u64);
                let lock = client.read_write_lock("x");
                for _ in 0..10 {
                    let writes = random.u8(0..3) == 0;
                    let side = if writes { lock.write() } else { lock.read() };
                    let guard = side.lock().await.unwrap();
                    let weight = if writes { -1000 } else { 1 };
                    let others = inside.fetch_add(weight, SeqCst);
                    assert!(others >= 0 && (others == 0 || !writes), "{others} inside");
                    sleep(ms(1)).await;
                    inside.fetch_sub(weight, SeqCst);
                    guard.unlock().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        in_turns("all done", task).await.unwrap();
    }
    nothing_is_left(&bed).await;
}

pub(crate) async fn a_dead_reader_does_not_live_on_others_renewals(bed: Bed) {
    let lease = bed.lease(300);
    let clients = [
        bed.client_with_lease(lease).await,
        bed.client_with_lease(lease).await,
    ];
    // Sixty readers, left behind by processes that died.
    for _ in 0..60 {
        read(&clients[0], Lease::Renewed).await.unwrap().forget();
    }
    let living = read(&clients[1], Lease::Renewed).await.unwrap();
    let late = writer(&clients[0]);
    sleep(lease * 3).await;
    assert!(!late.is_finished(), "one of them lives");
    assert_eq!(
        bed.number(&["DBSIZE"]),
        2,
        "the hash, and the lease of the one that lives"
    );
    assert_eq!(bed.number(&["HLEN", "x"]), 62);
    // Each leaving reader removes dead ones: at least seven of the eight that it checks among many.
    for _ in 0..9 {
        release(read(&clients[0], Lease::Fixed(lease)).await).await;
    }
    assert_eq!(
        bed.number(&["HLEN", "x"]),
        2,
        "the mode, and the one that lives"
    );
    living.unlock().await.unwrap();
    let (guard, took) = timed("the writer", late).await;
    assert!(took < bed.late(150), "{took:?}");
    guard.unwrap().unwrap().unlock().await.unwrap();
    nothing_is_left(&bed).await;
}

pub(crate) async fn a_renewal_shortens_no_other_readers_lease(bed: Bed) {
    let lease = bed.lease(300);
    let (one, other) = (bed.client_with_lease(lease).await, bed.client().await);
    let long = read(&other, Lease::Fixed(ms(60_000))).await.unwrap();
    let short = read(&one, Lease::Renewed).await.unwrap();
    sleep(lease * 2).await;
    assert!(bed.left("x") > 40_000, "{}", bed.left("x"));
    short.unlock().await.unwrap();
    assert!(bed.left("x") > 40_000, "{}", bed.left("x"));
    long.unlock().await.unwrap();
    nothing_is_left(&bed).await;
}

pub(crate) async fn readers_are_not_starved_by_writers_of_their_client(bed: Bed) {
    let client = bed.client().await;
    let enough = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let (lock, enough) = (client.read_write_lock("x"), enough.clone());
            tokio::spawn(async move {
                while !enough.load(SeqCst) {
                    let guard = lock.write().lock().await.unwrap();
                    sleep(ms(1)).await;
                    guard.unlock().await.unwrap();
                }
            })
        })
        .collect();
    waiting(&client, 3).await;
    for _ in 0..20 {
        // One of them always holds the lock, and the next one waits for it.
        let guard = timed("a reader's turn", reader(&client))
            .await
            .0
            .unwrap()
            .unwrap();
        guard.unlock().await.unwrap();
    }
    enough.store(true, SeqCst);
    for writer in writers {
        timed("ended", writer).await.0.unwrap();
    }
    nothing_is_left(&bed).await;
}

/// The outcome of a wait of zero. A machine that stalls may lose its reply; it is asked again when
/// that is undone.
async fn asked<T>(client: &Client, ask: impl AsyncFn() -> Result<T, Error>) -> Result<T, Error> {
    let outcome = ask().await;
    if !matches!(&outcome, Err(error) if error.may_be_held()) {
        return outcome;
    }
    eventually("undone", async || client.stats().releases_pending == 0).await;
    ask().await
}
