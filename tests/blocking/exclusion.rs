//! Threads exclude each other, wait, and are woken.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use leasehold::blocking::{Client, Lock};
use leasehold::{ConfigError, Error, Lease};
use leasehold_testbed::{Bed, SOON, ms, wait_until};
use tokio::time::Instant;

use crate::harness::{in_vain, on_another_thread, until_waiting};

type Kind = (&'static str, fn(&Client) -> Lock);

/// All kinds of locks with one owner at a time.
pub(crate) const KINDS: [Kind; 8] = [
    ("lock", |client| client.lock("x")),
    ("non-reentrant", |client| client.lock("x").non_reentrant()),
    ("fair", |client| client.fair_lock("x")),
    ("fenced", |client| {
        client.blocking_lock(client.as_async().fenced_lock("x").into())
    }),
    ("write", |client| client.read_write_lock("x").write()),
    ("spin", |client| client.spin_lock("x")),
    ("multi", |client| {
        let members = ["x", "y"].map(|name| client.as_async().lock(name));
        client.blocking_lock(leasehold::Lock::multi(members))
    }),
    ("string", |client| client.string_lock("s")),
];

pub(crate) fn threads_of_two_clients_exclude_each_other(bed: &Bed) {
    const ROUNDS: u32 = 5;
    let clients = [bed.blocking_client(), bed.blocking_client()];
    for (kind, lock) in KINDS {
        let (inside, entered) = (AtomicU32::new(0), AtomicU32::new(0));
        thread::scope(|scope| {
            for client in clients.iter().chain(&clients) {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        let guard = lock(client).try_lock(SOON, Lease::Renewed).unwrap();
                        assert_eq!(inside.fetch_add(1, SeqCst), 0, "{kind}: two are inside");
                        entered.fetch_add(1, SeqCst);
                        thread::yield_now();
                        inside.fetch_sub(1, SeqCst);
                        guard.unlock().unwrap();
                    }
                });
            }
        });
        assert_eq!(entered.into_inner(), 4 * ROUNDS, "{kind}");
    }
}

pub(crate) fn a_wait_ends_when_it_should(bed: &Bed) {
    let (holder, waiter) = (bed.blocking_client(), bed.blocking_client());
    let guard = holder.lock("x").lock().unwrap();
    let wait = ms(100);
    for client in [&holder, &waiter] {
        let start = Instant::now();
        in_vain(|| client.lock("x").try_lock(wait, Lease::Renewed));
        assert!(start.elapsed() >= wait, "{:?}", start.elapsed());
        in_vain(|| client.lock("x").acquire().wait(wait).lock());
    }
    // The earlier waits leave entries that are removed in the background.
    for client in [&holder, &waiter] {
        wait_until("it has left", SOON, || client.stats().releases_pending == 0);
    }
    let calls = bed.calls();
    assert!(
        waiter
            .lock("x")
            .try_lock_now(Lease::Renewed)
            .unwrap_err()
            .is_timeout()
    );
    assert_eq!(bed.calls(), calls + 1, "it asks once");
    guard.unlock().unwrap();
}

pub(crate) fn a_release_wakes_a_thread_of_the_same_client(bed: &Bed) {
    let client = bed.blocking_client();
    is_woken(&client, &client.clone());
}

pub(crate) fn a_release_wakes_a_thread_of_another_client(bed: &Bed) {
    is_woken(&bed.blocking_client(), &bed.blocking_client());
}

/// Neither client polls, so only the message can wake the thread.
fn is_woken(holder: &Client, waiter: &Client) {
    let guard = holder.lock("x").lock().unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| waiter.lock("x").try_lock(SOON, Lease::Renewed));
        until_waiting(waiter, 1);
        guard.unlock().unwrap();
        waiting.join().unwrap().expect("woken").unlock().unwrap();
    });
}

pub(crate) fn threads_and_tasks_of_one_session_wait_for_each_other(bed: &Bed) {
    let client = bed.blocking_client();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let guard = client.lock("x").lock().unwrap();
    thread::scope(|scope| {
        let lock = client.as_async().lock("x");
        let task = scope.spawn(move || runtime.block_on(lock.try_lock(SOON, Lease::Renewed)));
        until_waiting(&client, 1);
        guard.unlock().unwrap();
        let guard = task.join().unwrap().expect("the task was woken");
        let thread = scope.spawn(|| client.lock("x").try_lock(SOON, Lease::Renewed));
        until_waiting(&client, 1);
        drop(guard);
        thread
            .join()
            .unwrap()
            .expect("the thread was woken")
            .unlock()
            .unwrap();
    });
}

pub(crate) fn a_bad_name_is_refused(bed: &Bed) {
    let client = bed.blocking_client();
    let calls = bed.calls();
    let refused = on_another_thread(|| client.lock("").try_lock(Duration::MAX, Lease::Renewed));
    assert!(
        matches!(refused, Err(Error::Config(ConfigError::Name { .. }))),
        "{refused:?}"
    );
    assert!(matches!(
        client.semaphore("").acquire(1),
        Err(Error::Config(_))
    ));
    assert!(matches!(
        client.count_down_latch("").wait(SOON),
        Err(Error::Config(_))
    ));
    assert_eq!(bed.calls(), calls);
}
