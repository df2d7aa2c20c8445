//! Every fault of a server has its documented error. Nothing hangs, and bad input is never sent.

use std::time::Duration;

use leasehold::{Client, Error, Lease};
use leasehold_testbed::{Outside, Server, connected, eventually_within, ms, within};

use crate::testbed::{assert_protocol, assert_unavailable, at_rest, beside, brisk, connect, hold};

pub(crate) const LIMIT: Duration = Duration::from_secs(30);
/// The limit for one call with the timeouts of `brisk` and one retry, or for a connection. Anything
/// longer counts as hanging.
pub(crate) const CALL: Duration = Duration::from_secs(6);

/// One call, one reply.
async fn ask(client: &Client, name: &str) -> Result<(), Error> {
    let lock = client.lock(name);
    let asked = lock.try_lock_now(Lease::Fixed(ms(5_000)));
    let guard = within(CALL, "a call", asked).await?;
    within(CALL, "a release", guard.unlock()).await
}

async fn refused_connect(url: &str) -> Result<Client, Error> {
    within(CALL, "a connect", brisk(url).connect()).await
}

/// Asserts that the client works again once the fault has ended.
async fn recovers(client: &Client) {
    within(Duration::from_secs(5), "it works again", async {
        while ask(client, "again").await.is_err() {
            tokio::time::sleep(ms(5)).await;
        }
    })
    .await;
    at_rest(client, LIMIT).await;
}

#[test]
fn loading_is_unavailable() {
    beside(LIMIT, async {
        let server = Server::start_with(&[
            "--enable-debug-command",
            "yes",
            "--loading-process-events-interval-bytes",
            "1024",
        ]);
        let client = brisk(&server.url()).connect().await.expect("connects");
        let mut outside = Outside::of(&server);
        for number in 0..200 {
            // Incompressible, because the server answers after each kilobyte that it has loaded.
            let value: String = std::iter::repeat_with(fastrand::alphanumeric)
                .take(200)
                .collect();
            outside.command(&["SET", &format!("k{number}"), &value]);
        }
        outside.command(&["CONFIG", "SET", "key-load-delay", "10000"]);
        let mut loading = server.connection();
        loading.send(&["DEBUG", "RELOAD"]).expect("it is sent");
        within(LIMIT, "it loads", async {
            loop {
                match ask(&client, "n").await {
                    Err(Error::Unavailable { cause, .. }) => {
                        assert!(cause.to_string().contains("LOADING"), "{cause}");
                        return;
                    }
                    Ok(()) => {}
                    other => panic!("{other:?}"),
                }
            }
        })
        .await;
        // A loading server accepts connections, and each call reports the reason.
        let second = refused_connect(&server.url()).await.expect("connects");
        assert_unavailable("a call", ask(&second, "n").await, "LOADING");
        // A caller with a long wait gets the lock after loading.
        let lock = client.lock("patient");
        let guard = within(LIMIT, "loaded", lock.lock())
            .await
            .expect("it passes");
        guard.unlock().await.expect("held");
        assert_eq!(loading.read().expect("a reply").text(), "OK");
        recovers(&client).await;
    });
}

#[test]
fn read_only_and_master_down_are_unavailable() {
    beside(LIMIT, async {
        let server = Server::start();
        let client = brisk(&server.url()).connect().await.expect("connects");
        let mut outside = Outside::of(&server);
        // Nobody listens on port 1, so this is a replica without its master.
        outside.command(&["REPLICAOF", "127.0.0.1", "1"]);
        assert_unavailable("replica", ask(&client, "n").await, "READONLY");
        outside.command(&["CONFIG", "SET", "replica-serve-stale-data", "no"]);
        assert_unavailable("stale replica", ask(&client, "n").await, "MASTERDOWN");
        outside.command(&["REPLICAOF", "NO", "ONE"]);
        recovers(&client).await;
        assert_eq!(outside.keys(), 0);
    });
}

#[test]
fn busy_is_unavailable() {
    beside(LIMIT, async {
        let server = Server::start_with(&["--lua-time-limit", "50"]);
        let client = brisk(&server.url()).connect().await.expect("connects");
        let mut outside = Outside::of(&server);
        let mut looping = server.connection();
        looping
            .send(&["EVAL", "while true do end", "0"])
            .expect("it is sent");
        eventually_within(LIMIT, "it is busy", async || {
            outside.command(&["GET", "x"]) != leasehold_testbed::Reply::Nil
        })
        .await;
        assert_unavailable("busy", ask(&client, "n").await, "BUSY");
        outside.command(&["SCRIPT", "KILL"]);
        recovers(&client).await;
    });
}

#[test]
fn out_of_memory_is_unavailable_and_the_holder_can_still_unlock() {
    beside(LIMIT, async {
        let server = Server::start();
        let client = brisk(&server.url()).connect().await.expect("connects");
        let mut outside = Outside::of(&server);
        let guard = hold(&client, "held").await;
        outside.command(&["CONFIG", "SET", "maxmemory", "1"]);
        assert_unavailable("full", ask(&client, "n").await, "OOM");
        guard.unlock().await.expect("a release needs no memory");
        outside.command(&["CONFIG", "SET", "maxmemory", "0"]);
        recovers(&client).await;
        assert_eq!(outside.keys(), 0);
    });
}

