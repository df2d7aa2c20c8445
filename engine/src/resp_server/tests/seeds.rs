//! The same seed gives the same bytes at the same moments.

use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::time::{Instant, sleep, timeout};

use super::raw::client;
use super::{Direction, Engine, Faults, Raw};
use crate::Delay;

fn course(seed: u64) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.expect("a runtime").block_on(play(seed))
}

fn storm() -> Faults {
    let ms =
        |least, most| Delay::between(Duration::from_millis(least), Duration::from_millis(most));
    Faults {
        chunk_max: 9,
        capacity: 64,
        request: ms(0, 4),
        reply: ms(0, 4),
        hesitate: 0.1,
        hesitation: ms(0, 10),
        cut_request: 0.02,
        cut_reply: 0.02,
        torn_reply: 0.5,
        late_after_cut: 0.5,
        late: ms(0, 200),
        lost_at_close: 0.5,
        refuse_dial: 0.2,
        away: ms(0, 20),
        refuse: 0.05,
        ..Faults::default()
    }
}

/// Two clients that call, subscribe and reconnect. Returns every byte that they read, and when.
async fn play(seed: u64) -> Vec<String> {
    let redis = Engine::new();
    let start = Instant::now();
    let mut course = Vec::new();
    let mut lines: Vec<_> = (0..2).map(|_| (client(&redis), None::<Raw>)).collect();
    for (number, ((_, control), _)) in lines.iter().enumerate() {
        control.set_faults(storm(), seed + 1000 * number as u64);
    }
    for round in 0..200 {
        let ((dialer, control), raw) = &mut lines[round % 2];
        let at = start.elapsed();
        let Some(connected) = raw.as_mut() else {
            *raw = Raw::dial(dialer).ok();
            course.push(format!("{at:?} dials: {}", raw.is_some()));
            sleep(Duration::from_millis(3)).await;
            continue;
        };
        let value = round.to_string();
        for words in [
            &["SUBSCRIBE", "a"][..],
            &["RPUSH", "l", &value],
            &["PUBLISH", "a", &value],
        ] {
            connected.send(words).await;
        }
        let mut heard = vec![0; 40];
        let read = timeout(Duration::from_millis(15), connected.reader.read(&mut heard)).await;
        course.push(format!("{:?} {read:?} {heard:?}", start.elapsed()));
        let passed = control.connections().into_iter().map(|one| {
            let bytes = [Direction::Requests, Direction::Replies].map(|way| one.arrived(way));
            format!("{} {bytes:?}", one.number())
        });
        course.extend(passed);
        if matches!(read, Ok(Ok(0) | Err(_))) || round % 50 == 0 {
            *raw = None;
        }
    }
    course.push(format!("{:?} {:?}", redis.dump(), redis.commands_run()));
    course
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 1..20 {
        assert_eq!(course(seed), course(seed));
    }
    assert_ne!(course(1), course(2));
}
