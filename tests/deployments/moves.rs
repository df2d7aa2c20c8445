//! Slots that move under load.
//!
//! `LEASEHOLD_MOVES` is how many slots move, there and back (6).

use std::collections::BTreeSet;

use leasehold::HoldState;
use leasehold_testbed::{Cluster, KINDS, Shape, command_stats, eventually, keyslot};

use crate::contenders::{Contenders, LONG, NAMES, size, two_clients};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_that_move_cost_nobody_an_error() {
    let cluster = Cluster::start();
    let contenders = Contenders::start(two_clients(&cluster.url(), LONG).await, 50);
    contenders.all_win_again().await;
    let names = KINDS
        .iter()
        .flat_map(|kind| (0..NAMES).map(|of| format!("{}:{of}", kind.name)));
    let slots: BTreeSet<_> = names.map(|name| keyslot(&name)).collect();
    for (round, slot) in slots
        .iter()
        .cycle()
        .take(size("LEASEHOLD_MOVES", 6))
        .enumerate()
    {
        let home = cluster.owner(*slot);
        let away = (0..cluster.shards()).map(|shard| cluster.master(shard));
        let away = away
            .into_iter()
            .find(|node| *node != home)
            .expect("another master");
        // One key at a time, and many; there and back.
        let moving = cluster.begin_migration(*slot, away);
        let many = if round % 2 == 0 { 1 } else { 100 };
        while moving.move_keys(many) > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        moving.finish();
        contenders.all_win_again().await;
        cluster.migrate(*slot, home);
        contenders.all_win_again().await;
    }
    let errors = contenders.errors();
    assert!(
        errors.is_empty(),
        "a caller sees a slot that moves: {errors:?}"
    );
    assert_eq!(contenders.doubles(), 0, "nor two holders");
    drop(contenders.stop().await);
}

/// The release of a reader checks the lifetimes of other readers through undeclared keys. On the
/// importing node, lifetimes that have not arrived look like those that have ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_whose_lifetime_is_on_its_way_is_not_passed_over() {
    let cluster = Cluster::start_with(Shape {
        replicas: 0,
        ..Shape::default()
    });
    let [first, second] = two_clients(&cluster.url(), LONG).await;
    let name = "{x}:rw";
    let leaving = first
        .read_write_lock(name)
        .read()
        .lock()
        .await
        .expect("free");
    let staying = second
        .read_write_lock(name)
        .read()
        .lock()
        .await
        .expect("shared");
    let slot = keyslot(name);
    let from = cluster.owner(slot);
    let to = (from + 1) % 3;
    let moving = cluster.begin_migration(slot, to);
    let lifetime = format!("{name}:{}:rwlock_timeout:1", leaving.owner());
    let port = cluster.node(to).port().to_string();
    let words = [
        "MIGRATE",
        "127.0.0.1",
        &port,
        "",
        "0",
        "5000",
        "KEYS",
        name,
        &lifetime,
    ];
    assert_eq!(cluster.node(from).command(&words).text(), "OK");
    let rejected = || {
        let stats = cluster.node(from).command(&["INFO", "commandstats"]).text();
        let scripts = command_stats(&stats).remove("evalsha");
        scripts.map_or(0, |scripts| scripts.rejected)
    };
    let before = rejected();
    let release = tokio::spawn(leaving.unlock());
    eventually(
        "the release was sent elsewhere more than once",
        async || rejected() > before + 2,
    )
    .await;
    moving.finish();
    release.await.expect("no panic").expect("held");
    assert_eq!(
        cluster.command(&["HLEN", name]).int(),
        2,
        "the mode, and the other reader"
    );
    assert_eq!(staying.state(), HoldState::Held);
    staying.unlock().await.expect("held");
}

/// A script may touch a key that it has just deleted. Where a slot migrates, that key counts as
/// moved, and the script is stopped half-way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_is_stopped_half_way_is_no_loss() {
    let cluster = Cluster::start_with(Shape {
        replicas: 0,
        ..Shape::default()
    });
    let [first, second] = two_clients(&cluster.url(), LONG).await;
    let name = "{x}:fair";
    let guard = first.fair_lock(name).lock().await.expect("free");
    let waiter = second.fair_lock(name);
    let waiter = tokio::spawn(async move { waiter.lock().await });
    let queue = "redisson_lock_queue:{x}:fair";
    eventually("it waits", async || {
        cluster.command(&["LLEN", queue]).int() == 1
    })
    .await;
    let slot = keyslot(name);
    let from = cluster.owner(slot);
    let moving = cluster.begin_migration(slot, (from + 1) % 3);
    let release = tokio::spawn(guard.unlock());
    eventually("it was stopped half-way", async || {
        let stats = cluster.node(from).command(&["INFO", "commandstats"]).text();
        let grants = command_stats(&stats).remove("hset");
        grants.is_some_and(|grants| grants.rejected > 0)
    })
    .await;
    let places = cluster.node(from).command(&["LLEN", queue]);
    assert_eq!(places.int(), 1, "the next one keeps its place");
    moving.finish();
    release.await.expect("no panic").expect("it was held");
    let guard = waiter.await.expect("no panic").expect("the next");
    guard.unlock().await.expect("held");
}
