//! The queue of a fair lock: what dead, silent and leaving waiters cost the living ones.

use std::time::{Duration, Instant};

use leasehold::{Client, Error, Lease, LockGuard};
use leasehold_testbed::{Borrowed, Deployment, Outside, connected, eventually_within, ms, within};

use crate::testbed::{
    LATE, Running, SILENCE, alone, at_rest, beside, brisk, builder, child, connect, note,
};

const LIMIT: Duration = Duration::from_secs(60);
const QUEUE: &str = "redisson_lock_queue:{n}";
const DEADLINES: &str = "redisson_lock_timeout:{n}";
/// The claim of dying waiters. Two such claims are longer than one plus the tolerance for lateness.
const CLAIM: Duration = ms(7_000);
/// The claim of a living waiter whose heartbeats the machine may delay.
const LONG_CLAIM: Duration = ms(3_000);
const DEAD: usize = 50;
const CHILD: &str = "fair::queueing_process";

type Taking = tokio::task::JoinHandle<Result<LockGuard, Error>>;

fn places(outside: &mut Outside) -> usize {
    usize::try_from(outside.command(&["LLEN", QUEUE]).int()).expect("not negative")
}

/// Starts a waiter, and returns when it is in the queue.
async fn queued(outside: &mut Outside, client: &Client) -> Taking {
    let before = places(outside);
    let lock = client.fair_lock("n");
    let taking = tokio::spawn(async move { lock.lock().await });
    eventually_within(LIMIT, "in the queue", async || {
        places(outside) == before + 1
    })
    .await;
    taking
}

async fn served(what: &str, limit: Duration, taking: Taking) -> LockGuard {
    within(limit, what, taking)
        .await
        .expect("no panic")
        .expect("granted")
}

/// Returns when the waiters of a client hear messages. The server counts a listener before the client
/// has the confirmation, which is a message, too. A message that means nothing comes after it.
async fn hears(server: &Deployment, outside: &mut Outside, client: &Client) {
    let in_vain = client.stats().wakes_in_vain;
    let of_client = format!("leasehold_client:{{{}}}", client.id());
    eventually_within(LIMIT, "woken in vain by a message", async || {
        for field in outside.command(&["LRANGE", QUEUE, "0", "-1"]).array() {
            let channel = format!("redisson_lock__channel:{{n}}:{}", field.text());
            server.publish(&channel, "0");
            server.publish(&of_client, &format!("\0for 0 {channel}"));
        }
        client.stats().wakes_in_vain > in_vain
    })
    .await;
}

/// Another process whose clients are all in the queue, one of them perhaps as the holder.
async fn crowd(server: &Deployment, outside: &mut Outside) -> Running {
    let held = outside.exists("n");
    let process = child(CHILD, &[("LEASEHOLD_CHILD_URL", server.url())]);
    let all = if held { DEAD } else { DEAD - 1 };
    eventually_within(LIMIT, "all queued", async || places(outside) == all).await;
    process
}

/// One process of the tests below, with this many clients that wait until they are killed.
#[test]
#[ignore = "a child of another test"]
fn queueing_process() {
    let Ok(url) = std::env::var("LEASEHOLD_CHILD_URL") else {
        return;
    };
    beside(Duration::from_secs(600), async move {
        let mut clients = Vec::new();
        for _ in 0..DEAD {
            let client = builder(&url).lease(ms(1_000)).fair_claim(CLAIM);
            clients.push(client.connect().await.expect("connects"));
        }
        futures::future::join_all(clients.iter().map(take_and_keep)).await;
    });
}

async fn take_and_keep(client: &Client) {
    let _guard = client.fair_lock("n").lock().await.expect("redis is there");
    std::future::pending::<()>().await;
}

#[test]
fn killed_waiters_cost_those_behind_them_one_claim() {
    alone(LIMIT, async {
        let server = Borrowed::take();
        let mut outside = Outside::of(&server);
        let (holder, live) = (connect(&server.url()).await, connect(&server.url()).await);
        let guard = holder.fair_lock("n").lock().await.expect("free");
        let process = crowd(&server, &mut outside).await;
        let behind = [
            queued(&mut outside, &live).await,
            queued(&mut outside, &holder).await,
        ];
        process.kill();
        let killed = Instant::now();
        // The message goes to a dead waiter.
        guard.unlock().await.expect("held");
        let newcomer = connect(&server.url()).await;
        let last = queued(&mut outside, &newcomer).await;
        for taking in behind {
            served("behind the dead", LIMIT, taking)
                .await
                .unlock()
                .await
                .expect("held");
        }
        let guard = served("the newcomer", LIMIT, last).await;
        let took = killed.elapsed();
        note(&format!(
            "{DEAD} killed waiters: a newcomer gets in {took:?} after the kill"
        ));
        assert!(took < CLAIM + LATE, "{took:?}");
        guard.unlock().await.expect("held");
        assert!(!outside.exists(QUEUE) && !outside.exists(DEADLINES) && outside.keys() == 0);
    });
}

