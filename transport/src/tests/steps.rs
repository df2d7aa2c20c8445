//! Whatever a server sends, each reply is matched to its request, and each request is sent once.

use super::memory::{CALLER, Ending, MESSAGES, MemoryServer, MemoryTestbed, Pending, echo, usual};
use super::*;
use crate::request::{CallOutcome, SubscribeRequest};
use tokio::sync::oneshot;

static ECHO_LAST: Script = Script::new("echo_last", "return ARGV[#ARGV]");

fn number(number: i64) -> Call {
    Call::new(&ECHO_LAST, [], [Arg::Int(number)])
}

/// The outcome of the call with this number.
#[expect(clippy::unnecessary_wraps, reason = "it is compared with an outcome")]
fn text(number: i64) -> CallOutcome {
    Ok(Value::Text(number.to_string()))
}

/// Pushes that no request caused.
const UNASKED: &[&str] = &[
    ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n",
    ">3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n",
    ">3\r\n$11\r\nunsubscribe\r\n_\r\n:0\r\n",
    ">3\r\n$10\r\npsubscribe\r\n$1\r\nc\r\n:1\r\n",
    ">3\r\n$12\r\npunsubscribe\r\n$1\r\nc\r\n:0\r\n",
    ">3\r\n$10\r\nssubscribe\r\n$1\r\nc\r\n:1\r\n",
    ">3\r\n$12\r\nsunsubscribe\r\n$1\r\nc\r\n:0\r\n",
    ">4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\nc\r\n$1\r\nx\r\n",
    ">4\r\n$8\r\nsmessage\r\n$1\r\nc\r\n$1\r\nx\r\n:1\r\n",
    ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n",
    ">2\r\n$10\r\ninvalidate\r\n_\r\n",
    ">2\r\n$7\r\nmonitor\r\n$1\r\nx\r\n",
    ">1\r\n$7\r\nunknown\r\n",
    ">2\r\n:1\r\n:2\r\n",
    ">4\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n:1\r\n",
];

