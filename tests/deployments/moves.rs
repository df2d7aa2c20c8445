//! Slots that move under load.
//!
//! `LEASEHOLD_MOVES` is how many slots move, there and back (6).

use std::collections::BTreeSet;

use crate::contenders::{Contenders, NAMES, size, two_clients};
use crate::kinds::KINDS;
use crate::support::cluster::Cluster;
use crate::support::slots::keyslot;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_that_move_cost_nobody_an_error() {
    let cluster = Cluster::start();
    let contenders = Contenders::start(two_clients(&cluster.url()).await, 50).await;
    contenders.all_win_again().await;
    let names = KINDS.iter().flat_map(|kind| (0..NAMES).map(|of| format!("{}:{of}", kind.name)));
    let slots: BTreeSet<_> = names.map(|name| keyslot(&name)).collect();
    for (round, slot) in slots.iter().cycle().take(size("LEASEHOLD_MOVES", 6)).enumerate() {
        let home = cluster.owner(*slot);
        let away = (0..cluster.shards()).map(|shard| cluster.master(shard));
        let away = away.into_iter().find(|node| *node != home).expect("another master");
        // One key at a time, and many; there, and back.
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
    assert_eq!(contenders.errors(), 0, "no caller sees a slot that moves");
    assert_eq!(contenders.doubles(), 0, "nor two holders");
    drop(contenders.stop().await);
}
