//! Grants in flight while the primary changes, renewals in flight when timers are set again, and
//! their repetition.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use crate::test_util::{Delay, Faults, Machine};
use crate::{EmbeddedRedis, HoldState, Lease};

const ON_ITS_WAY: Duration = Duration::from_millis(100);

fn answer_after(span: Duration, redis: &EmbeddedRedis) {
    let slow = Faults {
        reply: Delay::fixed(span),
        ..Faults::default()
    };
    redis
        .links()
        .iter()
        .for_each(|link| link.set_faults(slow.clone(), 1));
}

/// Otherwise nobody would notice before the next renewal, and with a fixed lease nobody at all.
#[tokio::test(start_paused = true)]
async fn a_grant_that_was_asked_for_before_the_primary_changed_is_verified() {
    for lease in [Lease::Renewed, Lease::Fixed(Duration::from_secs(60))] {
        let redis = EmbeddedRedis::new();
        let client = redis.client();
        client
            .lock("warm")
            .lock()
            .await
            .expect("free")
            .unlock()
            .await
            .expect("held");
        answer_after(ON_ITS_WAY, &redis);
        let lock = client.lock("n");
        let change = async {
            sleep(ON_ITS_WAY / 2).await;
            client.session().core.hold_table.must_verify(&|_| true);
        };
        let (granted, ()) = tokio::join!(lock.try_lock(ON_ITS_WAY * 9, lease), change);
        let guard = granted.expect("free");
        assert_eq!(guard.state(), HoldState::Uncertain);
        sleep(ON_ITS_WAY * 3).await;
        assert_eq!(
            (guard.state(), client.stats().renewed),
            (HoldState::Held, 1)
        );
        let later = client.lock("later").lock().await.expect("free");
        assert_eq!(later.state(), HoldState::Held);
    }
}

/// The timers of a call that was sent before the suspension are late. Those of a later one are not.
#[tokio::test(start_paused = true)]
async fn a_renewal_in_flight_is_repeated_only_if_the_machine_suspend_for_meanwhile() {
    for (suspended, calls) in [(Duration::ZERO, 1), (Duration::from_secs(1), 2)] {
        let machine = Machine::default();
        let redis = EmbeddedRedis::new();
        let builder = redis.builder().machine(&machine);
        let client = builder.connect().await.expect("connects");
        let guard = client.lock("n").lock().await.expect("free");
        answer_after(ON_ITS_WAY, &redis);
        let before = client.stats().calls;
        while client.stats().calls == before {
            sleep(Duration::from_millis(1)).await;
        }
        machine.suspend_for(suspended);
        client.session().core.hold_table.set_timers_again();
        sleep(ON_ITS_WAY * 4).await;
        let stats = client.stats();
        assert_eq!((stats.calls - before, stats.renewed), (calls, calls));
        guard.check().expect("held");
    }
}

/// A renewal that is repeated at once, while nothing can answer it, would stop all else.
#[tokio::test(start_paused = true)]
async fn a_renewal_is_not_repeated_at_once_however_little_is_left() {
    let redis = EmbeddedRedis::new();
    let client = redis.client();
    let guard = client.lock("n").lock().await.expect("free");
    answer_after(Duration::from_secs(3600), &redis);
    let hold_table = &client.session().core.hold_table;
    let hold = hold_table.holds().pop().expect("the one of the guard");
    sleep_until(hold.deadline() - Duration::from_millis(1)).await;
    let now = hold.deadline() - Duration::from_micros(1);
    tokio::time::advance(now - Instant::now()).await;
    let next = hold_table
        .due(&hold, Some(now), &hold.read_clock())
        .expect("held");
    assert!(next > hold.deadline(), "{:?} later", next - now);
    drop(guard);
}

/// The loop would wake for each hold otherwise, on another thread.
#[tokio::test(start_paused = true)]
async fn holds_that_come_and_go_wake_the_loop_once_in_a_lease() {
    let redis = EmbeddedRedis::new();
    let client = redis.client();
    let hold_table = &client.session().core.hold_table;
    let mut wakes = Vec::new();
    for _ in 0..3 {
        let guard = client.lock("n").lock().await.expect("free");
        guard.unlock().await.expect("held");
        sleep(ON_ITS_WAY).await;
        wakes.push(hold_table.next());
    }
    assert!(wakes[0].is_some_and(|at| at > Instant::now()));
    assert_eq!(wakes, [wakes[0]; 3]);
}
