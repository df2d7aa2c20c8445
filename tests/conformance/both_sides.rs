//! One owner on both sides of a read/write lock: downgrades, upgrades, and who follows.

use leasehold::{Error, Lease};
use leasehold_testbed::{
    Bed, eventually, holds, ms, release, take_turn, timed, until_certain, waiting,
};
use tokio::time::{Instant, sleep};

use crate::read_write::{listens, nothing_is_left, read, reader, write, writer};

pub(crate) async fn a_read_inside_a_write_comes_and_goes(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let lock = one.read_write_lock("x");
    let writing = lock.write().lock().await.unwrap();
    assert!(lock.write().is_locked().await.unwrap());
    assert!(!lock.read().is_locked().await.unwrap(), "nobody reads");
    // The read has its own lease, so short that it would end the write hold if it applied to that.
    let read_inside = async || {
        let reading = lock.read().acquire().lease(Lease::Fixed(ms(5000)));
        reading.within(&writing).await.unwrap()
    };
    let (reading, second) = (read_inside().await, read_inside().await);
    assert!(lock.read().is_locked().await.unwrap());
    assert_eq!(holds(lock.write()).await.unwrap(), 1);
    reading.unlock().await.unwrap();
    assert!(bed.left("x") > 15_000, "{}", bed.left("x"));
    second.unlock().await.unwrap();
    assert!(bed.left("x") > 15_000, "{}", bed.left("x"));
    bed.in_vain(async || read(&other, Lease::Fixed(ms(1000))).await)
        .await;
    writing.unlock().await.unwrap();
    assert!(!lock.write().is_locked().await.unwrap());
    nothing_is_left(&bed).await;
}

pub(crate) async fn a_downgrade_lets_readers_in_at_once(bed: Bed) {
    let (one, other) = (
        bed.client_without_polls().await,
        bed.client_without_polls().await,
    );
    let lock = one.read_write_lock("x");
    let writing = lock.write().lock().await.unwrap();
    let kept = lock.read().acquire().within(&writing).await.unwrap();
    let (near, far, late) = (reader(&one), reader(&other), writer(&other));
    waiting(&one, 1).await;
    waiting(&other, 2).await;
    listens(&one).await;
    eventually("both listen", async || other.stats().listeners == 2).await;
    writing.unlock().await.unwrap();
    for reading in [near, far] {
        let (guard, took) = timed("granted", reading).await;
        assert!(
            took < bed.late(500),
            "by the message, not by a poll: {took:?}"
        );
        guard.unwrap().unwrap().unlock().await.unwrap();
    }
    assert!(!late.is_finished(), "a writer waits for the last reader");
    assert!(!lock.write().is_locked().await.unwrap() && lock.read().is_locked().await.unwrap());
    let upgrade = lock.write().acquire().within(&kept).await;
    assert!(matches!(upgrade, Err(Error::AlreadyHeld { .. })));
    kept.unlock().await.unwrap();
    take_turn("the writer", late).await;
    nothing_is_left(&bed).await;
}

pub(crate) async fn a_downgrade_is_not_handed_over(bed: Bed) {
    let client = bed.client_with_long_streaks().await;
    let lock = client.read_write_lock("x");
    let writing = lock.write().lock().await.unwrap();
    let kept = lock.read().acquire().within(&writing).await.unwrap();
    let late = writer(&client);
    waiting(&client, 1).await;
    writing.unlock().await.unwrap();
    sleep(bed.span(50)).await;
    assert!(!late.is_finished(), "its own client still reads");
    kept.check().unwrap();
    assert_eq!(bed.command(&["HGET", "x", "mode"]), "read");
    kept.unlock().await.unwrap();
    take_turn("the writer", late).await;
    nothing_is_left(&bed).await;
}

pub(crate) async fn a_downgrade_is_renewed(bed: Bed) {
    let lease = bed.lease(300);
    let (one, other) = (bed.client_with_lease(lease).await, bed.client().await);
    let lock = one.read_write_lock("x");
    let writing = lock.write().lock().await.unwrap();
    let reading = lock.read().acquire().within(&writing).await.unwrap();
    sleep(lease * 2).await;
    until_certain(&writing).await;
    until_certain(&reading).await;
    writing.unlock().await.unwrap();
    let end = Instant::now() + lease * 2;
    while Instant::now() < end {
        assert!(bed.left("x") > 0);
        sleep(lease / 10).await;
    }
    until_certain(&reading).await;
    bed.in_vain(async || write(&other, Lease::Fixed(ms(1000))).await)
        .await;
    reading.unlock().await.unwrap();
    nothing_is_left(&bed).await;
}

pub(crate) async fn an_upgrade_is_refused_at_once(bed: Bed) {
    let client = bed.client().await;
    let lock = client.read_write_lock("x");
    let also = client.read_write_lock("x");
    let reading = lock.read().lock().await.unwrap();
    let calls = client.stats().calls;
    for lock in [&lock, &also] {
        let upgrade = lock.write().acquire().within(&reading);
        let refused = timed("at once", upgrade.into_future()).await.0.unwrap_err();
        assert!(matches!(refused, Error::AlreadyHeld { .. }), "{refused}");
        assert!(!refused.is_retryable());
    }
    assert_eq!(client.stats().calls, calls, "nothing was asked");
    reading.unlock().await.unwrap();
    lock.write().lock().await.unwrap().unlock().await.unwrap();
}

pub(crate) async fn a_writer_re_enters_and_readers_follow(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let lock = one.read_write_lock("x");
    let outer = lock.write().lock().await.unwrap();
    let inner = outer.reenter().await.unwrap();
    assert_eq!(holds(lock.write()).await.unwrap(), 2);
    let seen = other.read_write_lock("x");
    assert!(seen.write().is_locked().await.unwrap());
    inner.unlock().await.unwrap();
    bed.in_vain(async || read(&other, Lease::Fixed(ms(1000))).await)
        .await;
    outer.unlock().await.unwrap();
    let readings = [
        read(&one, Lease::Fixed(ms(9000))).await.unwrap(),
        read(&other, Lease::Fixed(ms(9000))).await.unwrap(),
    ];
    bed.in_vain(async || write(&one, Lease::Fixed(ms(1000))).await)
        .await;
    let [first, second] = readings;
    first.unlock().await.unwrap();
    bed.in_vain(async || write(&one, Lease::Fixed(ms(1000))).await)
        .await;
    second.unlock().await.unwrap();
    assert!(
        !one.read_write_lock("x")
            .read()
            .force_unlock("a test")
            .await
            .unwrap()
    );
    release(write(&one, Lease::Fixed(ms(9000))).await).await;
}
