//! Every row of the table of states, and the invariants, without a stream and without a clock.

use tokio::sync::oneshot::error::TryRecvError;
use tokio::time::Duration;

use super::*;
use crate::protocol::{Arg, Script};

static SCRIPT: Script = Script::new("script", "return ARGV[1]");

const ALL: usize = usize::MAX;

/// A ledger and its outbox, of which bytes are taken as the test says.
struct Desk {
    ledger: Ledger,
    out: BytesMut,
    taken: u64,
    /// Every byte that was taken.
    wire: Vec<u8>,
    /// The time: seconds since this.
    start: Instant,
}

/// The end of a call where its answer arrives.
type Answer = oneshot::Receiver<Outcome>;

impl Desk {
    fn new() -> Self {
        let (ledger, out, start) = (Ledger::default(), BytesMut::new(), Instant::now());
        Desk { ledger, out, taken: 0, wire: Vec::new(), start }
    }

    fn at(&self, second: u64) -> Instant {
        self.start + Duration::from_secs(second)
    }

    fn call(&mut self, number: i64, second: u64) -> Answer {
        let (answer, receiver) = oneshot::channel();
        let run = Run { call: call(number), answer, form: Form::Hash };
        self.ledger.push(Request::Run(run), self.at(second)).unwrap();
        receiver
    }

    fn encode(&mut self) -> usize {
        let before = self.ledger.on_the_way();
        self.ledger.encode(&mut self.out, ALL);
        self.ledger.on_the_way() - before
    }

    /// So many bytes are taken.
    fn take(&mut self, bytes: usize) {
        let bytes = bytes.min(self.out.len());
        self.wire.extend(self.out.split_to(bytes));
        self.taken += bytes as u64;
    }

    fn reply(&mut self, reply: Result<Value, &str>) -> Result<(), Fault> {
        let told = self.ledger.replied(reply.map_err(str::to_owned), self.taken)?;
        say(told);
        Ok(())
    }

    /// What was pushed before this second is too old.
    fn expire(&mut self, second: u64) -> Option<Instant> {
        let (oldest, mut told) = (self.at(second), Vec::new());
        let rest = self.ledger.expire(oldest, &late(), &mut self.out, self.taken, &mut told);
        say(told);
        rest
    }

    fn end(&mut self) {
        let mut told = Vec::new();
        self.ledger.end(&cut(), self.taken, &mut told);
        say(told);
    }
}

fn say(told: impl IntoIterator<Item = Told>) {
    let hub = Hub::new();
    told.into_iter().for_each(|told| told.say(&hub));
}

fn call(number: i64) -> Call {
    Call { script: &SCRIPT, keys: vec![Arc::from("k")], args: vec![Arg::Int(number)] }
}

/// A call on the wire.
fn by_hash(number: i64) -> BytesMut {
    let mut bytes = BytesMut::new();
    encode::run(&mut bytes, &call(number), Form::Hash);
    bytes
}

/// The same with the text of its script.
fn by_text(number: i64) -> BytesMut {
    let mut bytes = BytesMut::new();
    encode::run(&mut bytes, &call(number), Form::Text);
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

fn not_applied(fault: Fault) -> Outcome {
    Err(CallError::NotApplied(fault))
}

fn unknown(fault: Fault) -> Outcome {
    Err(CallError::Unknown(fault))
}

/// Where a request is when something happens to it.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Waiting,
    /// Encoded, and so many of its bytes are taken.
    Taken(usize),
}

/// What happens.
#[derive(Clone, Copy, Debug)]
enum Event {
    Ends,
    TooOld,
    Answered,
}

#[test]
fn each_row_of_a_call_whose_future_waits() {
    use {Event as E, Stage as S};
    let n = length(7);
    let answered = || Ok(Value::Int(1));
    let rows = [
        (S::Waiting, E::TooOld, not_applied(late())),
        (S::Waiting, E::Ends, not_applied(cut())),
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
        let mut desk = Desk::new();
        let mut answer = desk.call(7, 1);
        if let Stage::Taken(bytes) = stage {
            assert_eq!(desk.encode(), 1);
            desk.take(bytes);
        }
        assert_eq!(answer.try_recv(), Err(TryRecvError::Empty));
        match event {
            Event::Ends => desk.end(),
            Event::TooOld => assert_eq!(desk.expire(1), None),
            Event::Answered => desk.reply(Ok(Value::Int(1))).unwrap(),
        }
        assert_eq!(answer.try_recv(), Ok(expected), "{stage:?} {event:?}");
        // INVARIANT L2: nothing is left that could be answered again.
        let place = matches!((stage, event), (Stage::Taken(1..), Event::TooOld));
        assert_eq!(desk.ledger.is_idle(), !place, "{stage:?} {event:?}");
        // All that was not taken is taken now: it is not there, unless a part of it was.
        desk.encode();
        desk.take(ALL);
        let sent = match stage {
            Stage::Taken(1..) => n,
            _ => 0,
        };
        // After the end nobody gives the outbox to the kernel any more.
        if !matches!(event, Event::Ends) {
            assert_eq!(desk.wire.len(), sent, "{stage:?} {event:?}");
        }
    }
}

