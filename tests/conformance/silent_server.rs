//! How long an acquisition takes while the server stands still: it keeps its connections and
//! answers nothing.

use std::time::Duration;

use leasehold::Lease;
use leasehold_testbed::{Bed, assert_free, connected, ms, timed};
use tokio::time::timeout;

/// The second attempt also waits for the release that undoes the first one.
pub(crate) async fn a_try_takes_at_most_two_timeouts_of_a_command(bed: Bed) {
    const COMMAND: Duration = ms(400);
    let client = connected(bed.builder().command_timeout(COMMAND)).await;
    let lock = client.lock("x");
    lock.lock().await.unwrap().unlock().await.unwrap();
    bed.pause();
    for timeouts in [1, 2] {
        let attempt = lock.try_lock_now(Lease::Renewed);
        let (outcome, took) = timed("it ends", attempt).await;
        assert!(outcome.is_err_and(|error| error.is_retryable()));
        assert!(took <= timeouts * COMMAND + bed.late(1), "{took:?}");
    }
    bed.resume();
}

pub(crate) async fn a_call_may_have_a_shorter_bound(bed: Bed) {
    let client = connected(bed.builder().command_timeout(ms(60_000))).await;
    let lock = client.lock("x");
    lock.lock().await.unwrap().unlock().await.unwrap();
    bed.pause();
    let attempt = lock.try_lock(ms(20), Lease::Renewed);
    let (outcome, took) = timed("its wait ends", attempt).await;
    assert!(outcome.is_err_and(|error| error.may_be_held()));
    // Half a second is the longest time that a reply may be late.
    assert!(took <= ms(20) + ms(500) + bed.late(1), "{took:?}");

    let attempt = timeout(ms(20), lock.try_lock_now(Lease::Renewed));
    let (outcome, took) = timed("it is dropped", attempt).await;
    outcome.expect_err("no answer");
    assert!(took <= ms(20) + bed.late(1), "{took:?}");

    bed.resume();
    // What the attempts may have taken is given back.
    assert_free(&lock).await;
}
