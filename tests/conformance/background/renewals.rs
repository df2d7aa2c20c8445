//! Renewals that are refused, or that get no answer.

use std::time::Duration;

use leasehold::test_util::Faults;
use leasehold::{EmbeddedRedis, HoldState, Lease};
use tokio::time::{Instant, sleep};

use super::{BATCH, name, runs, set_round_trip, take_all};
use crate::backend::{eventually, ms};

#[tokio::test(start_paused = true)]
async fn one_bad_key_costs_no_healthy_hold() {
    let lease = ms(5000);
    let round_trip = ms(10);
    let redis = EmbeddedRedis::new();
    let client = redis.builder().lease(lease).connect().await.unwrap();
    let mut guards = take_all(&client, 0..BATCH, Lease::Renewed).await;
    let bad = guards.remove(BATCH / 2);
    redis.lose(&name(BATCH / 2));
    redis.command(&["SET", &name(BATCH / 2), "of another type"]).unwrap();
    set_round_trip(&redis.links().remove(0), round_trip);

    eventually("the renewal of all is refused", async || runs(&redis, "lock_renew") > 0).await;
    let refused = Instant::now();
    let renewed = async || client.stats().renewed == guards.len() as u64;
    eventually("all but one are renewed", renewed).await;
    let took = refused.elapsed();
    assert!(took <= round_trip * 10, "{took:?}");
    eventually("one is lost", async || bad.state() == HoldState::Lost).await;
    let end = Instant::now() + lease * 3;
    while Instant::now() < end {
        sleep(ms(20)).await;
        let unsure = guards.iter().filter(|guard| guard.state() != HoldState::Held).count();
        assert_eq!(unsure, 0, "they were renewed");
    }
    assert_eq!(client.stats().lost, 1);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_without_an_answer_leaves_time_for_another_one() {
    let lease = ms(3000);
    let redis = EmbeddedRedis::new();
    let builder = redis.builder().lease(lease).command_timeout(Duration::from_secs(60));
    let client = builder.connect().await.unwrap();
    let link = redis.links().remove(0);
    let guard = client.lock("x").lock().await.unwrap();
    link.set_faults(Faults { lose_request: 1.0, ..Faults::default() }, 1);
    eventually("a renewal is lost", async || link.calls_under_way() == 1).await;
    let lost = Instant::now();
    link.set_faults(Faults::default(), 1);
    eventually("it is renewed", async || client.stats().renewed == 1).await;
    let took = lost.elapsed();
    assert!(took < lease / 3 + ms(200), "{took:?}");
    sleep(lease * 3).await;
    assert_eq!(guard.state(), HoldState::Held);
}
