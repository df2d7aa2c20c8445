//! A script that the server refuses half-way has already written: nothing of that stays.

use std::time::Duration;

use futures::future::join_all;
use leasehold::{Client, Error, Lease};
use leasehold_testbed::{KINDS, Outside, Reply, Server, eventually_within, ms, rule};

use crate::testbed::{beside, builder, connect};

const LIMIT: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_secs(5);
/// So long that nothing here ends with its lease.
const LEASE: Lease = Lease::Fixed(Duration::from_secs(600));

/// A client with all rights that it needs, except for these commands.
async fn without(server: &Server, commands: &[&str]) -> Client {
    let mut outside = Outside::of(server);
    let refused: Vec<_> = commands
        .iter()
        .map(|command| format!("-{command}"))
        .collect();
    let rule = [rule("kinds"), refused.iter().map(String::as_str).collect()].concat();
    assert!(matches!(outside.command(&rule), Reply::Status(_)));
    let url = server.url().replace("redis://", "redis://kinds:secret@");
    builder(&url).connect().await.expect("connects")
}

/// True for keys that may stay forever: the counters of tokens.
fn is_counter(key: &str) -> bool {
    key.starts_with("redisson_lock_token:")
}

fn left(outside: &mut Outside) -> Vec<String> {
    let keys = outside.command(&["KEYS", "*"]);
    keys.array()
        .iter()
        .map(Reply::text)
        .filter(|key| !is_counter(key))
        .collect()
}

#[test]
fn no_lock_is_left_behind_by_a_script_that_was_refused() {
    beside(LIMIT * 3, async {
        let server = Server::start();
        let mut outside = Outside::of(&server);
        // For each kind, the commands without which its script stops after a first write.
        let stopping = |kind: &str| match kind {
            "string" => &[][..],
            "read" => &["pexpire", "set"],
            "fenced" => &["pexpire", "hset"],
            _ => &["pexpire"],
        };
        for kind in &KINDS {
            for command in stopping(kind.name) {
                let what = format!("{} without {command}", kind.name);
                let client = without(&server, &[command]).await;
                let taken = kind.lock(&client, "orders:1").try_lock(ms(0), LEASE).await;
                assert!(taken.is_err(), "{what}");
                eventually_within(SOON, &what, async || left(&mut outside).is_empty()).await;
            }
        }
    });
}

#[test]
fn calls_that_share_a_command_leave_nothing_behind_either() {
    beside(LIMIT, async {
        let server = Server::start();
        let mut outside = Outside::of(&server);
        let client = without(&server, &["pexpire"]).await;
        let taken = join_all((0..100).map(|n| {
            let lock = client.lock(format!("orders:{n}"));
            async move { lock.try_lock(ms(0), LEASE).await.map(drop) }
        }));
        assert!(taken.await.iter().all(Result::is_err));
        eventually_within(SOON, "all are undone", async || {
            left(&mut outside).is_empty()
        })
        .await;
    });
}

#[test]
fn a_reader_that_is_refused_shortens_no_lease_and_ends_no_hold() {
    beside(LIMIT, async {
        let server = Server::start();
        let (mut outside, other) = (Outside::of(&server), connect(&server.url()).await);
        let theirs = other.read_write_lock("orders:1");
        let lease = Lease::Fixed(Duration::from_secs(60));
        let reading = theirs
            .read()
            .try_lock(ms(0), lease)
            .await
            .expect("nobody writes");
        let before = outside.pttl("orders:1");
        let client = without(&server, &["pexpire"]).await;
        let ours = client.read_write_lock("orders:1");
        // Longer than the other, so it must extend the lease of the lock.
        assert!(ours.read().try_lock(ms(0), LEASE).await.is_err());
        let fields = |outside: &mut Outside| outside.command(&["HLEN", "orders:1"]).int();
        eventually_within(SOON, "the other is alone", async || {
            fields(&mut outside) == 2
        })
        .await;
        assert!((before - 20_000..=before).contains(&outside.pttl("orders:1")));
        // A shorter one does not need that right.
        let inside = ours
            .read()
            .try_lock(ms(0), Lease::Fixed(ms(30_000)))
            .await
            .expect("permitted");
        inside.unlock().await.expect("it may do so as well");
        reading.unlock().await.expect("held");
        eventually_within(SOON, "free", async || left(&mut outside).is_empty()).await;
    });
}

/// A failed attempt on one of two permits, of both kinds: soon both are available again.
async fn both_permits_come_back(command: &str) {
    let server = Server::start();
    let (mut outside, other) = (Outside::of(&server), connect(&server.url()).await);
    let client = without(&server, &[command]).await;
    let life = Duration::from_secs(300);
    let semaphore = other.semaphore("orders:s");
    assert!(
        semaphore
            .try_set_permits_for(2, life)
            .await
            .expect("permitted")
    );
    let taken = client.semaphore("orders:s").try_acquire(1, ms(0)).await;
    assert!(refused(&taken), "{taken:?}");
    eventually_within(SOON, "it is there again", async || {
        outside.command(&["GET", "orders:s"]).text() == "2"
    })
    .await;
    eventually_within(SOON, "free", async || {
        !outside.exists("leasehold_semaphore:{orders:s}")
    })
    .await;

    let permits = other.permit_expirable_semaphore("orders:p");
    assert!(permits.try_set_permits(2).await.expect("permitted"));
    assert!(permits.expire_after(life).await.expect("permitted"));
    let ours = client.permit_expirable_semaphore("orders:p");
    let taken = ours.try_acquire(1, ms(0), LEASE).await;
    assert!(refused(&taken), "{taken:?}");
    eventually_within(SOON, "it is there again", async || {
        outside.command(&["GET", "orders:p"]).text() == "2"
    })
    .await;
    eventually_within(SOON, "free", async || !outside.exists("{orders:p}:timeout")).await;
}

#[test]
fn permits_whose_hold_cannot_be_stored_are_not_taken() {
    beside(LIMIT, both_permits_come_back("zadd"));
}

#[test]
fn permits_that_were_taken_by_a_script_that_was_refused_come_back() {
    beside(LIMIT, both_permits_come_back("pexpire"));
}

fn refused<T>(taken: &Result<T, Error>) -> bool {
    matches!(taken, Err(Error::Protocol { .. }))
}
