//! Calls that come together: order, failures of one, futures that are dropped, losses.

use futures::future::join_all;
use futures::poll;

use super::*;
use crate::protocol::{batch, plain};

const LEASE: Duration = Duration::from_secs(30);
/// More than are sent at once.
const FEW: usize = 16;
/// As many as go out together.
const BATCH: usize = 8;
/// Enough for two threads to meet in a place where they are for a moment only.
const ROUNDS: usize = 300;

fn acquire(key: &str, owner: &str) -> Call {
    plain::acquire(key, &Arc::from(owner), LEASE)
}

fn release(key: &str, owner: &str) -> Call {
    plain::release(key, 0, &Arc::from(owner))
}

type Pending<'a> = std::pin::Pin<Box<dyn Future<Output = Result<Value, CallError>> + Send + 'a>>;

/// A call after its first poll.
async fn started<'a>(bed: &'a Bed, call: Call) -> Pending<'a> {
    let mut call: Pending<'a> = Box::pin(bed.redis.call(Lane::Caller, call));
    assert!(poll!(&mut call).is_pending());
    call
}

/// As many calls as are sent at once, so that the next ones queue. Nothing else runs until the
/// test awaits: its runtime has one thread.
async fn crowd(bed: &Bed) -> Vec<Pending<'_>> {
    let mut calls = Vec::new();
    for n in 0..FEW {
        calls.push(started(bed, acquire(&format!("crowd:{n}"), "o")).await);
    }
    calls
}

/// The server knows the scripts from here on.
async fn warm(server: &Server, bed: &Bed) {
    let mut calls = crowd(bed).await;
    for owner in ["o", "p"] {
        calls.push(started(bed, acquire("warm", owner)).await);
    }
    drop(join_all(calls).await);
    bed.redis.call(Lane::Caller, release("warm", "o")).await.unwrap();
    server.command(&["FLUSHALL"]);
}

/// The server is told of these scripts from outside.
fn knows(server: &Server, scripts: &[&Script]) {
    for script in scripts {
        server.command(&["SCRIPT", "LOAD", script.text]);
    }
}

fn evaluations(server: &Server) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]).text().clone();
    let calls = stats.lines().filter_map(|line| line.strip_prefix("cmdstat_eval")).map(|line| {
        let calls = line.split("calls=").nth(1).and_then(|rest| rest.split(',').next());
        calls.unwrap().parse::<u64>().unwrap()
    });
    calls.sum()
}

#[tokio::test]
async fn a_call_alone_is_one_command_and_many_share_few() {
    let server = Server::start();
    let bed = Bed::patient(&server).await;
    warm(&server, &bed).await;
    server.command(&["CONFIG", "RESETSTAT"]);
    for n in 0..100 {
        let lane = LANES[n % 2];
        bed.redis.call(lane, acquire("alone", "o")).await.unwrap();
        assert_eq!(evaluations(&server), n as u64 + 1);
    }
    server.command(&["CONFIG", "RESETSTAT"]);
    let calls = (0..10_000).map(|n| bed.redis.call(Lane::Caller, acquire(&format!("k{n}"), "o")));
    for outcome in join_all(calls).await {
        assert_eq!(outcome, Ok(Value::Nil));
    }
    assert!(evaluations(&server) < 400, "{}", evaluations(&server));
    assert_eq!(server.command(&["DBSIZE"]).int(), 10_000 + 1);
}

