//! Every row of the table of states and every invariant, without a stream and without a clock.

use std::sync::Arc;

use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::time::Duration;

use super::BEFORE_FIRST;
use super::*;
use crate::request::{CallOutcome, CallRequest, KeyForm, SubscribeOutcome, SubscribeRequest};
use crate::subscriptions::SubscriptionRegistry;
use crate::{Arg, Call, Script};

static SCRIPT: Script = Script::new("script", "return ARGV[1]");

const ALL: usize = usize::MAX;

/// A ledger and its outbox. The test takes bytes instead of the kernel.
struct Testbed {
    ledger: Ledger,
    out: BytesMut,
    taken: u64,
    /// Every byte that was taken.
    written: Vec<u8>,
    /// Time is counted in seconds since this instant.
    start: Instant,
}

/// The receiving end of a call.
type Answer = oneshot::Receiver<CallOutcome>;

impl Testbed {
    fn new() -> Self {
        let (ledger, out, start) = (Ledger::default(), BytesMut::new(), Instant::now());
        Testbed {
            ledger,
            out,
            taken: 0,
            written: Vec::new(),
            start,
        }
    }

    fn at(&self, second: u64) -> Instant {
        self.start + Duration::from_secs(second)
    }

    fn call(&mut self, number: i64, second: u64) -> Answer {
        let (answer, receiver) = oneshot::channel();
        let request = CallRequest {
            call: call(number),
            answer,
            form: ScriptForm::Hash,
            keys: KeyForm::Plain,
        };
        self.ledger
            .push(ConnectionRequest::Call(request), self.at(second))
            .unwrap();
        receiver
    }

    fn encode(&mut self) -> usize {
        let before = self.ledger.in_flight();
        self.ledger.encode(&mut self.out, ALL);
        self.ledger.in_flight() - before
    }

    /// Takes this many bytes.
    fn take(&mut self, bytes: usize) {
        let bytes = bytes.min(self.out.len());
        self.written.extend(self.out.split_to(bytes));
        self.taken += bytes as u64;
    }

    fn reply(&mut self, reply: Result<Value, &str>) -> Result<(), Fault> {
        let notification = self
            .ledger
            .replied(reply.map_err(str::to_owned), self.taken)?;
        deliver(notification);
        Ok(())
    }

    /// Calls that were pushed up to this second time out. Returns since when the oldest other call
    /// waits.
    fn expire(&mut self, second: u64) -> Option<Instant> {
        let (oldest, mut notifications) = (self.at(second), Vec::new());
        self.ledger.expire(
            oldest,
            &late(),
            &mut self.out,
            self.taken,
            &mut notifications,
        );
        deliver(notifications);
        self.ledger.calls().min()
    }

    fn end(&mut self) {
        let mut notifications = Vec::new();
        self.ledger.end(&cut(), self.taken, &mut notifications);
        deliver(notifications);
    }
}

fn deliver(notifications: impl IntoIterator<Item = Notification>) {
    let registry = SubscriptionRegistry::default();
    Notification::deliver(notifications, &registry);
}

fn call(number: i64) -> Call {
    Call::new(&SCRIPT, [Arc::from("k")], [Arg::Int(number)])
}

/// The bytes of a call with the hash of its script.
fn by_hash(number: i64) -> BytesMut {
    let mut bytes = BytesMut::new();
    codec::write_call(&mut bytes, &call(number), ScriptForm::Hash, KeyForm::Plain);
    bytes
}

fn length(number: i64) -> usize {
    by_hash(number).len()
}

fn late() -> Fault {
    Fault("late".into())
}

fn cut() -> Fault {
    Fault("cut".into())
}

fn not_applied(fault: Fault) -> CallOutcome {
    Err(CallError::NotApplied(fault))
}

fn unknown(fault: Fault) -> CallOutcome {
    Err(CallError::Unknown(fault))
}

/// The state of a request when an event occurs.
#[derive(Clone, Copy, Debug)]
enum Stage {
    WaitingRequest,
    /// Encoded, with this many of its bytes taken.
    Taken(usize),
}

/// The event.
#[derive(Clone, Copy, Debug)]
enum Event {
    Ends,
    TooOld,
    Answered,
}

