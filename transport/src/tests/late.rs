//! Calls that time out while they wait, in the outbox, partly written, or in flight.

use super::memory::{CALLER, MemoryServer, MemoryTestbed, Pending, Socket, echo};
use super::request::ScriptForm;
use super::*;

static ECHO_LAST: Script = Script::new("echo_last", "return ARGV[#ARGV]");

/// A call whose argument is so long that the outbox takes no other call.
fn long(number: i64) -> Call {
    let filler = Arg::Text(Arc::from("x".repeat(70_000)));
    Call::new(&ECHO_LAST, [], [filler, Arg::Int(number)])
}

fn short(number: i64) -> Call {
    Call::new(&ECHO_LAST, [], [Arg::Int(number)])
}

fn length(call: &Call) -> usize {
    let mut bytes = bytes::BytesMut::new();
    codec::write_call(&mut bytes, call, ScriptForm::Hash, KeyForm::Plain);
    bytes.len()
}

/// The calls that reached the server, by their numbers.
fn arrived(socket: &Socket) -> Vec<String> {
    let of_calls = |words: &&Vec<String>| words[0] == "EVALSHA";
    socket.at(|state| {
        state
            .commands
            .iter()
            .filter(of_calls)
            .map(|words| words.last().unwrap().clone())
            .collect()
    })
}

fn is_unknown(outcome: &Result<Value, CallError>) -> bool {
    matches!(outcome, Err(CallError::Unknown(fault)) if fault.0 == "no answer within 300 ms")
}

fn is_not_applied(outcome: &Result<Value, CallError>) -> bool {
    matches!(outcome, Err(CallError::NotApplied(fault)) if fault.0 == "no answer within 300 ms")
}

/// Three calls, numbered 1 to 3. The kernel takes `room` bytes of them before they time out.
struct Late {
    testbed: MemoryTestbed,
    socket: Socket,
    outcomes: Vec<Result<Value, CallError>>,
}

impl Late {
    async fn new(calls: [Call; 3], room: usize) -> Self {
        let testbed = MemoryTestbed::new(MemoryServer::answering(echo)).await;
        let socket = testbed.server.socket(CALLER);
        socket.at(|state| (state.room, state.replies) = (room, 0));
        let started = Instant::now();
        let calls: Vec<Pending> = calls.map(|call| testbed.started(call)).into();
        let outcomes = futures::future::join_all(calls).await;
        assert!(started.elapsed() < TIMING.command + Duration::from_millis(2));
        Late {
            testbed,
            socket,
            outcomes,
        }
    }