#[test]
fn a_killed_holder_with_killed_waiters_costs_the_longer_of_lease_and_claim() {
    alone(LIMIT, async {
        let server = Borrowed::take();
        let mut outside = Outside::of(&server);
        let process = crowd(&server, &mut outside).await;
        process.kill();
        let killed = Instant::now();
        let newcomer = connect(&server.url()).await;
        let guard = within(LIMIT, "the newcomer", newcomer.fair_lock("n").lock()).await;
        let took = killed.elapsed();
        note(&format!(
            "killed with the holder: a newcomer gets in {took:?} after the kill"
        ));
        // The holder's lease is shorter than the claim.
        assert!(took < CLAIM + LATE, "{took:?}");
        guard.expect("granted").unlock().await.expect("held");
        assert!(!outside.exists(QUEUE) && !outside.exists(DEADLINES) && outside.keys() == 0);
    });
}

#[test]
fn a_full_server_keeps_the_places_of_those_who_live() {
    beside(LIMIT, async {
        let server = Borrowed::take();
        let mut outside = Outside::of(&server);
        let holder = connect(&server.url()).await;
        let waiting = brisk(&server.url()).fair_claim(LONG_CLAIM).connect().await;
        let waiting = waiting.expect("connects");
        let guard = holder.fair_lock("n").lock().await.expect("free");
        let behind = [
            queued(&mut outside, &waiting).await,
            queued(&mut outside, &waiting).await,
        ];
        outside.command(&["CONFIG", "SET", "maxmemory", "1"]);
        let mut latest = || {
            let last = outside.command(&["ZRANGE", DEADLINES, "-1", "-1", "WITHSCORES"]);
            last.array()[1].text().parse::<f64>().expect("a score")
        };
        let first = latest();
        eventually_within(
            LIMIT,
            "beats keep them for another claim and longer",
            async || latest() > first + 6_000.0,
        )
        .await;
        assert_eq!(places(&mut outside), 2);
        outside.command(&["CONFIG", "SET", "maxmemory", "0"]);
        guard.unlock().await.expect("held");
        for taking in behind {
            served("behind", LIMIT, taking)
                .await
                .unlock()
                .await
                .expect("held");
        }
        at_rest(&waiting, LIMIT).await;
        assert_eq!(outside.keys(), 0);
    });
}

#[test]
fn waiters_behind_a_dead_java_waiter_do_not_hammer_redis() {
    alone(LIMIT, async {
        let server = Borrowed::take();
        let mut outside = Outside::of(&server);
        let clients = [connect(&server.url()).await, connect(&server.url()).await];
        let java = "0b4e4b9c-9a1f-4c0e-8f6a-0c5f9d6b0f12:57";
        let time = outside.command(&["TIME"]);
        let kept_until = (time.array()[0].int() + 3_600) * 1_000;
        outside.command(&["RPUSH", QUEUE, java]);
        outside.command(&["ZADD", DEADLINES, &kept_until.to_string(), java]);
        let mut takings = Vec::new();
        for number in 0..20 {
            takings.push(queued(&mut outside, &clients[number % 2]).await);
        }
        // The lock is free and reserved for another waiter: here a Java client asks as fast as it
        // can. A listener is counted when it subscribes, which the server hears later.
        eventually_within(LIMIT, "the server serves every listener", async || {
            let channels = server.channels();
            let of_waiters = |channel: &&String| channel.starts_with("redisson_lock__channel");
            channels.iter().filter(of_waiters).count() == 20
                && clients.iter().all(|client| client.stats().listeners == 10)
        })
        .await;
        outside.reset_stats();
        let started = Instant::now();
        eventually_within(LIMIT, "four seconds", async || {
            started.elapsed() > ms(4_000)
        })
        .await;
        let (calls, seconds) = (outside.calls("evalsha"), started.elapsed().as_secs() + 1);
        note(&format!(
            "20 waiters behind a dead head: {calls} calls in {seconds} s"
        ));
        // Two clients that send heartbeats at least every half second.
        assert!(calls >= 8 && calls <= 8 * seconds, "{calls} calls");
        assert_eq!(outside.calls("subscribe"), 0);
        // The head is removed by hand without a message. A heartbeat finds out.
        outside.command(&["LPOP", QUEUE]);
        outside.command(&["ZREM", DEADLINES, java]);
        for taking in takings {
            served("granted", LIMIT, taking)
                .await
                .unlock()
                .await
                .expect("held");
        }
        for client in &clients {
            at_rest(client, LIMIT).await;
        }
        assert_eq!(outside.keys(), 0);
    });
}

