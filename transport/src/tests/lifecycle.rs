//! Runtimes that end or are blocked, and closing without leaving anything behind.

use super::*;
use leasehold_testbed::Proxy;

fn ours(server: &Server) -> usize {
    server.clients("name=leasehold:test").len()
}

#[tokio::test]
async fn closing_leaves_no_connection_and_no_task() {
    needs_a_server!();
    let server = Server::start();
    let testbed = Testbed::new(&server).await;
    testbed.subscribe("c").await.unwrap();
    assert_eq!(ours(&server), 3);
    let here = Handle::current().metrics();
    testbed.redis.close().await;
    let closed = Err(CallError::Closed);
    for lane in LANES {
        assert_eq!(testbed.add(lane, "n").await.map(drop), closed);
    }
    assert_eq!(testbed.subscribe("d").await, closed);
    testbed.redis.unsubscribe(&Arc::from("c"));
    until("no connection is left", || ours(&server) == 0).await;
    until("no task is left", || {
        testbed.own.tasks() == 0 && here.num_alive_tasks() == 0
    })
    .await;
    testbed.redis.close().await;
    assert_eq!(testbed.events.missed(), 0);
}

#[tokio::test]
async fn calls_in_flight_are_answered_before_the_connection_closes() {
    needs_a_server!();
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let testbed = Testbed::at(&proxy.url()).await;
    testbed.add(Lane::Background, "n").await.unwrap();
    proxy.delay_replies(Duration::from_millis(50));
    let call = testbed.add(Lane::Background, "n");
    let close = async {
        tokio::task::yield_now().await;
        testbed.redis.close().await;
    };
    let (outcome, ()) = futures::future::join(call, close).await;
    assert_eq!(outcome, Ok(2));
}

#[tokio::test]
async fn closing_waits_for_an_unsubscription_no_longer_than_it_takes() {
    needs_a_server!();
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let testbed = Testbed::at(&proxy.url()).await;
    testbed.subscribe("c").await.unwrap();
    proxy.delay_replies(CLOSING_MAX / 10);
    testbed.redis.unsubscribe(&Arc::from("c"));
    let since = Instant::now();
    testbed.redis.close().await;
    assert!(
        since.elapsed() < CLOSING_MAX * 9 / 10,
        "{:?}",
        since.elapsed()
    );
}

#[tokio::test]
async fn closing_is_bounded_when_the_server_is_silent_or_gone() {
    needs_a_server!();
    let mut server = Server::start();
    let testbed = Testbed::new(&server).await;
    server.pause();
    timeout(SECOND * 10, testbed.redis.close())
        .await
        .expect("closing takes a bounded time");
    until("no task is left", || testbed.own.tasks() == 0).await;
    server.resume();

    let testbed = Testbed::new(&server).await;
    server.kill();
    until("the loss is noticed", || {
        testbed.redis.epoch(Lane::Caller) > 0
    })
    .await;
    timeout(SECOND * 10, testbed.redis.close())
        .await
        .expect("closing takes a bounded time");
    until("no task is left", || testbed.own.tasks() == 0).await;
}

#[tokio::test]
async fn dropping_without_closing_leaves_nothing_behind() {
    needs_a_server!();
    let server = Server::start();
    let testbed = Testbed::new(&server).await;
    let here = Handle::current().metrics();
    testbed.subscribe("c").await.unwrap();
    let Testbed { redis, own, .. } = testbed;
    drop(redis);
    until("no connection is left", || ours(&server) == 0).await;
    until("no task is left", || {
        own.tasks() == 0 && here.num_alive_tasks() == 0
    })
    .await;
}

#[tokio::test]
async fn a_dropped_connect_leaves_nothing() {
    needs_a_server!();
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let own = OwnRuntime::new();
    let here = Handle::current().metrics();
    proxy.delay_replies(Duration::from_millis(20));
    for polls in 1..8 {
        let url = proxy.url();
        let connecting = connect(&url, Arc::new(Recorder::default()), own.handle());
        drop(timeout(Duration::from_millis(polls * 15), connecting).await);
    }
    until("no task is left", || {
        own.tasks() == 0 && here.num_alive_tasks() == 0
    })
    .await;
    until("no connection is left", || server.clients("").len() == 1).await;
}

