//! Runtimes that end or stand still, and closing without leaving anything behind.

use super::support::proxy::Proxy;
use super::*;

fn ours(server: &Server) -> usize {
    server.clients("name=leasehold:test").len()
}

#[tokio::test]
async fn closing_leaves_no_connection_and_no_task() {
    needs_a_server!();
    let server = Server::start();
    let bed = Bed::new(&server).await;
    bed.subscribe("c").await.unwrap();
    assert_eq!(ours(&server), 3);
    let here = Handle::current().metrics();
    bed.redis.close().await;
    let closed = Err(CallError::Closed);
    for lane in LANES {
        assert_eq!(bed.add(lane, "n").await.map(drop), closed);
    }
    assert_eq!(bed.subscribe("d").await, closed);
    bed.redis.unsubscribe(&Arc::from("c"));
    until("no connection is left", || ours(&server) == 0).await;
    until("no task is left", || bed.own.tasks() == 0 && here.num_alive_tasks() == 0).await;
    bed.redis.close().await;
    assert_eq!(bed.sink.missed(), 0);
}

#[tokio::test]
async fn calls_that_are_under_way_are_answered_before_the_end() {
    needs_a_server!();
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let bed = Bed::at(&proxy.url()).await;
    bed.add(Lane::Background, "n").await.unwrap();
    proxy.delay_replies(Duration::from_millis(50));
    let call = bed.add(Lane::Background, "n");
    let close = async {
        tokio::task::yield_now().await;
        bed.redis.close().await;
    };
    let (outcome, ()) = futures::future::join(call, close).await;
    assert_eq!(outcome, Ok(2));
}

#[tokio::test]
async fn closing_waits_for_an_unsubscription_no_longer_than_it_takes() {
    needs_a_server!();
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let bed = Bed::at(&proxy.url()).await;
    bed.subscribe("c").await.unwrap();
    proxy.delay_replies(CLOSING_MAX / 10);
    bed.redis.unsubscribe(&Arc::from("c"));
    let since = Instant::now();
    bed.redis.close().await;
    assert!(since.elapsed() < CLOSING_MAX * 9 / 10, "{:?}", since.elapsed());
}

#[tokio::test]
async fn closing_is_bounded_when_the_server_is_silent_or_gone() {
    needs_a_server!();
    let mut server = Server::start();
    let bed = Bed::new(&server).await;
    server.pause();
    timeout(SECOND * 10, bed.redis.close()).await.expect("it is bounded");
    until("no task is left", || bed.own.tasks() == 0).await;
    server.resume();

    let bed = Bed::new(&server).await;
    server.kill();
    until("the loss is noticed", || bed.redis.epoch(Lane::Caller) > 0).await;
    timeout(SECOND * 10, bed.redis.close()).await.expect("it is bounded");
    until("no task is left", || bed.own.tasks() == 0).await;
}

#[tokio::test]
async fn dropping_without_closing_leaves_nothing_either() {
    needs_a_server!();
    let server = Server::start();
    let bed = Bed::new(&server).await;
    let here = Handle::current().metrics();
    bed.subscribe("c").await.unwrap();
    let Bed { redis, own, .. } = bed;
    drop(redis);
    until("no connection is left", || ours(&server) == 0).await;
    until("no task is left", || own.tasks() == 0 && here.num_alive_tasks() == 0).await;
}

#[tokio::test]
async fn a_dropped_connect_leaves_nothing() {
    needs_a_server!();
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let own = Own::new();
    let here = Handle::current().metrics();
    proxy.delay_replies(Duration::from_millis(20));
    for polls in 1..8 {
        let url = proxy.url();
        let connecting = connect(&url, Arc::new(Recorder::default()), own.handle());
        drop(timeout(Duration::from_millis(polls * 15), connecting).await);
    }
    until("no task is left", || own.tasks() == 0 && here.num_alive_tasks() == 0).await;
    until("no connection is left", || server.clients("").len() == 1).await;
}

