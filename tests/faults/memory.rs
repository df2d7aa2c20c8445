//! What locks and clients cost the server's memory and its connections, compared with
//! docs/sizing.md.

use std::ops::Range;
use std::time::Duration;

use leasehold::{Client, Lease, Lock, LockGuard};
use leasehold_testbed::{Outside, Server, connected};

use crate::testbed::{alone, builder};

const LIMIT: Duration = Duration::from_secs(120);
const LOCKS: usize = 2_000;
const CLIENTS: usize = 40;

fn used(outside: &mut Outside) -> usize {
    let info = outside.command(&["INFO", "memory"]).text();
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"));
    line.expect("it is there").trim().parse().expect("a number")
}

/// The number of bytes in a row of the table.
fn documented(row: &str) -> usize {
    let page = include_str!("../../docs/sizing.md");
    let row = format!("| {row} | ");
    let line = page.lines().find_map(|line| line.strip_prefix(&row));
    let number = line.and_then(|line| line.split(' ').next());
    let number = number.unwrap_or_else(|| panic!("no row {row}"));
    number.replace(',', "").parse().expect("a number")
}

/// What the page says, if it is wrong. Other versions of the server need less, above all for
/// connections.
fn wrong(row: &str, measured: usize) -> Option<String> {
    let documented = documented(row);
    let range = documented / 4..=documented * 5 / 4;
    (!range.contains(&measured)).then(|| format!("{row}: {measured}, not {documented}"))
}

/// One after the other: many calls at once would fill buffers of the server.
#[expect(clippy::future_not_send, reason = "the test polls it on its thread")]
async fn hold_each<H>(
    client: &Client,
    numbers: Range<usize>,
    hold: &impl AsyncFn(&Client, String) -> H,
) -> Vec<H> {
    let mut holds = Vec::new();
    for number in numbers {
        holds.push(hold(client, format!("orders:{number:08}")).await);
    }
    holds
}

/// What one of many holds takes.
#[expect(clippy::future_not_send, reason = "the test polls it on its thread")]
async fn of_one<H>(hold: impl AsyncFn(&Client, String) -> H) -> usize {
    let server = Server::start();
    let client = connected(builder(&server.url())).await;
    let mut outside = Outside::of(&server);
    // Scripts and buffers are there before the first measurement.
    let first = hold_each(&client, 0..LOCKS, &hold).await;
    let before = used(&mut outside);
    let holds = hold_each(&client, LOCKS..2 * LOCKS, &hold).await;
    let after = used(&mut outside);
    drop((first, holds));
    after.saturating_sub(before) / LOCKS
}

async fn held(lock: impl Into<Lock>) -> LockGuard {
    lock.into().lock().await.expect("free")
}

#[test]
fn held_locks_take_the_documented_memory() {
    alone(LIMIT, async {
        let measured = [
            (
                "lock, spin lock",
                of_one(async |client, name| held(client.lock(name)).await).await,
            ),
            (
                "fair lock",
                of_one(async |client, name| held(client.fair_lock(name)).await).await,
            ),
            (
                "fenced lock",
                of_one(async |client, name| held(client.fenced_lock(name)).await).await,
            ),
            (
                "read lock",
                of_one(async |client, name| {
                    held(client.read_write_lock(name).read().clone()).await
                })
                .await,
            ),
            (
                "write lock",
                of_one(async |client, name| {
                    held(client.read_write_lock(name).write().clone()).await
                })
                .await,
            ),
            (
                "string lock",
                of_one(async |client, name| held(client.string_lock(name)).await).await,
            ),
            (
                "semaphore with one permit held",
                of_one(async |client, name| {
                    let semaphore = client.semaphore(name);
                    semaphore.try_set_permits(1).await.expect("set");
                    semaphore.acquire(1).await.expect("free")
                })
                .await,
            ),
            (
                "expiring permits with one permit held",
                of_one(async |client, name| {
                    let semaphore = client.permit_expirable_semaphore(name);
                    semaphore.try_set_permits(1).await.expect("set");
                    semaphore.acquire(1, Lease::Renewed).await.expect("free")
                })
                .await,
            ),
            (
                "latch",
                of_one(async |client, name| {
                    client
                        .count_down_latch(name)
                        .try_set_count(1)
                        .await
                        .expect("set")
                })
                .await,
            ),
        ];
        let all_wrong: Vec<_> = measured
            .iter()
            .filter_map(|&(row, measured)| wrong(row, measured))
            .collect();
        assert_eq!(all_wrong, [""; 0]);
    });
}

#[test]
fn a_client_has_three_connections_however_many_locks_it_holds() {
    alone(LIMIT, async {
        let server = Server::start();
        let mut outside = Outside::of(&server);
        let mut clients = vec![connected(builder(&server.url())).await];
        let before = used(&mut outside);
        for _ in 1..=CLIENTS {
            clients.push(connected(builder(&server.url())).await);
        }
        let each = used(&mut outside).saturating_sub(before) / CLIENTS;
        let mut guards = Vec::new();
        for (number, client) in clients.iter().enumerate() {
            let own = number * 100..(number + 1) * 100;
            guards.extend(
                hold_each(client, own, &async |client, name| {
                    held(client.lock(name)).await
                })
                .await,
            );
        }
        let list = outside.command(&["CLIENT", "LIST"]).text();
        let ours = list.lines().filter(|line| line.contains("name=leasehold:"));
        assert_eq!(ours.count(), 3 * clients.len());
        assert_eq!(wrong("client, with its three connections", each), None);
    });
}
