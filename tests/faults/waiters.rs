//! Nobody waits forever and nobody asks too often, whatever happens to messages and servers.

use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Client, Error, Lease, LossReason};
use leasehold_testbed::{
    Borrowed, Deployment, Outside, Server, connected, eventually_within, lost, ms, within,
};

use crate::testbed::{
    GIVEN_UP, LATE, SILENCE, alone, at_rest, brisk, builder, connect, hold, note, size,
};

const LIMIT: Duration = Duration::from_secs(60);
/// A waiter with a lost message waits for a poll. Without the poll, the lease of 30 s would have to
/// end.
const WOKEN: Duration = ms(10_000);

/// A wait that faults may not prolong.
const SHORT_WAIT: Duration = ms(200);

type Taking = tokio::task::JoinHandle<Result<Duration, Error>>;

/// A waiter without a limit, and how long it waited.
async fn waiter(client: &Client, name: &str) -> Taking {
    let before = client.stats().listeners;
    let lock = client.lock(name);
    let taking = tokio::spawn(async move {
        let started = Instant::now();
        let guard = lock.lock().await?;
        let took = started.elapsed();
        guard.unlock().await?;
        Ok(took)
    });
    eventually_within(LIMIT, "listening", async || {
        client.stats().listeners > before
    })
    .await;
    taking
}

/// Calls of waiters. Each asks, subscribes, and asks again.
fn asked(client: &Client) -> u64 {
    let stats = client.stats();
    stats.calls - stats.polls
}

async fn served(what: &str, limit: Duration, taking: Taking) {
    within(limit, what, taking)
        .await
        .expect("no panic")
        .expect("granted");
}

#[test]
fn a_waiter_whose_subscription_is_killed_is_woken() {
    alone(LIMIT, async {
        let server = Borrowed::take();
        let holder = connect(&server.url()).await;
        let client = connected(brisk(&server.url()).safety_poll(LIMIT)).await;
        let mut outside = Outside::of(&server);
        // Only by the reconnect, because there is no poll within the test.
        let mut longest = Duration::ZERO;
        for _ in 0..5 {
            let guard = hold(&holder, "n").await;
            let taking = waiter(&client, "n").await;
            outside.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
            guard.unlock().await.expect("held");
            let started = Instant::now();
            served("woken by the reconnect", WOKEN, taking).await;
            longest = longest.max(started.elapsed());
        }
        note(&format!(
            "subscription killed at the unlock: woken after at most {longest:?}"
        ));
        at_rest(&client, LIMIT).await;
    });
}

/// Lets a client learn how long replies take. It waits a little longer than that for a reply that
/// decides.
async fn learns(client: &Client) {
    let lock = client.lock("trip");
    for _ in 0..50 {
        lock.is_locked().await.expect("redis answers");
    }
}

