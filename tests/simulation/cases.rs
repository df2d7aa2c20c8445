//! Cases that the simulation once found, and finds too rarely to rely on it.

use leasehold::EmbeddedRedis;
use leasehold::test_util::{Delay, Dumped, Faults, Reply};
use leasehold_testbed::connected;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::plan::ms;

/// Once, the writer waited behind a reader that waited for the writer's own hold.
#[tokio::test(start_paused = true)]
async fn a_writer_that_reads_rides_out_a_lost_reply_ahead_of_waiting_readers() {
    let engine = EmbeddedRedis::new();
    let client = connected(engine.builder().command_timeout(ms(300))).await;
    let link = engine.links().pop().expect("a link");
    let writer = client.read_write_lock("lock");
    let reader = client.read_write_lock("lock");

    let writing = writer.write().lock().await.expect("free");
    let downgrade = async {
        sleep(ms(100)).await;
        link.mute();
        let heal = async {
            sleep(ms(100)).await;
            link.heal();
        };
        let (reading, ()) = tokio::join!(
            timeout(ms(2000), writer.read().acquire().within(&writing)),
            heal
        );
        let reading = reading.expect("in time").expect("a read hold");
        writing.unlock().await.expect("held");
        reading.unlock().await.expect("held");
    };
    let other = async {
        let reading = timeout(ms(4000), reader.read().lock()).await;
        reading
            .expect("in time")
            .expect("a read hold")
            .unlock()
            .await
            .expect("held");
    };
    tokio::join!(downgrade, other);
}

/// Once, heartbeats were sent one after another, and a client far from its server had no time for
/// all its locks.
#[tokio::test(start_paused = true)]
async fn places_in_many_queues_are_kept_over_a_slow_line() {
    let engine = EmbeddedRedis::new();
    let holder = engine.client();
    let far = engine.client();
    let slow = Delay::fixed(ms(10));
    let link = engine.links().pop().expect("a link");
    link.set_faults(
        Faults {
            request: slow,
            reply: slow,
            ..Faults::default()
        },
        1,
    );
    let names: Vec<_> = (0..300).map(|number| format!("lock{number}")).collect();
    let mut guards = Vec::new();
    let mut waits = JoinSet::new();
    for name in &names {
        guards.push(holder.fair_lock(name).lock().await.expect("free"));
        let lock = far.fair_lock(name);
        waits.spawn(async move { lock.lock().await.map(|guard| guard.owner().to_owned()) });
    }
    sleep(ms(2000)).await;
    let places = |dumped: &Dumped| {
        let pairs = dumped.content.chunks(2);
        let until = pairs.map(|pair| String::from_utf8_lossy(&pair[1]).parse::<i64>());
        until
            .map(|until| until.expect("a time"))
            .collect::<Vec<_>>()
    };
    for _ in 0..100 {
        let clock = engine.command(&["TIME"]).expect("the time");
        let Reply::Array(clock) = clock else {
            panic!("{clock:?}")
        };
        let [seconds, micros] = [0, 1].map(|at| match &clock[at] {
            Ok(Reply::Bulk(text)) => String::from_utf8_lossy(text)
                .parse::<i64>()
                .expect("a number"),
            other => panic!("{other:?}"),
        });
        let now = seconds * 1000 + micros / 1000;
        for (key, dumped) in engine.dump() {
            let key = String::from_utf8_lossy(&key).into_owned();
            if key.starts_with("redisson_lock_timeout") {
                let kept = places(&dumped);
                assert!(
                    kept.len() == 1 && kept[0] > now,
                    "{key}: {} ms late",
                    now - kept[0]
                );
            }
        }
        sleep(ms(100)).await;
    }
    drop(guards);
    while let Some(owner) = waits.join_next().await {
        owner.expect("no panic").expect("granted");
    }
}
