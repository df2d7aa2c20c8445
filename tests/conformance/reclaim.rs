//! Holds that outlive a failover which has lost them, and locks that wait for former holders.

use leasehold::settings::Failover;
use leasehold::test_util::{Reply, scripts};
use leasehold::{Client, ConfigError, EmbeddedRedis, Ended, Error, HoldState, Lease, LossReason};
use leasehold_testbed::{Bed, eventually, ms, take_and_release, timed};
use tokio::time::{sleep, timeout};

/// The lease, and so the session, of these clients.
const LEASE: u64 = 3000;

async fn client(redis: &EmbeddedRedis) -> Client {
    let builder = redis.builder().lease(ms(LEASE));
    let reclaim = Failover::Reclaim { replicas: 1 };
    builder.failover(reclaim).connect().await.unwrap()
}

/// The last client loses touch with its server for good.
fn dies(redis: &EmbeddedRedis) {
    redis.links().last().unwrap().crash();
}

fn exists(redis: &EmbeddedRedis, key: &str) -> bool {
    redis.command(&["EXISTS", key]).unwrap() == Reply::Int(1)
}

/// What is written from now on is lost by the next failover. Those who call before it have a session.
async fn goes_behind(redis: &EmbeddedRedis, clients: &[&Client]) {
    for client in clients {
        take_and_release(&client.lock("before")).await;
    }
    redis.set_replicas(0);
}

fn fails_over(redis: &EmbeddedRedis) {
    redis.fail_over();
    redis.set_replicas(1);
}

