//! The non-reentrant lock, and the fair one that is not re-entrant.

use crate::contention::contend;
use crate::exclusive::{self, PairedKind};

const KIND: PairedKind = PairedKind {
    theirs: "nonreentrant",
    ours: |client, name| client.lock(name).non_reentrant(),
    reentrant: false,
    keys: &["hash seen"],
};

const FAIR: PairedKind = PairedKind {
    theirs: "nonreentrantfair",
    ours: |client, name| client.fair_lock(name).non_reentrant(),
    reentrant: false,
    keys: &["hash seen"],
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn non_reentrant_contenders_exclude_each_other_and_all_make_progress() {
    contend(KIND.theirs, KIND.ours, "orders:42", 250).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn non_reentrant_fair_contenders_exclude_each_other_and_all_make_progress() {
    contend(FAIR.theirs, FAIR.ours, "orders:42", 250).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn non_reentrant_waiters_wake_when_the_other_side_releases() {
    exclusive::waiters_wake(KIND).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn non_reentrant_fair_waiters_wake_when_the_other_side_releases() {
    exclusive::waiters_wake(FAIR).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn non_reentrant_holds_are_seen_by_the_other_side() {
    Box::pin(exclusive::each_sees_the_other(KIND)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn non_reentrant_fair_holds_are_seen_by_the_other_side() {
    Box::pin(exclusive::each_sees_the_other(FAIR)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn non_reentrant_holders_notice_a_forced_release() {
    exclusive::a_forced_release_is_noticed(KIND).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn non_reentrant_fair_holders_notice_a_forced_release() {
    exclusive::a_forced_release_is_noticed(FAIR).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn non_reentrant_leases_end_for_the_other_side() {
    exclusive::leases_end(KIND).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn non_reentrant_fair_leases_end_for_the_other_side() {
    exclusive::leases_end(FAIR).await;
}
