//! Directions that stall, drop bytes or delay them, and chunks of any size.

use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, sleep};

use super::raw::{client, frame, newest};
use super::{Direction, Engine, Faults, Raw, settle};
use crate::Delay;

const PONG: &str = "+PONG\r\n";

#[tokio::test(start_paused = true)]
async fn stalled_server_stops_its_client_from_writing() {
    let redis = Engine::new();
    let (dialer, control) = client(&redis);
    control.set_faults(
        Faults {
            capacity: 256,
            ..Faults::default()
        },
        1,
    );
    let mut raw = Raw::connect(&dialer).await;
    newest(&control).stall(Direction::Requests);
    let request = frame(&["SET", "k", &"v".repeat(1000)]);
    let taken = raw.writer.write(&request).await.unwrap();
    assert_eq!(taken, 256);
    {
        let mut rest = Box::pin(raw.writer.write_all(&request[taken..]));
        assert!(futures::poll!(&mut rest).is_pending());
        sleep(Duration::from_secs(60)).await;
        assert!(futures::poll!(&mut rest).is_pending());
        newest(&control).heal();
        rest.await.unwrap();
    }
    raw.hears("+OK\r\n").await;
}

/// Commands of a client run even if it does not read its replies.
#[tokio::test(start_paused = true)]
async fn slow_consumer_gets_everything_later() {
    let redis = Engine::new();
    let (dialer, control) = client(&redis);
    control.set_faults(
        Faults {
            capacity: 256,
            ..Faults::default()
        },
        1,
    );
    let mut raw = Raw::connect(&dialer).await;
    newest(&control).stall(Direction::Replies);
    for _ in 0..100 {
        raw.send(&["INCR", "k"]).await;
        raw.send(&["PING"]).await;
    }
    settle().await;
    assert_eq!(redis.commands_run()["incr"], 100);
    assert_eq!(raw.soon().await, b"");
    newest(&control).heal();
    for number in 1..=100 {
        raw.hears(&format!(":{number}\r\n{PONG}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_is_too_slow_is_disconnected() {
    let redis = Engine::new();
    let (dialer, control) = client(&redis);
    control.set_faults(
        Faults {
            capacity: 256,
            output_max: 4096,
            ..Faults::default()
        },
        1,
    );
    let mut raw = Raw::connect(&dialer).await;
    raw.asks(
        &["SUBSCRIBE", "a"],
        ">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n",
    )
    .await;
    let connection = newest(&control);
    connection.stall(Direction::Replies);
    for _ in 0..200 {
        drop(redis.command(&["PUBLISH", "a", "a message"]));
        settle().await;
    }
    assert!(redis.listeners().is_empty());
    connection.heal();
    assert_eq!(raw.rest().await.len(), 256);
}

#[tokio::test(start_paused = true)]
async fn half_open_direction_drops_bytes_without_a_notice() {
    for direction in [Direction::Requests, Direction::Replies] {
        let redis = Engine::new();
        let (dialer, control) = client(&redis);
        let mut raw = Raw::connect(&dialer).await;
        let connection = newest(&control);
        connection.half_open(direction);
        raw.send(&["SET", "k", "v"]).await;
        sleep(Duration::from_secs(60)).await;
        assert_eq!(raw.soon().await, b"");
        assert!(connection.is_open());
        assert_eq!(
            redis.dump().len(),
            usize::from(direction == Direction::Replies)
        );
        connection.heal();
        assert_eq!(
            raw.rest().await,
            b"",
            "what was swallowed cannot be made up for"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn half_open_direction_that_lost_nothing_goes_on() {
    let redis = Engine::new();
    let (dialer, control) = client(&redis);
    let mut raw = Raw::connect(&dialer).await;
    newest(&control).half_open(Direction::Requests);
    newest(&control).half_open(Direction::Replies);
    control.heal();
    raw.asks(&["PING"], PONG).await;
}

/// The server does not learn that its client is gone.
#[tokio::test(start_paused = true)]
async fn subscriber_whose_end_is_dropped_stays_until_it_is_healed() {
    let redis = Engine::new();
    let (dialer, control) = client(&redis);
    let mut raw = Raw::connect(&dialer).await;
    raw.asks(
        &["SUBSCRIBE", "a"],
        ">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n",
    )
    .await;
    newest(&control).half_open(Direction::Requests);
    drop(raw);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(redis.listeners().len(), 1);
    assert_eq!(control.connections().len(), 1);
    control.heal();
    settle().await;
    assert!(redis.listeners().is_empty() && control.connections().is_empty());
}

#[tokio::test(start_paused = true)]
async fn frames_are_split_and_joined() {
    for seed in 0..20 {
        let redis = Engine::new();
        let (dialer, control) = client(&redis);
        let faults = Faults {
            chunk_max: 3,
            capacity: 20,
            ..Faults::default()
        };
        control.set_faults(faults.clone(), seed);
        let mut raw = Raw::connect(&dialer).await;
        let script = "return {1, false, {ARGV[1]}}";
        raw.asks(
            &["EVAL", script, "0", "hello"],
            "*3\r\n:1\r\n_\r\n*1\r\n$5\r\nhello\r\n",
        )
        .await;
        let request = [frame(&["PING"]), frame(&["ECHO", "x"]), frame(&["PING"])].concat();
        raw.send_bytes(&request).await;
        raw.hears(&format!("{PONG}$1\r\nx\r\n{PONG}")).await;
        let connection = newest(&control);
        for direction in [Direction::Requests, Direction::Replies] {
            assert_eq!(connection.sent(direction), connection.arrived(direction));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_arrive_after_the_set_delay() {
    let redis = Engine::new();
    let (dialer, control) = client(&redis);
    let ms = |span| Delay::fixed(Duration::from_millis(span));
    let faults = Faults {
        request: ms(20),
        reply: ms(30),
        ..Faults::default()
    };
    control.set_faults(faults, 1);
    let mut raw = Raw::connect(&dialer).await;
    let start = Instant::now();
    raw.asks(&["PING"], PONG).await;
    assert_eq!(start.elapsed(), Duration::from_millis(50));
    let faults = Faults {
        chunk_max: 1,
        hesitate: 1.0,
        hesitation: ms(1),
        ..Faults::default()
    };
    control.set_faults(faults, 1);
    let start = Instant::now();
    raw.asks(&["PING"], PONG).await;
    let chunks = frame(&["PING"]).len() + PONG.len();
    let took = usize::try_from(start.elapsed().as_millis()).unwrap();
    assert!(
        (chunks - 2..=chunks).contains(&took),
        "{took} ms for {chunks} bytes"
    );
}

#[tokio::test(start_paused = true)]
async fn random_faults_break_refuse_and_delay_connections() {
    let redis = Engine::new();
    let (dialer, control) = client(&redis);
    let none = Faults::default;
    let mut raw = Raw::connect(&dialer).await;
    control.set_faults(
        Faults {
            refuse: 1.0,
            ..none()
        },
        1,
    );
    let refused = "-LOADING Redis is loading the dataset in memory\r\n";
    raw.asks(&["EVAL", "return redis.call('incr', 'k')", "0"], refused)
        .await;
    assert!(redis.dump().is_empty());
    let away = Delay::fixed(Duration::from_millis(40));
    control.set_faults(
        Faults {
            cut_request: 1.0,
            away,
            ..none()
        },
        1,
    );
    raw.send(&["PING"]).await;
    assert_eq!(raw.rest().await, b"");
    assert!(Raw::dial(&dialer).is_err());
    sleep(Duration::from_millis(40)).await;
    control.set_faults(
        Faults {
            cut_reply: 1.0,
            ..none()
        },
        1,
    );
    let mut raw = Raw::dial(&dialer).unwrap();
    raw.send(&["SET", "k", "v"]).await;
    assert!(raw.rest().await.len() <= "+OK\r\n".len());
    assert_eq!(redis.dump().len(), 1);
    control.set_faults(
        Faults {
            refuse_dial: 1.0,
            ..none()
        },
        1,
    );
    assert!(Raw::dial(&dialer).is_err());
}