#[test]
fn what_is_dropped_while_it_waits_is_forgotten() {
    let mut desk = Desk::new();
    let (one, two, three) = (desk.call(1, 1), desk.call(2, 1), desk.call(3, 1));
    drop(two);
    assert_eq!(desk.encode(), 2);
    desk.take(ALL);
    assert_eq!(desk.wire, [by_hash(1), by_hash(3)].concat());
    for (number, mut answer) in [(1, one), (3, three)] {
        desk.reply(Ok(Value::Int(number))).unwrap();
        assert_eq!(answer.try_recv(), Ok(Ok(Value::Int(number))));
    }
    assert!(desk.ledger.is_idle());
}

#[test]
fn what_is_dropped_after_it_was_encoded_keeps_its_place() {
    for taken in [0, length(1), ALL] {
        let mut desk = Desk::new();
        let (one, mut two) = (desk.call(1, 1), desk.call(2, 1));
        desk.encode();
        desk.take(taken);
        drop(one);
        desk.take(ALL);
        desk.reply(Ok(Value::Int(1))).unwrap();
        assert_eq!(two.try_recv(), Err(TryRecvError::Empty), "not the reply of the other");
        desk.reply(Ok(Value::Int(2))).unwrap();
        assert_eq!(two.try_recv(), Ok(Ok(Value::Int(2))));
    }
}

#[test]
fn a_call_without_its_script_is_sent_again_with_it_before_what_waits() {
    let mut desk = Desk::new();
    let mut one = desk.call(1, 1);
    desk.encode();
    desk.take(ALL);
    let mut two = desk.call(2, 1);
    desk.reply(Err("NOSCRIPT no")).unwrap();
    assert_eq!((one.try_recv(), desk.ledger.waiting()), (Err(TryRecvError::Empty), 2));
    desk.wire.clear();
    desk.encode();
    desk.take(ALL);
    assert_eq!(desk.wire, [by_text(1), by_hash(2)].concat());
    // Not a third time: this is the script's own answer.
    desk.reply(Err("NOSCRIPT again")).unwrap();
    assert_eq!(one.try_recv(), Ok(not_applied(Fault("NOSCRIPT again".into()))));
    desk.reply(Ok(Value::Int(2))).unwrap();
    assert_eq!(two.try_recv(), Ok(Ok(Value::Int(2))));
    assert!(desk.ledger.is_idle());
}

#[test]
fn a_call_without_its_script_and_without_its_future_is_not_sent_again() {
    // Dropped before the answer, between the answer and its turn, or told that it is too old.
    for case in 0..3 {
        let mut desk = Desk::new();
        let mut one = Some(desk.call(1, 1));
        desk.encode();
        desk.take(ALL);
        let undo = desk.call(2, 2);
        match case {
            0 => drop(one.take()),
            1 => {}
            _ => {
                desk.expire(1);
                assert_eq!(one.as_mut().unwrap().try_recv(), Ok(unknown(late())));
            }
        }
        desk.reply(Err("NOSCRIPT no")).unwrap();
        drop(one);
        desk.wire.clear();
        assert_eq!(desk.encode(), 1, "case {case}");
        desk.take(ALL);
        assert_eq!(desk.wire, by_hash(2), "case {case}");
        drop(undo);
    }
}

#[test]
fn a_call_that_waits_to_be_sent_with_its_text_was_not_applied() {
    for ends in [false, true] {
        let mut desk = Desk::new();
        let mut one = desk.call(1, 1);
        desk.encode();
        desk.take(ALL);
        desk.reply(Err("NOSCRIPT no")).unwrap();
        if ends {
            desk.end();
            assert_eq!(one.try_recv(), Ok(not_applied(cut())));
        } else {
            // It is as old as it was.
            assert_eq!(desk.expire(0), Some(desk.at(1)));
            assert_eq!(desk.expire(1), None);
            assert_eq!(one.try_recv(), Ok(not_applied(late())));
        }
        assert_eq!(desk.encode(), 0);
    }
}

