//! Clocks: how long a grant is trusted, and servers whose clock jumps.
//!
//! Five embedded engines under paused time, where every millisecond counts.

use std::time::Duration;

use leasehold::{Client, EmbeddedRedis, Error, Lease, Lock, LossReason};
use leasehold_testbed::{connected, eventually, lost, ms};
use tokio::time::{Instant, sleep};

use crate::testbed::{LONG, NAME};

struct Engines(Vec<EmbeddedRedis>);

impl Engines {
    fn five() -> Self {
        Engines((0..5).map(|_| EmbeddedRedis::new()).collect())
    }

    fn clients(&self) -> Vec<Client> {
        self.0.iter().map(EmbeddedRedis::client).collect()
    }
}

fn quorum(clients: &[Client]) -> Lock {
    Lock::quorum(clients.iter().map(|client| client.string_lock(NAME)))
}

#[tokio::test(start_paused = true)]
async fn validity_is_the_lease_less_the_asking_and_the_drift() {
    let clients = Engines::five().clients();
    let start = Instant::now();
    let lease = Duration::from_secs(10);
    let guard = quorum(&clients)
        .try_lock(Duration::ZERO, Lease::Fixed(lease))
        .await
        .unwrap();
    // A hundredth of the lease and two milliseconds, in addition to the margin of every lock.
    let drift = ms(100 + 2);
    let margin = ms(10 + 1);
    assert_eq!(guard.deadline() + drift + margin, start + lease);
    assert_eq!(lost(&guard).await, LossReason::Expired);
    assert_eq!(start.elapsed() + drift + margin, lease);
    assert!(
        quorum(&clients)
            .try_lock(Duration::ZERO, LONG)
            .await
            .is_err(),
        "still held there"
    );
}

