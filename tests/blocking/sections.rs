//! Work under a lock is a section of its thread.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use leasehold::{Error, Lease};
use leasehold_testbed::{Bed, SOON};

use crate::harness::{in_vain, on_another_thread};

const NOW: Duration = Duration::ZERO;

pub(crate) fn a_callee_of_the_work_reenters_the_lock(bed: &Bed) {
    let client = bed.blocking_client();
    let outer = client.lock("x").run(SOON, Lease::Renewed, |guard| {
        let inner = client
            .lock("x")
            .run(NOW, Lease::Renewed, |inner| inner.hold_count());
        let further = guard.reenter().unwrap();
        assert_eq!(guard.hold_count(), 2);
        further.unlock().unwrap();
        inner.unwrap()
    });
    assert_eq!(outer.unwrap(), 2);
    assert!(!bed.exists("x"));

    let guard = client.lock("x").lock().unwrap();
    let refused = client.lock("x").try_lock_now(Lease::Renewed);
    assert!(
        refused.unwrap_err().is_timeout(),
        "without a section it is another owner"
    );
    guard
        .run(|| {
            client
                .lock("x")
                .try_lock_now(Lease::Renewed)
                .unwrap()
                .unlock()
        })
        .unwrap()
        .unwrap();
    guard.unlock().unwrap();
}

pub(crate) fn a_thread_that_the_work_starts_is_shut_out(bed: &Bed) {
    let client = bed.blocking_client();
    let refused = client.lock("x").run(SOON, Lease::Renewed, |_| {
        on_another_thread(|| client.lock("x").try_lock_now(Lease::Renewed))
    });
    assert!(refused.unwrap().unwrap_err().is_timeout());
}

pub(crate) fn a_lock_that_is_not_re_entrant_is_refused_inside(bed: &Bed) {
    let client = bed.blocking_client();
    let inner = client
        .lock("x")
        .non_reentrant()
        .run(SOON, Lease::Renewed, |_| {
            client
                .lock("x")
                .non_reentrant()
                .try_lock(Duration::MAX, Lease::Renewed)
        });
    assert!(matches!(inner.unwrap(), Err(Error::AlreadyHeld { .. })));
}

pub(crate) fn work_returns_its_result_and_the_lock_is_free(bed: &Bed) {
    let client = bed.blocking_client();
    let lock = client.lock("x");
    assert!(lock.run(SOON, Lease::Renewed, |_| bed.exists("x")).unwrap());
    assert!(!bed.exists("x"));
    assert!(lock.acquire().wait(SOON).run(|_| bed.exists("x")).unwrap());
    assert!(!bed.exists("x"));
}

pub(crate) fn work_may_fail_with_an_error_of_its_own(bed: &Bed) {
    #[derive(Debug)]
    enum Failure {
        OfTheWork,
        OfTheLock,
    }
    impl From<Error> for Failure {
        fn from(_: Error) -> Self {
            Failure::OfTheLock
        }
    }
    let client = bed.blocking_client();
    let lock = client.lock("x");
    let failed: Result<(), _> = lock.try_run(SOON, Lease::Renewed, |_| Err(Failure::OfTheWork));
    assert!(matches!(failed, Err(Failure::OfTheWork)));
    assert!(!bed.exists("x"), "it was released");
    let guard = lock.lock().unwrap();
    let failed: Result<(), _> = lock.try_run(NOW, Lease::Renewed, |_| Err(Failure::OfTheWork));
    assert!(matches!(failed, Err(Failure::OfTheLock)));
    guard.unlock().unwrap();
}

pub(crate) fn a_panic_in_the_work_frees_the_lock(bed: &Bed) {
    let client = bed.blocking_client();
    let lock = client.lock("x");
    let panics = || -> Result<(), Error> {
        lock.run(SOON, Lease::Renewed, |_| {
            resume_unwind(Box::new("on purpose"))
        })
    };
    let unwound = catch_unwind(AssertUnwindSafe(panics));
    assert!(unwound.is_err());
    bed.wait_until_gone("x");
    // The thread has left the section.
    let guard = lock.try_lock(SOON, Lease::Renewed).unwrap();
    in_vain(|| lock.try_lock_now(Lease::Renewed));
    guard.unlock().unwrap();
}

pub(crate) fn a_future_that_the_work_waits_for_is_inside(bed: &Bed) {
    let client = bed.blocking_client();
    let lock = client.as_async().lock("x");
    let hold_count = client.lock("x").run(SOON, Lease::Renewed, |_| {
        client.block_on(lock.run(NOW, Lease::Renewed, async |inner| inner.hold_count()))
    });
    assert_eq!(hold_count.unwrap().unwrap(), 2);
}
