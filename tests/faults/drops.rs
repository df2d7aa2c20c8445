//! Dropping a guard or a client never panics, never blocks, and leaves nothing behind.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use leasehold::{Client, Error, HoldState, Lease, LockGuard, LossReason};
use leasehold_testbed::{
    Borrowed, Deployment, Outside, connected, eventually_within, lost, ms, within,
};

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
fn a_guard_dropped_with_an_aborted_task_frees_the_key_at_once() {
    alone(LIMIT, async {
        let server = Borrowed::take();
        let mut watch = Watch::new(&server).await;
        let client = patient(&server.url()).await;
        let guard = hold(&client, "n").await;
        let task = tokio::spawn(async move {
            let _guard = guard;
            std::future::pending::<()>().await;
        });
        tokio::task::yield_now().await;
        task.abort();
        assert!(task.await.is_err_and(|error| error.is_cancelled()));
        watch.freed("n").await;
        at_rest(&client, LIMIT).await;
    });
}

#[test]
fn a_guard_dropped_on_a_plain_thread_frees_the_key_at_once() {
    alone(LIMIT, async {
        let server = Borrowed::take();
        let mut watch = Watch::new(&server).await;
        let client = patient(&server.url()).await;
        let guard = hold(&client, "n").await;
        let thread = std::thread::spawn(move || timed("the drop", || drop(guard)));
        assert!(thread.join().is_ok(), "no panic");
        watch.freed("n").await;
        at_rest(&client, LIMIT).await;
    });
}

#[test]
fn a_guard_dropped_while_unwinding_frees_the_key_at_once() {
    alone(LIMIT, async {
        let server = Borrowed::take();
        let mut watch = Watch::new(&server).await;
        let client = patient(&server.url()).await;
        let guard = hold(&client, "n").await;
        let caught = catch_unwind(AssertUnwindSafe(move || {
            let _guard: LockGuard = guard;
            // Without the panic message in the test's output.
            std::panic::resume_unwind(Box::new("on purpose"));
        }));
        assert!(caught.is_err());
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

#[test]
fn shutdown_releases_all_holds_and_ends_all_waits() {
    alone(LIMIT, async {
        let server = Borrowed::take();
        let other = patient(&server.url()).await;
        let client = patient(&server.url()).await;
        let mut outside = Outside::of(&server);
        let (mut guards, mut foreign, mut waiters) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..100 {
            guards.push(hold(&client, &format!("held{number}")).await);
        }
        for number in 0..50 {
            foreign.push(hold(&other, &format!("foreign{number}")).await);
        }
        // Half of the waiters wait behind their own client, half behind another.
        for number in 0..100 {
            let name = if number < 50 {
                format!("foreign{number}")
            } else {
                format!("held{number}")
            };
            let lock = client.lock(name);
            waiters.push(tokio::spawn(async move { lock.lock().await.map(drop) }));
        }
        eventually_within(LIMIT, "all queued", async || client.stats().waiting == 100).await;
        let started = Instant::now();
        client
            .shutdown(Duration::from_secs(5))
            .await
            .expect("redis confirms all");
        let took = started.elapsed();
        assert!(took < Duration::from_secs(4), "{took:?}");
        assert_eq!(outside.keys(), 50, "only the other client's are left");
        for waiter in waiters {
            let outcome = within(AT_ONCE, "a waiter", waiter).await.expect("no panic");
            assert!(matches!(outcome, Err(Error::Closed)), "{outcome:?}");
        }
        for guard in &guards {
            assert_eq!(
                within(AT_ONCE, "lost", lost(guard)).await,
                LossReason::Closed
            );
            assert!(matches!(guard.check(), Err(Error::Lost { .. })));
        }
        let refused = client.lock("n").lock().await;
        assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
        let refused = client.lock("n").is_locked().await;
        assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
        timed("the guards' drop", || drop(guards));
        at_rest(&client, AT_ONCE).await;
        let (name, of_each) = ("name=leasehold:", 3 * server.primaries());
        eventually_within(LIMIT, "only the other's connections", async || {
            server.clients(name).len() == of_each
        })
        .await;
        for guard in foreign {
            guard
                .unlock()
                .await
                .expect("the other client is not touched");
        }
        note(&format!("shutdown with 100 held and 100 waiting: {took:?}"));
    });
}

#[test]
fn shutdown_of_a_client_whose_server_is_silent_ends_at_its_deadline() {
    alone(LIMIT, async {
        for deadline in [ms(200), ms(2_500)] {
            let server = Borrowed::take();
            let proxy = server.line();
            let client = patient(proxy.url()).await;
            let guard = hold(&client, "n").await;
            proxy.half_open();
            let started = Instant::now();
            let outcome = client.shutdown(deadline).await;
            let took = started.elapsed();
            assert!(matches!(outcome, Err(Error::Unknown { .. })), "{outcome:?}");
            assert!(took >= deadline && took < deadline + NOISE, "{took:?}");
            drop(guard);
            timed("the drop", || drop(client));
        }
    });
}

#[test]
fn shutdown_waits_for_a_server_that_answers_before_its_deadline() {
    alone(LIMIT, async {
        let server = Borrowed::take();
        let proxy = server.line();
        let client = brisk(proxy.url()).connect().await.expect("connects");
        let _guard = hold(&client, "n").await;
        proxy.half_open();
        let silence = async {
            tokio::time::sleep(ms(2_500)).await;
            proxy.pass();
        };
        let (outcome, ()) = tokio::join!(client.shutdown(LIMIT), silence);
        outcome.expect("released");
        assert!(!Outside::of(&server).exists("n"));
    });
}

#[test]
fn shutdown_twice_and_from_several_tasks_is_one_shutdown() {
    alone(LIMIT, async {
        let server = Borrowed::take();
        let client: Client = patient(&server.url()).await;
        let _guard = hold(&client, "n").await;
        let deadline = Duration::from_secs(5);
        let outcomes = futures::future::join_all((0..8).map(|_| client.shutdown(deadline))).await;
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        client.shutdown(deadline).await.expect("again");
        assert!(!Outside::of(&server).exists("n"));
    });
}
