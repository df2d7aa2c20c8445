//! One test for every sort of lock, and what it looks at that is not the same for all of them.
#![expect(clippy::future_not_send, reason = "all of a test is polled in one task")]

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use futures::future::join_all;
use leasehold::{Client, HoldState, LockGuard};

use crate::sorts::{SORTS, Sort};
use crate::world::{World, eventually};

/// Tests all sorts at once, and says which one failed.
pub(crate) async fn each(test: impl AsyncFn(&Sort)) {
    let tests = SORTS.iter().map(|sort| async {
        let outcome = AssertUnwindSafe(test(sort)).catch_unwind().await;
        assert!(outcome.is_ok(), "the sort that failed: {}", sort.name);
    });
    join_all(tests).await;
}

/// As [`each`], without those that several owners hold at once.
pub(crate) async fn each_exclusive(test: impl AsyncFn(&Sort)) {
    each(async |sort| {
        if sort.exclusive {
            test(sort).await;
        }
    })
    .await;
}

pub(crate) async fn are_there(world: &World, sort: &Sort, name: &str) -> bool {
    let keys = sort.keys(name);
    let there = || keys.iter().filter(|key| world.exists(key)).count();
    if sort.quorum {
        // What is not needed is released in the background.
        eventually("enough or none", async || there() == 0 || there() >= sort.need()).await;
    } else {
        assert!([0, keys.len()].contains(&there()), "all or none");
    }
    there() > 0
}

/// Waits until so many waiters of a fresh client wait; those of a quorum ask and pause instead.
pub(crate) async fn wait(client: &Client, sort: &Sort, waiters: u64) {
    let refused = waiters * sort.need() as u64;
    eventually("the waiters wait", async || {
        let stats = client.stats();
        if sort.quorum { stats.timed_out >= refused } else { stats.waiting >= waiters }
    })
    .await;
}

/// A renewal that is slow may be on its way.
pub(crate) async fn is_sure(guard: &LockGuard) {
    eventually("it is sure", async || guard.state() == HoldState::Held).await;
}