#[test]
fn an_impatient_call_ends_in_time_when_redis_is_stopped_killed_or_silent() {
    alone(LIMIT, async {
        let mut server = Borrowed::take();
        let proxy = server.line();
        // A call that does not end with the wait ends with its connection or with the command
        // timeout.
        let patient = |url: &str| builder(url).command_timeout(SILENCE);
        let direct = patient(&server.url()).connect().await.expect("connects");
        let slow = patient(proxy.url()).connect().await.expect("connects");
        let holder = connect(&server.url()).await;
        let guard = hold(&holder, "held").await;
        let mut longest = Duration::ZERO;
        // Its connection would not be given up earlier.
        let mut check = async |what: &str, client: &Client, name: &str| {
            let started = Instant::now();
            let outcome = client
                .lock(name)
                .try_lock(SHORT_WAIT, Lease::Fixed(ms(5_000)))
                .await;
            let took = started.elapsed();
            assert!(took < GIVEN_UP, "{what} `{name}`: {took:?}");
            longest = longest.max(took);
            outcome.expect_err(what)
        };
        let well = async |client: &Client| {
            eventually_within(LIMIT, "back", async || client.stats().releases_pending == 0).await;
            learns(client).await;
        };
        for name in ["free", "held"] {
            well(&slow).await;
            proxy.half_open();
            let error = check("half-open", &slow, name).await;
            assert!(matches!(error, Error::Unknown { .. }), "{error:?}");
            proxy.pass();
        }
        for name in ["free", "held"] {
            well(&direct).await;
            server.pause();
            let error = check("stopped", &direct, name).await;
            assert!(matches!(error, Error::Unknown { .. }), "{error:?}");
            server.resume();
        }
        // A waiter that was listening when it happened.
        well(&direct).await;
        let (started, waiting) = loop {
            let (lock, started) = (direct.lock("held"), Instant::now());
            let lease = Lease::Fixed(ms(5_000));
            let waiting =
                tokio::spawn(async move { lock.try_lock(SHORT_WAIT * 2, lease).await.map(drop) });
            let listens = || direct.stats().listeners == 1;
            eventually_within(LIMIT, "listening", async || {
                listens() || waiting.is_finished()
            })
            .await;
            if listens() {
                break (started, waiting);
            }
        };
        server.pause();
        let outcome = within(LIMIT, "the waiter", waiting)
            .await
            .expect("no panic");
        let took = started.elapsed();
        assert!(outcome.is_err() && took < GIVEN_UP, "{took:?}");
        let first = patient(&server.url()).connect_timeout(SHORT_WAIT).connect();
        // The connect timeout of these clients is far longer.
        let error = within(LATE, "a first connect", first)
            .await
            .expect_err("it is stopped");
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
        server.resume();
        well(&direct).await;
        server.kill();
        for name in ["free", "held"] {
            let error = check("killed", &direct, name).await;
            let told = matches!(error, Error::Unavailable { .. } | Error::Unknown { .. });
            assert!(told, "{error:?}");
        }
        note(&format!(
            "try_lock(200 ms) on a dead redis took at most {longest:?}"
        ));
        drop(guard);
    });
}

#[test]
fn all_waiters_of_a_restarted_server_get_their_turn_without_a_storm() {
    let waiters = size("LEASEHOLD_RESTART_WAITERS", 200);
    alone(LIMIT * 2, async move {
        let mut server = Server::start();
        let names = 10;
        let holder = brisk(&server.url()).connect().await.expect("connects");
        // What was in doubt when the server died stays pending for a lease.
        let client = || builder(&server.url()).lease(ms(3_000)).connect();
        let clients = [
            client().await.expect("connects"),
            client().await.expect("connects"),
        ];
        let mut guards = Vec::new();
        for number in 0..names {
            guards.push(hold(&holder, &format!("n{number}")).await);
        }
        let takings: Vec<_> = (0..waiters)
            .map(|number| {
                let lock = clients[number % 2].lock(format!("n{}", number / 2 % names));
                tokio::spawn(async move {
                    let guard = lock.lock().await?;
                    tokio::task::yield_now().await;
                    drop(guard);
                    Ok::<_, Error>(())
                })
            })
            .collect();
        let waiting = || {
            clients
                .iter()
                .map(|client| client.stats().waiting)
                .sum::<u64>()
        };
        eventually_within(LIMIT, "all queued", async || waiting() == waiters as u64).await;
        server.kill();
        let down = Instant::now();
        eventually_within(LIMIT, "down for a while", async || {
            down.elapsed() > ms(1_500)
        })
        .await;
        assert_eq!(waiting(), waiters as u64, "patient waiters stay");
        server.restart();
        let up = Instant::now();
        for taking in takings {
            within(Duration::from_secs(10), "a turn", taking)
                .await
                .expect("no panic")
                .expect("it");
        }
        let took = up.elapsed();
        let mut outside = Outside::of(&server);
        let commands = outside.commands();
        // Logins and subscriptions of three clients, and two calls with their commands for each
        // turn.
        let bound = 400 + 12 * waiters as u64;
        note(&format!(
            "{waiters} waiters after a restart: {took:?}, {commands} commands"
        ));
        assert!(
            commands < bound,
            "{commands} commands for {waiters} waiters"
        );
        for guard in &guards {
            let reason = within(LIMIT, "lost", lost(guard)).await;
            assert!(
                matches!(reason, LossReason::Gone | LossReason::Expired),
                "{reason:?}"
            );
        }
        for client in &clients {
            at_rest(client, Duration::from_secs(10)).await;
        }
        eventually_within(LIMIT, "free", async || outside.keys() == 0).await;
    });
}

