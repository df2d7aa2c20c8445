//! An engine that cannot be reached, and replies that do not come; only the embedded engine has the
//! switches. `tests/faults` does the like to a real server.

use std::time::Duration;

use leasehold::test_util::Flow;
use leasehold::{EmbeddedRedis, Error, HoldState, Lease, LossReason};
use tokio::time::{Instant, sleep};

use crate::world::{ms, soon, waiting};

#[tokio::test(start_paused = true)]
async fn a_cut_line_is_unavailable_and_a_healed_one_works() {
    let redis = EmbeddedRedis::new();
    let client = redis.client();
    let mut lock = client.lock("x");
    lock.lock().await.unwrap().unlock().await.unwrap();
    redis.cut();
    for wait in [Duration::ZERO, ms(300)] {
        let start = Instant::now();
        let error = lock.try_lock(wait, Lease::Renewed).await.unwrap_err();
        assert!(matches!(&error, Error::Unavailable { .. }), "{error}");
        assert!(start.elapsed() <= wait + ms(50), "{:?}", start.elapsed());
    }
    redis.heal();
    lock.try_lock(ms(300), Lease::Renewed).await.unwrap().unlock().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn waiters_ride_out_an_outage() {
    let redis = EmbeddedRedis::new();
    let (holder, client) = (redis.client(), redis.client());
    let guard = holder.lock("x").lock().await.unwrap();
    let mut tasks = Vec::new();
    for _ in 0..5 {
        let mut lock = client.lock("x");
        tasks.push(tokio::spawn(async move { lock.lock().await.unwrap().unlock().await }));
    }
    waiting(&client, 5).await;
    redis.cut();
    sleep(ms(3000)).await;
    assert_eq!(guard.state(), HoldState::Held, "30 s have not passed");
    redis.heal();
    guard.unlock().await.unwrap();
    for task in tasks {
        soon("everybody is served", task).await.0.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_is_cut_off_knows_before_others_get_in() {
    let redis = EmbeddedRedis::new();
    let (holder, rival) = (redis.client(), redis.client());
    let guard = holder.lock("x").lock().await.unwrap();
    let mine = redis.links().remove(0);
    sleep(ms(10)).await;
    mine.cut();
    let rivals = tokio::spawn(async move { rival.lock("x").lock().await.map(|_| Instant::now()) });
    sleep(ms(15_000)).await;
    assert_eq!(guard.state(), HoldState::Uncertain, "renewal fails, the deadline has not passed");
    guard.check().unwrap();
    let reason = guard.lost().await;
    let known = Instant::now();
    assert_eq!(reason, LossReason::Expired);
    let got_in = rivals.await.unwrap().unwrap();
    assert!(known < got_in, "{:?}", known - got_in);
}

#[tokio::test(start_paused = true)]
async fn what_was_in_doubt_stays_unknown() {
    let redis = EmbeddedRedis::new();
    let client = redis.builder().command_timeout(ms(100)).connect().await.unwrap();
    let mut lock = client.lock("x");
    let link = redis.links().remove(0);
    let outer = lock.lock().await.unwrap();
    // First the replies do not come, then nothing can be sent: both calls may have been applied.
    for deeper in [true, false] {
        link.set_replies(Flow::Vanishes);
        let cut = async {
            sleep(ms(150)).await;
            link.cut();
        };
        let mut other = client.lock("y");
        let lock = if deeper { &mut lock } else { &mut other };
        let (taken, ()) = tokio::join!(lock.try_lock(ms(400), Lease::Renewed), cut);
        let error = taken.unwrap_err();
        assert!(error.may_be_held(), "{error}");
        link.set_replies(Flow::Passes);
        link.heal();
        sleep(ms(200)).await;
    }
    assert_eq!((outer.state(), outer.hold_count()), (HoldState::Held, 1));
}
