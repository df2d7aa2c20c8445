//! Masters that are replaced by order, by death and by a pause, under contenders of every kind.
//!
//! `LEASEHOLD_FAILOVERS` is the number of failovers for each deployment (3, one of each sort).

use std::time::Instant;

use leasehold_testbed::{Cluster, Sentinels};

use crate::contenders::{BRIEF, Contenders, size, two_clients};

const CONTENDERS: usize = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_wins_again_after_each_failover_of_sentinels() {
    let mut sentinels = Sentinels::start();
    let contenders = Contenders::start(two_clients(&sentinels.url(), BRIEF).await, CONTENDERS);
    contenders.all_win_again().await;
    for round in 0..size("LEASEHOLD_FAILOVERS", 3) {
        sentinels.until_in_step();
        let old = sentinels.current_master();
        let since = Instant::now();
        match round % 3 {
            0 => drop(sentinels.failover()),
            1 => {
                sentinels.kill(old);
                sentinels.until_replaced(old);
            }
            _ => {
                sentinels.pause(old);
                sentinels.until_replaced(old);
                sentinels.resume(old);
            }
        }
        let replaced = since.elapsed();
        let back = contenders.all_win_again().await;
        report("sentinels", round, replaced, back, &contenders);
        if round % 3 == 1 {
            sentinels.restart(old);
        }
    }
    drop(contenders.stop().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_wins_again_after_each_failover_of_a_cluster() {
    let mut cluster = Cluster::start();
    let contenders = Contenders::start(two_clients(&cluster.url(), BRIEF).await, CONTENDERS);
    contenders.all_win_again().await;
    for round in 0..size("LEASEHOLD_FAILOVERS", 3) {
        cluster.until_in_step();
        let shard = round % cluster.shards();
        let old = cluster.master(shard);
        let since = Instant::now();
        match round % 3 {
            0 => drop(cluster.failover(shard)),
            1 => {
                cluster.kill(old);
                cluster.until_replaced(shard, old);
            }
            _ => {
                cluster.pause(old);
                cluster.until_replaced(shard, old);
                cluster.resume(old);
            }
        }
        let replaced = since.elapsed();
        let back = contenders.all_win_again().await;
        report("cluster", round, replaced, back, &contenders);
        if round % 3 == 1 {
            cluster.restart(old);
        }
        cluster.until_agreed();
    }
    drop(contenders.stop().await);
}

#[expect(
    clippy::print_stderr,
    reason = "measured times are shown with --nocapture"
)]
fn report(
    what: &str,
    round: usize,
    replaced: std::time::Duration,
    back: std::time::Duration,
    contenders: &Contenders,
) {
    let sort = ["by order", "killed", "frozen"][round % 3];
    let (acquired, errors) = (contenders.acquisitions(), contenders.errors().len());
    let doubles = contenders.doubles();
    eprintln!(
        "{what}, {sort}: replaced in {replaced:?}, all win again {back:?} later; {acquired} acquisitions, \
         {errors} errors, {doubles} double holds in all"
    );
}