/// With a majority, a silent server costs a moment; without one, a twentieth of the lease.
#[tokio::test(start_paused = true)]
async fn a_silent_server_costs_a_part_of_the_lease_at_most() {
    let engines = Engines::five();
    let (ours, theirs) = (engines.clients(), engines.clients());
    let lease = Duration::from_secs(4);
    engines.0[4].pause();
    let start = Instant::now();
    let guard = quorum(&ours)
        .try_lock(Duration::ZERO, Lease::Fixed(lease))
        .await
        .unwrap();
    assert!(start.elapsed() < ms(10), "{:?}", start.elapsed());
    guard.unlock().await.unwrap();

    let held = [
        theirs[0].string_lock(NAME).lock().await,
        theirs[1].string_lock(NAME).lock().await,
    ];
    let start = Instant::now();
    let error = quorum(&ours)
        .try_lock(Duration::ZERO, Lease::Fixed(lease))
        .await
        .unwrap_err();
    assert!(error.is_timeout(), "four answered: {error}");
    let took = start.elapsed();
    assert!(took >= ms(200) && took < ms(210), "{took:?}");
    // What the server grants later, after it was given up, is undone.
    engines.0[4].resume();
    sleep(ms(500)).await;
    assert!(!ours[4].string_lock(NAME).is_locked().await.unwrap());
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_does_not_hold_up_an_extension() {
    let engines = Engines::five();
    let clients = engines.clients();
    let guard = quorum(&clients)
        .try_lock(Duration::ZERO, Lease::Fixed(ms(4000)))
        .await
        .unwrap();
    engines.0[4].pause();
    let start = Instant::now();
    guard.extend(ms(60_000)).await.unwrap();
    assert!(start.elapsed() < ms(10), "{:?}", start.elapsed());
    assert!(guard.deadline() > start + ms(58_000));
    engines.0[3].pause();
    guard.extend(ms(120_000)).await.unwrap();
    // Only a minority has agreed, so the earlier extension of the majority still counts.
    engines.0[2].cut();
    let before = guard.deadline();
    let error = guard.extend(ms(240_000)).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert_eq!(guard.deadline(), before);
}

/// The clocks also drift during a lease that is asked for later.
#[tokio::test(start_paused = true)]
async fn an_extension_allows_for_the_drift_of_its_own_lease() {
    let clients = Engines::five().clients();
    let guard = quorum(&clients)
        .try_lock(Duration::ZERO, Lease::Fixed(ms(10_000)))
        .await
        .unwrap();
    for lease in [ms(60_000), Duration::from_secs(3600)] {
        let start = Instant::now();
        guard.extend(lease).await.unwrap();
        let allowed = lease / 100 + ms(2) + lease / 1000 + ms(1);
        assert_eq!(start + lease - guard.deadline(), allowed, "{lease:?}");
    }
    // One server has one clock.
    let single = clients[0].lock("single").lock().await.unwrap();
    let (start, lease) = (Instant::now(), Duration::from_secs(3600));
    single.extend(lease).await.unwrap();
    assert_eq!(start + lease - single.deadline(), lease / 1000 + ms(1));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_allows_for_the_drift_of_its_own_lease() {
    let clients = Engines::five().clients();
    let lock = quorum(&clients);
    let taking = lock.acquire().lease(Lease::RenewedFor(ms(30_000)));
    let guard = taking.await.unwrap();
    sleep(ms(600_000)).await;
    let renewed = || clients[0].stats().renewed;
    let before = renewed();
    eventually("it is renewed", async || renewed() != before).await;
    let left = guard.deadline() - Instant::now();
    let allowed = ms(300 + 2 + 30 + 1);
    assert!(
        left + allowed <= ms(30_000) && left + allowed >= ms(29_990),
        "{left:?}"
    );
}

/// Drift is also allowed for if the owner already holds a member separately.
#[tokio::test(start_paused = true)]
async fn a_nested_quorum_allows_for_drift() {
    let clients = Engines::five().clients();
    let mut singles = Vec::new();
    for client in &clients {
        let brief = Lease::Fixed(ms(1000));
        singles.push(client.string_lock(NAME).try_lock_now(brief).await.unwrap());
    }
    let (start, lease) = (Instant::now(), Duration::from_secs(10));
    let lock = quorum(&clients);
    let mut taking = lock
        .acquire()
        .wait(Duration::ZERO)
        .lease(Lease::Fixed(lease));
    for single in &singles {
        taking = taking.within(single);
    }
    let guard = taking.await.unwrap();
    assert!(guard.deadline() + ms(100 + 2) + ms(10 + 1) <= start + lease);
}

/// A release reports the more important fact: that the lock was lost, not that a server is away.
#[tokio::test(start_paused = true)]
async fn a_loss_is_reported_before_an_outage() {
    let engines = Engines::five();
    let clients = engines.clients();
    let patient = connected(engines.0[0].builder().command_timeout(ms(10_000))).await;
    let multi = Lock::multi([patient.lock("a"), clients[1].lock("b")]);
    let guard = multi.try_lock(Duration::ZERO, LONG).await.unwrap();
    assert!(engines.0[0].lose("a"));
    engines.0[0].pause();
    engines.0[1].cut();
    let release = tokio::spawn(guard.unlock());
    sleep(ms(5000)).await;
    assert!(!release.is_finished());
    engines.0[0].resume();
    let error = release.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Lost { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn one_clock_that_jumps_does_not_free_the_lock() {
    let engines = Engines::five();
    let (ours, theirs) = (engines.clients(), engines.clients());
    let guard = quorum(&ours).lock().await.unwrap();
    engines.0[0].jump_clock(Duration::from_secs(3600));
    assert!(
        quorum(&theirs)
            .try_lock(ms(900), LONG)
            .await
            .unwrap_err()
            .is_timeout()
    );
    // The next renewal reports the server that forgot. The other four continue.
    sleep(Duration::from_secs(120)).await;
    guard.check().unwrap();
    assert!(
        quorum(&theirs)
            .try_lock(ms(900), LONG)
            .await
            .unwrap_err()
            .is_timeout()
    );
    guard.unlock().await.unwrap();
    drop(quorum(&theirs).try_lock(ms(900), LONG).await.unwrap());
}

/// A limit of the quorum: if the clocks of a majority jump, a majority forgets.
#[tokio::test(start_paused = true)]
async fn three_clocks_that_jump_free_the_lock_and_the_next_renewal_reports_it() {
    let engines = Engines::five();
    let (ours, theirs) = (engines.clients(), engines.clients());
    let guard = quorum(&ours).lock().await.unwrap();
    for engine in &engines.0[..3] {
        engine.jump_clock(Duration::from_secs(3600));
    }
    let start = Instant::now();
    let second = quorum(&theirs)
        .try_lock(ms(900), Lease::Renewed)
        .await
        .unwrap();
    guard.check().unwrap();
    assert_eq!(lost(&guard).await, LossReason::Gone);
    assert!(
        start.elapsed() <= Duration::from_secs(11),
        "a third of the lease"
    );
    second.check().unwrap();
}

/// A majority that agreed does not help if one of its servers forgets and two others had no part in
/// it.
#[tokio::test(start_paused = true)]
async fn two_absent_servers_and_one_clock_that_jumps_free_the_lock() {
    let engines = Engines::five();
    let (ours, theirs) = (engines.clients(), engines.clients());
    engines.0[3..].iter().for_each(EmbeddedRedis::cut);
    let guard = quorum(&ours).try_lock(Duration::ZERO, LONG).await.unwrap();
    engines.0[3..].iter().for_each(EmbeddedRedis::heal);
    assert!(
        quorum(&theirs)
            .try_lock(ms(900), LONG)
            .await
            .unwrap_err()
            .is_timeout()
    );
    engines.0[0].jump_clock(Duration::from_secs(3600));
    drop(quorum(&theirs).try_lock(ms(900), LONG).await.unwrap());
    // A fixed lease is not renewed, so the first holder does not learn of it before its end.
    guard.check().unwrap();
    assert_eq!(lost(&guard).await, LossReason::Expired);
}
