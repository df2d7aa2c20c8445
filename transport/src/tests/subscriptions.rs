//! Subscriptions are confirmed, restored, and refused one by one.

use super::*;
use crate::connection::{Carries, Connection};
use crate::protocol::Protocol;
use crate::request::SubscribeRequest;
use leasehold_testbed::Proxy;
use leasehold_testbed::Reply;

/// How many connections listen to a channel, according to the server.
fn listeners(server: &Server, channel: &str) -> i64 {
    server.command(&["PUBSUB", "NUMSUB", channel]).array()[1].int()
}

#[tokio::test]
async fn every_message_after_a_subscription_arrives() {
    needs_a_server!();
    let server = Server::start();
    let testbed = Testbed::patient(&server).await;
    let mut publisher = server.connection();
    for round in 0..200 {
        let channel = format!("c{round}");
        testbed.subscribe(&channel).await.unwrap();
        let reply = publisher.command(&["PUBLISH", &channel, "x"]).unwrap();
        assert_eq!(reply, Reply::Int(1), "round {round}");
    }
    until("all messages are received", || {
        testbed.events.messages() == 200
    })
    .await;
    assert_eq!(testbed.events.missed(), 0);
    let first = testbed.events.messages.lock()[0].clone();
    assert_eq!(first, ("c0".to_owned(), b"x".to_vec()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_for_a_slow_consumer_arrives_or_is_reported() {
    needs_a_server!();
    let server = Server::start();
    let slow = Recorder {
        pause: Some(Duration::from_micros(20)),
        ..Recorder::default()
    };
    let testbed = Testbed::with(&server.url(), slow).await;
    testbed.subscribe("c").await.unwrap();
    // The consumer needs one or two seconds for all messages on a busy machine.
    let count = 20_000;
    let mut publisher = server.connection();
    let sent = std::thread::spawn(move || {
        for _ in 0..count {
            publisher.send(&["PUBLISH", "c", "x"]).unwrap();
        }
        (0..count).for_each(|_| assert_eq!(publisher.read().unwrap(), Reply::Int(1)));
    });
    sent.join().unwrap();
    until("each message arrives or is reported", || {
        testbed.events.messages() == count || testbed.events.missed() > 0
    })
    .await;
}

#[tokio::test]
async fn a_killed_subscriber_is_restored_and_reported() {
    needs_a_server!();
    let server = Server::start();
    let testbed = Testbed::patient(&server).await;
    let channels: Vec<Arc<str>> = (0..10_000).map(|i| Arc::from(format!("c{i}"))).collect();
    let all = channels
        .iter()
        .map(|channel| testbed.redis.subscribe(channel, PubSub::Plain));
    assert!(
        futures::future::join_all(all)
            .await
            .iter()
            .all(Result::is_ok)
    );
    testbed.redis.unsubscribe(&Arc::from("never subscribed"));
    server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    until("the loss of messages is reported", || {
        testbed.events.missed() > 0
    })
    .await;
    // When the loss is reported, everything has been restored.
    assert_eq!(
        server.command(&["PUBSUB", "CHANNELS"]).array().len(),
        10_000
    );
    server.command(&["PUBLISH", "c1100", "x"]);
    until("the message is received", || testbed.events.messages() == 1).await;
    assert_eq!(
        testbed.redis.epoch(Lane::Caller),
        0,
        "the command lanes are unharmed"
    );
}

#[tokio::test]
async fn a_loss_is_reported_when_every_channel_is_restored_and_not_before() {
    needs_a_server!();
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let testbed = Testbed::at(&proxy.url()).await;
    let channels: Vec<Arc<str>> = (0..1_100).map(|i| Arc::from(format!("c{i}"))).collect();
    for some in channels.chunks(100) {
        let all = some
            .iter()
            .map(|channel| testbed.redis.subscribe(channel, PubSub::Plain));
        assert!(
            futures::future::join_all(all)
                .await
                .iter()
                .all(Result::is_ok)
        );
    }
    // From now on, no restored channel is confirmed.
    proxy.swallow_messages();
    let before = proxy.accepted();
    server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    until("it was tried, and given up", || {
        proxy.accepted() > before + 1
    })
    .await;
    assert_eq!(
        testbed.events.missed(),
        0,
        "reported before the channels were restored"
    );
    assert_eq!(testbed.events.messages(), 0);
    proxy.flow();
    until("the loss of messages is reported", || {
        testbed.events.missed() > 0
    })
    .await;
    let mut publisher = server.connection();
    for channel in &channels {
        let heard = publisher.command(&["PUBLISH", channel, "x"]).unwrap();
        assert!(heard.int() > 0, "no client is subscribed to {channel}");
    }
    // Connections that were given up may still be open, but they deliver nothing.
    until("each has its message", || {
        testbed.events.messages() >= channels.len()
    })
    .await;
    let mut received: Vec<String> = testbed
        .events
        .messages
        .lock()
        .iter()
        .map(|(channel, _)| channel.clone())
        .collect();
    received.sort_unstable();
    received.dedup();
    assert_eq!(received.len(), channels.len());
}

/// Connects as a user who may subscribe to these channels only.
async fn limited_to(channels: &str, server: &Server) -> Testbed {
    let user = ["ACL", "SETUSER", "ann", "on", ">pw", "~*", "+@all"];
    server.command(&[&user[..], &["resetchannels", channels]].concat());
    Testbed::patient_at(&format!("redis://ann:pw@127.0.0.1:{}", server.port())).await
}

#[tokio::test]
async fn a_refused_channel_fails_alone() {
    needs_a_server!();
    let server = Server::start();
    let testbed = limited_to("&ok:*", &server).await;
    testbed.subscribe("ok:before").await.unwrap();
    let wanted = ["ok:1", "bad:1", "ok:2", "bad:2", "ok:3"];
    let outcomes =
        futures::future::join_all(wanted.map(|channel| testbed.subscribe(channel))).await;
    for (channel, outcome) in wanted.iter().zip(outcomes) {
        if channel.starts_with("ok") {
            assert_eq!(outcome, Ok(()), "{channel}");
            until("the channel is subscribed", || {
                listeners(&server, channel) == 1
            })
            .await;
        } else {
            let refused =
                matches!(&outcome, Err(CallError::Refused(fault)) if fault.0.contains("NOPERM"));
            assert!(refused, "{channel}: {outcome:?}");
        }
    }
    until("the other channels are restored", || {
        listeners(&server, "ok:before") == 1
    })
    .await;
    server.command(&["PUBLISH", "ok:before", "x"]);
    until("the message is received", || testbed.events.messages() == 1).await;
    for lane in LANES {
        assert_eq!(
            testbed.redis.epoch(lane),
            0,
            "the command lanes are unharmed"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_refusal_is_noticed_and_ends_no_connection() {
    needs_a_server!();
    let server = Server::start();
    let testbed = limited_to("&ok", &server).await;
    for _ in 0..100 {
        let (bad, good, worse) = futures::join!(
            testbed.subscribe("bad"),
            testbed.subscribe("ok"),
            testbed.subscribe("worse")
        );
        for refused in [bad, worse] {
            assert!(matches!(refused, Err(CallError::Refused(_))), "{refused:?}");
        }
        assert_eq!(good, Ok(()));
        testbed.redis.unsubscribe(&Arc::from("ok"));
    }
    assert_eq!(
        (testbed.redis.reconnects(), testbed.events.missed()),
        (0, 0)
    );
}

#[tokio::test]
async fn a_withdrawn_permission_affects_only_its_channels() {
    needs_a_server!();
    let server = Server::start();
    let testbed = limited_to("&*", &server).await;
    for channel in ["ok:1", "bad:1", "ok:2"] {
        testbed.subscribe(channel).await.unwrap();
    }
    server.command(&["ACL", "SETUSER", "ann", "resetchannels", "&ok:*"]);
    server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    until("the permitted channels are restored", || {
        ["ok:1", "ok:2"]
            .iter()
            .all(|channel| listeners(&server, channel) == 1)
    })
    .await;
    until("the loss of messages is reported", || {
        testbed.events.missed() > 0
    })
    .await;
    assert_eq!(testbed.subscribe("ok:3").await, Ok(()));
    assert_eq!(listeners(&server, "bad:1"), 0);
    assert_eq!(testbed.events.refused(), ["bad:1"]);

    // Nobody asks for it again, until somebody subscribes.
    server.command(&["ACL", "SETUSER", "ann", "&bad:*"]);
    server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    until("the others are restored", || {
        testbed.events.missed() > 1 && listeners(&server, "ok:3") == 1
    })
    .await;
    assert_eq!(listeners(&server, "bad:1"), 0);
    assert_eq!(testbed.subscribe("bad:1").await, Ok(()));
    assert_eq!(testbed.events.refused(), ["bad:1"]);
}

#[tokio::test]
async fn a_subscription_that_is_not_confirmed_is_not_reported_as_made() {
    needs_a_server!();
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let testbed = Testbed::at(&proxy.url()).await;
    proxy.swallow_replies();
    let outcome = testbed.subscribe("c").await;
    assert!(matches!(outcome, Err(CallError::Unknown(_))), "{outcome:?}");
    proxy.pass();
    let deadline = Instant::now() + SECOND * 5;
    while testbed.subscribe("d").await.is_err() {
        assert!(Instant::now() < deadline, "subscriptions do not work again");
        sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(listeners(&server, "d"), 1);
}

#[tokio::test]
async fn a_busy_server_keeps_its_subscriptions_and_refuses_none() {
    static SPIN: Script = Script::new("spin", "while true do end");
    needs_a_server!();
    let server = Server::start_with(&["--lua-time-limit", "10"]);
    let testbed = Testbed::new(&server).await;
    testbed.subscribe("before").await.unwrap();
    let redis = testbed.redis.clone();
    let spin = Call::new(&SPIN, [], []);
    let spinning = Handle::current().spawn(async move { redis.call(Lane::Background, spin).await });
    let deadline = Instant::now() + SECOND * 5;
    loop {
        match testbed.subscribe("during").await {
            Err(CallError::NotApplied(fault)) if fault.0.contains("BUSY") => break,
            Err(CallError::NotApplied(_) | CallError::Unknown(_)) | Ok(()) => {}
            other => panic!("{other:?}"),
        }
        testbed.redis.unsubscribe(&Arc::from("during"));
        assert!(Instant::now() < deadline, "never busy");
    }
    server.command(&["SCRIPT", "KILL"]);
    drop(spinning.await);
    until("the channel is restored", || {
        listeners(&server, "before") == 1
    })
    .await;
    while testbed.subscribe("after").await.is_err() {
        assert!(Instant::now() < deadline, "subscriptions do not work again");
    }
}

/// A caller waits for the channel, which was confirmed before, and gives up. Nobody else would ask
/// again.
#[test]
fn a_channel_that_a_caller_asks_for_again_is_restored_or_the_connection_is_not_used() {
    let registry = crate::subscriptions::SubscriptionRegistry::default();
    let connection = || {
        Arc::new(Connection::new(
            Box::new(tokio::io::sink()),
            Protocol::default(),
            &Arc::default(),
            Carries::Subscriptions,
        ))
    };
    let asked = |epoch, answer| SubscribeRequest {
        channel: Arc::from("c"),
        generation: 1,
        epoch,
        pubsub: PubSub::Plain,
        answer,
    };
    registry.connected(&connection(), 0);
    drop(registry.subscribe(&Arc::from("c"), PubSub::Plain).unwrap());
    registry.answered(asked(0, None), Ok(()));
    registry.disconnected();
    let (answer, caller) = tokio::sync::oneshot::channel();
    registry.interrupted(asked(0, Some(answer)));
    registry.connected(&connection(), 0);
    drop(caller);
    let busy = || CallError::NotApplied(Fault("BUSY".into()));
    let (answer, _) = tokio::sync::oneshot::channel();
    registry.answered(asked(1, Some(answer)), Err(busy()));
    assert_eq!(registry.restored(), Err(busy()));
}

/// While a connection is given up, its driver may be about to deliver a confirmation.
#[test]
fn confirmations_of_a_lost_connection_do_not_count_for_the_next() {
    let (registry, channel) = (
        crate::subscriptions::SubscriptionRegistry::default(),
        Arc::from("c"),
    );
    registry.connected(
        &Arc::new(Connection::new(
            Box::new(tokio::io::sink()),
            Protocol::default(),
            &Arc::default(),
            Carries::Subscriptions,
        )),
        0,
    );
    let first = registry.subscribe(&channel, PubSub::Plain).unwrap();
    registry.disconnected();
    drop(first);
    let late = SubscribeRequest {
        channel: channel.clone(),
        generation: 1,
        epoch: 0,
        pubsub: PubSub::Plain,
        answer: None,
    };
    registry.answered(late, Ok(()));
    let mut second = registry.subscribe(&channel, PubSub::Plain).unwrap();
    second
        .try_recv()
        .expect_err("no connection is subscribed to it");
}
