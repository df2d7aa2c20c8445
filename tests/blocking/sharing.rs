//! Threads and tasks of one client.

use std::thread;
use std::time::Duration;

use leasehold::Lease;
use leasehold_testbed::{Bed, SOON};

use crate::harness::{client, runtime, take, unlock, until_waiting};

pub(crate) fn threads_and_tasks_of_one_client_wait_for_each_other(bed: &Bed) {
    let client = client(bed);
    let runtime = runtime();
    let lock = client.lock("x");
    let guard = take(&client, &lock).unwrap();
    thread::scope(|scope| {
        let lock = client.lock("x");
        let task = scope.spawn(move || runtime.block_on(lock.try_lock(SOON, Lease::Renewed)));
        until_waiting(&client, 1);
        unlock(&client, guard);
        let guard = task.join().unwrap().expect("the task was woken");
        let thread = scope.spawn(|| take(&client, &client.lock("x")));
        until_waiting(&client, 1);
        drop(guard);
        unlock(
            &client,
            thread.join().unwrap().expect("the thread was woken"),
        );
    });
}

pub(crate) fn a_future_that_the_work_waits_for_is_inside(bed: &Bed) {
    let client = client(bed);
    let lock = client.lock("x");
    let hold_count = client.block_on(lock.run(SOON, Lease::Renewed, async |_| {
        client
            .lock("x")
            .run(Duration::ZERO, Lease::Renewed, async |inner| {
                inner.hold_count()
            })
            .await
    }));
    assert_eq!(hold_count.unwrap().unwrap(), 2);
}
