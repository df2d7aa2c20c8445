//! When connections are given up, and how often and in which order they are replaced.

use super::memory::{
    CALLER, Ending, MESSAGES, MemoryServer, MemoryTestbed, PRIMARY_CONNECTION, echo, usual,
};
use super::*;

fn call() -> Call {
    Call::new(&ECHO, [], ["x".into()])
}

fn is_up(testbed: &MemoryTestbed, lane: Lane) -> bool {
    testbed.redis.shared.slot(lane).connection().is_ok()
}

fn are_up(testbed: &MemoryTestbed) -> bool {
    LANES.iter().all(|lane| is_up(testbed, *lane)) && testbed.server.living().len() == 3
}

/// Ends all connections, after `change` has prepared the server.
async fn lose(testbed: &MemoryTestbed, change: impl FnOnce(&MemoryServer)) {
    change(&testbed.server);
    testbed
        .server
        .living()
        .iter()
        .for_each(|socket| socket.end(Ending::Closed));
    until("the loss is noticed", || {
        !LANES.iter().any(|lane| is_up(testbed, *lane))
    })
    .await;
}

/// Otherwise many clients whose handshakes time out would keep the server from completing any.
#[tokio::test(start_paused = true)]
async fn a_silent_server_is_tried_rarely_and_by_one_connection() {
    let testbed = MemoryTestbed::new(MemoryServer::answering(echo)).await;
    lose(&testbed, MemoryServer::falls_silent).await;
    let before = testbed.server.dials();
    for _ in 0..600 {
        assert!(
            testbed.server.living().len() <= 1,
            "another connection did not wait for the primary connection"
        );
        sleep(SECOND / 2).await;
    }
    let dials = testbed.server.dials() - before;
    assert!(
        (8..=40).contains(&dials),
        "{dials} attempts in five minutes"
    );
    testbed.server.answers_again();
    let start = Instant::now();
    while !are_up(&testbed) {
        assert!(start.elapsed() < SECOND * 31, "{:?}", start.elapsed());
        sleep(SECOND / 10).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_is_tried_again_soon_and_by_one_connection() {
    let testbed = MemoryTestbed::new(MemoryServer::answering(echo)).await;
    lose(&testbed, MemoryServer::refuse).await;
    let before = testbed.server.dials();
    sleep(SECOND * 60).await;
    let dials = testbed.server.dials() - before;
    assert!((40..=130).contains(&dials), "{dials} attempts in a minute");
    testbed.server.accept();
    let start = Instant::now();
    until("the connections are back", || are_up(&testbed)).await;
    assert!(start.elapsed() < SECOND * 2, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn after_a_connection_that_lasted_the_next_is_made_at_once() {
    let testbed = MemoryTestbed::new(MemoryServer::answering(echo)).await;
    for round in 0..10 {
        lose(&testbed, MemoryServer::refuse).await;
        // The pauses grow.
        sleep(SECOND * 30).await;
        testbed.server.accept();
        until("the connections are back", || are_up(&testbed)).await;
        sleep(SECOND * 2).await;
        lose(&testbed, |_| {}).await;
        let start = Instant::now();
        until("the connections are back again", || are_up(&testbed)).await;
        assert!(
            start.elapsed() < SECOND / 20,
            "{round}: {:?}",
            start.elapsed()
        );
        sleep(SECOND * 2).await;
    }
}

/// A client pauses before it reconnects to a server that closes each connection at once.
#[tokio::test(start_paused = true)]
async fn connections_that_do_not_last_are_made_more_and_more_rarely() {
    let testbed = MemoryTestbed::new(MemoryServer::answering(echo)).await;
    let before = testbed.server.dials();
    let start = Instant::now();
    while start.elapsed() < SECOND * 60 {
        testbed
            .server
            .living()
            .iter()
            .for_each(|socket| socket.end(Ending::Closed));
        sleep(Duration::from_millis(1)).await;
    }
    let dials = testbed.server.dials() - before;
    assert!(dials < 300, "{dials} connections in a minute");
}

/// A client that cannot renew must not acquire.
#[tokio::test(start_paused = true)]
async fn on_a_server_with_few_free_connections_renewals_come_first() {
    for places in [1, 2] {
        let server = MemoryServer::answering(echo);
        server.has_places(places);
        let later = (TIMING, IfUnreachable::RetryLater);
        let testbed = MemoryTestbed::of(server.clone(), server.remote(), later)
            .await
            .unwrap();
        until("the primary connection is connected", || {
            is_up(&testbed, Lane::Background)
        })
        .await;
        // Another client gets the connection that the primary connection had.
        server.has_places(0);
        until("all connections are up", || are_up(&testbed)).await;
        sleep(SECOND * 2).await;
        server.has_places(places);
        testbed.server.living()[PRIMARY_CONNECTION].end(Ending::Closed);
        until("the loss is noticed", || !is_up(&testbed, Lane::Background)).await;
        until(
            "the primary connection has replaced another connection",
            || is_up(&testbed, Lane::Background),
        )
        .await;
    }
}

/// The caller's runtime may be blocked. The primary connection is on our own thread nevertheless.
#[tokio::test(start_paused = true)]
async fn other_connections_do_not_delay_the_primary_connection() {
    // Pauses have random jitter, so try several times.
    for _ in 0..10 {
        let testbed = MemoryTestbed::new(MemoryServer::answering(echo)).await;
        sleep(SECOND * 2).await;
        testbed.server.falls_silent();
        testbed.server.socket(CALLER).end(Ending::Closed);
        testbed.server.socket(MESSAGES).end(Ending::Closed);
        sleep(SECOND * 60).await;
        // Another connection waits for the answer to its attempt when the primary connection is
        // lost.
        let start = Instant::now();
        while testbed.server.living().len() == 1 {
            assert!(
                start.elapsed() < SECOND * 40,
                "the connections are not back in time"
            );
            sleep(SECOND / 100).await;
        }
        testbed.server.answers_again();
        testbed
            .server
            .socket(PRIMARY_CONNECTION)
            .end(Ending::Closed);
        let start = Instant::now();
        until("the primary connection is there", || {
            is_up(&testbed, Lane::Background)
        })
        .await;
        assert!(start.elapsed() < SECOND / 10, "{:?}", start.elapsed());
        until("and the others follow it", || are_up(&testbed)).await;
        assert!(start.elapsed() < SECOND * 2, "{:?}", start.elapsed());
    }
}

/// A server that is busy with a slow command is not given up before its calls time out.
#[tokio::test(start_paused = true)]
async fn a_server_is_not_given_up_before_its_calls_time_out() {
    let server = MemoryServer::answering(echo);
    let patient = Timing {
        command: SECOND * 10,
        connect: SECOND,
        ..TIMING
    };
    let patient = (patient, IfUnreachable::Fail);
    let testbed = MemoryTestbed::of(server.clone(), server.remote(), patient)
        .await
        .unwrap();
    for socket in server.sockets() {
        socket.at(|state| state.replies = 0);
    }
    let stalled = testbed.started(call());
    // A slow command such as WAIT, which blocks its own connection.
    let redis = testbed.redis.clone();
    let command = Handle::current().spawn(async move {
        redis
            .command(Lane::Background, &[b"WAIT", b"1", b"9000"])
            .await
    });
    sleep(SECOND * 9).await;
    for socket in server.sockets() {
        socket.at(|state| state.replies = usize::MAX);
    }
    assert_eq!(stalled.await, Ok(Value::Text("x".into())));
    assert!(command.await.unwrap().is_ok());
    assert_eq!(testbed.redis.reconnects(), 0);
    // The connections are given up in the end.
    for socket in server.sockets() {
        socket.at(|state| state.replies = 0);
    }
    let start = Instant::now();
    while testbed.redis.reconnects() == 0 {
        assert!(start.elapsed() < SECOND * 20, "the silence was not noticed");
        sleep(SECOND / 10).await;
    }
}

/// The answers of a server that was demoted or forgot the login.
#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_a_connection_is_left_by_all_of_them() {
    for refusal in [
        "-READONLY You can't write",
        "-NOAUTH Authentication required.",
    ] {
        let refuses = Arc::new(std::sync::atomic::AtomicBool::new(true));
        let still = refuses.clone();
        let server = MemoryServer::answering(move |words| match words[0].as_str() {
            "EVALSHA" if still.load(Ordering::SeqCst) => format!("{refusal}\r\n").into_bytes(),
            _ => echo(words),
        });
        let testbed = MemoryTestbed::new(server).await;
        let start = Instant::now();
        // The client calls without a pause, but reconnects much less often.
        while start.elapsed() < SECOND * 10 {
            let outcome = testbed.redis.call(Lane::Caller, call()).await;
            assert!(
                matches!(outcome, Err(CallError::NotApplied(_))),
                "{refusal}: {outcome:?}"
            );
            sleep(SECOND / 100).await;
        }
        let dials = testbed.server.dials();
        assert!((15..=33).contains(&dials), "{refusal}: {dials} connections");
        assert!(
            testbed.redis.epoch(Lane::Background) > 4,
            "{refusal}: the others, too"
        );
        refuses.store(false, Ordering::SeqCst);
        until("the connections are back", || are_up(&testbed)).await;
        assert_eq!(
            testbed.redis.call(Lane::Caller, call()).await,
            Ok(Value::Text("x".into()))
        );
        assert_eq!(testbed.events.changed(), 0, "another server was reported");
    }
}

/// Some proxies answer PING themselves, without its argument.
#[tokio::test(start_paused = true)]
async fn a_proxy_that_answers_pong_keeps_its_connections() {
    let pong = |words: &[String]| match words[0].as_str() {
        "PING" => b"+PONG\r\n".to_vec(),
        _ => echo(words),
    };
    let testbed = MemoryTestbed::new(MemoryServer::answering(pong)).await;
    sleep(SECOND * 10).await;
    assert_eq!(testbed.redis.reconnects(), 0);
    // A missing reply is detected nevertheless: PONG comes too early, or another reply comes in its
    // place.
    let mut skipped = 0;
    let testbed = MemoryTestbed::new(MemoryServer::answering(move |words| {
        skipped += usize::from(words[0] == "EVALSHA");
        if words[0] == "EVALSHA" && skipped == 2 {
            Vec::new()
        } else {
            pong(words)
        }
    }))
    .await;
    sleep(SECOND * 3).await;
    assert!(testbed.redis.call(Lane::Caller, call()).await.is_ok());
    let lost = testbed.redis.call(Lane::Caller, call()).await;
    assert!(matches!(lost, Err(CallError::Unknown(_))), "{lost:?}");
    until("the connection is given up", || {
        testbed.redis.epoch(Lane::Caller) == 1
    })
    .await;
}

/// The server behind the proxy is dead. Otherwise its connections would stay for as long as there
/// are calls: each answer to a PING would be taken for the reply to a call that has timed out.
#[tokio::test(start_paused = true)]
async fn a_proxy_that_answers_only_ping_loses_its_connections() {
    for echoes in [true, false] {
        let dead = Arc::new(AtomicUsize::new(0));
        let is_dead = dead.clone();
        let server = MemoryServer::answering(move |words| match words[0].as_str() {
            "PING" if echoes => echo(words),
            "PING" => b"+PONG\r\n".to_vec(),
            _ if is_dead.load(Ordering::SeqCst) > 0 => Vec::new(),
            _ => echo(words),
        });
        let testbed = MemoryTestbed::new(server).await;
        assert!(testbed.redis.call(Lane::Caller, call()).await.is_ok());
        dead.store(1, Ordering::SeqCst);
        let (start, mut calls) = (Instant::now(), Vec::new());
        while testbed.redis.epoch(Lane::Caller) == 0 {
            assert!(start.elapsed() < SECOND * 2, "it is kept, {echoes}");
            // Calls that time out together are followed by one PING.
            calls.extend((0..20).map(|_| testbed.started(call())));
            sleep(SECOND / 100).await;
        }
        for outcome in futures::future::join_all(calls).await {
            assert!(matches!(outcome, Err(CallError::Unknown(_))), "{outcome:?}");
        }
        dead.store(0, Ordering::SeqCst);
        until("the connections are back", || are_up(&testbed)).await;
        assert!(testbed.redis.call(Lane::Caller, call()).await.is_ok());
    }
}

/// A server may have answered before a write to its connection fails.
#[tokio::test(start_paused = true)]
async fn replies_that_have_arrived_count_although_a_write_fails() {
    let testbed = MemoryTestbed::new(MemoryServer::answering(usual)).await;
    let socket = testbed.server.socket(CALLER);
    socket.at(|state| state.replies = 0);
    // Only one call, because with several the driver would read before it writes.
    let under_way = testbed.started(call());
    tokio::task::yield_now().await;
    socket.at(|state| {
        (state.room, state.breaks) = (0, true);
        state.replies = usize::MAX;
    });
    let broken = testbed.redis.call(Lane::Caller, call()).await;
    assert!(
        matches!(broken, Err(CallError::NotApplied(_))),
        "{broken:?}"
    );
    assert_eq!(under_way.await, Ok(Value::Nil));
}
