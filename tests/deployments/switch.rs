//! What a Sentinel client knows about a primary that is replaced.

use std::time::Duration;

use leasehold::{Client, HoldState, Lease, LossReason};
use leasehold_testbed::{
    LIMIT, Sentinels, Server, assert_lost, command_stats, eventually, take_and_release,
    until_certain,
};

use crate::silence::follows;

/// So long that no renewal is due within a test.
const LONG: Duration = Duration::from_secs(300);

async fn client(sentinels: &Sentinels) -> Client {
    let builder = Client::builder(&sentinels.url())
        .lease(LONG)
        .connect_timeout(LIMIT);
    builder.connect().await.expect("connects")
}

/// The number of scripts that a server has run.
fn scripts(server: &Server) -> u64 {
    let info = server.command(&["INFO", "commandstats"]).text();
    let stats = command_stats(&info);
    stats.get("evalsha").map_or(0, |stats| stats.calls)
}

/// Writes to the replicas without their master: what a failover would lose.
fn on_replicas(sentinels: &Sentinels, words: &[&str]) {
    let master = sentinels.current_master();
    for (server, number) in sentinels.servers().iter().zip(0..) {
        if number != master {
            server.command(&["CONFIG", "SET", "replica-read-only", "no"]);
            server.command(words);
        }
    }
}

/// A former master accepts writes for about ten seconds after its successor was announced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_former_master_that_lives_is_not_asked_any_more() {
    let sentinels = Sentinels::start();
    let client = client(&sentinels).await;
    let old = sentinels.current_master();
    take_and_release(&client.lock("n")).await;
    sentinels.until_in_step();
    let new = sentinels.failover();
    let lock = client.lock("n");
    follows(&client, sentinels.server(new)).await;
    let before = scripts(sentinels.server(old));
    assert!(sentinels.is_master(old), "it does not know yet");
    eventually("demoted", async || {
        take_and_release(&lock).await;
        // A replica runs no scripts of its own, and the client sends it none any more.
        assert_eq!(scripts(sentinels.server(old)), before);
        !sentinels.is_master(old)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_the_new_master_lacks_is_lost_at_once() {
    let sentinels = Sentinels::start();
    let client = client(&sentinels).await;
    let [renewed, kept] = [client.lock("renewed"), client.lock("kept")];
    let [renewed, kept] = [renewed.lock().await, kept.lock().await].map(|hold| hold.expect("free"));
    let fixed = client
        .lock("fixed")
        .try_lock(LIMIT, Lease::Fixed(LONG))
        .await
        .expect("free");
    sentinels.until_in_step();
    on_replicas(&sentinels, &["DEL", "renewed", "fixed"]);
    sentinels.failover();
    for guard in [&renewed, &fixed] {
        eventually("lost", async || guard.state() == HoldState::Lost).await;
    }
    until_certain(&kept).await;
    let refused = renewed.unlock().await.expect_err("lost");
    assert_lost(&refused, LossReason::Gone);
    kept.unlock().await.expect("held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_sentinels_the_master_is_kept() {
    let mut sentinels = Sentinels::start();
    let client = client(&sentinels).await;
    let guard = client.lock("n").lock().await.expect("free");
    for sentinel in 0..3 {
        sentinels.kill_sentinel(sentinel);
    }
    for _ in 0..100 {
        take_and_release(&client.lock("m")).await;
    }
    assert_eq!(guard.state(), HoldState::Held);
    guard.unlock().await.expect("held");
}
