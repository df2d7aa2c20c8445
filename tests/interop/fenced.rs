//! The fenced lock.

use crate::contention::contend;
use crate::exclusive::{self, PairedKind};

const KIND: PairedKind = PairedKind {
    theirs: "fenced",
    ours: |client, name| client.fenced_lock(name).into(),
    reentrant: true,
    keys: &["hash seen", "string redisson_lock_token:{seen}"],
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fenced_contenders_exclude_each_other_and_all_make_progress() {
    contend(KIND.theirs, KIND.ours, "orders:42", 250).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fenced_waiters_wake_when_the_other_side_releases() {
    exclusive::waiters_wake(KIND).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fenced_holds_are_seen_by_the_other_side() {
    Box::pin(exclusive::each_sees_the_other(KIND)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fenced_holders_notice_a_forced_release() {
    exclusive::a_forced_release_is_noticed(KIND).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fenced_leases_end_for_the_other_side() {
    exclusive::leases_end(KIND).await;
}
