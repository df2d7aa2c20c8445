//! Dropping a guard or a client never panics, never blocks, and leaves nothing behind.

use std::time::{Duration, Instant};

use leasehold::{Client, HoldState, Lease};
use leasehold_testbed::{Borrowed, Deployment, Outside, connected, eventually_within, ms, within};

use crate::testbed::{
    GIVEN_UP, SILENCE, alone, at_rest, block_on, brisk, builder, hold, note, runtime, threads, turn,
};

const LIMIT: Duration = Duration::from_secs(20);
/// The limit for a drop, whatever the state of Redis. Anything that it could wait for takes far
/// longer.
const AT_ONCE: Duration = GIVEN_UP;
/// For tests that wait for the end of the lease.
const LEASE: Duration = ms(1_000);
/// The delay that a busy machine may add: less than anything a drop could wait for.
const NOISE: Duration = ms(1_750);

/// A client with long timeouts, so that waiting for a reply would take long.
async fn patient(url: &str) -> Client {
    builder(url)
        .command_timeout(SILENCE)
        .connect()
        .await
        .expect("connects")
}

fn timed(what: &str, drops: impl FnOnce()) {
    let started = Instant::now();
    drops();
    let took = started.elapsed();
    assert!(took < AT_ONCE, "{what} took {took:?}");
}

/// Watches Redis from outside, and knows how long an awaited release takes.
struct Watch {
    outside: Outside,
    usual: Duration,
}

impl Watch {
    async fn new(server: &Deployment) -> Self {
        let client = patient(&server.url()).await;
        let (mut outside, mut usual) = (Outside::of(server), Duration::ZERO);
        for _ in 0..10 {
            let guard = hold(&client, "usual").await;
            let started = Instant::now();
            guard.unlock().await.expect("held");
            assert!(!outside.exists("usual"));
            usual = usual.max(started.elapsed());
        }
        client.shutdown(LIMIT).await.expect("no key left");
        Watch { outside, usual }
    }

    /// Waits until the key of a dropped guard is free, for no longer than an unlock would take.
    async fn freed(&mut self, key: &str) {
        let limit = self.usual * 4 + NOISE;
        eventually_within(limit, &format!("`{key}` is free"), async || {
            !self.outside.exists(key)
        })
        .await;
    }
}

#[test]
fn a_guard_dropped_in_a_task_frees_the_key_at_once() {
    alone(LIMIT, async {
        let server = Borrowed::take();
        let mut watch = Watch::new(&server).await;
        let client = patient(&server.url()).await;
        let guard = hold(&client, "n").await;
        tokio::spawn(async move { timed("the drop", || drop(guard)) })
            .await
            .expect("no panic");
        watch.freed("n").await;
        at_rest(&client, LIMIT).await;
    });
}

#[test]
fn a_guard_dropped_by_the_end_of_its_runtime_frees_the_key() {
    let _turn = turn();
    let server = Borrowed::take();
    let own = runtime(1);
    let mut watch = own.block_on(Watch::new(&server));
    let client = own.block_on(async {
        let client = patient(&server.url()).await;
        let guard = hold(&client, "n").await;
        own.spawn(async move {
            let _guard = guard;
            std::future::pending::<()>().await;
        });
        client
    });
    assert!(watch.outside.exists("n"));
    let started = Instant::now();
    own.shutdown_timeout(LIMIT);
    note(&format!("the runtime's end took {:?}", started.elapsed()));
    assert!(started.elapsed() < AT_ONCE, "{:?}", started.elapsed());
    block_on(LIMIT, async {
        watch.freed("n").await;
        at_rest(&client, LIMIT).await;
    });
}

#[test]
fn a_guard_dropped_after_its_runtime_is_gone_frees_the_key() {
    let _turn = turn();
    let server = Borrowed::take();
    let own = runtime(1);
    let mut watch = own.block_on(Watch::new(&server));
    let (client, guard) = own.block_on(async {
        let client = patient(&server.url()).await;
        let guard = hold(&client, "n").await;
        (client, guard)
    });
    drop(own);
    assert_eq!(
        guard.state(),
        HoldState::Held,
        "renewal needs no runtime of the caller"
    );
    assert!(watch.outside.exists("n"));
    timed("the drop", || drop(guard));
    block_on(LIMIT, async {
        watch.freed("n").await;
        at_rest(&client, LIMIT).await;
        // The caller's connections have moved, so the client still works.
        within(LIMIT, "another round", async {
            loop {
                if let Ok(guard) = client
                    .lock("n")
                    .try_lock(ms(100), Lease::Fixed(ms(1_000)))
                    .await
                {
                    return guard.unlock().await;
                }
            }
        })
        .await
        .expect("held");
    });
}

