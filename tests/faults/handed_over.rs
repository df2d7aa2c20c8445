//! A release that gives a lock to the next waiter, on a server that takes no writes, or lets nobody
//! hear of it.

use leasehold::{Client, LockGuard};
use leasehold_testbed::{Outside, Server, eventually, ms, until_listed, within};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::errors::LIMIT;
use crate::testbed::{assert_protocol, beside, connect, hold};

/// A waiter that is listed beside the holder.
async fn listed(client: &Client, outside: &mut Outside) -> JoinHandle<LockGuard> {
    let takes = || {
        let lock = client.lock("n");
        tokio::spawn(async move { lock.lock().await.expect("lock") })
    };
    let is_listed = async || {
        let fields = outside.command(&["HGETALL", "n"]);
        let fields = fields.array();
        fields
            .get(1)
            .is_some_and(|value| value.text().matches(';').count() > 2)
    };
    until_listed(takes, is_listed).await
}

/// What a server refuses to write has not happened, so nobody may hear of it.
#[test]
fn a_server_that_takes_no_writes_tells_nobody_of_a_grant() {
    beside(LIMIT, async {
        let server = Server::start();
        let (one, other) = (connect(&server.url()).await, connect(&server.url()).await);
        let mut outside = Outside::of(&server);
        let guard = hold(&one, "n").await;
        let mut next = listed(&other, &mut outside).await;
        // Its client has met another one then, and so has the next holder's: their releases look
        // for waiters.
        guard.unlock().await.expect("held");
        let guard = within(LIMIT, "the other one", &mut next)
            .await
            .expect("no panic");
        let mut next = listed(&one, &mut outside).await;
        outside.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
        outside.reset_stats();
        let release = tokio::spawn(guard.unlock());
        let refused = eventually("it is refused", async || outside.calls("hget") > 0);
        within(LIMIT, "a release", refused).await;
        sleep(ms(300)).await;
        assert!(!next.is_finished(), "it believes a message");
        outside.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
        let guard = within(LIMIT, "the next", &mut next)
            .await
            .expect("no panic");
        release.await.expect("no panic").ok();
        guard.unlock().await.expect("held");
    });
}

/// A client of the user `app`, whose rights may be taken away.
async fn of_app(server: &Server) -> Client {
    let user = ["ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all"];
    assert_eq!(server.command(&user).text(), "OK");
    connect(&format!("redis://app:pw@127.0.0.1:{}", server.port())).await
}

/// Who hears the messages to the waiter that comes now, by the first digit of its field.
async fn heard_by(holder: &Client, client: &Client, outside: &mut Outside) -> Option<char> {
    let guard = holder.fair_lock("f").lock().await.expect("free");
    let lock = client.fair_lock("f");
    let next = tokio::spawn(async move { lock.lock().await.expect("lock") });
    let mut fields = Vec::new();
    eventually("it waits", async || {
        let waiting = outside.command(&["LRANGE", "redisson_lock_queue:{f}", "0", "-1"]);
        fields = waiting.array().to_vec();
        fields.len() == 1
    })
    .await;
    guard.unlock().await.expect("held");
    let guard = within(LIMIT, "the next", next).await.expect("no panic");
    guard.unlock().await.expect("held");
    fields[0].text().split(':').nth(1)?.chars().next()
}

/// Otherwise each release would be heard of by the next heartbeat only.
#[test]
fn a_client_that_may_not_hear_its_channel_any_more_lets_its_waiters_listen() {
    beside(LIMIT, async {
        let server = Server::start();
        let mut outside = Outside::of(&server);
        let (holder, client) = (connect(&server.url()).await, of_app(&server).await);
        eventually("its client listens", async || {
            heard_by(&holder, &client, &mut outside).await == Some('5')
        })
        .await;
        outside.command(&["ACL", "SETUSER", "app", "resetchannels", "&redisson_*"]);
        outside.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        eventually("its waiters listen", async || {
            heard_by(&holder, &client, &mut outside).await == Some('4')
        })
        .await;
    });
}

/// As a waiter is that comes later. Otherwise it would wait for a message that nobody can send to
/// it.
#[test]
fn a_waiter_whose_channel_is_refused_later_is_told() {
    beside(LIMIT, async {
        let server = Server::start();
        let mut outside = Outside::of(&server);
        let (holder, client) = (connect(&server.url()).await, of_app(&server).await);
        let guard = hold(&holder, "n").await;
        let lock = client.lock("n");
        let waits = tokio::spawn(async move { lock.lock().await });
        eventually("it listens", async || client.stats().listeners == 1).await;
        outside.command(&["ACL", "SETUSER", "app", "resetchannels"]);
        outside.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        let outcome = within(LIMIT, "it is told", waits).await;
        assert_protocol("its channel", outcome.expect("no panic"), "NOPERM");
        guard.unlock().await.expect("held");
    });
}