#[test]
fn each_row_of_the_table_for_a_call_whose_future_waits() {
    use {Event as E, Stage as S};
    let n = length(7);
    let answered = || Ok(Value::Int(1));
    let rows = [
        (S::WaitingRequest, E::TooOld, not_applied(late())),
        (S::WaitingRequest, E::Ends, not_applied(cut())),
        (S::Taken(0), E::TooOld, not_applied(late())),
        (S::Taken(0), E::Ends, not_applied(cut())),
        (S::Taken(1), E::TooOld, unknown(late())),
        (S::Taken(1), E::Ends, not_applied(cut())),
        (S::Taken(n - 1), E::TooOld, unknown(late())),
        (S::Taken(n - 1), E::Ends, not_applied(cut())),
        (S::Taken(n), E::TooOld, unknown(late())),
        (S::Taken(n), E::Ends, unknown(cut())),
        (S::Taken(n), E::Answered, answered()),
    ];
    for (stage, event, expected) in rows {
        let mut testbed = Testbed::new();
        let mut answer = testbed.call(7, 1);
        if let Stage::Taken(bytes) = stage {
            assert_eq!(testbed.encode(), 1);
            testbed.take(bytes);
        }
        assert_eq!(answer.try_recv(), Err(TryRecvError::Empty));
        match event {
            Event::Ends => testbed.end(),
            Event::TooOld => assert_eq!(testbed.expire(1), None),
            Event::Answered => testbed.reply(Ok(Value::Int(1))).unwrap(),
        }
        assert_eq!(answer.try_recv(), Ok(expected), "{stage:?} {event:?}");
        // INVARIANT LEDGER-2: the ledger has nothing left that could be answered again.
        let place = matches!((stage, event), (Stage::Taken(1..), Event::TooOld));
        assert_eq!(testbed.ledger.is_idle(), !place, "{stage:?} {event:?}");
        // The rest of the outbox is taken now. It contains the call only if a part of the call was
        // taken before.
        testbed.encode();
        testbed.take(ALL);
        let sent = match stage {
            Stage::Taken(1..) => n,
            _ => 0,
        };
        // After the end, the outbox is not written any more.
        if !matches!(event, Event::Ends) {
            assert_eq!(testbed.written.len(), sent, "{stage:?} {event:?}");
        }
    }
}

#[test]
fn a_dropped_call_that_lacks_its_script_is_not_sent_again() {
    // The call is dropped before the answer, dropped before it is sent again, or has timed out.
    for case in 0..3 {
        let mut testbed = Testbed::new();
        let mut answer = Some(testbed.call(1, 1));
        testbed.encode();
        testbed.take(ALL);
        let undo = testbed.call(2, 2);
        match case {
            0 => drop(answer.take()),
            1 => {}
            _ => {
                testbed.expire(1);
                assert_eq!(answer.as_mut().unwrap().try_recv(), Ok(unknown(late())));
            }
        }
        testbed.reply(Err("NOSCRIPT no")).unwrap();
        drop(answer);
        testbed.written.clear();
        assert_eq!(testbed.encode(), 1, "case {case}");
        testbed.take(ALL);
        assert_eq!(testbed.written, by_hash(2), "case {case}");
        drop(undo);
    }
}

#[test]
fn the_oldest_call_that_has_not_timed_out_is_known() {
    let mut testbed = Testbed::new();
    let early = [testbed.call(1, 1), testbed.call(2, 5)];
    testbed.encode();
    let later = [testbed.call(3, 3), testbed.call(4, 9)];
    for (second, rest) in [
        (0, Some(1)),
        (1, Some(3)),
        (2, Some(3)),
        (3, Some(5)),
        (8, Some(9)),
    ] {
        assert_eq!(
            testbed.expire(second),
            rest.map(|rest| testbed.at(rest)),
            "{second}"
        );
    }
    assert_eq!(testbed.expire(9), None);
    drop((early, later));
}