    /// Lets the server continue. It answers a fourth call with that call's own reply, on the same
    /// connection.
    async fn goes_on(self, expected: &[&str]) {
        self.socket
            .at(|state| (state.room, state.replies) = (usize::MAX, usize::MAX));
        let later = self.testbed.redis.call(Lane::Caller, short(4)).await;
        assert_eq!(later, Ok(Value::Text("4".into())));
        assert_eq!(arrived(&self.socket), expected);
        assert_eq!(
            (
                self.testbed.redis.reconnects(),
                self.testbed.redis.epoch(Lane::Caller)
            ),
            (0, 0)
        );
        let left = self.testbed.caller().await.backlog();
        assert_eq!((left.waiting, left.in_flight, left.bytes), (0, 0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn timed_out_calls_that_the_kernel_has_not_taken_are_never_sent() {
    // The first call fills the outbox, so the others wait.
    let late = Late::new([long(1), long(2), short(3)], 0).await;
    assert!(
        late.outcomes.iter().all(is_not_applied),
        "{:?}",
        late.outcomes
    );
    late.goes_on(&["4"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_partly_written_call_is_unknown_and_its_rest_is_sent() {
    for room in [1, 17, length(&long(1)) - 1] {
        let late = Late::new([long(1), long(2), short(3)], room).await;
        let [first, second, third] = &late.outcomes[..] else {
            panic!()
        };
        assert!(
            is_unknown(first) && is_not_applied(second) && is_not_applied(third),
            "{room}"
        );
        late.goes_on(&["1", "4"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_still_whole_in_the_outbox_is_withdrawn() {
    let (first, second) = (length(&short(1)), length(&short(2)));
    // For each number of bytes that the kernel may have taken.
    for room in first..=first + second + length(&short(3)) {
        let late = Late::new([short(1), short(2), short(3)], room).await;
        assert!(is_unknown(&late.outcomes[0]), "{room}");
        let begun = [true, room > first, room > first + second];
        for (begun, outcome) in begun.into_iter().zip(&late.outcomes).skip(1) {
            let matches = if begun {
                is_unknown(outcome)
            } else {
                is_not_applied(outcome)
            };
            assert!(matches, "{room}: {outcome:?}");
        }
        let numbers = ["1", "2", "3"].into_iter().zip(begun);
        let arrive: Vec<_> = numbers
            .filter(|(_, begun)| *begun)
            .map(|(number, _)| number)
            .collect();
        late.goes_on(&[&arrive[..], &["4"]].concat()).await;
    }
}

/// A call does not time out earlier because another call does.
#[tokio::test(start_paused = true)]
async fn each_call_has_its_own_time() {
    let testbed = MemoryTestbed::new(MemoryServer::answering(echo)).await;
    // Long enough to distinguish the calls, and too short for the supervisor to notice the silence.
    testbed.server.socket(CALLER).at(|state| state.replies = 0);
    let start = Instant::now();
    let mut calls = Vec::new();
    for number in 0..10 {
        let call = testbed.started(short(number));
        let pushed = Instant::now();
        calls.push(async move {
            let outcome = call.await;
            (outcome, pushed.elapsed())
        });
        sleep(Duration::from_millis(13)).await;
    }
    for (outcome, took) in futures::future::join_all(calls).await {
        assert!(is_unknown(&outcome), "{outcome:?}");
        let limit = TIMING.command;
        assert!(
            (limit..limit + Duration::from_millis(2)).contains(&took),
            "{took:?}"
        );
    }
    assert!(start.elapsed() < SECOND);
}

#[tokio::test(start_paused = true)]
async fn late_replies_do_not_end_the_connection() {
    let testbed = MemoryTestbed::new(MemoryServer::answering(echo)).await;
    let socket = testbed.server.socket(CALLER);
    for number in 0..30 {
        socket.at(|state| state.replies = 0);
        let call = testbed.started(short(number));
        // Sometimes the reply is too late for its own call, but not for the next call.
        let limit = TIMING.command.as_millis();
        let late = u64::try_from(limit).unwrap() * if number % 5 == 4 { 3 } else { 2 } / 3;
        sleep(Duration::from_millis(late + 1)).await;
        socket.at(|state| state.replies = usize::MAX);
        let outcome = call.await;
        if number % 5 == 4 {
            assert!(is_unknown(&outcome), "{number}: {outcome:?}");
        } else {
            assert_eq!(outcome, Ok(Value::Text(number.to_string())));
        }
    }
    assert_eq!(
        (
            testbed.redis.reconnects(),
            testbed.redis.epoch(Lane::Caller)
        ),
        (0, 0)
    );
}

/// The supervisor checks that the runtime responds only when a call is due.
#[tokio::test(start_paused = true)]
async fn without_an_expired_call_nothing_is_due() {
    let testbed = MemoryTestbed::new(MemoryServer::answering(echo)).await;
    let connection = testbed.caller().await;
    testbed.server.socket(CALLER).at(|state| state.replies = 0);
    let (limit, part) = (TIMING.command, TIMING.command / 3);
    let ping = connection.ping().unwrap();
    sleep(part).await;
    assert_eq!(
        connection.until_expiry(limit),
        limit,
        "a PING has no time-out"
    );
    let (call, dropped) = (testbed.started(short(1)), testbed.started(short(2)));
    sleep(part).await;
    assert_eq!(connection.until_expiry(limit), part * 2);
    drop(dropped);
    assert!(is_unknown(&call.await));
    assert_eq!(connection.until_expiry(limit), limit);
    drop(ping);
}

#[test]
fn calls_time_out_although_their_runtime_is_blocked() {
    needs_a_server!();
    let server = Server::start();
    server.command(&["SCRIPT", "LOAD", ADD.text]);
    let (testbed, _callers) = Testbed::on_a_runtime_that_stands_still(&server);
    let others = Builder::new_current_thread().enable_all().build().unwrap();
    others.block_on(async {
        // The caller writes the first call; the others wait for the driver.
        let all = futures::join!(
            testbed.add(Lane::Caller, "n"),
            testbed.add(Lane::Caller, "n"),
            testbed.add(Lane::Caller, "n")
        );
        assert!(matches!(all.0, Err(CallError::Unknown(_))), "{all:?}");
        for waits in [&all.1, &all.2] {
            assert!(matches!(waits, Err(CallError::NotApplied(_))), "{all:?}");
        }
        testbed.until_up(Lane::Caller).await;
        assert_eq!(
            count(&server, "n"),
            1,
            "a call that ended as not applied was applied"
        );
    });
}