#[test]
fn a_waiter_whose_writes_are_paused_gives_up_in_time_and_leaves_the_queue() {
    alone(LIMIT, async {
        let server = Borrowed::take();
        let mut outside = Outside::of(&server);
        let holder = connect(&server.url()).await;
        // Only the end of its wait can end its last call within the test.
        let client = builder(&server.url())
            .command_timeout(SILENCE)
            .connect()
            .await;
        let client = client.expect("connects");
        let guard = holder
            .fair_lock("n")
            .try_lock_now(Lease::Fixed(ms(60_000)))
            .await
            .expect("free");
        let lock = client.fair_lock("n");
        let (wait, started) = (ms(800), Instant::now());
        let taking =
            tokio::spawn(async move { lock.try_lock(wait, Lease::Fixed(ms(5_000))).await });
        eventually_within(LIMIT, "in the queue", async || places(&mut outside) == 1).await;
        outside.command(&["CLIENT", "PAUSE", "60000", "WRITE"]);
        let refused = within(LIMIT, "gave up", taking)
            .await
            .expect("no panic")
            .expect_err("no");
        let took = started.elapsed();
        assert!(took >= wait && took < wait + LATE, "{took:?}");
        outside.command(&["CLIENT", "UNPAUSE"]);
        // The waiter cannot know whether its last call was answered.
        assert!(
            matches!(refused, Error::Timeout { .. } | Error::Unknown { .. }),
            "{refused:?}"
        );
        eventually_within(ms(5_000), "left the queue", async || !outside.exists(QUEUE)).await;
        assert!(!outside.exists(DEADLINES));
        guard.unlock().await.expect("held");
        at_rest(&client, LIMIT).await;
        assert_eq!(outside.keys(), 0);
    });
}

#[test]
fn a_waiter_that_hears_nothing_comes_all_the_same() {
    alone(LIMIT, async {
        let server = Borrowed::take();
        let proxy = server.line();
        let mut outside = Outside::of(&server);
        let holder = connect(&server.url()).await;
        // A silent connection is given up only after many seconds, so no reconnect wakes the
        // waiter.
        let deaf = builder(proxy.url())
            .command_timeout(SILENCE)
            .connect()
            .await;
        let deaf = deaf.expect("connects");
        for kill in [false, true] {
            let guard = holder.fair_lock("n").lock().await.expect("free");
            let taking = queued(&mut outside, &deaf).await;
            hears(&server, &mut outside, &deaf).await;
            if kill {
                outside.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
            } else {
                proxy.swallow_messages();
            }
            let reconnects = deaf.stats().reconnects;
            guard.unlock().await.expect("held");
            // A heartbeat finds within half a second that the waiter is next.
            let guard = served("granted", LATE, taking).await;
            assert!(
                kill || deaf.stats().reconnects == reconnects,
                "it was the beat"
            );
            guard.unlock().await.expect("held");
            proxy.pass();
            eventually_within(LIMIT, "reconnected", async || deaf.stats().reconnects > 0).await;
        }
        at_rest(&deaf, LIMIT).await;
        assert_eq!(outside.keys(), 0);
    });
}

#[test]
fn a_waiter_that_is_cut_off_is_passed_over_and_comes_back() {
    alone(LIMIT, async {
        let server = Borrowed::take();
        let proxy = server.line();
        let mut outside = Outside::of(&server);
        let far = connected(brisk(proxy.url()).fair_claim(ms(500))).await;
        let near = connect(&server.url()).await;
        let guard = near.fair_lock("n").lock().await.expect("free");
        let (first, second) = (
            queued(&mut outside, &far).await,
            queued(&mut outside, &near).await,
        );
        proxy.refuse();
        proxy.cut();
        let cut = Instant::now();
        guard.unlock().await.expect("held");
        let guard = served("the one behind it", ms(500) + LATE, second).await;
        assert!(!first.is_finished());
        note(&format!(
            "a waiter that was cut off cost {:?}",
            cut.elapsed()
        ));
        proxy.pass();
        eventually_within(LIMIT, "back in the queue", async || {
            places(&mut outside) == 1
        })
        .await;
        guard.unlock().await.expect("held");
        served("the one that came back", LIMIT, first)
            .await
            .unlock()
            .await
            .expect("held");
        at_rest(&far, LIMIT).await;
        assert_eq!(outside.keys(), 0);
    });
}