/// INVARIANT LEDGER-1, for any number of requests that are encoded at once.
#[test]
fn requests_keep_their_order_however_many_are_encoded_at_once() {
    for enough in 1..3 * length(10) {
        let mut testbed = Testbed::new();
        let answers: Vec<_> = (10..30).map(|number| testbed.call(number, 1)).collect();
        while testbed.ledger.waiting() > 0 {
            let before = testbed.ledger.in_flight();
            testbed.ledger.encode(&mut testbed.out, enough);
            let sent = testbed.ledger.in_flight() - before;
            assert!(
                sent > 0 && testbed.out.len() < enough + length(10),
                "{enough}: {sent}"
            );
            testbed.take(ALL);
        }
        let expected: Vec<_> = (10..30).map(by_hash).collect();
        assert_eq!(testbed.written, expected.concat());
        drop(answers);
    }
}

/// The possible answers to SUNSUBSCRIBE and its PING, with or without the server's own push before
/// them.
#[test]
fn a_sharded_unsubscription_ends_with_its_ping_whatever_came_before() {
    const PUSH: Option<Result<Value, &str>> = None;
    let pong = || Some(Ok(Value::Text("PONG".into())));
    let (moved, busy) = (Some(Err("MOVED 1 h:1")), Some(Err("BUSY a script runs")));
    for answers in [
        vec![PUSH, pong()],
        vec![PUSH, PUSH, pong()],
        vec![PUSH, moved.clone(), pong()],
        vec![moved.clone(), pong()],
        vec![busy.clone(), busy.clone()],
        vec![PUSH, busy.clone()],
        vec![PUSH, moved.clone(), busy.clone()],
        vec![moved, busy],
    ] {
        let mut testbed = Testbed::new();
        let request = ConnectionRequest::Unsubscribe(Arc::from("a"), PubSub::Sharded);
        testbed.ledger.push(request, testbed.at(1)).unwrap();
        let mut call = testbed.call(1, 1);
        testbed.encode();
        testbed.take(ALL);
        for answer in answers.clone() {
            assert_eq!(testbed.ledger.in_flight(), 2, "{answers:?}");
            match answer {
                None => testbed.ledger.unsubscribed("a"),
                Some(reply) => testbed.reply(reply).unwrap(),
            }
        }
        testbed.reply(Ok(Value::Int(1))).unwrap();
        assert_eq!(call.try_recv(), Ok(Ok(Value::Int(1))), "{answers:?}");
    }
}

/// ASKING and its call are one request. They are sent, withdrawn and timed out together.
#[test]
fn asking_belongs_to_its_call() {
    let asked = |testbed: &mut Testbed| {
        let (answer, receiver) = oneshot::channel();
        let (form, keys) = (ScriptForm::Hash, KeyForm::Asking);
        let request = CallRequest {
            call: call(1),
            answer,
            form,
            keys,
        };
        testbed
            .ledger
            .push(ConnectionRequest::Call(request), testbed.at(1))
            .unwrap();
        receiver
    };
    // The call is answered, even if the server does not know the script.
    let mut testbed = Testbed::new();
    let mut answer = asked(&mut testbed);
    for reply in [Err("NOSCRIPT no"), Ok(Value::Int(1))] {
        assert_eq!(testbed.encode(), 1);
        testbed.take(ALL);
        testbed.reply(Ok(Value::Text("OK".into()))).unwrap();
        assert_eq!(answer.try_recv(), Err(TryRecvError::Empty));
        testbed.reply(reply).unwrap();
    }
    assert_eq!(answer.try_recv(), Ok(Ok(Value::Int(1))));
    let asking = b"*1\r\n$6\r\nASKING\r\n";
    assert_eq!(
        testbed
            .written
            .windows(asking.len())
            .filter(|some| some == asking)
            .count(),
        2
    );
    // The call times out before it is sent. No ASKING is left before the next command.
    let mut testbed = Testbed::new();
    let answer = asked(&mut testbed);
    testbed.encode();
    testbed.expire(1);
    testbed.take(ALL);
    assert!(testbed.written.is_empty() && testbed.ledger.is_idle());
    drop(answer);
    // The call times out after it was sent. Both replies still belong to it.
    let mut testbed = Testbed::new();
    let answer = asked(&mut testbed);
    testbed.encode();
    testbed.take(ALL);
    testbed.expire(1);
    let mut next = testbed.call(2, 3);
    testbed.encode();
    testbed.take(ALL);
    for reply in ["OK", "late", "next"] {
        testbed.reply(Ok(Value::Text(reply.into()))).unwrap();
    }
    assert_eq!(next.try_recv(), Ok(Ok(Value::Text("next".into()))));
    drop(answer);
}

