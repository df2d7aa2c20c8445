//! A connection that ends after each byte of the requests, and after each byte of the replies.
//! Every call gets the most exact outcome that can be known.

use super::memory::{CALLER, Ending, MemoryServer, MemoryTestbed, Pending, Socket};
use super::request::ScriptForm;
use super::*;

/// Replies of several lengths, in the order in which they are sent on each connection.
const REPLIES: [&str; 4] = [
    ":29999\r\n",
    "_\r\n",
    "$5\r\nhe\r\nx\r\n",
    "*2\r\n:1\r\n$1\r\nx\r\n",
];

/// Which calls came earlier on the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Nothing,
    /// A call that waits for its reply.
    Sent,
    /// A call that was sent and dropped.
    Dropped,
    /// A call that was sent, and one that was dropped before it was.
    DroppedEarly,
    /// A call that has timed out.
    TooOld,
}

/// How the connection ends when no more bytes are taken.
#[derive(Clone, Copy, Debug)]
enum How {
    Ends(Ending),
    /// The next write fails.
    Breaks,
}

const BEFORE: [Before; 5] = [
    Before::Nothing,
    Before::Sent,
    Before::Dropped,
    Before::DroppedEarly,
    Before::TooOld,
];

fn server() -> MemoryServer {
    // The owner's name contains the number of the reply.
    MemoryServer::answering(|words| match words[0].as_str() {
        "EVALSHA" => {
            let turn = words[4]
                .rsplit('-')
                .next()
                .unwrap()
                .parse::<usize>()
                .unwrap();
            REPLIES[turn].as_bytes().to_vec()
        }
        _ => memory::usual(words),
    })
}

fn values() -> [Value; 4] {
    [
        Value::Int(29_999),
        Value::Nil,
        Value::Text("he\r\nx".into()),
        Value::Array(vec![Value::Int(1), Value::Text("x".into())]),
    ]
}

/// One connection and the calls on it.
struct Case {
    testbed: MemoryTestbed,
    cases: usize,
}

/// A connection on which an earlier call was made.
struct Ready {
    socket: Socket,
    /// The earlier call, if its future still waits.
    before: Option<Pending>,
    /// Bytes of replies that come before those of the calls.
    replies: usize,
}

impl Case {
    async fn new() -> Self {
        Case {
            testbed: MemoryTestbed::new(server()).await,
            cases: 0,
        }
    }

    /// A call whose encoding has the same length in each case.
    fn call(&self, turn: usize) -> Call {
        take("the:lock", &format!("owner-{:06}-{turn}", self.cases))
    }

    async fn ready(&mut self, before: Before) -> Ready {
        self.cases += 1;
        self.testbed.caller().await;
        let socket = if self.cases == 1 {
            self.testbed.server.socket(CALLER)
        } else {
            self.testbed.server.newest()
        };
        socket.at(|state| state.replies = 0);
        if before == Before::Nothing {
            return Ready {
                socket,
                before: None,
                replies: 0,
            };
        }
        // No other request is waiting, so this call is written at once.
        let mut call = Some(self.testbed.started(self.call(3)));
        assert_eq!(socket.names(), ["EVALSHA"]);
        let mut replies = REPLIES[3].len();
        match before {
            Before::Nothing | Before::Sent => {}
            Before::Dropped => drop(call.take()),
            Before::DroppedEarly => drop(self.testbed.started(self.call(2))),
            Before::TooOld => {
                let outcome = call.take().unwrap().await;
                assert!(matches!(outcome, Err(CallError::Unknown(_))), "{outcome:?}");
                // The call is followed by a PING. After such a long silence, the supervisor sends
                // another one.
                until("the server gets two PINGs", || socket.names().len() == 3).await;
                replies += 2 * PONG_LENGTH;
            }
        }
        Ready {
            socket,
            before: call,
            replies,
        }
    }

    /// Checks that each call reached the server at most once.
    fn assert_sent_once(&self) {
        let mut owners: Vec<String> = Vec::new();
        for socket in self.testbed.server.sockets() {
            let commands = socket.at(|state| std::mem::take(&mut state.commands));
            let calls = commands.iter().filter(|words| words[0] == "EVALSHA");
            owners.extend(calls.map(|words| words[4].clone()));
        }
        let all = owners.len();
        owners.sort_unstable();
        owners.dedup();
        assert_eq!(owners.len(), all, "a call was sent again");
    }
}

fn length(call: &Call) -> usize {
    let mut bytes = bytes::BytesMut::new();
    codec::write_call(&mut bytes, call, ScriptForm::Hash, KeyForm::Plain);
    bytes.len()
}