#[test]
fn a_full_server_renews_what_is_held() {
    beside(LIMIT, async {
        let server = Server::start();
        let client = connected(brisk(&server.url()).lease(ms(3000))).await;
        let mut outside = Outside::of(&server);
        let locks = [
            client.lock("plain"),
            client.fair_lock("fair"),
            client.fenced_lock("fenced").into(),
            client.string_lock("string"),
        ];
        let (read, write) = (client.read_write_lock("r"), client.read_write_lock("w"));
        let mut guards = Vec::new();
        for lock in locks.iter().chain([read.read(), write.write()]) {
            guards.push(lock.lock().await.expect("free"));
        }
        let semaphore = client.semaphore("semaphore");
        semaphore.try_set_permits(2).await.expect("set");
        let permits = semaphore.acquire(1).await.expect("there is one");
        let expirable = client.permit_expirable_semaphore("permits");
        expirable.try_set_permits(2).await.expect("set");
        let several = expirable.try_acquire(2, Duration::ZERO, Lease::Renewed);
        let several = several.await.expect("there are two");
        outside.command(&["CONFIG", "SET", "maxmemory", "1"]);
        // Renewed twice: the second renewal shows that the first one counted.
        let renewed = client.stats().renewed;
        let each_twice = || client.stats().renewed >= renewed + 16;
        eventually_within(LIMIT, "all renewed twice", async || each_twice()).await;
        assert_eq!(client.stats().renewals_failed, 0);
        for guard in guards {
            guard.unlock().await.expect("held");
        }
        permits.release().await.expect("held");
        several.release().await.expect("they are held");
        assert_eq!(client.stats().lost, 0);
    });
}

/// Calls that make room for others are not refused, although they write.
#[test]
fn a_full_server_lets_waiters_go() {
    beside(LIMIT, async {
        let server = Server::start();
        let client = brisk(&server.url()).connect().await.expect("connects");
        let mut outside = Outside::of(&server);
        let latch = client.count_down_latch("latch");
        latch.try_set_count(2).await.expect("set");
        let semaphore = client.semaphore("semaphore");
        semaphore.try_set_permits(0).await.expect("set");
        let expirable = client.permit_expirable_semaphore("permits");
        expirable.try_set_permits(1).await.expect("set");
        let permit = expirable
            .acquire(1, Lease::Fixed(ms(60_000)))
            .await
            .expect("there is one");
        outside.command(&["CONFIG", "SET", "maxmemory", "1"]);
        let wait = latch.wait(LIMIT);
        let open = async {
            eventually_within(LIMIT, "queued", async || client.stats().listeners == 1).await;
            assert_eq!(latch.count_down().await.expect("it frees"), 1);
            assert_eq!(latch.count_down().await.expect("it frees"), 0);
        };
        let (opened, ()) = tokio::join!(wait, open);
        opened.expect("it is open");
        semaphore.add_permits(3).await.expect("added");
        assert_eq!(semaphore.available().await.expect("asked"), 3);
        expirable.add_permits(1).await.expect("added");
        assert_eq!(expirable.set_permits(4).await.expect("added"), 3);
        // Calls that take something are still refused.
        assert_unavailable("taking away", semaphore.add_permits(-1).await, "OOM");
        assert_unavailable("fewer", expirable.set_permits(1).await, "OOM");
        permit.release().await.expect("held");
        let memory = async {
            eventually_within(LIMIT, "queued", async || client.stats().waiting == 1).await;
            outside.command(&["CONFIG", "SET", "maxmemory", "0"]);
        };
        let (taken, ()) = tokio::join!(semaphore.acquire(3), memory);
        taken
            .expect("there is memory")
            .release()
            .await
            .expect("held");
    });
}

/// The slot assignment that a server reads when it starts. The other node need not exist.
const ALL_SLOTS_ELSEWHERE: &str = "\
aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 127.0.0.1:1@1 myself,master - 0 0 1 connected
bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb 127.0.0.1:2@2 master - 0 0 2 connected 0-16383
vars currentEpoch 2 lastVoteEpoch 0
";

#[test]
fn a_cluster_node_is_reported_as_such() {
    beside(LIMIT, async {
        let file = std::env::temp_dir().join(format!("leasehold-nodes-{}", std::process::id()));
        std::fs::write(&file, ALL_SLOTS_ELSEWHERE).expect("a temporary file");
        let file = file.to_str().expect("utf-8");
        let patience = [
            "--cluster-node-timeout",
            "600000",
            "--cluster-require-full-coverage",
            "no",
        ];
        let node = ["--cluster-enabled", "yes", "--cluster-config-file", file];
        let server = Server::start_with(&[node, patience].concat());
        let client = connect(&server.url()).await;
        let lock = client.lock("n");
        let refused = within(CALL * 5, "it is refused", lock.lock()).await;
        assert_protocol("lock", refused, "node of a cluster");
        let refused = lock.try_lock(ms(60_000), Lease::Renewed).await;
        assert_protocol("try_lock", refused, "MOVED");
        at_rest(&client, LIMIT).await;
        std::fs::remove_file(file).expect("it is there");
    });
}