/// Of three calls, sent one second after the other, any may be too old, wherever the kernel is.
#[test]
fn what_is_withdrawn_leaves_the_others_whole() {
    let lengths = [1, 22, 333].map(length);
    let whole: usize = lengths.iter().sum();
    for taken in 0..=whole {
        for old in [[true, false, false], [false, true, false], [false, false, true], [true; 3]] {
            let mut desk = Desk::new();
            let numbers = [1, 22, 333];
            let second = |old: bool| if old { 1 } else { 2 };
            let mut answers: Vec<_> =
                (0..3).map(|at| desk.call(numbers[at], second(old[at]))).collect();
            desk.encode();
            desk.take(taken);
            desk.expire(1);
            let mut expected = BytesMut::new();
            let mut first = 0;
            let mut left = Vec::new();
            for at in 0..3 {
                // Withdrawn if it is too old and none of it was taken.
                let begun = first < taken;
                first += lengths[at];
                if old[at] {
                    let outcome = if begun { unknown(late()) } else { not_applied(late()) };
                    assert_eq!(answers[at].try_recv(), Ok(outcome), "{taken} {old:?} {at}");
                }
                if begun || !old[at] {
                    expected.extend(by_hash(numbers[at]));
                    left.push(at);
                }
            }
            desk.take(ALL);
            assert_eq!(desk.wire, expected, "{taken} {old:?}");
            // Each of the others gets its own reply, and what comes later, too.
            let mut later = desk.call(4, 3);
            desk.encode();
            desk.take(ALL);
            for at in left {
                desk.reply(Ok(Value::Int(numbers[at]))).unwrap();
                if !old[at] {
                    assert_eq!(answers[at].try_recv(), Ok(Ok(Value::Int(numbers[at]))));
                }
            }
            desk.reply(Ok(Value::Int(4))).unwrap();
            assert_eq!(later.try_recv(), Ok(Ok(Value::Int(4))), "{taken} {old:?}");
            assert!(desk.ledger.is_idle());
        }
    }
}

#[test]
fn the_oldest_of_those_that_are_not_too_old_is_told() {
    let mut desk = Desk::new();
    let early = [desk.call(1, 1), desk.call(2, 5)];
    desk.encode();
    let later = [desk.call(3, 3), desk.call(4, 9)];
    for (second, rest) in [(0, Some(1)), (1, Some(3)), (2, Some(3)), (3, Some(5)), (8, Some(9))] {
        assert_eq!(desk.expire(second), rest.map(|rest| desk.at(rest)), "{second}");
    }
    assert_eq!(desk.expire(9), None);
    drop((early, later));
}

/// INVARIANT L1.
#[test]
fn a_reply_without_a_request_is_a_fault() {
    let mut desk = Desk::new();
    assert!(desk.reply(Ok(Value::Nil)).is_err(), "nothing was asked");
    let mut one = desk.call(1, 1);
    assert!(desk.reply(Ok(Value::Nil)).is_err(), "it waits");
    desk.encode();
    for _ in 0..length(1) {
        assert!(desk.reply(Ok(Value::Nil)).is_err(), "not all of it was sent");
        desk.take(1);
    }
    assert_eq!(one.try_recv(), Err(TryRecvError::Empty));
    desk.reply(Ok(Value::Nil)).unwrap();
    assert_eq!(one.try_recv(), Ok(Ok(Value::Nil)));
    assert!(desk.reply(Ok(Value::Nil)).is_err(), "it was answered");
}

/// INVARIANT L1: of every prefix that is encoded at once.
#[test]
fn order_is_that_of_the_pushes_however_much_is_encoded_at_once() {
    for enough in 1..3 * length(10) {
        let mut desk = Desk::new();
        let answers: Vec<_> = (10..30).map(|number| desk.call(number, 1)).collect();
        while desk.ledger.waiting() > 0 {
            let before = desk.ledger.on_the_way();
            desk.ledger.encode(&mut desk.out, enough);
            let sent = desk.ledger.on_the_way() - before;
            assert!(sent > 0 && desk.out.len() < enough + length(10), "{enough}: {sent}");
            desk.take(ALL);
        }
        let expected: Vec<_> = (10..30).map(by_hash).collect();
        assert_eq!(desk.wire, expected.concat());
        drop(answers);
    }
}

#[test]
fn what_is_closed_takes_nothing_more_and_answers_what_was_sent() {
    let mut desk = Desk::new();
    let mut sent = desk.call(1, 1);
    desk.encode();
    desk.take(ALL);
    let mut waits = desk.call(2, 1);
    let mut told = Vec::new();
    desk.ledger.close(&CallError::Closed, &mut told);
    say(told);
    assert_eq!(waits.try_recv(), Ok(Err(CallError::Closed)));
    let refused = desk.ledger.push(Request::Ping(None), desk.at(2));
    assert_eq!(refused, Err(CallError::Closed));
    assert!(!desk.ledger.is_quiet());
    desk.reply(Ok(Value::Nil)).unwrap();
    assert_eq!(sent.try_recv(), Ok(Ok(Value::Nil)));
    assert!(desk.ledger.is_quiet());
    // The first reason stays.
    desk.end();
    assert_eq!(desk.ledger.push(Request::Ping(None), desk.at(2)), Err(CallError::Closed));
}

