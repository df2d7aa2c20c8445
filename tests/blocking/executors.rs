//! Async calls that an executor other than tokio polls, or a runtime without timers. The runtime of
//! the clients goes on.

use std::task::Poll;

use futures::future::poll_fn;
use futures::{executor, join};
use leasehold::{Client, Error, Lease, Lock};
use leasehold_testbed::{Bed, KINDS, Kind, SOON, ms};
use tokio::runtime::Builder;

/// Does the same with two clients on each executor.
fn on_each_executor(bed: &Bed, scenario: &impl AsyncFn(&Client, &Client)) {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let client = || runtime.block_on(bed.client_without_polls());
    executor::block_on(scenario(&client(), &client()));
    let without_timers = Builder::new_current_thread().build().unwrap();
    let [one, other] = [client(), client()];
    without_timers.block_on(scenario(&one, &other));
}

/// Lets the other futures of this task go on until a condition holds.
async fn until(mut holds: impl FnMut() -> bool) {
    poll_fn(|context| {
        if holds() {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Expects a wait to fail, by its timer.
async fn in_vain<T: std::fmt::Debug>(wait: impl Future<Output = Result<T, Error>>) {
    let error = wait.await.expect_err("it is held");
    assert!(error.is_timeout() || error.may_be_held(), "{error}");
}

/// A waiter of a quorum asks and pauses instead of waiting.
async fn until_waiting(client: &Client, kind: &Kind) {
    let before = client.stats().timed_out;
    until(|| client.stats().waiting > 0 || kind.quorum && client.stats().timed_out > before).await;
}

pub(crate) fn every_kind_is_waited_for(bed: &Bed) {
    on_each_executor(bed, &async |holder, waiter| {
        for kind in KINDS.iter().filter(|kind| kind.exclusive) {
            let guard = kind.lock(holder, kind.name).lock().await.unwrap();
            let lock = kind.lock(waiter, kind.name);
            in_vain(lock.try_lock(ms(50), Lease::Renewed)).await;
            let release = async {
                until_waiting(waiter, kind).await;
                guard.unlock().await
            };
            let (taken, released) = join!(lock.try_lock(SOON, Lease::Renewed), release);
            released.unwrap();
            taken.unwrap().unlock().await.unwrap();
        }
    });
}

pub(crate) fn a_reader_waits_for_a_writer(bed: &Bed) {
    on_each_executor(bed, &async |holder, waiter| {
        let guard = holder.read_write_lock("x").write().lock().await.unwrap();
        let catalogue = waiter.read_write_lock("x");
        let reading = catalogue.read().try_lock(SOON, Lease::Renewed);
        let release = async {
            until(|| waiter.stats().waiting > 0).await;
            guard.unlock().await
        };
        let (read, released) = join!(reading, release);
        released.unwrap();
        read.unwrap().unlock().await.unwrap();
    });
}

pub(crate) fn permits_are_waited_for(bed: &Bed) {
    on_each_executor(bed, &async |holder, waiter| {
        let one = holder.semaphore("s").with_limit(1);
        let permit = one.acquire(1).await.unwrap();
        let permits = waiter.semaphore("s").with_limit(1);
        in_vain(permits.try_acquire(1, ms(50))).await;
        let release = async {
            until(|| waiter.stats().waiting > 0).await;
            permit.release().await
        };
        let (taken, released) = join!(permits.try_acquire(1, SOON), release);
        released.unwrap();
        taken.unwrap().release().await.unwrap();

        let seats = holder.permit_expirable_semaphore("p").with_limit(1);
        let seat = seats.acquire(1, Lease::Renewed).await.unwrap();
        let theirs = waiter.permit_expirable_semaphore("p").with_limit(1);
        in_vain(theirs.try_acquire(1, ms(50), Lease::Renewed)).await;
        seat.release().await.unwrap();
    });
}

pub(crate) fn a_latch_is_waited_for(bed: &Bed) {
    on_each_executor(bed, &async |worker, waiter| {
        let done = worker.count_down_latch("l");
        assert!(done.try_set_count(1).await.unwrap());
        let latch = waiter.count_down_latch("l");
        in_vain(latch.wait(ms(50))).await;
        let count_down = async {
            until(|| waiter.stats().waiting > 0).await;
            done.count_down().await
        };
        let (opened, counted) = join!(latch.wait(SOON), count_down);
        counted.unwrap();
        opened.unwrap();
    });
}

pub(crate) fn work_runs_under_a_lock(bed: &Bed) {
    on_each_executor(bed, &async |holder, waiter| {
        let guard = holder.lock("x").lock().await.unwrap();
        let lock: Lock = waiter.lock("x");
        let work = lock.run(SOON, Lease::Renewed, async |_guard| 7);
        let release = async {
            until(|| waiter.stats().waiting > 0).await;
            guard.unlock().await
        };
        let (done, released) = join!(work, release);
        released.unwrap();
        assert_eq!(done.unwrap(), 7);
    });
}

/// Its replies come back late, or not at all.
pub(crate) fn a_server_that_stands_still_is_not_waited_for(bed: &Bed) {
    on_each_executor(bed, &async |client, _| {
        let lock = client.lock("x");
        lock.lock().await.unwrap().unlock().await.unwrap();
        bed.pause();
        let outcome = lock.try_lock(ms(50), Lease::Renewed).await;
        bed.resume();
        assert!(outcome.is_err_and(|error| error.may_be_held()));
    });
}

pub(crate) fn a_shutdown_is_waited_for(bed: &Bed) {
    on_each_executor(bed, &async |client, _| {
        let guard = client.lock("x").lock().await.unwrap();
        client.shutdown(SOON).await.unwrap();
        assert!(guard.check().is_err());
    });
}
