//! Simultaneous calls: their order, failures of one of them, dropped futures, and losses.

use futures::future::join_all;
use futures::poll;

use super::*;
/// Enough calls that some are sent and others wait.
const FEW: usize = 16;

type Pending<'a> = std::pin::Pin<Box<dyn Future<Output = Result<Value, CallError>> + Send + 'a>>;

/// A call after its first poll.
async fn started<'a>(testbed: &'a Testbed, call: Call) -> Pending<'a> {
    let mut call: Pending<'a> = Box::pin(testbed.redis.call(Lane::Caller, call));
    assert!(poll!(&mut call).is_pending());
    call
}

/// The first call is on the wire, and the others are queued behind it. Nothing else runs until the
/// test awaits, because its runtime has one thread.
async fn crowd(testbed: &Testbed) -> Vec<Pending<'_>> {
    let mut calls = Vec::new();
    for n in 0..FEW {
        calls.push(started(testbed, take(&format!("crowd:{n}"), "o")).await);
    }
    calls
}

/// Loads the scripts on the server.
fn knows(server: &Server, scripts: &[&Script]) {
    for script in scripts {
        server.command(&["SCRIPT", "LOAD", script.text]);
    }
}

/// Waits until the kernel has taken every request.
async fn all_is_sent(testbed: &Testbed) {
    let connection = testbed
        .redis
        .shared
        .slot(Lane::Caller)
        .connection()
        .unwrap();
    until("all requests are sent", || {
        connection.backlog().unsent() == 0
    })
    .await;
}

