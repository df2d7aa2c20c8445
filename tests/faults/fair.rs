//! The queue of a fair lock: what dead, silent and leaving waiters cost the living ones.

use std::time::{Duration, Instant};

use leasehold::{Client, Error, Lease, LockGuard};
use leasehold_testbed::{Borrowed, Deployment, Outside, eventually_within, ms, within};

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