#[test]
fn when_the_callers_runtime_ends_its_connections_move_to_ours() {
    needs_a_server!();
    let server = Server::start();
    let own = Own::new();
    let sink = Arc::new(Recorder::default());
    let callers = Builder::new_current_thread().enable_all().build().unwrap();
    let redis = callers.block_on(async {
        let redis = connect(&server.url(), sink.clone(), own.handle()).await.unwrap();
        redis.subscribe(&Arc::from("c")).await.unwrap();
        redis.call(Lane::Caller, add("n")).await.unwrap();
        Arc::new(redis)
    });
    let epoch = redis.epoch(Lane::Caller);
    drop(callers);

    let bed = Bed { redis, sink, own };
    let others = Builder::new_current_thread().enable_all().build().unwrap();
    others.block_on(async {
        bed.until_up(Lane::Caller).await;
        assert!(bed.redis.epoch(Lane::Caller) > epoch);
        assert_eq!(bed.redis.epoch(Lane::Background), 0, "our own lane is unharmed");
        until("it is reported", || bed.sink.missed() > 0).await;
        until("it is reported", || bed.sink.restored(Lane::Caller)).await;
        server.command(&["PUBLISH", "c", "x"]);
        until("it receives", || bed.sink.messages() == 1).await;
        bed.subscribe("d").await.unwrap();
        // And again when the connection on our runtime is lost.
        server.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        bed.until_up(Lane::Caller).await;
        bed.redis.close().await;
        until("no connection is left", || ours(&server) == 0).await;
        until("no task is left", || bed.own.tasks() == 0).await;
    });
}

#[test]
fn when_the_callers_runtime_stands_still_its_connections_move_to_ours() {
    needs_a_server!();
    let server = Server::start();
    let (bed, callers) = Bed::on_a_runtime_that_stands_still(&server);
    let others = Builder::new_current_thread().enable_all().build().unwrap();
    others.block_on(async {
        let outcome = bed.add(Lane::Caller, "n").await;
        assert!(matches!(outcome, Err(CallError::Unknown(_))), "{outcome:?}");
        bed.until_up(Lane::Caller).await;
        assert_eq!(bed.redis.epoch(Lane::Background), 0);
        until("it is reported", || bed.sink.missed() > 0).await;
        bed.subscribe("c").await.unwrap();
        bed.redis.close().await;
    });
    drop(callers);
    others.block_on(until("no connection is left", || ours(&server) == 0));
}

#[test]
fn names_are_resolved_while_all_blocking_threads_of_the_caller_wait() {
    needs_a_server!();
    let server = Server::start();
    let own = Own::new();
    let callers =
        Builder::new_multi_thread().worker_threads(1).max_blocking_threads(1).enable_all().build();
    let callers = callers.unwrap();
    let (end, is_over) = std::sync::mpsc::channel::<()>();
    drop(callers.spawn_blocking(move || is_over.recv().unwrap_err()));
    let url = server.url().replace("127.0.0.1", "localhost");
    let connecting = connect(&url, Arc::new(Recorder::default()), own.handle());
    let redis = callers.block_on(connecting).map(Arc::new);
    drop(end);
    let call = redis.unwrap();
    assert_eq!(callers.block_on(call.call(Lane::Caller, add("n"))), Ok(Value::Int(1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_runtime_that_pauses_keeps_its_connections() {
    needs_a_server!();
    let server = Server::start();
    let bed = Bed::new(&server).await;
    bed.add(Lane::Caller, "n").await.unwrap();
    let epoch = bed.redis.epoch(Lane::Caller);
    // Blocks the only worker for several probe intervals, as careless code does.
    let blocked = Handle::current().spawn(async {
        #[expect(clippy::disallowed_methods, reason = "blocking is the point")]
        std::thread::sleep(Duration::from_millis(1_500));
    });
    blocked.await.unwrap();
    assert_eq!(bed.add(Lane::Caller, "n").await, Ok(2));
    assert_eq!(bed.redis.epoch(Lane::Caller), epoch);
    assert_eq!(bed.redis.reconnects(), 0);
}
