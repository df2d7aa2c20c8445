//! Runs one test for every kind of lock, and helpers for the differences between kinds.
#![expect(
    clippy::future_not_send,
    reason = "all of a test is polled in one task"
)]

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use futures::future::join_all;
use leasehold::Client;
use leasehold_testbed::{Bed, KINDS, Kind, eventually};

/// Tests all kinds at once, and names the one that failed.
pub(crate) async fn for_each_kind(test: impl AsyncFn(&Kind)) {
    let tests = KINDS.iter().map(|kind| async {
        let outcome = AssertUnwindSafe(test(kind)).catch_unwind().await;
        assert!(outcome.is_ok(), "the kind that failed: {}", kind.name);
    });
    join_all(tests).await;
}

/// Like [`for_each_kind`], without kinds that several owners hold at once.
pub(crate) async fn for_each_exclusive_kind(test: impl AsyncFn(&Kind)) {
    for_each_kind(async |kind| {
        if kind.exclusive {
            test(kind).await;
        }
    })
    .await;
}

pub(crate) async fn are_there(bed: &Bed, kind: &Kind, name: &str) -> bool {
    let keys = kind.keys(name);
    let there = || keys.iter().filter(|key| bed.exists(key)).count();
    if kind.quorum {
        // Members that are not needed are released in the background.
        eventually("enough or none", async || {
            there() == 0 || there() >= kind.need()
        })
        .await;
    } else {
        assert!([0, keys.len()].contains(&there()), "all or none");
    }
    there() > 0
}

/// Waits until a fresh client has this many waiters. Those of a quorum ask and pause instead.
pub(crate) async fn wait(client: &Client, kind: &Kind, waiters: u64) {
    let refused = waiters * kind.need() as u64;
    eventually("the waiters wait", async || {
        let stats = client.stats();
        if kind.quorum {
            stats.timed_out >= refused
        } else {
            stats.waiting >= waiters
        }
    })
    .await;
}