#[tokio::test]
async fn order_is_kept_among_calls_at_once_in_batches_and_of_other_scripts() {
    static APPEND: Script = Script::new("append", "return redis.call('append', KEYS[1], ARGV[1])");
    let server = Server::start();
    let bed = Bed::patient(&server).await;
    warm(&server, &bed).await;
    let append = Call { script: &APPEND, keys: vec![Arc::from("text")], args: vec!["".into()] };
    bed.redis.call(Lane::Caller, append).await.unwrap();
    let (mut calls, mut others) = (Vec::new(), Vec::new());
    let mut expected = String::new();
    for n in 0..500 {
        let owner = format!("o{n}");
        calls.push(started(&bed, acquire("k", &owner)).await);
        if n % 7 == 0 {
            let letter = format!("{n};");
            let args = vec![Arg::from(letter.as_str())];
            let call = Call { script: &APPEND, keys: vec![Arc::from("text")], args };
            others.push(started(&bed, call).await);
            expected.push_str(&letter);
        }
        calls.push(started(&bed, release("k", &owner)).await);
        if n % 50 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let (outcomes, _) = futures::join!(join_all(calls), join_all(others));
    for (turn, outcome) in outcomes.into_iter().enumerate() {
        // Each acquisition found the lock free, each release found it held.
        let expected = [Value::Nil, Value::Int(0)][turn % 2].clone();
        assert_eq!(outcome, Ok(expected));
    }
    assert_eq!(server.command(&["GET", "text"]).text(), expected);
    assert_eq!(server.command(&["EXISTS", "k"]).int(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_is_kept_while_another_thread_sends_what_queues() {
    // Never part of a batch: it need not queue for want of room.
    static LOOK: Script = Script::new("look", "return redis.call('exists', KEYS[1])");
    let server = Server::start();
    let bed = Bed::patient(&server).await;
    let look = Call { script: &LOOK, keys: vec![Arc::from("k")], args: vec![] };
    let (taking, ending) = (acquire("k", "o"), release("k", "o"));
    let together = batch::batch([&taking, &ending].into_iter()).unwrap();
    // A call that the server has to be told the script of is late by design.
    knows(&server, &[&LOOK, taking.script, ending.script, together.script]);
    let mut sequence = vec![(ending.clone(), Value::Nil); FEW + 1];
    for _ in 0..3 {
        // With the release before them as many as go out together.
        for _ in 0..BATCH / 2 - 1 {
            sequence.push((taking.clone(), Value::Nil));
            sequence.push((ending.clone(), Value::Int(0)));
        }
        sequence.push((taking.clone(), Value::Nil));
        sequence.push((look.clone(), Value::Int(1)));
        sequence.push((ending.clone(), Value::Int(0)));
    }
    for round in 0..ROUNDS {
        // All are on their way until the last one is.
        server.pause();
        let mut under_way = Vec::new();
        for (call, _) in &sequence {
            if call.script.is(&LOOK) {
                // At some time while the other thread sends, or shortly before or after.
                let at = Instant::now() + Duration::from_micros(fastrand::u64(..100));
                while Instant::now() < at {
                    std::hint::spin_loop();
                }
            }
            let mut call = Box::pin(bed.redis.call(Lane::Caller, call.clone()));
            assert!(poll!(&mut call).is_pending());
            under_way.push(call);
        }
        server.resume();
        let outcomes = join_all(under_way).await;
        for (turn, (outcome, (_, expected))) in outcomes.into_iter().zip(&sequence).enumerate() {
            assert_eq!(outcome.as_ref(), Ok(expected), "round {round}, call {turn}");
        }
    }
}

#[tokio::test]
async fn what_comes_while_a_batch_is_being_sent_queues() {
    let server = Server::start();
    let bed = Bed::new(&server).await;
    let client = bed.redis.shared.line(Lane::Caller).wire().unwrap().client.clone();
    // Nobody but this test takes what queues.
    let wire = Wire::new(client, TIMING.command);
    let mut calls = Vec::new();
    for n in 0..FEW + BATCH {
        calls.push(Box::pin(wire.call(acquire(&format!("k{n}"), "o"))));
    }
    let mut calls = join_all(calls);
    assert!(poll!(&mut calls).is_pending());
    let parcel = wire.take().unwrap();
    assert!(parcel.jobs.len() == BATCH && !wire.has_queue());
    // Neither for want of room nor because others queue.
    let mut later = Box::pin(wire.call(add("n")));
    assert!(poll!(&mut later).is_pending());
    assert!(wire.has_queue(), "it was sent before the batch");
    drop(parcel.block);
    let mut last = Box::pin(wire.call(add("n")));
    assert!(poll!(&mut last).is_pending());
    assert_eq!(wire.take().unwrap().jobs.len(), 1, "it is alone");
    assert!(wire.has_queue(), "the one before it still queued");
}

#[tokio::test]
async fn one_bad_call_fails_alone() {
    let server = Server::start();
    server.command(&["ACL", "SETUSER", "ann", "on", ">pw", "~ok*", "~crowd*", "&*", "+@all"]);
    server.command(&["LPUSH", "ok:list", "x"]);
    let bed = Bed::at(&format!("redis://ann:pw@127.0.0.1:{}", server.port())).await;
    // With a key of the wrong type, and then with one that this user may not touch.
    for (bad, word) in [("ok:list", "WRONGTYPE"), ("secret", "NOPERM")] {
        let mut calls = crowd(&bed).await;
        for key in ["ok:1", bad, "ok:2"] {
            calls.push(started(&bed, acquire(key, "o")).await);
        }
        let outcomes = join_all(calls).await.split_off(FEW);
        assert_eq!((&outcomes[0], &outcomes[2]), (&Ok(Value::Nil), &Ok(Value::Nil)));
        assert!(
            matches!(&outcomes[1], Err(CallError::Refused(fault)) if fault.0.contains(word)),
            "{outcomes:?}"
        );
    }
    assert_eq!(bed.redis.reconnects(), 0);
}

#[tokio::test]
async fn conditions_of_the_server_are_told_to_each() {
    let server = Server::start();
    let bed = Bed::new(&server).await;
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let mut calls = crowd(&bed).await;
    for key in ["a", "b", "c"] {
        calls.push(started(&bed, acquire(key, "o")).await);
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
    let server = Server::start();
    let bed = Bed::new(&server).await;
    warm(&server, &bed).await;
    let crowd = crowd(&bed).await;
    let first = started(&bed, acquire("first", "o")).await;
    let second = started(&bed, acquire("second", "o")).await;
    let third = started(&bed, acquire("third", "o")).await;
    // Those on their way, and one that queues.
    drop((crowd, second));
    assert_eq!((first.await, third.await), (Ok(Value::Nil), Ok(Value::Nil)));
    assert_eq!(server.command(&["EXISTS", "first", "third"]).int(), 2);
    assert_eq!(server.command(&["EXISTS", "second"]).int(), 0, "it was not sent any more");
    for n in 0..FEW {
        assert_eq!(server.command(&["EXISTS", &format!("crowd:{n}")]).int(), 1, "it was sent");
    }
}

#[tokio::test]
async fn an_undo_comes_behind_what_it_undoes_even_if_the_script_is_not_loaded() {
    let server = Server::start();
    let bed = Bed::patient(&server).await;
    let wire = bed.redis.shared.line(Lane::Caller).wire().unwrap();
    for round in 0..200 {
        if round % 2 == 0 {
            // The undo is loaded, what it undoes is not.
            server.command(&["SCRIPT", "FLUSH"]);
            bed.redis.call(Lane::Caller, release("k", "o")).await.unwrap();
        }
        let epoch = bed.redis.epoch(Lane::Caller);
        let crowd = crowd(&bed).await;
        let other = started(&bed, acquire("other", "o")).await;
        let attempt = started(&bed, acquire("k", "o")).await;
        while wire.has_queue() {
            tokio::task::yield_now().await;
        }
        // So that the undo need not queue.
        drop(crowd);
        for _ in 0..round % 23 {
            tokio::task::yield_now().await;
        }
        drop(attempt);
        let undo = started(&bed, release("k", "o")).await;
        undo.await.unwrap();
        other.await.unwrap();
        assert_eq!(bed.redis.epoch(Lane::Caller), epoch);
        assert_eq!(server.command(&["EXISTS", "k"]).int(), 0, "round {round}");
    }
}

#[tokio::test]
async fn what_was_dropped_is_not_sent_once_more_behind_its_undo() {
    let server = Server::start();
    server.command(&["ACL", "SETUSER", "ann", "on", ">pw", "~k", "~other", "&*", "+@all"]);
    let bed = Bed::patient_at(&format!("redis://ann:pw@127.0.0.1:{}", server.port())).await;
    let wire = bed.redis.shared.line(Lane::Caller).wire().unwrap();
    let all_is_sent = async || {
        while wire.has_queue() {
            tokio::task::yield_now().await;
        }
    };
    let (attempt, undo) = (acquire("k", "o"), release("k", "o"));
    let (taking, ending) = (attempt.script, undo.script);
    let together = batch::batch([&attempt, &undo].into_iter()).unwrap().script;
    // What is sent beside the attempt, and what the server knows of the scripts: the attempt is
    // refused for want of its script, at once, as a queued one, in a batch, and with a batch of which
    // one key is forbidden.
    let cases: [(usize, &[&str], &[&Script]); 4] = [
        (0, &[], &[ending]),
        (FEW, &[], &[ending]),
        (FEW, &["other"], &[ending]),
        (FEW, &["secret"], &[ending, taking, together]),
    ];
    for (before, beside, known) in cases {
        server.command(&["FLUSHALL"]);
        server.command(&["SCRIPT", "FLUSH"]);
        knows(&server, known);
        // Nothing is answered until the undo is sent.
        server.pause();
        let mut others = Vec::new();
        for _ in 0..before {
            others.push(started(&bed, release("k", "x")).await);
        }
        for key in beside {
            others.push(started(&bed, acquire(key, "o")).await);
        }
        let dropped = started(&bed, attempt.clone()).await;
        all_is_sent().await;
        drop(dropped);
        let undoing = started(&bed, undo.clone()).await;
        all_is_sent().await;
        server.resume();
        join_all(others).await;
        let what = format!("{before} before, {beside:?} beside");
        undoing.await.unwrap();
        // Comes behind all that was sent by now.
        bed.redis.call(Lane::Caller, release("k", "x")).await.unwrap();
        assert_eq!(server.command(&["EXISTS", "k"]).int(), 0, "{what}");
    }
    assert_eq!(bed.redis.reconnects(), 0);
}

#[tokio::test]
async fn what_queues_when_the_connection_ends_is_not_applied() {
    let server = Server::start();
    let bed = Bed::new(&server).await;
    let line = bed.redis.shared.line(Lane::Caller);
    let wire = line.wire().unwrap();
    let (mut calls, queued) = (crowd(&bed).await, started(&bed, acquire("k", "o")).await);
    calls.push(queued);
    line.down(Fault("cut".to_owned()));
    let outcomes = join_all(calls).await;
    assert_eq!(outcomes[FEW], Err(CallError::NotApplied(Fault("cut".to_owned()))));
    // Who took the wire before, and is late.
    let (late, _) = wire.call(acquire("late", "o")).await;
    assert_eq!(late, Err(CallError::NotApplied(Fault("cut".to_owned()))));
    assert_eq!(server.command(&["EXISTS", "k", "late"]).int(), 0);

    line.up(Arc::new(Wire::new(wire.client.clone(), TIMING.command)));
    let (mut calls, queued) = (crowd(&bed).await, started(&bed, acquire("k", "o")).await);
    calls.push(queued);
    bed.redis.close().await;
    assert_eq!(join_all(calls).await[FEW], Err(CallError::Closed));
    assert_eq!(server.command(&["EXISTS", "k"]).int(), 0);
}

#[tokio::test]
async fn a_batch_whose_reply_is_lost_is_unknown_to_each() {
    let server = Server::start();
    let proxy = support::proxy::Proxy::start(server.address());
    let bed = Bed::at(&proxy.url()).await;
    warm(&server, &bed).await;
    proxy.swallow_replies();
    let mut calls = crowd(&bed).await;
    for key in ["a", "b", "c"] {
        calls.push(started(&bed, acquire(key, "o")).await);
    }
    until("they are executed", || server.command(&["EXISTS", "a", "b", "c"]).int() == 3).await;
    let lost = async {
        sleep(Duration::from_millis(20)).await;
        proxy.cut();
    };
    let (outcomes, ()) = futures::join!(join_all(calls), lost);
    for outcome in outcomes {
        assert!(matches!(outcome, Err(CallError::Unknown(_))), "{outcome:?}");
    }
    proxy.pass();
    bed.until_up(Lane::Caller).await;
}

#[tokio::test]
async fn what_was_not_sent_in_time_is_not_applied() {
    let server = Server::start();
    let bed = Bed::new(&server).await;
    let client = bed.redis.shared.line(Lane::Caller).wire().unwrap().client.clone();
    // Nobody sends what queues here.
    let limit = Duration::from_millis(100);
    let wire = Wire::new(client, limit);
    let calls = (0..FEW + 2).map(|n| wire.call(acquire(&format!("k{n}"), "o")));
    let since = Instant::now();
    let outcomes = join_all(calls).await;
    assert!((limit..limit * 2).contains(&since.elapsed()), "{:?}", since.elapsed());
    for (outcome, _) in &outcomes[..FEW] {
        assert_eq!(*outcome, Ok(Value::Nil));
    }
    for (outcome, _) in &outcomes[FEW..] {
        assert!(matches!(outcome, Err(CallError::NotApplied(_))), "{outcome:?}");
    }
}