#[test]
fn connections_move_to_our_runtime_when_that_of_the_caller_ends() {
    needs_a_server!();
    let server = Server::start();
    let own = OwnRuntime::new();
    let events = Arc::new(Recorder::default());
    let callers = Builder::new_current_thread().enable_all().build().unwrap();
    let redis = callers.block_on(async {
        let redis = connect(&server.url(), events.clone(), own.handle())
            .await
            .unwrap();
        redis
            .subscribe(&Arc::from("c"), PubSub::Plain)
            .await
            .unwrap();
        redis.call(Lane::Caller, add("n")).await.unwrap();
        Arc::new(redis)
    });
    let epoch = redis.epoch(Lane::Caller);
    drop(callers);

    let testbed = Testbed { redis, events, own };
    let others = Builder::new_current_thread().enable_all().build().unwrap();
    others.block_on(async {
        testbed.until_up(Lane::Caller).await;
        assert!(testbed.redis.epoch(Lane::Caller) > epoch);
        assert_eq!(
            testbed.redis.epoch(Lane::Background),
            0,
            "our own lane is unharmed"
        );
        until("the loss of messages is reported", || {
            testbed.events.missed() > 0
        })
        .await;
        until("the lane is restored", || {
            testbed.events.restored(Lane::Caller)
        })
        .await;
        server.command(&["PUBLISH", "c", "x"]);
        until("the message is received", || testbed.events.messages() == 1).await;
        testbed.subscribe("d").await.unwrap();
        // The same happens when the connection on our runtime is lost.
        server.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        testbed.until_up(Lane::Caller).await;
        testbed.redis.close().await;
        until("no connection is left", || ours(&server) == 0).await;
        until("no task is left", || testbed.own.tasks() == 0).await;
    });
}

#[test]
fn connections_move_to_our_runtime_when_that_of_the_caller_is_blocked() {
    needs_a_server!();
    let server = Server::start();
    let (testbed, callers) = Testbed::on_a_runtime_that_stands_still(&server);
    let others = Builder::new_current_thread().enable_all().build().unwrap();
    others.block_on(async {
        let outcome = testbed.add(Lane::Caller, "n").await;
        assert!(matches!(outcome, Err(CallError::Unknown(_))), "{outcome:?}");
        testbed.until_up(Lane::Caller).await;
        assert_eq!(testbed.redis.epoch(Lane::Background), 0);
        until("the loss of messages is reported", || {
            testbed.events.missed() > 0
        })
        .await;
        testbed.subscribe("c").await.unwrap();
        testbed.redis.close().await;
    });
    drop(callers);
    others.block_on(until("no connection is left", || ours(&server) == 0));
}

#[test]
fn names_are_resolved_while_all_blocking_threads_of_the_caller_wait() {
    needs_a_server!();
    let server = Server::start();
    let own = OwnRuntime::new();
    let callers = Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(1)
        .enable_all()
        .build();
    let callers = callers.unwrap();
    let (end, is_over) = std::sync::mpsc::channel::<()>();
    drop(callers.spawn_blocking(move || is_over.recv().unwrap_err()));
    let url = server.url().replace("127.0.0.1", "localhost");
    let connecting = connect(&url, Arc::new(Recorder::default()), own.handle());
    let redis = callers.block_on(connecting).map(Arc::new);
    drop(end);
    let call = redis.unwrap();
    assert_eq!(
        callers.block_on(call.call(Lane::Caller, add("n"))),
        Ok(Value::Int(1))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_runtime_that_pauses_keeps_its_connections() {
    needs_a_server!();
    let server = Server::start();
    let testbed = Testbed::new(&server).await;
    testbed.add(Lane::Caller, "n").await.unwrap();
    let epoch = testbed.redis.epoch(Lane::Caller);
    // Blocks the only worker for several probe intervals, as careless code does.
    let blocked = Handle::current().spawn(async {
        #[expect(clippy::disallowed_methods, reason = "blocking is the point")]
        std::thread::sleep(Duration::from_millis(1_500));
    });
    blocked.await.unwrap();
    assert_eq!(testbed.add(Lane::Caller, "n").await, Ok(2));
    assert_eq!(testbed.redis.epoch(Lane::Caller), epoch);
    assert_eq!(testbed.redis.reconnects(), 0);
}
