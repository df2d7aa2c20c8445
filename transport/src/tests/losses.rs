//! A connection goes away, noisily or silently, while calls are in flight.

use std::pin::pin;
use std::task::Poll;

use super::*;
use leasehold_testbed::Proxy;

#[tokio::test]
async fn without_a_server_calls_fail_at_once_and_are_not_applied() {
    needs_a_server!();
    let mut server = Server::start();
    let testbed = Testbed::new(&server).await;
    server.kill();
    for lane in LANES {
        until("the loss is noticed", || testbed.redis.epoch(lane) > 0).await;
        // The call fails at its first poll, without waiting.
        let outcome = futures::poll!(pin!(testbed.add(lane, "n")));
        assert!(
            matches!(outcome, Poll::Ready(Err(CallError::NotApplied(_)))),
            "{outcome:?}"
        );
    }
    // A subscription may wait during the first attempt to reconnect, but not after it.
    let deadline = Instant::now() + SECOND * 10;
    loop {
        let mut subscribing = Box::pin(testbed.subscribe("c"));
        if let Poll::Ready(outcome) = futures::poll!(&mut subscribing) {
            assert!(
                matches!(outcome, Err(CallError::NotApplied(_))),
                "{outcome:?}"
            );
            break;
        }
        let outcome = subscribing.await;
        assert!(
            matches!(outcome, Err(CallError::NotApplied(_))),
            "{outcome:?}"
        );
        assert!(Instant::now() < deadline, "a subscription waits every time");
    }
    server.restart();
    for lane in LANES {
        testbed.until_up(lane).await;
    }
}

#[tokio::test]
async fn calls_to_a_stopped_server_are_unknown_within_the_timeout() {
    needs_a_server!();
    let server = Server::start();
    let testbed = Testbed::new(&server).await;
    testbed.add(Lane::Caller, "n").await.unwrap();
    let epochs = LANES.map(|lane| testbed.redis.epoch(lane));
    server.pause();
    let outcome = testbed.add(Lane::Caller, "n").await;
    assert!(matches!(outcome, Err(CallError::Unknown(_))), "{outcome:?}");
    for (lane, epoch) in LANES.into_iter().zip(epochs) {
        until("the probe gives it up", || {
            testbed.redis.epoch(lane) > epoch
        })
        .await;
        let outcome = testbed.add(lane, "n").await;
        assert!(
            matches!(outcome, Err(CallError::NotApplied(_))),
            "{outcome:?}"
        );
    }
    server.resume();
    for lane in LANES {
        testbed.until_up(lane).await;
    }
}

#[tokio::test]
async fn a_half_open_connection_is_given_up_and_replaced() {
    needs_a_server!();
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let testbed = Testbed::at(&proxy.url()).await;
    testbed.subscribe("c").await.unwrap();
    let (accepted, missed) = (proxy.accepted(), testbed.events.missed());
    proxy.half_open();
    // Calls that keep timing out must not hide the silence.
    until_given_up(&testbed).await;
    until("the client tries again", || proxy.accepted() > accepted).await;
    proxy.flow();
    for lane in LANES {
        testbed.until_up(lane).await;
    }
    until("the subscriber is back", || {
        testbed.events.missed() > missed
    })
    .await;
    server.command(&["PUBLISH", "c", "x"]);
    until("the message is received", || testbed.events.messages() > 0).await;
}

async fn until_given_up(testbed: &Testbed) {
    let deadline = Instant::now() + SECOND * 5;
    while LANES.iter().any(|lane| testbed.redis.epoch(*lane) == 0) {
        assert!(Instant::now() < deadline, "the connection was not given up");
        let outcome = testbed.add(Lane::Caller, "n").await;
        assert!(outcome.is_err(), "{outcome:?}");
    }
}

#[tokio::test]
async fn calls_to_a_demoted_server_do_not_each_reconnect() {
    needs_a_server!();
    let server = Server::start();
    let testbed = Testbed::new(&server).await;
    testbed.add(Lane::Caller, "n").await.unwrap();
    server.command(&["REPLICAOF", "127.0.0.1", "1"]);
    let started = Instant::now();
    let mut calls = 0;
    while testbed.redis.reconnects() < 2 {
        assert!(
            started.elapsed() < SECOND * 30,
            "the client did not reconnect"
        );
        drop(testbed.add(Lane::Caller, "n").await);
        calls += 1;
    }
    assert!(calls > 20, "{calls} calls, {:?}", started.elapsed());
    assert!(started.elapsed() > SECOND);
    server.command(&["REPLICAOF", "NO", "ONE"]);
    testbed.until_up(Lane::Caller).await;
}