#[tokio::test]
async fn calls_of_several_scripts_keep_their_order() {
    static APPEND: Script = Script::new("append", "return redis.call('append', KEYS[1], ARGV[1])");
    needs_a_server!();
    let server = Server::start();
    let testbed = Testbed::patient(&server).await;
    let (taking, ending) = (take("k", "o"), give("k", "o"));
    // The scripts are loaded, because a call whose script is unknown is sent again later, out of
    // order.
    knows(&server, &[&APPEND, taking.script, ending.script]);
    let (mut calls, mut others) = (Vec::new(), Vec::new());
    let mut expected = String::new();
    for n in 0..500 {
        let owner = format!("o{n}");
        calls.push(started(&testbed, take("k", &owner)).await);
        if n % 7 == 0 {
            let letter = format!("{n};");
            let args = vec![Arg::from(letter.as_str())];
            let call = Call::new(&APPEND, [Arc::from("text")], args);
            others.push(started(&testbed, call).await);
            expected.push_str(&letter);
        }
        calls.push(started(&testbed, give("k", &owner)).await);
        if n % 50 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let (outcomes, _) = futures::join!(join_all(calls), join_all(others));
    for (turn, outcome) in outcomes.into_iter().enumerate() {
        // Each acquisition found the lock free, and each release found it held.
        let expected = [Value::Nil, Value::Int(0)][turn % 2].clone();
        assert_eq!(outcome, Ok(expected));
    }
    assert_eq!(server.command(&["GET", "text"]).text(), expected);
    assert_eq!(server.command(&["EXISTS", "k"]).int(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_by_driver_and_callers_keep_their_order() {
    needs_a_server!();
    let server = Server::start();
    let testbed = Testbed::patient(&server).await;
    let (taking, ending) = (take("k", "o"), give("k", "o"));
    knows(&server, &[taking.script, ending.script]);
    for round in 0..2_000 {
        let mut under_way = Vec::new();
        for turn in 0..10 {
            // Sometimes the driver writes on the other thread. Otherwise it is idle, and this
            // thread writes.
            if turn == round % 10 {
                for _ in 0..fastrand::u32(..2_000) {
                    std::hint::spin_loop();
                }
            }
            let call = [taking.clone(), ending.clone()][turn % 2].clone();
            let mut call = Box::pin(testbed.redis.call(Lane::Caller, call));
            let early = poll!(&mut call);
            under_way.push(async move {
                match early {
                    std::task::Poll::Ready(outcome) => outcome,
                    std::task::Poll::Pending => call.await,
                }
            });
        }
        for (turn, outcome) in join_all(under_way).await.into_iter().enumerate() {
            let expected = [Value::Nil, Value::Int(0)][turn % 2].clone();
            assert_eq!(outcome, Ok(expected), "round {round}, call {turn}");
        }
    }
}

#[tokio::test]
async fn one_bad_call_fails_alone() {
    needs_a_server!();
    let server = Server::start();
    server.command(&[
        "ACL", "SETUSER", "ann", "on", ">pw", "~ok*", "~crowd*", "&*", "+@all",
    ]);
    server.command(&["LPUSH", "ok:list", "x"]);
    let testbed = Testbed::patient_at(&format!("redis://ann:pw@127.0.0.1:{}", server.port())).await;
    // First a key of the wrong type, then a key that this user may not access.
    for (bad, word) in [("ok:list", "WRONGTYPE"), ("secret", "NOPERM")] {
        let mut calls = crowd(&testbed).await;
        for key in ["ok:1", bad, "ok:2"] {
            calls.push(started(&testbed, take(key, "o")).await);
        }
        let outcomes = join_all(calls).await.split_off(FEW);
        assert_eq!(
            (&outcomes[0], &outcomes[2]),
            (&Ok(Value::Nil), &Ok(Value::Nil))
        );
        assert!(
            matches!(&outcomes[1], Err(CallError::Refused(fault)) if fault.0.contains(word)),
            "{outcomes:?}"
        );
    }
    assert_eq!(testbed.redis.reconnects(), 0);
}

#[tokio::test]
async fn each_caller_learns_of_the_condition_of_the_server() {
    needs_a_server!();
    let server = Server::start();
    let testbed = Testbed::patient(&server).await;
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let mut calls = crowd(&testbed).await;
    for key in ["a", "b", "c"] {
        calls.push(started(&testbed, take(key, "o")).await);
    }
    for outcome in join_all(calls).await {
        assert!(
            matches!(&outcome, Err(CallError::NotApplied(fault)) if fault.0.contains("OOM")),
            "{outcome:?}"
        );
    }
}

#[tokio::test]
async fn nobody_waits_for_a_future_that_was_dropped() {
    needs_a_server!();
    let server = Server::start();
    let testbed = Testbed::patient(&server).await;
    knows(&server, &[take("k", "o").script]);
    let crowd = crowd(&testbed).await;
    let first = started(&testbed, take("first", "o")).await;
    let second = started(&testbed, take("second", "o")).await;
    let third = started(&testbed, take("third", "o")).await;
    // Drops one call that was sent, and all waiting calls but two.
    drop((crowd, second));
    assert_eq!((first.await, third.await), (Ok(Value::Nil), Ok(Value::Nil)));
    assert_eq!(server.command(&["EXISTS", "first", "third"]).int(), 2);
    assert_eq!(
        server.command(&["EXISTS", "second"]).int(),
        0,
        "a dropped call was sent"
    );
    for n in 0..FEW {
        let sent = i64::from(n == 0);
        assert_eq!(
            server.command(&["EXISTS", &format!("crowd:{n}")]).int(),
            sent,
            "{n}"
        );
    }
}

#[tokio::test]
async fn a_dropped_call_is_not_sent_again_after_its_undo() {
    needs_a_server!();
    let server = Server::start();
    let testbed = Testbed::patient(&server).await;
    let (attempt, undo) = (take("k", "o"), give("k", "o"));
    // The server does not know the script of the attempt. The attempt is sent alone, or among
    // others.
    for before in [0, FEW] {
        server.command(&["FLUSHALL"]);
        server.command(&["SCRIPT", "FLUSH"]);
        knows(&server, &[undo.script]);
        // The server answers nothing until the undo is sent.
        server.pause();
        let mut others = Vec::new();
        for _ in 0..before {
            others.push(started(&testbed, give("k", "x")).await);
        }
        let dropped = started(&testbed, attempt.clone()).await;
        all_is_sent(&testbed).await;
        drop(dropped);
        let undoing = started(&testbed, undo.clone()).await;
        all_is_sent(&testbed).await;
        server.resume();
        join_all(others).await;
        undoing.await.unwrap();
        // Behind every request that was sent by now.
        testbed
            .redis
            .call(Lane::Caller, give("k", "x"))
            .await
            .unwrap();
        assert_eq!(server.command(&["EXISTS", "k"]).int(), 0, "{before} before");
    }
    assert_eq!(testbed.redis.reconnects(), 0);
}

#[tokio::test]
async fn an_undo_follows_its_call_even_if_the_script_is_not_loaded() {
    needs_a_server!();
    let server = Server::start();
    let testbed = Testbed::patient(&server).await;
    for round in 0..200 {
        server.command(&["SCRIPT", "FLUSH"]);
        let attempt = started(&testbed, take("k", "o")).await;
        for _ in 0..fastrand::u32(..8) {
            tokio::task::yield_now().await;
        }
        drop(attempt);
        testbed
            .redis
            .call(Lane::Caller, give("k", "o"))
            .await
            .unwrap();
        // Behind every request that was sent by now.
        testbed
            .redis
            .call(Lane::Caller, give("k", "x"))
            .await
            .unwrap();
        assert_eq!(server.command(&["EXISTS", "k"]).int(), 0, "round {round}");
    }
    assert_eq!(testbed.redis.reconnects(), 0);
}

#[tokio::test]
async fn calls_whose_replies_are_lost_are_unknown_to_each() {
    needs_a_server!();
    let server = Server::start();
    let proxy = leasehold_testbed::Proxy::start(server.address());
    let testbed = Testbed::patient_at(&proxy.url()).await;
    knows(&server, &[take("k", "o").script]);
    proxy.swallow_replies();
    let mut calls = crowd(&testbed).await;
    for key in ["a", "b", "c"] {
        calls.push(started(&testbed, take(key, "o")).await);
    }
    until("the calls are executed", || {
        server.command(&["EXISTS", "a", "b", "c"]).int() == 3
    })
    .await;
    proxy.cut();
    for outcome in join_all(calls).await {
        assert!(matches!(outcome, Err(CallError::Unknown(_))), "{outcome:?}");
    }
    proxy.pass();
    testbed.until_up(Lane::Caller).await;
}
