//! A release of a plain lock gives it to the next waiter of this library. A thread that waits
//! beside it hears of that, and asks in vain. When each waiter has been given it once, a release
//! tells all that the lock is free.

use std::time::Duration;

use leasehold::{Client, Lease, Lock, LockGuard};
use leasehold_testbed::{SOON, connected, ms, until_listed};
use tokio::task::JoinHandle;

use crate::contention::{Contest, LONGEST_WAIT};
use crate::harness::{Harness, NOW, builder, joined};
use crate::observer::Observer;

const ROUNDS: usize = 24;

type Taking = JoinHandle<LockGuard>;

fn takes(lock: &Lock) -> Taking {
    let lock = lock.clone();
    tokio::spawn(async move { lock.lock().await.expect("lock") })
}

/// The count of the only holder, how often in a row a release has given the lock, and the waiters
/// that are listed.
async fn beside(observer: &mut Observer) -> String {
    let fields = observer.ask("HGETALL x").await;
    fields.into_iter().nth(1).unwrap_or_default()
}

/// Lets a task wait, and returns when it is listed beside the holder.
async fn listed(observer: &mut Observer, lock: &Lock) -> Taking {
    let is_listed = async || beside(observer).await.matches(';').count() > 2;
    until_listed(|| takes(lock), is_listed).await
}

/// Lets a thread wait that only a message wakes.
async fn thread_waits(harness: &mut Harness) -> JoinHandle<()> {
    harness
        .waiting(|harness| harness.java.lock("a", "lock:x", None))
        .await
}

async fn two_clients(harness: &Harness) -> [Client; 2] {
    [harness.client.clone(), another(harness).await]
}

async fn another(harness: &Harness) -> Client {
    connected(builder(&harness.server.url()).safety_poll(SOON * 2)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_is_not_passed_over_twice_in_a_row() {
    let mut harness = Harness::start().await;
    if harness.server.is_cluster() {
        return; // there every release tells all
    }
    let locks = two_clients(&harness).await.map(|client| client.lock("x"));
    let mut observer = Observer::of(&harness.server.url());
    let mut guard = takes(&locks[0]).await.expect("no panic");
    let mut thread = thread_waits(&mut harness).await;
    let (mut given, mut in_a_row, mut turns) = (0, 0, 0);
    for round in 1..=ROUNDS {
        let mut next = listed(&mut observer, &locks[round % 2]).await;
        guard.unlock().await.expect("unlock");
        tokio::select! {
            next = &mut next => {
                guard = next.expect("no panic");
                let is_given = !beside(&mut observer).await.starts_with("1;0;");
                in_a_row = if is_given { in_a_row + 1 } else { 0 };
                assert!(in_a_row < 2, "passed over twice, in round {round}");
                given += u32::from(is_given);
            }
            entered = &mut thread => {
                entered.expect("no panic");
                (in_a_row, turns) = (0, turns + 1);
                harness.java.unlock("a", "lock:x").await.expect("unlock");
                guard = joined("the task", next).await;
                thread = thread_waits(&mut harness).await;
            }
        }
    }
    eprintln!("in {ROUNDS} rounds: given {given} times, {turns} turns of the thread");
    assert_ne!(given, 0);
    guard.unlock().await.expect("unlock");
    joined("the thread", thread).await;
}

/// Nothing is published when the short lease of the waiter ends. All that the thread knew was the
/// long lease before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_does_not_sleep_beside_a_waiter_that_died() {
    let mut harness = Harness::start().await;
    if harness.server.is_cluster() {
        return; // there every release tells all
    }
    let [one, other] = two_clients(&harness).await.map(|client| client.lock("x"));
    let mut observer = Observer::of(&harness.server.url());
    let long = Lease::Fixed(Duration::from_secs(600));
    // From now on, the releases of the first client look for waiters.
    let guard = takes(&other).await.expect("no panic");
    let next = listed(&mut observer, &one).await;
    guard.unlock().await.expect("unlock");
    let guard = joined("the first client", next).await;
    guard.unlock().await.expect("unlock");
    let guard = one.acquire().lease(long).await.expect("lock");
    let mut dead = Observer::of(&harness.server.url());
    let uuid = "0b4e4b9c-9a1f-4c0e-8f6a-0c5f9d6b0f11";
    for channel in [
        &format!("leasehold_client:{{{uuid}}}"),
        "redisson_lock__channel:{x}",
    ] {
        dead.ask(&format!("SUBSCRIBE {channel}")).await;
    }
    let thread = thread_waits(&mut harness).await;
    let held = format!("HSET x {} 1;0;1:2000:{uuid}:1;", guard.owner());
    observer.ask(&held).await;
    guard.unlock().await.expect("unlock");
    let given = beside(&mut observer).await;
    assert!(given.starts_with("1;1;"), "{given}");
    joined("the thread", thread).await;
}

/// Two clients are busier than one, whose tasks hand over to each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn threads_make_progress_beside_two_busy_clients() {
    beside_busy_clients(2, "lock:x", |client| client.lock("x"), NOW).await;
}

/// While one of them has the lock, the other one is always listed again. So a thread gets only what
/// is left for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn threads_make_progress_beside_two_clients_that_leave_no_gap() {
    beside_busy_clients(2, "lock:x", |client| client.lock("x"), ms(2)).await;
}

/// A few releases in a row pass the thread over then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn threads_make_progress_beside_eight_busy_clients() {
    beside_busy_clients(8, "lock:x", |client| client.lock("x"), ms(2)).await;
}

/// No release gives a fenced lock, so all ask for it each time, and a thread of Redisson is the
/// last to ask.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn threads_make_progress_beside_two_busy_clients_with_a_fenced_lock() {
    let ours = |client: &Client| client.fenced_lock("x").into();
    beside_busy_clients(2, "fenced:x", ours, ms(2)).await;
}

async fn beside_busy_clients(
    number: usize,
    theirs: &str,
    ours: fn(&Client) -> Lock,
    work: Duration,
) {
    let harness = Harness::start().await;
    let mut locks = Vec::new();
    for _ in 0..number {
        locks.push(ours(&another(&harness).await));
    }
    let contest = Contest {
        theirs,
        rounds: 300,
        work,
        rest: NOW,
        least_switches: 10,
    };
    let url = harness.server.url();
    let longest_wait = contest.run(&harness.java, locks, &url).await;
    assert!(longest_wait < LONGEST_WAIT, "somebody starved");
}