#[test]
fn waiters_of_one_name_cost_redis_one_contender() {
    let waiters = size("LEASEHOLD_WAITERS", 2_000);
    alone(LIMIT * 3, async move {
        let server = Borrowed::take();
        let holder = connect(&server.url()).await;
        let client = connect(&server.url()).await;
        let mut outside = Outside::of(&server);
        let guard = hold(&holder, "n").await;
        let single = waiter(&client, "n").await;
        eventually_within(LIMIT, "asked again", async || asked(&client) >= 2).await;
        let alone = idle_requests(&server, &mut outside, 1).await;
        let calls = client.stats().calls;
        let takings: Vec<_> = (1..waiters)
            .map(|_| {
                let lock = client.lock("n");
                tokio::spawn(async move { lock.lock().await?.unlock().await })
            })
            .collect();
        eventually_within(LIMIT, "all queued", async || {
            client.stats().waiting == waiters as u64
        })
        .await;
        assert!(
            client.stats().calls - calls <= 4,
            "joining the queue sends nothing"
        );
        let together = idle_requests(&server, &mut outside, waiters).await;
        assert!(
            together <= alone + 5,
            "{alone} commands a second for one, {together} for all"
        );
        outside.reset_stats();
        let started = Instant::now();
        guard.unlock().await.expect("held");
        served("the first", LIMIT, single).await;
        for taking in takings {
            within(LIMIT, "a turn", taking)
                .await
                .expect("no panic")
                .expect("held");
        }
        let (took, calls) = (started.elapsed(), outside.calls("evalsha"));
        note(&format!(
            "{waiters} waiters of one name: {together} requests a second ({alone} for one); served \
             in {took:?} with {calls} calls"
        ));
        // A release and an acquisition for each streak; there is no other client.
        assert!(calls < 20 + waiters as u64 / 5, "{calls} calls");
        at_rest(&client, Duration::from_secs(10)).await;
        assert_eq!(outside.keys(), 0);
    });
}

/// Requests per second while everybody waits, bounded by the cost of polls and PINGs.
async fn idle_requests(server: &Deployment, outside: &mut Outside, names: usize) -> u64 {
    // A poll is one request for each 500 names, and in a cluster for each name. The EXISTS inside
    // its script is not a request.
    let mut requests = || {
        let asked_by_scripts = outside.calls("exists");
        outside.commands() - asked_by_scripts
    };
    let questions = 2 * server.primaries() as u64;
    eventually_within(LIMIT, "all questions are answered", async || {
        let before = requests();
        let started = Instant::now();
        while started.elapsed() < ms(30) {
            thread::yield_now();
        }
        requests() - before < questions + 4
    })
    .await;
    let (before, started) = (requests(), Instant::now());
    eventually_within(LIMIT, "two seconds", async || started.elapsed() > ms(2_000)).await;
    let requests = requests() - before - questions;
    let rate = requests * 1_000 / u64::try_from(started.elapsed().as_millis()).expect("few");
    let names_at_once = if server.primaries() > 1 { 1 } else { 500 };
    let polls = (names as u64).div_ceil(names_at_once);
    let bound = 12 * server.primaries() as u64 + 4 * polls;
    assert!(rate <= bound, "{rate} requests a second while {names} wait");
    rate
}