#[test]
fn a_hold_outlives_the_runtime_that_took_it() {
    let _turn = turn();
    let server = Borrowed::take();
    let own = runtime(1);
    let mut watch = own.block_on(Watch::new(&server));
    let (client, guard) = own.block_on(async {
        let client = connected(brisk(&server.url()).lease(ms(3_000))).await;
        let guard = hold(&client, "n").await;
        (client, guard)
    });
    drop(own);
    block_on(LIMIT, async {
        let end = Instant::now() + ms(7_000);
        eventually_within(LIMIT, "several leases", async || {
            assert!(watch.outside.pttl("n") > 100, "it is renewed");
            assert_eq!(guard.state(), HoldState::Held);
            Instant::now() > end
        })
        .await;
        guard.extend(ms(30_000)).await.expect("held");
        drop(guard);
        watch.freed("n").await;
        drop(client);
    });
}

#[test]
fn a_drop_does_not_wait_for_a_dead_server() {
    alone(LIMIT, async {
        let server = Borrowed::take();
        let settings = builder(&server.url()).command_timeout(SILENCE).lease(LEASE);
        let client = settings.connect().await.expect("connects");
        let guards = [hold(&client, "a").await, hold(&client, "b").await];
        server.pause();
        let [a, b] = guards;
        timed("a drop while redis is stopped", || drop(a));
        std::thread::spawn(move || timed("a drop on a thread", || drop(b)))
            .join()
            .expect("no panic");
        timed("the client's drop", || drop(client));
        server.resume();
        let mut outside = Outside::of(&server);
        eventually_within(LEASE + NOISE, "both end with their leases", async || {
            outside.keys() == 0
        })
        .await;
    });
}

#[test]
fn a_client_that_is_dropped_leaves_no_connection_and_no_thread() {
    alone(LIMIT * 3, async {
        let server = Borrowed::take();
        let mut watch = Watch::new(&server).await;
        eventually_within(LIMIT, "other tests' threads have ended", async || {
            threads() == 0
        })
        .await;
        let clients = [patient(&server.url()).await, patient(&server.url()).await];
        assert_eq!(threads(), 2, "one thread for each client");
        let of_each = 3 * server.primaries();
        let connections = || server.clients("name=leasehold:").len();
        eventually_within(LIMIT, "three connections to each server", async || {
            connections() == 2 * of_each
        })
        .await;
        let [first, second] = clients;
        let guard = hold(&first, "n").await;
        drop(first);
        drop(second);
        eventually_within(LIMIT, "the unused one is gone", async || threads() == 1).await;
        guard.check().expect("a guard keeps its client alive");
        let started = Instant::now();
        timed("the last drop", || drop(guard));
        watch.freed("n").await;
        eventually_within(LIMIT, "no thread", async || threads() == 0).await;
        eventually_within(LIMIT, "no connection", async || {
            server.clients("name=leasehold:").is_empty()
        })
        .await;
        note(&format!("gone {:?} after the last drop", started.elapsed()));
    });
}

#[test]
fn a_client_whose_runtime_ended_leaves_no_connection_and_no_thread() {
    let server = Borrowed::take();
    alone(LIMIT * 3, async {
        let mut watch = Watch::new(&server).await;
        eventually_within(LIMIT, "other tests' threads have ended", async || {
            threads() == 0
        })
        .await;
        let thread = std::thread::spawn({
            let url = server.url();
            move || {
                let own = runtime(1);
                let (client, guard) = own.block_on(async {
                    let client = patient(&url).await;
                    let guard = hold(&client, "n").await;
                    (client, guard)
                });
                drop(own);
                timed("the guard's drop", || drop(guard));
                timed("the client's drop", || drop(client));
            }
        });
        thread.join().expect("no panic");
        watch.freed("n").await;
        eventually_within(LIMIT, "no thread", async || threads() == 0).await;
        eventually_within(LIMIT, "no connection", async || {
            server.clients("name=leasehold:").is_empty()
        })
        .await;
    });
}