/// The reply to a PING: its number, counted from one.
fn numbered_pong(number: u64) -> Value {
    Value::Text((BEFORE_FIRST + number).to_string())
}

/// All PINGs must be answered in the same way as the first one. If that is PONG, no other request
/// may be answered PONG.
#[test]
fn a_proxy_that_answers_pong_must_always_do_so() {
    let plain = || Value::Text("PONG".into());
    for (first, second, is_answer) in [
        (numbered_pong(1), numbered_pong(2), true),
        (numbered_pong(1), plain(), false),
        (plain(), plain(), true),
        (plain(), numbered_pong(2), false),
    ] {
        let mut testbed = Testbed::new();
        for reply in [&first, &second] {
            testbed
                .ledger
                .push(ConnectionRequest::Ping(None), testbed.at(1))
                .unwrap();
            testbed.encode();
            testbed.take(ALL);
            let is_taken = testbed.reply(Ok(reply.clone())).is_ok();
            assert_eq!(
                is_taken,
                is_answer || *reply == first,
                "{first:?} {second:?}"
            );
        }
        if !is_answer {
            // The connection has ended.
            continue;
        }
        let call = testbed.call(1, 1);
        testbed.encode();
        testbed.take(ALL);
        assert_eq!(
            testbed.reply(Ok(plain())).is_ok(),
            first != plain(),
            "{first:?} {second:?}"
        );
        drop(call);
    }
}

fn subscribe(testbed: &mut Testbed, channel: &str) -> oneshot::Receiver<SubscribeOutcome> {
    let (answer, receiver) = oneshot::channel();
    let request = SubscribeRequest {
        channel: Arc::from(channel),
        generation: 1,
        epoch: 0,
        pubsub: PubSub::Plain,
        answer: Some(answer),
    };
    testbed
        .ledger
        .push(ConnectionRequest::Subscribe(request), testbed.at(1))
        .unwrap();
    receiver
}

/// Only calls have a timeout in the ledger. The caller of a subscription limits its time itself.
#[test]
fn only_calls_time_out() {
    let mut testbed = Testbed::new();
    let mut subscription = subscribe(&mut testbed, "a");
    testbed
        .ledger
        .push(
            ConnectionRequest::Unsubscribe(Arc::from("b"), PubSub::Plain),
            testbed.at(1),
        )
        .unwrap();
    let (answer, mut ponged) = oneshot::channel();
    testbed
        .ledger
        .push(ConnectionRequest::Ping(Some(answer)), testbed.at(1))
        .unwrap();
    let mut call = testbed.call(1, 1);
    for encoded in [false, true] {
        if encoded {
            call = testbed.call(1, 1);
            testbed.encode();
        }
        assert_eq!(testbed.expire(1), None);
        assert_eq!(call.try_recv(), Ok(not_applied(late())));
    }
    testbed.take(ALL);
    deliver(testbed.ledger.confirmed("subscribe", "a"));
    assert_eq!(subscription.try_recv(), Ok(Ok(())));
    assert!(testbed.ledger.confirmed("unsubscribe", "b").is_none());
    testbed.reply(Ok(numbered_pong(1))).unwrap();
    assert_eq!(ponged.try_recv(), Ok(()));
    assert!(testbed.ledger.is_idle());
}

/// Preflight measures the round trip with PING, which is then answered as the server answers.
#[test]
fn a_ping_of_a_caller_may_be_answered_with_pong() {
    let mut testbed = Testbed::new();
    let (answer, mut answered) = oneshot::channel();
    let words = vec![b"PING".to_vec()];
    let requests = [
        ConnectionRequest::Command(CommandRequest { words, answer }),
        ConnectionRequest::Ping(None),
    ];
    for request in requests {
        testbed.ledger.push(request, testbed.at(1)).unwrap();
    }
    testbed.encode();
    testbed.take(ALL);
    testbed.reply(Ok(Value::Text("PONG".into()))).unwrap();
    assert_eq!(answered.try_recv(), Ok(Ok(Value::Text("PONG".into()))));
}
