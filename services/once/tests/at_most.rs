//! A claim before the work.

use std::future::{pending, ready};
use std::time::{Duration, SystemTime};

use leasehold::{Client, ConfigError, EmbeddedRedis, Error};
use leasehold_admin::Admin;
use leasehold_once::{Once, Ran};
use leasehold_testbed::ms;
use tokio::time::{advance, sleep, timeout};

use crate::{now, once};

const KEEP: Duration = Duration::from_secs(3600);

#[tokio::test(start_paused = true)]
async fn a_tick_runs_in_one_instance_and_its_claim_outlives_the_process() {
    let redis = EmbeddedRedis::new();
    let (one, other) = (redis.client(), redis.client());
    let tick = now();
    let ran = once(&one).at_most(tick, || ready(7)).await;
    assert_eq!(ran.expect("ran"), Ran::Here(7));
    let again = once(&one).at_most(tick, || ready(8)).await;
    assert_eq!(
        again.expect("refused"),
        Ran::Elsewhere,
        "in the same process"
    );
    one.shutdown(ms(1000)).await.expect("closed");
    advance(KEEP / 2).await;
    let again = once(&other).at_most(tick, || ready(9)).await;
    assert_eq!(again.expect("refused"), Ran::Elsewhere);
    // Another tick, and another job.
    let next = once(&other).at_most(tick + ms(1), || ready(10)).await;
    assert_eq!(next.expect("ran"), Ran::Here(10));
    let another = Once::new(&other, "another");
    let ran = another.at_most(tick, || ready(11)).await;
    assert_eq!(ran.expect("ran"), Ran::Here(11));
}

#[tokio::test(start_paused = true)]
async fn work_that_is_dropped_is_lost_for_good() {
    let redis = EmbeddedRedis::new();
    let (one, other) = (once(&redis.client()), once(&redis.client()));
    let tick = now();
    let begun = timeout(ms(100), one.at_most(tick, pending::<()>)).await;
    assert!(begun.is_err(), "the work never ends");
    let again = other.at_most(tick, || ready(())).await;
    assert_eq!(again.expect("refused"), Ran::Elsewhere);
}

#[tokio::test(start_paused = true)]
async fn a_tick_that_is_far_from_the_clock_is_missed() {
    let client = Client::embedded();
    let near = KEEP / 5;
    for tick in [now() - near, now() + near] {
        let ran = once(&client).at_most(tick, || ready(())).await;
        assert_eq!(ran.expect("ran"), Ran::Here(()));
    }
    let far = KEEP / 3;
    let ticks = [now() - far, now() + far, SystemTime::UNIX_EPOCH];
    for tick in ticks {
        let ran = once(&client).at_most(tick, || ready(())).await;
        assert_eq!(ran.expect("refused"), Ran::Missed);
    }
    let claims = Admin::new(&client).locks("job@*").await.expect("asked");
    assert_eq!(claims.len(), 2, "a tick that is missed is not claimed");
    for claim in claims.iter() {
        // By this the command line knows them.
        let tick = claim.key.strip_prefix("job@").expect("of the job");
        let tick = tick.strip_suffix(":claimed").expect("a claim");
        assert!(tick.parse::<u64>().is_ok(), "milliseconds: {tick}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_delays_a_run() {
    let redis = EmbeddedRedis::new();
    let client = redis.client();
    let job = once(&client);
    redis.cut();
    let heal = async {
        sleep(Duration::from_secs(20)).await;
        redis.heal();
    };
    let (ran, ()) = tokio::join!(job.at_most(now(), || ready(1)), heal);
    assert_eq!(ran.expect("ran"), Ran::Here(1));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_claimed_is_an_error() {
    let client = Client::embedded();
    client.shutdown(ms(1000)).await.expect("closed");
    let ran = once(&client).at_most(now(), || ready(())).await;
    assert!(matches!(ran, Err(Error::Closed)), "{ran:?}");
}

#[test]
fn a_keep_time_that_cannot_be_is_refused_when_it_is_set() {
    let job = once(&Client::embedded());
    for keep in [Duration::ZERO, ms(999), 366 * 24 * KEEP, Duration::MAX] {
        let refused = job.clone().with_keep(keep).expect_err("refused");
        assert!(
            matches!(refused, ConfigError::OutOfRange { what: "keep", .. }),
            "{refused}"
        );
    }
    for keep in [Duration::from_secs(1), 365 * 24 * KEEP] {
        job.clone().with_keep(keep).expect("allowed");
    }
}