fn assert_unknown(outcome: &Result<Value, CallError>, what: &str) {
    assert!(
        matches!(outcome, Err(CallError::Unknown(_))),
        "{what}: {outcome:?}"
    );
}

async fn cut_requests(calls: usize, before: Before, how: How) {
    let mut case = Case::new().await;
    let bytes = length(&case.call(0));
    assert!(bytes > 100, "the script's own encoding");
    for taken in 0..=bytes * calls {
        let what = format!("{calls} calls after {before:?}, {how:?} after {taken} bytes");
        let ready = case.ready(before).await;
        let had = ready.socket.at(|state| {
            (state.room, state.breaks) = (taken, matches!(how, How::Breaks));
            state.taken.len()
        });
        let under_way: Vec<_> = (0..calls)
            .map(|turn| case.testbed.started(case.call(turn)))
            .collect();
        until("this many bytes are taken", || {
            ready.socket.at(|state| state.taken.len()) == had + taken
        })
        .await;
        match how {
            How::Ends(ending) => ready.socket.end(ending),
            // All bytes are written, so no write can fail.
            How::Breaks if taken == bytes * calls => ready.socket.end(Ending::Reset),
            How::Breaks => {}
        }
        for (turn, call) in under_way.into_iter().enumerate() {
            let outcome = call.await;
            if bytes * (turn + 1) <= taken {
                assert_unknown(&outcome, &what);
            } else {
                assert!(
                    matches!(outcome, Err(CallError::NotApplied(_))),
                    "{what}: {outcome:?}"
                );
            }
        }
        if let Some(call) = ready.before {
            assert_unknown(&call.await, &what);
        }
    }
    case.assert_sent_once();
}

async fn cut_replies(calls: usize, before: Before, ending: Ending) {
    let mut case = Case::new().await;
    let whole: usize = REPLIES[..calls].iter().map(|reply| reply.len()).sum();
    let mut most = 0;
    for read in 0.. {
        let what =
            format!("{calls} calls after {before:?}, {ending:?} after {read} bytes of reply");
        let ready = case.ready(before).await;
        let had = ready.socket.at(|state| state.commands.len());
        let under_way: Vec<_> = (0..calls)
            .map(|turn| case.testbed.started(case.call(turn)))
            .collect();
        until("all requests are sent", || {
            ready.socket.at(|state| state.commands.len()) == had + calls
        })
        .await;
        ready.socket.at(|state| state.replies = read);
        ready.socket.end(ending);
        let mut end = ready.replies;
        for (turn, call) in under_way.into_iter().enumerate() {
            end += REPLIES[turn].len();
            let outcome = call.await;
            if end <= read {
                assert_eq!(outcome, Ok(values()[turn].clone()), "{what}");
            } else {
                assert_unknown(&outcome, &what);
            }
        }
        if let Some(call) = ready.before {
            let outcome = call.await;
            if read >= REPLIES[3].len() {
                assert_eq!(outcome, Ok(values()[3].clone()), "{what}");
            } else {
                assert_unknown(&outcome, &what);
            }
        }
        most = ready.replies + whole;
        if read == most {
            break;
        }
    }
    assert!(most >= whole);
    case.assert_sent_once();
}

#[tokio::test(start_paused = true)]
async fn a_call_cut_after_any_byte_has_the_right_outcome() {
    for before in BEFORE {
        for how in [
            How::Ends(Ending::Closed),
            How::Ends(Ending::Reset),
            How::Breaks,
        ] {
            cut_requests(1, before, how).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn calls_in_one_write_cut_after_any_byte_have_the_right_outcomes() {
    for before in BEFORE {
        cut_requests(2, before, How::Ends(Ending::Closed)).await;
        cut_requests(3, before, How::Breaks).await;
    }
}

#[tokio::test(start_paused = true)]
async fn replies_cut_after_any_byte_give_the_right_outcomes() {
    for calls in 1..=3 {
        for before in BEFORE {
            for ending in [Ending::Closed, Ending::Reset] {
                cut_replies(calls, before, ending).await;
            }
        }
    }
}

/// The tests above about several calls assume that one write carries them.
#[tokio::test(start_paused = true)]
async fn simultaneous_calls_are_sent_in_one_write() {
    let mut case = Case::new().await;
    let ready = case.ready(Before::Sent).await;
    let writes = ready.socket.at(|state| state.writes);
    let under_way: Vec<_> = (0..3)
        .map(|turn| case.testbed.started(case.call(turn)))
        .collect();
    until("all requests are sent", || ready.socket.names().len() == 4).await;
    assert_eq!(ready.socket.at(|state| state.writes), writes + 1);
    drop(under_way);
}
