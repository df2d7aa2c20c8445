//! Releases that are refused for a while, or whose outcome becomes known late. Only the embedded
//! engine has the switches.

use std::time::Duration;

use leasehold::test_util::Faults;
use leasehold::{Error, Lease};
use leasehold_testbed::{Bed, connected, ms, timed};
use tokio::time::{Instant, sleep};

/// How long the server refuses calls.
const BUSY: Duration = ms(180);

/// BUSY, LOADING, OOM, TRYAGAIN: the connection stays, so no reconnect announces the end.
#[tokio::test(start_paused = true)]
async fn a_call_refused_by_a_busy_server_is_repeated_soon_but_not_too_often() {
    let redis = Bed::engine();
    let client = redis.client();
    let latch = client.count_down_latch("l");
    latch.try_set_count(2).await.unwrap();
    let link = redis.links().remove(0);
    for release in [true, false] {
        let calls = client.stats().calls;
        let guard = client.lock("x").lock().await.unwrap();
        let start = Instant::now();
        link.set_faults(
            Faults {
                refuse: 1.0,
                ..Faults::default()
            },
            1,
        );
        let recovers = async {
            sleep(BUSY).await;
            link.set_faults(Faults::default(), 1);
        };
        if release {
            let (done, ()) = tokio::join!(guard.unlock(), recovers);
            done.unwrap();
        } else {
            let (done, ()) = tokio::join!(latch.count_down(), recovers);
            assert_eq!(done.unwrap(), 1, "counted once");
        }
        let took = start.elapsed();
        assert!((BUSY..BUSY + ms(65)).contains(&took), "{took:?}");
        let calls = client.stats().calls - calls;
        assert!(calls <= 12, "{calls} calls");
    }
}

/// The lease had ended when the call that found nothing was sent, so another owner may have held
/// the lock in between.
#[tokio::test(start_paused = true)]
async fn a_release_in_doubt_that_is_confirmed_after_the_lease_is_a_loss() {
    let lease = ms(300);
    for kept in [false, true] {
        for (away, in_time) in [(ms(20), true), (lease * 2, false)] {
            let redis = Bed::engine();
            let client = connected(redis.builder().command_timeout(ms(5000))).await;
            let lock = client.lock("x");
            let guard = lock.try_lock_now(Lease::Fixed(lease)).await.unwrap();
            let link = redis.links().remove(0);
            link.mute();
            let mut unlock = Box::pin(guard.unlock());
            assert!(futures::poll!(unlock.as_mut()).is_pending());
            let outage = async {
                sleep(ms(20)).await;
                link.cut();
                sleep(away).await;
                assert!(redis.dump().is_empty(), "the first call freed it");
                link.heal();
            };
            let done = if kept {
                // Without being polled, the release continues in the background.
                outage.await;
                sleep(ms(50)).await;
                timed("released", unlock).await.0
            } else {
                tokio::join!(unlock, outage).0
            };
            let is_lost = matches!(done, Err(Error::Lost { .. }));
            assert_eq!(
                (done.is_ok(), is_lost),
                (in_time, !in_time),
                "kept: {kept}, {done:?}"
            );
        }
    }
}
