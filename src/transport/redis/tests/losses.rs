//! A connection goes away, noisily or silently, while calls are under way.

use std::pin::pin;
use std::task::Poll;

use super::support::proxy::Proxy;
use super::*;

#[tokio::test]
async fn a_call_whose_reply_is_lost_is_unknown_and_executed_once() {
    needs_a_server!();
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let bed = Bed::at(&proxy.url()).await;
    for lane in LANES {
        bed.until_up(lane).await;
        let before = count(&server, "n");
        let epoch = bed.redis.epoch(lane);
        proxy.swallow_replies();
        let call = bed.add(lane, "n");
        tokio::pin!(call);
        assert!(futures::poll!(&mut call).is_pending());
        tokio::select! {
            outcome = &mut call => panic!("{outcome:?}"),
            () = until("the call is executed", || count(&server, "n") > before) => {}
        }
        proxy.pass();
        let outcome = call.await;
        assert!(matches!(outcome, Err(CallError::Unknown(_))), "{outcome:?}");
        bed.until_up(lane).await;
        assert!(bed.redis.epoch(lane) > epoch);
        assert_eq!(count(&server, "n"), before + 1, "executed once");
    }
    until("the lanes are reported", || LANES.iter().all(|lane| bed.sink.restored(*lane))).await;
}

#[tokio::test]
async fn a_killed_connection_is_noticed_and_made_again() {
    needs_a_server!();
    let server = Server::start();
    let bed = Bed::new(&server).await;
    let before = bed.redis.epoch(Lane::Caller);
    server.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    until("the loss is noticed", || bed.redis.epoch(Lane::Caller) > before).await;
    for lane in LANES {
        bed.until_up(lane).await;
        until("the lane is reported", || bed.sink.restored(lane)).await;
    }
    assert!(bed.redis.reconnects() >= 2);
    until("they have their names", || server.clients("name=leasehold:test").len() == 3).await;
}

#[tokio::test]
async fn without_a_server_calls_fail_at_once_and_are_not_applied() {
    needs_a_server!();
    let mut server = Server::start();
    let bed = Bed::new(&server).await;
    server.kill();
    for lane in LANES {
        until("the loss is noticed", || bed.redis.epoch(lane) > 0).await;
        // At the first poll: nothing is waited for.
        let outcome = futures::poll!(pin!(bed.add(lane, "n")));
        assert!(matches!(outcome, Poll::Ready(Err(CallError::NotApplied(_)))), "{outcome:?}");
    }
    // While the first attempt is under way a subscription may wait; then it must not.
    let deadline = Instant::now() + SECOND * 10;
    loop {
        let mut subscribing = Box::pin(bed.subscribe("c"));
        if let Poll::Ready(outcome) = futures::poll!(&mut subscribing) {
            assert!(matches!(outcome, Err(CallError::NotApplied(_))), "{outcome:?}");
            break;
        }
        let outcome = subscribing.await;
        assert!(matches!(outcome, Err(CallError::NotApplied(_))), "{outcome:?}");
        assert!(Instant::now() < deadline, "it always waits");
    }
    server.restart();
    for lane in LANES {
        bed.until_up(lane).await;
    }
}

#[tokio::test]
async fn a_stopped_server_is_unknown_within_the_time_out_and_then_given_up() {
    needs_a_server!();
    let server = Server::start();
    let bed = Bed::new(&server).await;
    bed.add(Lane::Caller, "n").await.unwrap();
    let epochs = LANES.map(|lane| bed.redis.epoch(lane));
    server.pause();
    let outcome = bed.add(Lane::Caller, "n").await;
    assert!(matches!(outcome, Err(CallError::Unknown(_))), "{outcome:?}");
    for (lane, epoch) in LANES.into_iter().zip(epochs) {
        until("the probe gives it up", || bed.redis.epoch(lane) > epoch).await;
        let outcome = bed.add(lane, "n").await;
        assert!(matches!(outcome, Err(CallError::NotApplied(_))), "{outcome:?}");
    }
    server.resume();
    for lane in LANES {
        bed.until_up(lane).await;
    }
}

#[tokio::test]
async fn a_half_open_link_is_given_up_and_made_again() {
    needs_a_server!();
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let bed = Bed::at(&proxy.url()).await;
    bed.subscribe("c").await.unwrap();
    let (accepted, missed) = (proxy.accepted(), bed.sink.missed());
    proxy.half_open();
    // Calls that keep timing out must not hide the silence.
    until_given_up(&bed).await;
    until("it tries again", || proxy.accepted() > accepted).await;
    proxy.flow();
    for lane in LANES {
        bed.until_up(lane).await;
    }
    until("the subscriber is back", || bed.sink.missed() > missed).await;
    server.command(&["PUBLISH", "c", "x"]);
    until("it receives", || bed.sink.messages() > 0).await;
}

async fn until_given_up(bed: &Bed) {
    let deadline = Instant::now() + SECOND * 5;
    while LANES.iter().any(|lane| bed.redis.epoch(*lane) == 0) {
        assert!(Instant::now() < deadline, "not given up");
        let outcome = bed.add(Lane::Caller, "n").await;
        assert!(outcome.is_err(), "{outcome:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_losses_never_repeats_a_call() {
    needs_a_server!();
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let bed = Bed::at(&proxy.url()).await;
    bed.add(Lane::Caller, "n").await.unwrap();
    let (mut certain, mut unknown) = (1, 0);
    for round in 0..40 {
        let calls: Vec<_> = (0..20).map(|_| bed.add(Lane::Caller, "n")).collect();
        let mut calls = Box::pin(futures::future::join_all(calls));
        let _sent = futures::poll!(&mut calls);
        if round % 4 == 0 {
            proxy.cut();
        }
        let outcomes = calls.await;
        for outcome in outcomes {
            match outcome {
                Ok(_) => certain += 1,
                Err(CallError::Unknown(_)) => unknown += 1,
                Err(CallError::NotApplied(_)) => {}
                other => panic!("{other:?}"),
            }
        }
        let lane = Lane::Caller;
        until("the lane is back", || bed.redis.shared.line(lane).connection().is_ok()).await;
    }
    // A cut may leave requests on their way to the server: they count as unknown, too.
    let executed = count(&server, "n");
    assert!(
        (certain..=certain + unknown).contains(&executed),
        "executed {executed}, certain {certain}, unknown {unknown}"
    );
}

#[tokio::test]
async fn a_demoted_server_is_connected_to_again_but_not_for_each_call() {
    needs_a_server!();
    let server = Server::start();
    let bed = Bed::new(&server).await;
    bed.add(Lane::Caller, "n").await.unwrap();
    server.command(&["REPLICAOF", "127.0.0.1", "1"]);
    let started = Instant::now();
    let mut calls = 0;
    while bed.redis.reconnects() < 2 {
        assert!(started.elapsed() < SECOND * 30, "not connected to again");
        drop(bed.add(Lane::Caller, "n").await);
        calls += 1;
    }
    assert!(calls > 20, "{calls} calls, {:?}", started.elapsed());
    assert!(started.elapsed() > SECOND);
    server.command(&["REPLICAOF", "NO", "ONE"]);
    bed.until_up(Lane::Caller).await;
}
