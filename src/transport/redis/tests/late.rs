//! Calls that are too old, wherever they are by then.

use super::ledger::Form;
use super::memory::{Cell, Memory, Pending, Pipe, echo};
use super::*;

static ECHO_LAST: Script = Script::new("echo_last", "return ARGV[#ARGV]");

/// With an argument so long that an outbox with it takes nothing more.
fn long(number: i64) -> Call {
    let filler = Arg::Text(Arc::from("x".repeat(70_000)));
    Call { script: &ECHO_LAST, keys: vec![], args: vec![filler, Arg::Int(number)] }
}

fn short(number: i64) -> Call {
    Call { script: &ECHO_LAST, keys: vec![], args: vec![Arg::Int(number)] }
}

fn length(call: &Call) -> usize {
    let mut bytes = bytes::BytesMut::new();
    encode::run(&mut bytes, call, Form::Hash);
    bytes.len()
}

/// The calls that reached the server, by their numbers.
fn arrived(pipe: &Pipe) -> Vec<String> {
    let of_calls = |words: &&Vec<String>| words[0] == "EVALSHA";
    pipe.at(|state| {
        state.commands.iter().filter(of_calls).map(|words| words.last().unwrap().clone()).collect()
    })
}

fn is_unknown(outcome: &Result<Value, CallError>) -> bool {
    matches!(outcome, Err(CallError::Unknown(fault)) if fault.0 == "no answer within 300 ms")
}

fn is_not_applied(outcome: &Result<Value, CallError>) -> bool {
    matches!(outcome, Err(CallError::NotApplied(fault)) if fault.0 == "no answer within 300 ms")
}

/// The calls 1 to 3, of which the kernel takes so many bytes before they are too old.
struct Late {
    cell: Cell,
    pipe: Pipe,
    outcomes: Vec<Result<Value, CallError>>,
}

impl Late {
    async fn new(calls: [Call; 3], room: usize) -> Self {
        let cell = Cell::new(Memory::answering(echo)).await;
        let pipe = cell.server.pipe(0);
        pipe.at(|state| (state.room, state.replies) = (room, 0));
        let started = Instant::now();
        let calls: Vec<Pending> = calls.map(|call| cell.started(call)).into();
        let outcomes = futures::future::join_all(calls).await;
        assert!(started.elapsed() < TIMING.command + Duration::from_millis(2));
        Late { cell, pipe, outcomes }
    }

    /// The server goes on, and answers a fourth call with its own reply, on the same connection.
    async fn goes_on(self, expected: &[&str]) {
        self.pipe.at(|state| (state.room, state.replies) = (usize::MAX, usize::MAX));
        let later = self.cell.redis.call(Lane::Caller, short(4)).await;
        assert_eq!(later, Ok(Value::Text("4".into())));
        assert_eq!(arrived(&self.pipe), expected);
        assert_eq!((self.cell.redis.reconnects(), self.cell.redis.epoch(Lane::Caller)), (0, 0));
        let left = self.cell.caller().await.left();
        assert_eq!((left.waiting, left.sent, left.bytes), (0, 0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn what_waits_and_what_the_kernel_has_not_taken_is_not_sent_any_more() {
    // The first is in the outbox, which takes nothing more: the others wait.
    let late = Late::new([long(1), long(2), short(3)], 0).await;
    assert!(late.outcomes.iter().all(is_not_applied), "{:?}", late.outcomes);
    late.goes_on(&["4"]).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_taken_in_part_is_unknown_and_the_rest_of_it_follows() {
    for room in [1, 17, length(&long(1)) - 1] {
        let late = Late::new([long(1), long(2), short(3)], room).await;
        let [one, two, three] = &late.outcomes[..] else { panic!() };
        assert!(is_unknown(one) && is_not_applied(two) && is_not_applied(three), "{room}");
        late.goes_on(&["1", "4"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_whole_in_the_outbox_is_withdrawn() {
    let (one, two) = (length(&short(1)), length(&short(2)));
    // Each number of bytes of the calls that the kernel may have taken.
    for room in one..=one + two + length(&short(3)) {
        let late = Late::new([short(1), short(2), short(3)], room).await;
        assert!(is_unknown(&late.outcomes[0]), "{room}");
        let begun = [true, room > one, room > one + two];
        for (begun, outcome) in begun.into_iter().zip(&late.outcomes).skip(1) {
            let told = if begun { is_unknown(outcome) } else { is_not_applied(outcome) };
            assert!(told, "{room}: {outcome:?}");
        }
        let numbers = ["1", "2", "3"].into_iter().zip(begun);
        let arrive: Vec<_> =
            numbers.filter(|(_, begun)| *begun).map(|(number, _)| number).collect();
        late.goes_on(&[&arrive[..], &["4"]].concat()).await;
    }
}

/// The others keep their time: one is not told earlier because another is told.
#[tokio::test(start_paused = true)]
async fn each_call_has_its_own_time() {
    let bed = Cell::new(Memory::answering(echo)).await;
    // Long enough to be told apart, and short enough for the silence not to be noticed.
    bed.server.pipe(0).at(|state| state.replies = 0);
    let start = Instant::now();
    let mut calls = Vec::new();
    for number in 0..10 {
        let call = bed.started(short(number));
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
        assert!((limit..limit + Duration::from_millis(2)).contains(&took), "{took:?}");
    }
    assert!(start.elapsed() < SECOND);
}

#[tokio::test(start_paused = true)]
async fn replies_that_are_late_but_come_do_not_cost_the_connection() {
    let bed = Cell::new(Memory::answering(echo)).await;
    let pipe = bed.server.pipe(0);
    for number in 0..30 {
        pipe.at(|state| state.replies = 0);
        let call = bed.started(short(number));
        // Now and then it is too late for the call, and not for the next one.
        let limit = TIMING.command.as_millis();
        let late = u64::try_from(limit).unwrap() * if number % 5 == 4 { 3 } else { 2 } / 3;
        sleep(Duration::from_millis(late + 1)).await;
        pipe.at(|state| state.replies = usize::MAX);
        let outcome = call.await;
        if number % 5 == 4 {
            assert!(is_unknown(&outcome), "{number}: {outcome:?}");
        } else {
            assert_eq!(outcome, Ok(Value::Text(number.to_string())));
        }
    }
    assert_eq!((bed.redis.reconnects(), bed.redis.epoch(Lane::Caller)), (0, 0));
}

#[test]
fn calls_are_told_in_time_where_their_runtime_stands_still() {
    needs_a_server!();
    let server = Server::start();
    server.command(&["SCRIPT", "LOAD", ADD.text]);
    let (bed, _callers) = Bed::on_a_runtime_that_stands_still(&server);
    let others = Builder::new_current_thread().enable_all().build().unwrap();
    others.block_on(async {
        // The first is written by whoever asks; the others wait for the driver.
        let all = futures::join!(
            bed.add(Lane::Caller, "n"),
            bed.add(Lane::Caller, "n"),
            bed.add(Lane::Caller, "n")
        );
        assert!(matches!(all.0, Err(CallError::Unknown(_))), "{all:?}");
        for waits in [&all.1, &all.2] {
            assert!(matches!(waits, Err(CallError::NotApplied(_))), "{all:?}");
        }
        bed.until_up(Lane::Caller).await;
        assert_eq!(count(&server, "n"), 1, "what was told to be not applied is not");
    });
}
