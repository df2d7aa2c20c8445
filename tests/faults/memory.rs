//! What locks and clients cost the server's memory and its connections, compared with docs/operations.md.

use std::time::Duration;

use leasehold::{Client, Lock, LockGuard};
use leasehold_testbed::{Outside, Server, connected};

use crate::testbed::{alone, builder};

const LIMIT: Duration = Duration::from_secs(120);
const LOCKS: usize = 2_000;
const CLIENTS: usize = 40;

type Make = fn(&Client, usize) -> Lock;

fn used(outside: &mut Outside) -> usize {
    let info = outside.command(&["INFO", "memory"]).text();
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"));
    line.expect("it is there").trim().parse().expect("a number")
}

/// The number of bytes in a row of the table.
fn documented(row: &str) -> usize {
    let page = include_str!("../../docs/operations.md");
    let row = format!("| {row} | ");
    let line = page.lines().find_map(|line| line.strip_prefix(&row));
    let number = line.and_then(|line| line.split(' ').next());
    let number = number.unwrap_or_else(|| panic!("no row {row}"));
    number.replace(',', "").parse().expect("a number")
}

/// What the page says, if it is wrong. Other versions of the server need less, above all for connections.
fn wrong(row: &str, measured: usize) -> Option<String> {
    let documented = documented(row);
    let range = documented / 4..=documented * 5 / 4;
    (!range.contains(&measured)).then(|| format!("{row}: {measured}, not {documented}"))
}

/// One after the other: many calls at once would fill buffers of the server.
async fn take(locks: impl Iterator<Item = Lock>) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for lock in locks {
        guards.push(lock.lock().await.expect("free"));
    }
    guards
}

/// What one of many held locks takes.
async fn of_one(make: Make) -> usize {
    let server = Server::start();
    let client = connected(builder(&server.url())).await;
    let mut outside = Outside::of(&server);
    // Scripts and buffers are there before the first measurement.
    for guard in take((0..LOCKS).map(|number| make(&client, number))).await {
        guard.unlock().await.expect("held");
    }
    let before = used(&mut outside);
    let guards = take((0..LOCKS).map(|number| make(&client, number))).await;
    let after = used(&mut outside);
    drop(guards);
    after.saturating_sub(before) / LOCKS
}

fn name(number: usize) -> String {
    format!("orders:{number:08}")
}

#[test]
fn held_locks_take_the_documented_memory() {
    alone(LIMIT, async {
        let rows: [(&str, Make); 5] = [
            ("lock, spin lock", |client, n| client.lock(name(n))),
            ("fair lock", |client, n| client.fair_lock(name(n))),
            ("read lock", |client, n| {
                client.read_write_lock(name(n)).read().clone()
            }),
            ("write lock", |client, n| {
                client.read_write_lock(name(n)).write().clone()
            }),
            ("string lock", |client, n| client.string_lock(name(n))),
        ];
        let mut all_wrong = Vec::new();
        for (row, make) in rows {
            all_wrong.extend(wrong(row, of_one(make).await));
        }
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
            let own = (0..100).map(|lock| client.lock(name(number * 100 + lock)));
            guards.extend(take(own).await);
        }
        let list = outside.command(&["CLIENT", "LIST"]).text();
        let ours = list.lines().filter(|line| line.contains("name=leasehold:"));
        assert_eq!(ours.count(), 3 * clients.len());
        assert_eq!(wrong("client, with its three connections", each), None);
    });
}