#[tokio::test(start_paused = true)]
async fn unsolicited_pushes_shift_no_reply() {
    let mut turn = 0;
    let server = MemoryServer::answering(move |words| {
        turn += 1;
        // One push before a reply, and one after it.
        let unasked = UNASKED[turn % UNASKED.len()].as_bytes();
        [unasked, &echo(words), unasked].concat()
    });
    let testbed = MemoryTestbed::new(server).await;
    for round in 0..10 {
        let calls = (0..100).map(|n| testbed.started(number(round * 100 + n)));
        let calls: Vec<Pending> = calls.collect();
        for (n, outcome) in futures::future::join_all(calls)
            .await
            .into_iter()
            .enumerate()
        {
            assert_eq!(outcome, text(round * 100 + i64::try_from(n).unwrap()));
        }
        testbed
            .redis
            .subscribe(&Arc::from(format!("c{round}")), PubSub::Plain)
            .await
            .unwrap();
    }
    assert_eq!(
        (
            testbed.redis.reconnects(),
            testbed.events.messages(),
            testbed.events.missed()
        ),
        (0, 0, 0)
    );
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meanwhile {
    Messages,
    Nothing,
}

/// The outcomes of four calls to a server that spoils the answer to the first script.
async fn outcomes_behind(spoilt: &'static str, meanwhile: Meanwhile) -> (Vec<CallOutcome>, u64) {
    let mut scripts = 0;
    let server = MemoryServer::answering(move |words| {
        scripts += usize::from(words[0].starts_with("EVAL"));
        let is_first = scripts == 1 && words[0].starts_with("EVAL");
        if is_first {
            return spoilt.into();
        }
        // A server that forgets every script at once.
        let text = b"-NOSCRIPT No matching script. Please use EVAL.\r\n";
        if words[0] == "EVALSHA" {
            text.to_vec()
        } else {
            echo(words)
        }
    });
    let testbed = MemoryTestbed::new(server).await;
    let server = testbed.server.clone();
    let chatter = async {
        loop {
            if meanwhile == Meanwhile::Messages {
                for socket in server.sockets() {
                    socket.say(b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n");
                }
            }
            sleep(SECOND / 50).await;
        }
    };
    let calls = async {
        let mut outcomes = Vec::new();
        for n in 0..4 {
            outcomes.push(testbed.redis.call(Lane::Caller, number(n)).await);
            sleep(SECOND).await;
        }
        outcomes
    };
    let outcomes = tokio::select! {
        () = chatter => unreachable!("the stream of calls has no end"),
        outcomes = calls => outcomes,
    };
    (outcomes, testbed.redis.reconnects())
}

/// A missing reply shifts all later replies, until a PING detects it. An incomplete reply hides all
/// later replies.
#[tokio::test(start_paused = true)]
async fn a_connection_whose_replies_are_out_of_step_is_given_up() {
    let cases = [
        ("", Meanwhile::Nothing),
        ("", Meanwhile::Messages),
        ("$60000000\r\n", Meanwhile::Nothing),
    ];
    for (spoilt, meanwhile) in cases {
        let (outcomes, reconnects) = outcomes_behind(spoilt, meanwhile).await;
        assert_ne!(outcomes[0], text(0));
        assert_eq!(
            outcomes[3],
            text(3),
            "{spoilt:?}, {meanwhile:?}: {outcomes:?}"
        );
        assert_eq!(reconnects, 1, "{spoilt:?}, {meanwhile:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_between_any_two_replies_is_a_message() {
    let message = ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n";
    let server = MemoryServer::answering(move |words| [message.as_bytes(), &echo(words)].concat());
    let testbed = MemoryTestbed::new(server).await;
    let before = testbed.events.messages();
    let calls: Vec<Pending> = (0..100).map(|n| testbed.started(number(n))).collect();
    for (n, outcome) in futures::future::join_all(calls)
        .await
        .into_iter()
        .enumerate()
    {
        assert_eq!(outcome, text(i64::try_from(n).unwrap()));
    }
    assert_eq!(testbed.events.messages(), before + 100);
}

#[tokio::test(start_paused = true)]
async fn refused_subscriptions_between_calls_shift_no_reply() {
    let server = MemoryServer::answering(|words| match (words[0].as_str(), words.get(1)) {
        ("SUBSCRIBE", Some(channel)) if channel.starts_with("bad") => {
            b"-NOPERM no permission for this channel\r\n".to_vec()
        }
        ("UNSUBSCRIBE", Some(channel)) if channel.starts_with("bad") => {
            b"-NOPERM no permission\r\n".to_vec()
        }
        _ => echo(words),
    });
    let testbed = MemoryTestbed::new(server).await;
    let connection = testbed.caller().await;
    let (mut calls, mut orders) = (Vec::new(), Vec::new());
    for n in 0..300 {
        calls.push(testbed.started(number(n)));
        let channel: Arc<str> =
            Arc::from(format!("{}{n}", ["bad", "good"][usize::from(n % 3 == 0)]));
        let (answer, receiver) = oneshot::channel();
        let listen = SubscribeRequest {
            channel: channel.clone(),
            generation: 1,
            epoch: 0,
            pubsub: PubSub::Plain,
            answer: Some(answer),
        };
        connection.subscribe(listen).unwrap();
        connection.unsubscribe(&channel, PubSub::Plain).unwrap();
        orders.push((n, receiver));
    }
    for (n, outcome) in futures::future::join_all(calls)
        .await
        .into_iter()
        .enumerate()
    {
        assert_eq!(outcome, text(i64::try_from(n).unwrap()));
    }
    for (n, order) in orders {
        let outcome = order.await.unwrap();
        assert_eq!(outcome.is_ok(), n % 3 == 0, "{n}: {outcome:?}");
    }
    let left = connection.backlog();
    assert_eq!(
        (left.waiting, left.in_flight, testbed.redis.reconnects()),
        (0, 0, 0)
    );
}

#[tokio::test]
async fn replies_that_look_like_pushes_are_replies() {
    static LIKE: Script = Script::new("like", "return {ARGV[1], ARGV[2], ARGV[3]}");
    needs_a_server!();
    let server = Server::start();
    let testbed = Testbed::patient(&server).await;
    let kinds = [
        "message",
        "smessage",
        "subscribe",
        "unsubscribe",
        "invalidate",
    ];
    for round in 0..10 {
        let calls = kinds.map(|kind| {
            let args = [kind, "c", "x"].map(Arg::from);
            testbed.redis.call(Lane::Caller, Call::new(&LIKE, [], args))
        });
        let outcomes = futures::future::join_all(calls).await;
        for (kind, outcome) in kinds.iter().zip(outcomes) {
            let words = [*kind, "c", "x"].map(|word| Value::Text(word.to_owned()));
            assert_eq!(outcome, Ok(Value::Array(words.into())), "round {round}");
        }
    }
    assert_eq!(
        (testbed.events.messages(), testbed.redis.reconnects()),
        (0, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn answers_without_a_question_end_the_connection() {
    for answer in ["+OK\r\n", "_\r\n", "-ERR no\r\n", "*1\r\n:1\r\n"] {
        let testbed = MemoryTestbed::new(MemoryServer::answering(echo)).await;
        testbed.server.socket(CALLER).say(answer.as_bytes());
        until("the reply without a request is noticed", || {
            testbed.redis.epoch(Lane::Caller) == 1
        })
        .await;
        testbed.caller().await;
        assert_eq!(testbed.redis.call(Lane::Caller, number(1)).await, text(1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_without_its_script_is_sent_once_more_with_it() {
    let server = MemoryServer::answering(|words| match words[0].as_str() {
        "EVALSHA" => b"-NOSCRIPT No matching script\r\n".to_vec(),
        _ => echo(words),
    });
    let testbed = MemoryTestbed::new(server).await;
    assert_eq!(testbed.redis.call(Lane::Caller, number(1)).await, text(1));
    let calls: Vec<Pending> = (2..5).map(|n| testbed.started(number(n))).collect();
    futures::future::join_all(calls).await;
    let socket = testbed.server.socket(CALLER);
    let names = socket.names();
    let count = |kind| names.iter().filter(|name| *name == kind).count();
    assert_eq!((count("EVALSHA"), count("EVAL")), (4, 4), "{names:?}");

    // A server that never knows the script.
    let testbed = MemoryTestbed::new(MemoryServer::answering(|words| match words[0].as_str() {
        "PING" => usual(words),
        _ => b"-NOSCRIPT No matching script\r\n".to_vec(),
    }))
    .await;
    let outcome = testbed.redis.call(Lane::Caller, number(1)).await;
    assert!(
        matches!(outcome, Err(CallError::NotApplied(_))),
        "{outcome:?}"
    );
    assert_eq!(testbed.server.socket(CALLER).names(), ["EVALSHA", "EVAL"]);
}

/// INVARIANT LEDGER-3 of the ledger, wherever the call is when its future is dropped.
#[tokio::test(start_paused = true)]
async fn an_undo_is_sent_after_its_call() {
    static UNDO: Script = Script::new("undo", "return 'undo'");
    let undo = Call::new(&UNDO, [], ["undo".into()]);
    for before in 0..3 {
        for yields in 0..8 {
            let testbed =
                MemoryTestbed::new(MemoryServer::answering(|words| match words[0].as_str() {
                    "EVALSHA" if words[1] == ECHO_LAST.sha1() => {
                        b"-NOSCRIPT No script\r\n".to_vec()
                    }
                    _ => echo(words),
                }))
                .await;
            let others: Vec<Pending> = (0..before).map(|n| testbed.started(number(n))).collect();
            let dropped = testbed.started(number(7));
            for _ in 0..yields {
                tokio::task::yield_now().await;
            }
            drop(dropped);
            testbed
                .redis
                .call(Lane::Caller, undo.clone())
                .await
                .unwrap();
            futures::future::join_all(others).await;
            testbed
                .redis
                .call(Lane::Caller, undo.clone())
                .await
                .unwrap();
            let commands = testbed
                .server
                .socket(CALLER)
                .at(|state| state.commands.clone());
            let at = |what: &dyn Fn(&Vec<String>) -> bool| commands.iter().position(what);
            let undone = at(&|words| words[1] == UNDO.sha1()).unwrap();
            let applied = at(&|words| words[0] == "EVAL" && words.last().unwrap() == "7");
            assert!(
                applied.is_none_or(|applied| applied < undone),
                "{before} {yields}"
            );
        }
    }
}

/// A single call costs one write, at the time of the call, and wakes no task.
#[tokio::test(start_paused = true)]
async fn a_single_call_is_written_at_its_first_poll() {
    let testbed = MemoryTestbed::new(MemoryServer::answering(echo)).await;
    let socket = testbed.server.socket(CALLER);
    for n in 0..10 {
        let call = testbed.started(number(n));
        assert_eq!(socket.names().len(), usize::try_from(n).unwrap() + 1);
        assert_eq!(call.await, text(n));
    }
    assert_eq!(socket.at(|state| state.writes), 10);
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_drops_its_stream() {
    let testbed = MemoryTestbed::new(MemoryServer::new()).await;
    for round in 0..50 {
        testbed.caller().await;
        let socket = if round == 0 {
            testbed.server.socket(CALLER)
        } else {
            testbed.server.newest()
        };
        socket.end(Ending::Reset);
        until("the stream is dropped", || {
            socket.at(|state| state.halves) == 0
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_connection_subscribes_exactly_the_wanted_channels() {
    let testbed = MemoryTestbed::new(MemoryServer::new()).await;
    let [a, b] = ["a", "b"].map(Arc::<str>::from);
    let orders: [&[&str]; 4] = [
        &["PING"],
        &["SUBSCRIBE", "PING"],
        &["SUBSCRIBE", "SUBSCRIBE", "PING"],
        &["PING"],
    ];
    for (round, expected) in orders.into_iter().enumerate() {
        match round {
            1 => testbed.redis.subscribe(&a, PubSub::Plain).await.unwrap(),
            2 => testbed.redis.subscribe(&b, PubSub::Plain).await.unwrap(),
            3 => [&a, &b]
                .into_iter()
                .for_each(|channel| testbed.redis.unsubscribe(channel)),
            _ => {}
        }
        let (missed, number) = (
            testbed.events.missed(),
            if round == 0 { 2 } else { round + 2 },
        );
        testbed.server.socket(number).end(Ending::Reset);
        until("the connection is replaced", || {
            testbed.events.missed() > missed
        })
        .await;
        assert_eq!(testbed.server.newest().names(), expected, "round {round}");
    }
}

/// A busy server accepts handshakes, but refuses all other commands until its script ends.
#[tokio::test(start_paused = true)]
async fn channels_that_a_busy_server_refuses_are_asked_for_again() {
    let busy = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_busy = busy.clone();
    let server = MemoryServer::answering(move |words| {
        if is_busy.load(Ordering::SeqCst) {
            return b"-BUSY Redis is busy running a script\r\n".to_vec();
        }
        usual(words)
    });
    let testbed = MemoryTestbed::new(server).await;
    testbed
        .redis
        .subscribe(&Arc::from("c"), PubSub::Plain)
        .await
        .unwrap();
    busy.store(true, Ordering::SeqCst);
    testbed.server.socket(MESSAGES).end(Ending::Closed);
    until("the server is asked", || {
        testbed.server.sockets().len() > 3 && !testbed.server.socket(3).names().is_empty()
    })
    .await;
    sleep(SECOND).await;
    assert_eq!(
        testbed.events.missed(),
        0,
        "a channel was reported as restored too early"
    );
    busy.store(false, Ordering::SeqCst);
    until("the loss of messages is reported", || {
        testbed.events.missed() > 0
    })
    .await;
    let newest = testbed.server.newest();
    assert_eq!(
        newest.names().first().map(String::as_str),
        Some("SUBSCRIBE")
    );
    newest.say(b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n");
    until("the message is received", || testbed.events.messages() == 1).await;
}
