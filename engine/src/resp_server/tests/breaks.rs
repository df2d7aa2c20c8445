//! A connection that breaks at each byte of either direction.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::raw::{client, frame, newest};
use super::{ConnectionControl, Direction, Engine, Faults, Raw, settle};
use crate::Delay;

const SET: [&str; 3] = ["SET", "k", "v"];
const ANSWER: &str = "*3\r\n:1\r\n_\r\n$5\r\nhello\r\n";
const SCRIPT: &str = "redis.call('set', 'k', 'v') return {1, false, 'hello'}";

#[tokio::test(start_paused = true)]
async fn request_is_run_exactly_if_its_last_byte_arrived() {
    let request = frame(&SET);
    for cut in 0..=request.len() {
        let redis = Engine::new();
        let (dialer, control) = client(&redis);
        let mut raw = Raw::connect(&dialer).await;
        let connection = newest(&control);
        let before = connection.arrived(Direction::Requests);
        connection.cut_after(Direction::Requests, cut as u64);
        raw.send_bytes(&request).await;
        assert_eq!(raw.rest().await, b"", "cut at {cut}");
        settle().await;
        assert_eq!(connection.arrived(Direction::Requests) - before, cut as u64);
        assert_eq!(
            redis.dump().len(),
            usize::from(cut == request.len()),
            "cut at {cut}"
        );
        assert!(!connection.is_open() && control.connections().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn request_whose_answer_is_cut_was_run() {
    for cut in 0..=ANSWER.len() {
        let redis = Engine::new();
        let (dialer, control) = client(&redis);
        let mut raw = Raw::connect(&dialer).await;
        raw.send(&["EVAL", SCRIPT, "0"]).await;
        // A cut before the first byte would also lose the request, so let it run first.
        settle().await;
        newest(&control).cut_after(Direction::Replies, cut as u64);
        assert_eq!(raw.rest().await, &ANSWER.as_bytes()[..cut]);
        settle().await;
        assert_eq!(redis.dump().len(), 1);
        assert!(control.connections().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn next_connection_breaks_within_its_handshake() {
    let redis = Engine::new();
    let (dialer, control) = client(&redis);
    let hello = frame(&["HELLO", "3"]).len() as u64;
    for (direction, bytes) in [(Direction::Requests, hello - 1), (Direction::Replies, 10)] {
        control.cut_next_after(direction, bytes);
        let mut raw = Raw::dial(&dialer).unwrap();
        raw.send(&["HELLO", "3"]).await;
        let answered = if direction == Direction::Replies {
            10
        } else {
            0
        };
        assert_eq!(raw.rest().await.len(), answered);
    }
    Raw::connect(&dialer).await;
}

/// The request runs long after its client has reconnected.
#[tokio::test(start_paused = true)]
async fn request_of_a_broken_connection_may_run_later() {
    let late = Delay::fixed(Duration::from_millis(100));
    let faults = Faults {
        late_after_cut: 1.0,
        late,
        ..Faults::default()
    };
    let mut run_late = 0;
    for seed in 0..40 {
        let redis = Engine::new();
        let (dialer, control) = client(&redis);
        control.set_faults(faults.clone(), seed);
        let mut raw = Raw::connect(&dialer).await;
        raw.send(&["INCR", "k"]).await;
        raw.send(&["INCR", "k"]).await;
        let start = Instant::now();
        newest(&control).cut();
        assert_eq!(raw.rest().await, b"");
        assert!(start.elapsed().is_zero(), "its client knows at once");
        let mut again = Raw::connect(&dialer).await;
        assert_eq!(
            control.connections().len(),
            2,
            "the server still has the old one"
        );
        again.asks(&["GET", "k"], "_\r\n").await;
        sleep(Duration::from_millis(101)).await;
        settle().await;
        assert_eq!(control.connections().len(), 1);
        run_late += redis.dump().len();
    }
    assert!((5..35).contains(&run_late), "{run_late} of 40");
}

#[tokio::test(start_paused = true)]
async fn a_sent_request_runs_although_its_client_is_gone() {
    let late = Delay::fixed(Duration::from_millis(100));
    let request = Delay::fixed(Duration::from_millis(5));
    for (chance, at) in [(0.0, 5), (1.0, 100)] {
        let redis = Engine::new();
        let (dialer, control) = client(&redis);
        let faults = Faults {
            request,
            late_after_cut: chance,
            late,
            ..Faults::default()
        };
        control.set_faults(faults, 1);
        let mut raw = Raw::connect(&dialer).await;
        raw.send(&SET).await;
        drop(raw);
        sleep(Duration::from_millis(at - 1)).await;
        assert!(redis.dump().is_empty());
        sleep(Duration::from_millis(2)).await;
        settle().await;
        assert_eq!(redis.dump().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_sent_request_may_vanish_with_its_client() {
    let faults = Faults {
        lost_at_close: 1.0,
        ..Faults::default()
    };
    let mut run = 0;
    for seed in 0..60 {
        let redis = Engine::new();
        let (dialer, control) = client(&redis);
        control.set_faults(faults.clone(), seed);
        let mut raw = Raw::connect(&dialer).await;
        raw.send(&["SET", "k", "v"]).await;
        raw.send(&["SET", "l", "v"]).await;
        drop(raw);
        settle().await;
        run += redis.dump().len();
    }
    assert!((10..60).contains(&run), "{run} of 120");
}

#[tokio::test(start_paused = true)]
async fn part_of_an_answer_may_arrive_before_the_break() {
    let faults = Faults {
        torn_reply: 1.0,
        ..Faults::default()
    };
    let mut parts = std::collections::BTreeSet::new();
    for seed in 0..60 {
        let redis = Engine::new();
        let (dialer, control) = client(&redis);
        let mut raw = Raw::connect(&dialer).await;
        control.set_faults(faults.clone(), seed);
        raw.send(&["EVAL", SCRIPT, "0"]).await;
        settle().await;
        redis.cut();
        let heard = raw.rest().await;
        assert!(ANSWER.as_bytes().starts_with(&heard));
        parts.insert(heard.len());
    }
    assert!(parts.len() > 10, "{parts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_crashed_client_sends_and_receives_nothing_more() {
    let redis = Engine::new();
    let (dialer, control) = client(&redis);
    let mut raw = Raw::connect(&dialer).await;
    raw.send(&SET).await;
    control.crash();
    assert_eq!(raw.rest().await, b"");
    assert!(Raw::dial(&dialer).is_err());
    settle().await;
    assert!(redis.dump().is_empty() && redis.links().is_empty());
}

#[tokio::test(start_paused = true)]
async fn only_subscribers_lose_their_connection() {
    let redis = Engine::new();
    let (dialer, control) = client(&redis);
    let (mut calls, mut messages) = (Raw::connect(&dialer).await, Raw::connect(&dialer).await);
    messages
        .asks(
            &["SUBSCRIBE", "a"],
            ">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n",
        )
        .await;
    control.cut_pubsub();
    assert_eq!(messages.rest().await, b"");
    calls.asks(&["PING"], "+PONG\r\n").await;
    assert!(Raw::dial(&dialer).is_err());
    control.heal();
    Raw::connect(&dialer).await;
    assert_eq!(
        control
            .connections()
            .iter()
            .map(ConnectionControl::number)
            .collect::<Vec<_>>(),
        [1, 3]
    );
}
