//! Servers that are down, die, hang, lose replies or their data.

use std::time::Duration;

use leasehold::{Client, ClientBuilder, Error, HoldState, Lease, LossReason};
use leasehold_testbed::{Server, eventually, lost, ms, soon, take_and_release, take_turn};
use tokio::time::{Instant, sleep, sleep_until};

use crate::testbed::{LONG, NAME, Servers, in_vain, scripts_known};

const ONCE: Duration = Duration::ZERO;
/// A renewed lease that is short enough for a test and long enough for a stalled machine. A server
/// may take a twentieth of it to answer.
const LEASE: Duration = ms(5000);

/// After an outage, doubts are settled within a lease, and a call fails earlier than by default.
fn brief(builder: ClientBuilder) -> ClientBuilder {
    builder.lease(LEASE).command_timeout(ms(500))
}

#[tokio::test]
async fn two_may_be_down_from_the_start() {
    let mut servers = Servers::start(5);
    servers.kill(0..2);
    let (ours, theirs) = (servers.clients().await, servers.clients().await);
    let guard = soon("three of five", ours.lock().lock()).await.unwrap();
    let refused = theirs.lock().try_lock(ms(300), LONG).await.unwrap_err();
    in_vain(&refused);
    guard.unlock().await.unwrap();
    // They start, and take part.
    servers.0[0].restart();
    servers.0[1].restart();
    let all = theirs.held_by_all(&servers, &theirs.lock(), LONG).await;
    all.unlock().await.unwrap();
}

#[tokio::test]
async fn connecting_in_the_background_does_not_tolerate_a_refusal() {
    let server = Server::start_with(&["--requirepass", "x"]);
    let builder = Client::builder(&format!("redis://:y@{}", server.address()));
    let refused = builder.connect_in_background().await.unwrap_err();
    assert!(matches!(refused, Error::Protocol { .. }), "{refused}");
}

#[tokio::test]
async fn a_waiter_gets_the_lock_when_an_absent_server_returns() {
    let mut server = Server::start();
    server.kill();
    let builder = Client::builder(&server.url()).safety_poll(Duration::from_secs(60));
    let client = builder.connect_in_background().await.unwrap();
    let refused = client.lock("x").try_lock(ONCE, LONG).await.unwrap_err();
    assert!(matches!(&refused, Error::Unavailable { .. }), "{refused}");
    let lock = client.lock("x");
    let waits = tokio::spawn(async move { lock.lock().await });
    eventually("queued", async || client.stats().waiting == 1).await;
    server.restart();
    let guard = soon("granted", waits).await.unwrap().unwrap();
    // Their messages arrive as well: the holder is another client, and nothing else wakes the
    // waiter for a minute.
    let holder = Client::connect(&server.url()).await.unwrap();
    guard.unlock().await.unwrap();
    let guard = holder.lock("x").try_lock(ONCE, LONG).await.unwrap();
    let (other, before) = (client.lock("x"), client.stats());
    let waits = tokio::spawn(async move { other.lock().await });
    eventually("listening", async || {
        let stats = client.stats();
        let asks = if before.subscriptions == 0 { 2 } else { 1 };
        stats.listeners == 1 && stats.calls >= before.calls + asks
    })
    .await;
    guard.unlock().await.unwrap();
    take_turn("granted", waits).await;
    assert!(client.stats().wakes > before.wakes, "by the message");
    assert_eq!(client.stats().reconnects, 0, "it was never lost");
}

#[tokio::test]
async fn a_loss_is_reported_in_time_when_three_of_five_die() {
    let mut servers = Servers::start(5);
    let nodes = servers.clients_with(brief).await;
    let lock = nodes.lock();
    let guard = nodes.held_by_all(&servers, &lock, Lease::Renewed).await;
    servers.kill(0..3);
    // A renewal that was in flight may have counted. None is confirmed from here on.
    sleep(ms(100)).await;
    let deadline = guard.deadline();
    guard.check().unwrap();
    eventually("uncertain", async || guard.state() != HoldState::Held).await;
    let reason = soon("lost", lost(&guard)).await;
    assert_eq!(reason, LossReason::Expired);
    assert_eq!(guard.deadline(), deadline);
    assert!(Instant::now() >= deadline, "not before its time");
    assert!(matches!(guard.check(), Err(Error::Lost { .. })));
    assert!(guard.unlock().await.is_err());
    // What is left on the other servers is gone by then, or ends with its lease.
    let left = Servers(servers.0.split_off(3));
    eventually("no key left", async || left.holding(NAME) == 0).await;
}

#[tokio::test]
async fn a_frozen_server_is_not_waited_for() {
    let servers = Servers::start(5);
    let nodes = servers.clients_with(brief).await;
    scripts_known(&nodes).await;
    servers.0[4].pause();
    let guard = soon("four of five", nodes.lock().lock()).await.unwrap();
    guard.unlock().await.unwrap();
    let guard = soon("and again", nodes.lock().lock()).await.unwrap();
    servers.0[4].resume();
    // What the server grants now, after it was given up, is undone.
    nodes.settled().await;
    assert_eq!(servers.0[4].command(&["EXISTS", NAME]).int(), 0);
    guard.check().unwrap();
    assert!(servers.holding(NAME) >= 3);
    guard.unlock().await.unwrap();
    nodes.settled().await;
    assert_eq!(servers.holding(NAME), 0);
}

#[tokio::test]
async fn one_server_restarted_empty_does_not_free_the_lock() {
    let mut servers = Servers::start(5);
    let (ours, theirs) = (
        servers.clients_with(brief).await,
        servers.clients_with(brief).await,
    );
    let lock = ours.lock();
    let guard = ours.held_by_all(&servers, &lock, Lease::Renewed).await;
    let first = guard.deadline();
    servers.0[2].restart();
    let refused = theirs.lock().try_lock(ms(500), LONG).await.unwrap_err();
    in_vain(&refused);
    sleep_until(first + ms(200)).await;
    guard.check().unwrap();
    guard.unlock().await.unwrap();
    take_and_release(&theirs.lock()).await;
}

/// A limit of the quorum: if a majority forgets, the lock is free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_majority_restarted_empty_frees_the_lock_and_the_next_renewal_reports_it() {
    let mut servers = Servers::start(5);
    // No renewal fails, however long the restarts take, so the reported reason is that the servers
    // forgot.
    let longer = |builder: ClientBuilder| brief(builder).lease(LEASE * 4);
    let (ours, theirs) = (
        servers.clients_with(longer).await,
        servers.clients_with(longer).await,
    );
    let lock = ours.lock();
    let guard = ours.held_by_all(&servers, &lock, Lease::Renewed).await;
    let told = tokio::spawn(lost(&guard));
    let restarting = tokio::task::spawn_blocking(move || {
        servers.0[..3].iter_mut().for_each(Server::restart);
        servers
    });
    let _servers = soon("they restart", restarting).await.unwrap();
    let second = soon("granted", theirs.lock().lock()).await.unwrap();
    assert_eq!(soon("lost", told).await.unwrap(), LossReason::Gone);
    second.check().unwrap();
    second.unlock().await.unwrap();
}