#[test]
fn after_the_end_everything_is_refused_with_the_reason() {
    let mut desk = Desk::new();
    desk.end();
    let refused = desk.ledger.push(Request::Ping(None), desk.at(1));
    assert_eq!(refused, Err(CallError::NotApplied(cut())));
}

fn listen(desk: &mut Desk, channel: &str) -> oneshot::Receiver<Listening> {
    let (answer, receiver) = oneshot::channel();
    let listen = Listen { channel: Arc::from(channel), order: 1, answer: Some(answer) };
    desk.ledger.push(Request::Listen(listen), desk.at(1)).unwrap();
    receiver
}

#[test]
fn a_subscription_is_answered_by_its_own_push_or_by_an_error() {
    let mut desk = Desk::new();
    let mut before = desk.call(1, 1);
    let (mut a, mut b) = (listen(&mut desk, "a"), listen(&mut desk, "b"));
    let mut after = desk.call(2, 1);
    desk.encode();
    desk.take(ALL);
    let confirmed = |desk: &mut Desk, change, channel| {
        say(desk.ledger.confirmed(change, channel));
    };
    // Not yet its turn: nobody asked for this.
    confirmed(&mut desk, Change::Subscribed, "a");
    desk.reply(Ok(Value::Int(1))).unwrap();
    assert_eq!(before.try_recv(), Ok(Ok(Value::Int(1))));
    let others = [
        (Change::Subscribed, "b"),
        (Change::Subscribed, "A"),
        (Change::Subscribed, ""),
        (Change::Unsubscribed, "a"),
    ];
    for (change, channel) in others {
        confirmed(&mut desk, change, channel);
        assert_eq!(a.try_recv(), Err(TryRecvError::Empty), "{change:?} {channel}");
    }
    confirmed(&mut desk, Change::Subscribed, "a");
    assert_eq!(a.try_recv(), Ok(Ok(())));
    desk.reply(Err("NOPERM no")).unwrap();
    let refused = CallError::Refused(Fault("NOPERM no".into()));
    assert_eq!(b.try_recv(), Ok(Err(refused)));
    confirmed(&mut desk, Change::Subscribed, "b");
    desk.reply(Ok(Value::Int(2))).unwrap();
    assert_eq!(after.try_recv(), Ok(Ok(Value::Int(2))));
    assert!(desk.ledger.is_idle());
}

#[test]
fn an_unsubscription_is_answered_by_its_own_push_or_by_an_error() {
    for refused in [false, true] {
        let mut desk = Desk::new();
        desk.ledger.push(Request::Unlisten(Arc::from("a")), desk.at(1)).unwrap();
        let mut call = desk.call(1, 1);
        desk.encode();
        desk.take(ALL);
        if refused {
            desk.reply(Err("NOPERM no")).unwrap();
        } else {
            say(desk.ledger.confirmed(Change::Subscribed, "a"));
            say(desk.ledger.confirmed(Change::Unsubscribed, "b"));
            assert!(desk.ledger.confirmed(Change::Unsubscribed, "a").is_none());
        }
        desk.reply(Ok(Value::Int(1))).unwrap();
        assert_eq!(call.try_recv(), Ok(Ok(Value::Int(1))));
    }
}

#[test]
fn a_subscription_that_is_answered_like_a_call_is_a_fault() {
    let mut desk = Desk::new();
    let answer = listen(&mut desk, "a");
    desk.encode();
    desk.take(ALL);
    assert!(desk.reply(Ok(Value::Nil)).is_err());
    drop(answer);
}

/// Only calls have a time-out here: a subscription's is its caller's.
#[test]
fn what_is_not_a_call_is_never_too_old() {
    let mut desk = Desk::new();
    let mut subscription = listen(&mut desk, "a");
    desk.ledger.push(Request::Unlisten(Arc::from("b")), desk.at(1)).unwrap();
    let (pong, mut ponged) = oneshot::channel();
    desk.ledger.push(Request::Ping(Some(pong)), desk.at(1)).unwrap();
    let mut call = desk.call(1, 1);
    for encoded in [false, true] {
        if encoded {
            call = desk.call(1, 1);
            desk.encode();
        }
        assert_eq!(desk.expire(1), None);
        assert_eq!(call.try_recv(), Ok(not_applied(late())));
    }
    desk.take(ALL);
    say(desk.ledger.confirmed(Change::Subscribed, "a"));
    assert_eq!(subscription.try_recv(), Ok(Ok(())));
    assert!(desk.ledger.confirmed(Change::Unsubscribed, "b").is_none());
    desk.reply(Ok(Value::Text("PONG".into()))).unwrap();
    assert_eq!(ponged.try_recv(), Ok(()));
    assert!(desk.ledger.is_idle());
}