#[tokio::test(start_paused = true)]
async fn a_hold_outlives_a_failover_that_has_lost_it() {
    for lease in [Lease::Renewed, Lease::Fixed(ms(20_000))] {
        let redis = EmbeddedRedis::new();
        let (one, other) = (client(&redis).await, client(&redis).await);
        goes_behind(&redis, &[&one, &other]).await;
        let guard = one.lock("x").try_lock(ms(100), lease).await.unwrap();
        fails_over(&redis);
        assert!(!exists(&redis, "x"), "the new primary lacks it");
        let refused = other
            .lock("x")
            .try_lock(ms(LEASE / 2), Lease::Renewed)
            .await;
        assert!(refused.unwrap_err().is_timeout());
        assert!(exists(&redis, "x"), "it was brought back");
        eventually("certain", async || guard.state() == HoldState::Held).await;
        guard.unlock().await.unwrap();
        let next = timed("the next", other.lock("x").lock()).await.0.unwrap();
        next.unlock().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_permanent_key_is_brought_as_it_is() {
    let redis = EmbeddedRedis::new();
    let client = client(&redis).await;
    let lock = client.lock("x");
    let guard = lock.try_lock_now(Lease::Fixed(ms(20_000))).await.unwrap();
    redis.command(&["PERSIST", "x"]).unwrap();
    redis.fail_over();
    eventually("its primary is the second one", async || {
        redis
            .command(&["HGET", "leasehold_reclaim", "number"])
            .unwrap()
            == Reply::Bulk(b"2".to_vec())
    })
    .await;
    eventually("certain", async || guard.state() == HoldState::Held).await;
    assert_eq!(redis.command(&["PTTL", "x"]).unwrap(), Reply::Int(-1));
    guard.unlock().await.unwrap();
    assert!(!exists(&redis, "x"));
}

#[tokio::test(start_paused = true)]
async fn new_owners_are_let_in_as_soon_as_all_have_come() {
    let redis = EmbeddedRedis::new();
    let clients = [
        client(&redis).await,
        client(&redis).await,
        client(&redis).await,
    ];
    goes_behind(&redis, &clients.each_ref()).await;
    let guard = clients[0].lock("x").lock().await.unwrap();
    fails_over(&redis);
    let (free, took) = timed("free", clients[1].lock("free").lock()).await;
    free.unwrap().unlock().await.unwrap();
    assert!(took < ms(500), "{took:?}");
    assert!(guard.check().is_ok());
    guard.unlock().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hold_outlives_a_failover_one_of_whose_answers_is_lost() {
    // Each of the first answers of the new primary. Some of them say that a hold has arrived, one ends the grace.
    for before in 0..6 {
        let redis = EmbeddedRedis::new();
        let clients = [client(&redis).await, client(&redis).await];
        goes_behind(&redis, &clients.each_ref()).await;
        let guards = [
            clients[0].lock("x").lock().await.unwrap(),
            clients[1].lock("y").lock().await.unwrap(),
        ];
        redis.lose_reply_after(before);
        fails_over(&redis);
        sleep(ms(2 * LEASE)).await;
        for guard in guards {
            assert_eq!(guard.state(), HoldState::Held, "answer {before} is lost");
            guard.unlock().await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_nobody_used_for_a_while_is_renewed_again() {
    // At any time after the last use: while it lasts, when it is about to end, and when it is over.
    for pause in (0..=2 * LEASE).step_by(100) {
        let redis = EmbeddedRedis::new();
        let client = client(&redis).await;
        let lock = client.lock("x");
        take_and_release(&lock).await;
        sleep(ms(pause)).await;
        let guard = lock.lock().await.unwrap();
        sleep(ms(3 * LEASE)).await;
        assert_eq!(guard.state(), HoldState::Held, "after {pause} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_longer_than_a_session_lasts() {
    let leases = [
        Lease::Fixed(ms(LEASE)),
        Lease::Fixed(ms(20 * LEASE)),
        Lease::RenewedFor(ms(20 * LEASE)),
    ];
    for lease in leases {
        let redis = EmbeddedRedis::new();
        let client = client(&redis).await;
        take_and_release(&client.lock("before")).await;
        // Some of the session has passed.
        sleep(ms(LEASE / 5)).await;
        let guard = client.lock("x").try_lock_now(lease).await.unwrap();
        let span = if lease == leases[0] {
            LEASE - 100
        } else {
            10 * LEASE
        };
        sleep(ms(span)).await;
        assert_eq!(guard.state(), HoldState::Held, "{lease:?}");
        guard.unlock().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn registrations_that_are_gone_are_made_again() {
    let redis = EmbeddedRedis::new();
    let client = client(&redis).await;
    let guard = client.lock("x").lock().await.unwrap();
    // Its primary is the second one now.
    redis.fail_over();
    sleep(ms(LEASE)).await;
    redis.command(&["DEL", "leasehold_reclaim"]).unwrap();
    sleep(ms(3 * LEASE)).await;
    assert_eq!(guard.state(), HoldState::Held);
    assert!(client.stats().calls < 100, "{:?}", client.stats());
}

#[tokio::test(start_paused = true)]
async fn a_dead_client_is_waited_for_as_long_as_a_session() {
    let redis = EmbeddedRedis::new();
    let (one, dead) = (client(&redis).await, client(&redis).await);
    goes_behind(&redis, &[&one, &dead]).await;
    let lost = dead.lock("x").lock().await.unwrap();
    dies(&redis);
    fails_over(&redis);
    let refused = one.lock("x").try_lock(ms(LEASE / 2), Lease::Renewed).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("former holders"), "{refused}");
    assert!(lost.check().is_ok(), "its client trusts it");
    let next = timed("in the end", one.lock("x").lock()).await.0.unwrap();
    assert!(lost.check().is_err(), "before the next one gets it");
    next.unlock().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_has_ended_is_not_waited_for() {
    let redis = EmbeddedRedis::new();
    let (one, ended) = (client(&redis).await, client(&redis).await);
    goes_behind(&redis, &[&one, &ended]).await;
    ended.shutdown(ms(1000)).await.unwrap();
    // The replicas have that it left.
    redis.set_replicas(1);
    fails_over(&redis);
    let (next, took) = timed("free", one.lock("x").lock()).await;
    next.unwrap().unlock().await.unwrap();
    assert!(took < ms(500), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_released_meanwhile_stays_released() {
    for (is_dead, is_noticed) in [(true, false), (false, false), (false, true)] {
        let redis = EmbeddedRedis::new();
        let (one, other) = (client(&redis).await, client(&redis).await);
        goes_behind(&redis, &[&one, &other]).await;
        let guard = one.lock("x").lock().await.unwrap();
        if is_dead {
            dies(&redis);
        }
        fails_over(&redis);
        if is_noticed {
            // The release is sent for the first time to the new primary, so nothing about it is in doubt.
            redis.cut();
            eventually("noticed", async || guard.state() == HoldState::Uncertain).await;
        }
        let (released, ()) = tokio::join!(guard.unlock(), async { redis.heal() });
        released.unwrap();
        sleep(ms(LEASE / 2)).await;
        assert!(!exists(&redis, "x"));
        assert_eq!(one.stats().lost, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn holds_end_with_a_session_that_no_replica_gets() {
    let redis = EmbeddedRedis::new();
    let one = client(&redis).await;
    let guard = one.lock("x").lock().await.unwrap();
    redis.set_replicas(0);
    let refused = one
        .lock("y{x}")
        .try_lock(ms(2 * LEASE), Lease::Renewed)
        .await;
    let late = refused.unwrap();
    assert_eq!(
        timeout(ms(LEASE), guard.ended()).await,
        Ok(Ended::Lost(LossReason::Expired))
    );
    drop(late);
    // The session counts a little longer than what is held under it.
    sleep(ms(LEASE / 100)).await;
    let refused = one
        .lock("z")
        .try_lock(ms(LEASE), Lease::Renewed)
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("0 of 1 replicas"), "{refused}");
    redis.set_replicas(1);
    let next = timed("a new session", one.lock("z").lock())
        .await
        .0
        .unwrap();
    assert!(guard.check().is_err(), "it does not come back");
    next.unlock().await.unwrap();
}

/// With the data of an hour ago, or with none.
#[tokio::test(start_paused = true)]
async fn a_server_that_has_restarted_lets_nobody_in_for_a_session() {
    for is_empty in [true, false] {
        let redis = EmbeddedRedis::new();
        let (one, other) = (client(&redis).await, client(&redis).await);
        let guard = one.lock("x").lock().await.unwrap();
        redis.restart_empty();
        if !is_empty {
            let old = ["marker", FORMER, "number", "1", "until:another", "1"];
            redis
                .command(&[&["HSET", "leasehold_reclaim"], &old[..]].concat())
                .unwrap();
        }
        redis.links()[0].crash();
        let refused = other
            .lock("x")
            .try_lock(ms(LEASE / 2), Lease::Renewed)
            .await;
        assert!(refused.is_err());
        assert!(guard.check().is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn other_kinds_and_holds_of_others_are_refused_before_anything_is_sent() {
    let redis = EmbeddedRedis::new();
    let one = client(&redis).await;
    let calls = one.stats().calls;
    let refused = |error: Error| {
        assert!(
            matches!(
                error,
                Error::Config(ConfigError::Setting {
                    setting: "failover",
                    ..
                })
            ),
            "{error}"
        );
    };
    refused(one.fair_lock("x").lock().await.unwrap_err());
    refused(one.fenced_lock("x").lock().await.unwrap_err());
    refused(one.read_write_lock("x").read().lock().await.unwrap_err());
    refused(one.string_lock("x").lock().await.unwrap_err());
    refused(
        one.semaphore("x")
            .with_limit(1)
            .acquire(1)
            .await
            .unwrap_err(),
    );
    assert_eq!(one.stats().calls, calls);
}

/// Runs a script as a client would, on the primary that is there.
fn run(bed: &Bed, script: &str, keys: &[&str], args: &[&str]) -> Vec<String> {
    let count = keys.len().to_string();
    bed.list(&[&["EVAL", text(script), &count], keys, args].concat())
}

fn text(script: &str) -> &'static str {
    let mut all = scripts().into_iter();
    all.find(|(name, ..)| *name == script).unwrap().1
}

const REGISTRATIONS: &str = "leasehold_reclaim:{x}";

fn identity(bed: &Bed) -> String {
    let ask = "return string.match(redis.call('info', 'replication'), 'master_replid:(%x+)')";
    bed.command(&["EVAL", ask, "1", "x"])
}

/// Longer than a session of 5 s, by whole seconds.
async fn has_run_for_long(bed: &Bed) {
    let ask = "return string.match(redis.call('info', 'server'), 'uptime_in_seconds:(%d+)')";
    eventually("it has run for 7 s", async || {
        bed.number(&["EVAL", ask, "1", "x"]) >= 7
    })
    .await;
}

/// Another identity than that of any server.
const FORMER: &str = "feed";

pub(crate) async fn a_call_runs_only_on_the_primary_that_it_means(bed: Bed) {
    let here = identity(&bed);
    let renew = |meant: &str| {
        let keys = ["x", REGISTRATIONS];
        run(&bed, "reclaim_renew", &keys, &["5000", "me:1", meant])
    };
    bed.command(&["HSET", REGISTRATIONS, "marker", &here, "number", "4"]);
    assert_eq!(renew(FORMER), ["elsewhere", &here, "4", "1"]);
    bed.command(&["HSET", REGISTRATIONS, "marker", FORMER, "number", "4"]);
    assert_eq!(renew(&here), ["elsewhere", &here, "5", "0"], "in grace");
    assert_eq!(renew(FORMER), ["elsewhere", &here, "5", "0"]);
    bed.command(&["HSET", REGISTRATIONS, "marker", &here]);
    assert_eq!(renew(&here), ["0", "1"], "it runs, and finds no hold");
}

pub(crate) async fn holds_are_brought_only_to_the_primary_that_is_meant(bed: Bed) {
    let here = identity(&bed);
    let verify = |meant: &str| {
        let args = ["me", "5000", meant, "1"];
        run(&bed, "reclaim_verify", &[REGISTRATIONS], &args)
    };
    has_run_for_long(&bed).await;
    let registered = [
        "marker",
        FORMER,
        "number",
        "4",
        "until:other",
        "9999999999999",
    ];
    bed.command(&[&["HSET", REGISTRATIONS][..], &registered].concat());
    assert_eq!(verify(FORMER), ["elsewhere", &here, "5", "0"]);
    assert_eq!(
        verify(&here),
        ["verified", &here, "5", "0"],
        "it waits for the other"
    );
    assert_eq!(
        verify(""),
        ["verified", &here, "5", "0"],
        "without a session"
    );
    bed.command(&["HSET", REGISTRATIONS, "until:other", "1"]);
    assert_eq!(
        verify(&here),
        ["verified", &here, "5", "1"],
        "its registration has ended"
    );
}

pub(crate) async fn what_was_released_before_it_was_brought_does_not_come_back(bed: Bed) {
    bed.command(&["HSET", REGISTRATIONS, "marker", FORMER, "number", "4"]);
    let release = text("reclaim_release");
    // The primary has the first hold, and lacks the second.
    bed.command(&["HSET", "x", "me:1", "1"]);
    for owner in ["me:1", "me:2"] {
        let args = ["c", "PUBLISH", "0", owner];
        let call = [&["EVAL", release, "2", "x", REGISTRATIONS], &args[..]].concat();
        assert_eq!(bed.number(&call), 0, "released");
    }
    let holds = [
        "me:1", "1", "5000", "me:2", "1", "5000", "me:3", "1", "5000",
    ];
    let args = [&["me", "60000", "", "1"][..], &holds].concat();
    let keys = [REGISTRATIONS, "x", "x", "y{x}"];
    run(&bed, "reclaim_verify", &keys, &args);
    assert!(!bed.exists("x"));
    assert_eq!(bed.list(&["HGETALL", "y{x}"]), ["me:3", "1"]);
    assert!(bed.left(REGISTRATIONS) > 0, "it expires");
}

pub(crate) async fn a_hold_that_has_come_back_is_not_replaced(bed: Bed) {
    // The grace lasts: another client is missing.
    let missing = ["until:missing", "9999999999999"];
    let registered = [
        &["HSET", REGISTRATIONS, "marker", FORMER, "number", "4"][..],
        &missing,
    ];
    bed.command(&registered.concat());
    for owner in ["one:1", "other:1"] {
        let args = ["me", "60000", "", "1", owner, "1", "9000"];
        run(&bed, "reclaim_verify", &[REGISTRATIONS, "x"], &args);
    }
    let mut owners = bed.list(&["HKEYS", "x"]);
    owners.sort();
    assert_eq!(owners, ["one:1", "other:1"], "the latter may be late");
}

pub(crate) async fn a_hold_that_comes_back_replaces_what_was_released(bed: Bed) {
    bed.command(&["HSET", REGISTRATIONS, "marker", FORMER, "number", "4"]);
    bed.command(&["HSET", "x", "released:1", "1"]);
    bed.command(&["HSET", "y{x}", "me:2", "1"]);
    bed.command(&["PEXPIRE", "y{x}", "90000"]);
    let holds = ["me:1", "2", "5000", "me:2", "1", "5000"];
    let args = [&["me", "60000", "", "1"][..], &holds].concat();
    run(&bed, "reclaim_verify", &[REGISTRATIONS, "x", "y{x}"], &args);
    assert_eq!(bed.list(&["HGETALL", "x"]), ["me:1", "2"]);
    assert!((1..=5000).contains(&bed.left("x")));
    assert!(bed.left("y{x}") > 5000, "no lease is shortened");
}
