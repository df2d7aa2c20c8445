//! Grants that wait for copies on replicas.

use std::time::{Duration, Instant};

use leasehold::settings::Durability;
use leasehold::{Client, Error, HoldState, Lease, Lock};
use leasehold_testbed::{Outside, Server, eventually_within, ms, take_and_release, wait_until};

use crate::testbed::{LATE, SILENCE, alone, at_rest, builder};

const LIMIT: Duration = Duration::from_secs(60);

/// A replica of another server.
fn replica_of(server: &Server) -> Server {
    let port = server.port().to_string();
    let replica = Server::start_with(&[
        "--replicaof",
        "127.0.0.1",
        &port,
        "--repl-ping-replica-period",
        "1",
    ]);
    // A link may be up before the replica begins to acknowledge.
    let mut primary = server.connection();
    let mut answer = |words: &[&str]| primary.command(words).expect("an answer");
    wait_until("the replica acknowledges", LIMIT, || {
        answer(&["INCR", "warm"]);
        answer(&["WAIT", "1", "100"]).int() == 1
    });
    answer(&["DEL", "warm"]);
    replica
}

/// Takes and frees a lock until it is acknowledged. A new replica may be silent for a while.
async fn warm(client: &Client) {
    let end = Instant::now() + LIMIT;
    loop {
        match client.lock("warm").lock().await {
            Ok(guard) => return guard.unlock().await.expect("held"),
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
    }
}

/// A client that waits for copies long enough for the test to see it.
async fn patient(server: &Server) -> Client {
    let durability = Durability::replicas(1).within(LATE);
    let client = builder(&server.url())
        .command_timeout(SILENCE)
        .durability(durability)
        .connect();
    client.await.expect("connects")
}

fn primary() -> Server {
    Server::start_with(&["--repl-diskless-sync-delay", "0"])
}

#[test]
fn a_grant_with_too_few_copies_is_given_back() {
    alone(LIMIT, async {
        let server = primary();
        let replica = replica_of(&server);
        let mut outside = Outside::of(&server);
        let durability = Durability::replicas(1).within(ms(500));
        let client = builder(&server.url())
            .durability(durability)
            .connect()
            .await;
        let client = client.expect("connects");
        warm(&client).await;
        outside.reset_stats();
        let guard = client.lock("n").lock().await.expect("free, and copied");
        assert_eq!(outside.calls("wait"), 1);
        assert_eq!(
            replica.command(&["EXISTS", "n"]).int(),
            1,
            "when the guard is there"
        );
        guard.unlock().await.expect("held");
        replica.pause();
        let locks = [
            client.lock("n"),
            client.fair_lock("n"),
            client.fenced_lock("n").into(),
        ];
        for lock in locks {
            let refused = lock
                .try_lock(ms(1_000), Lease::Renewed)
                .await
                .expect_err("no copy");
            let is_told = matches!(
                refused,
                Error::NotDurable {
                    wanted: 1,
                    acknowledged: 0,
                    ..
                }
            );
            assert!(
                is_told && refused.is_retryable() && !refused.may_be_held(),
                "{refused:?}"
            );
            eventually_within(LIMIT, "given back", async || !outside.exists("n")).await;
        }
        let several = Lock::multi([client.lock("{x}1"), client.lock("{x}2")]);
        let refused = several.lock().await.expect_err("no copy");
        assert!(matches!(refused, Error::NotDurable { .. }), "{refused:?}");
        eventually_within(LIMIT, "both are given back", async || {
            !outside.exists("{x}1") && !outside.exists("{x}2")
        })
        .await;
        replica.resume();
        eventually_within(LIMIT, "the replica answers", async || {
            outside.command(&["WAIT", "1", "100"]).int() == 1
        })
        .await;
        take_and_release(&client.lock("n")).await;
        at_rest(&client, LIMIT).await;
    });
}

#[test]
fn a_renewal_with_too_few_copies_is_uncertain_until_there_are_enough() {
    alone(LIMIT, async {
        let server = primary();
        let replica = replica_of(&server);
        let durability = Durability::replicas(1).within(ms(100));
        let client = builder(&server.url())
            .durability(durability)
            .lease(ms(6_000));
        let client = client.connect().await.expect("connects");
        warm(&client).await;
        let guard = client.lock("n").lock().await.expect("free, and copied");
        replica.pause();
        eventually_within(LIMIT, "uncertain", async || {
            guard.state() == HoldState::Uncertain
        })
        .await;
        replica.resume();
        eventually_within(LIMIT, "certain again", async || {
            guard.state() == HoldState::Held
        })
        .await;
        guard.unlock().await.expect("held");
    });
}

#[test]
fn a_future_that_is_dropped_while_it_waits_for_copies_leaves_nothing() {
    alone(LIMIT, async {
        let server = primary();
        let replica = replica_of(&server);
        let mut outside = Outside::of(&server);
        let client = patient(&server).await;
        replica.pause();
        let lock = client.lock("n");
        let taking = tokio::spawn(async move { lock.lock().await });
        eventually_within(LIMIT, "granted", async || outside.exists("n")).await;
        taking.abort();
        eventually_within(LIMIT, "given back", async || !outside.exists("n")).await;
        at_rest(&client, LIMIT).await;
    });
}

/// The server answers `UNBLOCKED`, and from then on that a replica cannot wait.
#[test]
fn a_primary_that_is_demoted_during_the_wait_has_no_copies() {
    alone(LIMIT, async {
        let server = primary();
        let mut outside = Outside::of(&server);
        let client = patient(&server).await;
        let lock = client.lock("n");
        let taking = tokio::spawn(async move { lock.lock().await });
        eventually_within(LIMIT, "granted", async || outside.exists("n")).await;
        outside.command(&["REPLICAOF", "127.0.0.1", "1"]);
        let refused = taking.await.expect("no panic").expect_err("no copy");
        assert!(
            matches!(refused, Error::NotDurable { wanted: 1, .. }),
            "{refused:?}"
        );
        outside.command(&["REPLICAOF", "NO", "ONE"]);
        eventually_within(LIMIT, "given back", async || !outside.exists("n")).await;
        at_rest(&client, LIMIT).await;
    });
}

#[test]
fn a_server_without_replicas_is_reported() {
    alone(LIMIT, async {
        let server = Server::start();
        let client = builder(&server.url()).durability(Durability::replicas(2).within(ms(50)));
        let client = client.connect().await.expect("connects");
        let refused = client.lock("n").lock().await.expect_err("no copy");
        let text = refused.to_string();
        assert!(
            text.contains("wanted=`2`") && text.contains("acknowledged=`0`"),
            "{text}"
        );
    });
}
