//! Many futures that are dropped at random times. No reply goes to another call, and nothing is
//! left behind.

use std::pin::pin;

use super::memory::{CALLER, MemoryServer, MemoryTestbed, Pending};
use super::*;

static ECHO_LAST: Script = Script::new("echo_last", "return ARGV[1]");

/// The variable that sets the number of calls. Set it to a million by hand.
const VARIABLE: &str = "LEASEHOLD_DROPS";
const FEWEST: u64 = 20_000;

/// More tasks than threads, so that tasks are interrupted at any point.
const TASKS: u64 = 8;

/// Simultaneous calls of one task.
const CROWD: u64 = 50;

fn number(number: u64) -> Call {
    let number = i64::try_from(number).unwrap();
    Call::new(&ECHO_LAST, [], [Arg::Int(number)])
}

/// Polls a call to its end, or only a few times. Returns whether it was answered, and checks the
/// reply.
async fn perhaps(redis: &Node, own: u64) -> bool {
    let mut call = pin!(redis.call(LANES[usize::from(own.is_multiple_of(16))], number(own)));
    let outcome = if fastrand::bool() {
        call.await
    } else {
        let mut polls = fastrand::u32(..6);
        loop {
            if polls == 0 {
                return false;
            }
            polls -= 1;
            match futures::poll!(&mut call) {
                std::task::Poll::Ready(outcome) => break outcome,
                std::task::Poll::Pending => tokio::task::yield_now().await,
            }
        }
    };
    assert_eq!(
        outcome,
        Ok(Value::Text(own.to_string())),
        "a call got the reply of another call"
    );
    true
}

/// The requests without an answer on both lanes.
fn left(redis: &Node) -> usize {
    let lanes = LANES
        .iter()
        .map(|lane| redis.shared.slot(*lane).connection().unwrap().backlog());
    lanes.map(|left| left.waiting + left.in_flight).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_reply_goes_astray_and_nothing_is_left() {
    needs_a_server!();
    let calls = std::env::var(VARIABLE).map_or(FEWEST, |number| number.parse().unwrap());
    let server = Server::start();
    let testbed = Testbed::patient(&server).await;
    let tasks = (0..TASKS).map(|task| {
        let redis = testbed.redis.clone();
        Handle::current().spawn(async move {
            let (mut answered, mut most) = (0, 0);
            for round in 0..calls / TASKS / CROWD {
                let first = (task * calls + round) * CROWD;
                let crowd = (first..first + CROWD).map(|own| perhaps(&redis, own));
                let outcomes = futures::future::join_all(crowd).await;
                answered += outcomes.into_iter().filter(|answered| *answered).count();
                most = most.max(left(&redis));
            }
            (answered, most)
        })
    });
    let (mut answered, mut most) = (0, 0);
    for outcome in futures::future::join_all(tasks).await {
        let (of_task, most_of_task) = outcome.unwrap();
        answered += of_task;
        most = most.max(most_of_task);
    }
    // Both cases occurred often.
    let calls = usize::try_from(calls).unwrap();
    assert!(
        (calls / 3..calls * 19 / 20).contains(&answered),
        "{answered} of {calls} were answered"
    );
    until("no request is left", || left(&testbed.redis) == 0).await;
    for lane in LANES {
        assert_eq!(testbed.redis.epoch(lane), 0);
    }
    assert_eq!(testbed.redis.reconnects(), 0);
    // Counts the current calls of each task, and the dropped calls without a reply: in each crowd,
    // those after the last call that was waited for.
    let bound = usize::try_from(4 * TASKS * CROWD).unwrap();
    assert!(most <= bound, "{most} requests at once");
    if std::env::var_os(VARIABLE).is_some() {
        #[expect(clippy::print_stderr, reason = "the variable asks for the figures")]
        {
            eprintln!("{calls} calls, {answered} answered, at most {most} requests at once");
        }
    }
}

/// A call that is dropped before it is sent leaves nothing behind, even if nothing is ever sent
/// again.
#[tokio::test(start_paused = true)]
async fn a_dropped_call_is_forgotten_at_its_turn() {
    let testbed = MemoryTestbed::new(MemoryServer::new()).await;
    let connection = testbed.caller().await;
    for _ in 0..100 {
        let calls: Vec<Pending> = (0..1_000).map(|own| testbed.started(number(own))).collect();
        drop(calls);
        until("the dropped calls are forgotten", || {
            let left = connection.backlog();
            (left.waiting, left.in_flight, left.bytes) == (0, 0, 0)
        })
        .await;
    }
    // One call of each crowd was written before it was dropped.
    assert_eq!(
        testbed
            .server
            .socket(CALLER)
            .names()
            .iter()
            .filter(|name| *name == "EVALSHA")
            .count(),
        100
    );
}

/// The memory of a call in flight, without the texts of its keys and arguments: in its future, in
/// the channel of its answer, and in the ledger.
#[test]
fn a_call_in_flight_is_small() {
    /// A power of two, so that the ledger's doubled capacity has nothing to spare.
    const CALLS: u64 = 1 << 14;
    const LIMIT: u64 = 300;
    let runtime = Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let testbed = runtime.block_on(MemoryTestbed::new(MemoryServer::new()));
    let connection = runtime.block_on(testbed.caller());
    testbed.server.socket(CALLER).at(|state| state.deaf = true);
    let send = |own| {
        let sent = testbed
            .redis
            .send(Lane::Caller, number(own), KeyForm::Plain);
        answer(sent.unwrap())
    };
    let mut calls = Vec::with_capacity(usize::try_from(CALLS).unwrap());
    // All work is counted, because the runtime, including the driver, has only this thread.
    let counted = allocation_counter::measure(|| {
        runtime.block_on(async {
            for own in 0..CALLS {
                calls.push(send(own));
                if own % 64 == 63 {
                    while connection.backlog().unsent() > 0 {
                        tokio::task::yield_now().await;
                    }
                }
            }
        });
    });
    let size = u64::try_from(size_of_val(&calls[0])).unwrap();
    assert_eq!(
        u64::try_from(connection.backlog().in_flight).unwrap(),
        CALLS
    );
    let heap = u64::try_from(counted.bytes_current).unwrap() / CALLS;
    assert!(heap > 0, "no allocation was counted");
    if std::env::var_os(VARIABLE).is_some() {
        #[expect(clippy::print_stderr, reason = "the variable asks for the figures")]
        {
            eprintln!("a call in flight: {size} bytes in its future, {heap} on the heap");
        }
    }
    assert!(
        size + heap < LIMIT,
        "{size} in its future, {heap} on the heap"
    );
}
