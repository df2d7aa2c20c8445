//! A single call: its arguments, replies and errors, and the order of calls.

use super::*;

#[tokio::test]
async fn keys_arguments_and_replies_of_any_form_arrive() {
    needs_a_server!();
    let server = Server::start();
    let testbed = Testbed::patient(&server).await;
    let call = Call::new(
        &ECHO,
        [Arc::from("k{1}"), Arc::from("ключ")],
        [
            Arg::Int(i64::MIN),
            Arg::Text(Arc::from("")),
            Arg::Int(i64::MAX),
        ],
    );
    let text = |text: &str| Value::Text(text.to_owned());
    let expected = Value::Array(vec![
        Value::Array(vec![text("k{1}"), text("ключ")]),
        Value::Array(vec![
            text("-9223372036854775808"),
            text(""),
            text("9223372036854775807"),
        ]),
        Value::Nil,
        Value::Array(vec![Value::Int(1), Value::Array(vec![text("x")])]),
    ]);
    for lane in LANES {
        assert_eq!(
            testbed.redis.call(lane, call.clone()).await,
            Ok(expected.clone())
        );
    }
}

#[tokio::test]
async fn a_forgotten_script_is_sent_again_in_the_same_call() {
    needs_a_server!();
    let server = Server::start();
    let testbed = Testbed::patient(&server).await;
    assert_eq!(testbed.add(Lane::Caller, "n").await, Ok(1));
    let epoch = testbed.redis.epoch(Lane::Caller);
    assert_eq!(testbed.add(Lane::Caller, "n").await, Ok(2));
    assert_eq!(testbed.redis.epoch(Lane::Caller), epoch);

    server.command(&["SCRIPT", "FLUSH"]);
    assert_eq!(testbed.add(Lane::Caller, "n").await, Ok(3));
    assert_eq!(testbed.redis.epoch(Lane::Caller), epoch);
    assert_eq!(testbed.redis.reconnects(), 0);
}

#[tokio::test]
async fn temporary_conditions_of_the_server_are_not_applied() {
    static SPIN: Script = Script::new("spin", "while true do end");
    needs_a_server!();
    let server = Server::start_with(&["--lua-time-limit", "10"]);
    let testbed = Testbed::new(&server).await;
    testbed.add(Lane::Caller, "n").await.unwrap();
    let spin = Call::new(&SPIN, [], []);
    let redis = testbed.redis.clone();
    let spinning = Handle::current().spawn(async move { redis.call(Lane::Background, spin).await });
    // The first call may block until the script has reached its time limit.
    until_not_applied(&testbed, "BUSY").await;
    server.command(&["SCRIPT", "KILL"]);
    drop(spinning.await);

    server.command(&["REPLICAOF", "127.0.0.1", "1"]);
    until_not_applied(&testbed, "READONLY").await;
    server.command(&["REPLICAOF", "NO", "ONE"]);

    server.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    until_not_applied(&testbed, "NOREPLICAS").await;
    server.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]);

    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    until_not_applied(&testbed, "OOM").await;
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    assert!(testbed.add(Lane::Caller, "n").await.is_ok());
}

async fn until_not_applied(testbed: &Testbed, word: &str) {
    let deadline = Instant::now() + SECOND * 5;
    loop {
        let outcome = testbed.add(Lane::Caller, "n").await;
        match &outcome {
            Err(CallError::NotApplied(fault)) if fault.0.contains(word) => return,
            _ => assert!(Instant::now() < deadline, "{word}: {outcome:?}"),
        }
    }
}
