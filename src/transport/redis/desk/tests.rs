//! Orders are batched, keep their order per channel, and survive the connection.

use std::task::Poll;

use super::*;
use crate::transport::tests::inline_waker::{does_not_hang, poll_and_drop_when_woken};

fn name(text: &str) -> Arc<str> {
    Arc::from(text)
}

fn names(texts: &[&str]) -> Vec<Arc<str>> {
    texts.iter().copied().map(Arc::from).collect()
}

fn order(desk: &Desk, channel: &str) -> oneshot::Receiver<Result<(), CallError>> {
    desk.subscribe(&name(channel)).unwrap()
}

/// The seat in use.
fn seat(desk: &Desk) -> Seat {
    let state = desk.state.lock();
    Seat { number: state.seat, bell: state.bell.clone() }
}

fn take(desk: &Desk) -> Option<Batch> {
    desk.take(&seat(desk))
}

fn settle(desk: &Desk, fate: &Fate) {
    desk.settle(&seat(desk), fate);
}

fn fault() -> Fault {
    Fault("because".into())
}

fn confirmed(desk: &Desk, channels: &[&str]) {
    let answers: Vec<_> = channels.iter().map(|channel| order(desk, channel)).collect();
    assert_eq!(take(desk).unwrap().subscribe, names(channels));
    settle(desk, &Fate::Confirmed);
    for mut answer in answers {
        assert_eq!(answer.try_recv(), Ok(Ok(())));
    }
}

#[test]
fn requests_of_one_moment_make_one_batch() {
    let desk = Desk::new();
    let answers: Vec<_> = (0..1_200).map(|i| order(&desk, &format!("c{i}"))).collect();
    let mut sizes = Vec::new();
    while let Some(batch) = take(&desk) {
        sizes.push(batch.subscribe.len());
        settle(&desk, &Fate::Confirmed);
    }
    assert_eq!(sizes, [BATCH, BATCH, 200]);
    assert!(answers.into_iter().all(|mut answer| answer.try_recv() == Ok(Ok(()))));
    assert_eq!(desk.subscribed().len(), 1_200);
}

#[test]
fn one_channel_wanted_twice_is_sent_once() {
    let desk = Desk::new();
    let (mut first, mut second) = (order(&desk, "a"), order(&desk, "a"));
    assert_eq!(take(&desk).unwrap().subscribe, names(&["a"]));
    settle(&desk, &Fate::Confirmed);
    assert_eq!((first.try_recv(), second.try_recv()), (Ok(Ok(())), Ok(Ok(()))));
    // And not at all when it is confirmed already.
    let mut third = order(&desk, "a");
    assert_eq!(take(&desk), None);
    assert_eq!(third.try_recv(), Ok(Ok(())));
}

#[test]
fn orders_of_one_channel_are_never_in_one_batch() {
    let desk = Desk::new();
    confirmed(&desk, &["a"]);
    desk.unsubscribe(&name("a"));
    let _again = order(&desk, "a");
    desk.unsubscribe(&name("a"));
    let _other = order(&desk, "b");

    let first = take(&desk).unwrap();
    assert_eq!((first.unsubscribe, first.subscribe), (names(&["a"]), vec![]));
    let second = take(&desk).unwrap();
    assert_eq!((second.unsubscribe, second.subscribe), (vec![], names(&["a"])));
    settle(&desk, &Fate::Confirmed);
    let third = take(&desk).unwrap();
    assert_eq!((third.unsubscribe, third.subscribe), (names(&["a"]), names(&["b"])));
}

#[test]
fn an_unknown_channel_is_not_unsubscribed() {
    let desk = Desk::new();
    desk.unsubscribe(&name("a"));
    assert_eq!(take(&desk), None);
}

#[test]
fn nothing_is_sent_for_a_caller_that_left() {
    let desk = Desk::new();
    drop(order(&desk, "a"));
    assert_eq!(take(&desk), None);
}

#[test]
fn after_a_refusal_each_is_tried_alone_and_only_the_bad_one_fails() {
    let desk = Desk::new();
    let (mut good, mut bad, mut late) = (order(&desk, "g"), order(&desk, "b"), order(&desk, "l"));
    assert_eq!(take(&desk).unwrap().subscribe.len(), 3);
    settle(&desk, &Fate::Refused(fault()));
    let mut sent = Vec::new();
    while let Some(batch) = take(&desk) {
        sent.push(batch.subscribe.clone());
        let refused = batch.subscribe[0].as_ref() == "b";
        let fate = if refused { Fate::Refused(fault()) } else { Fate::Confirmed };
        settle(&desk, &fate);
    }
    assert_eq!(sent, [names(&["g"]), names(&["b"]), names(&["l"])]);
    assert_eq!(good.try_recv(), Ok(Ok(())));
    assert_eq!(bad.try_recv(), Ok(Err(CallError::Refused(fault()))));
    assert_eq!(late.try_recv(), Ok(Ok(())));
}

#[test]
fn a_lost_batch_is_sent_again_before_later_orders() {
    let desk = Desk::new();
    let _answers = (order(&desk, "a"), order(&desk, "b"));
    take(&desk).unwrap();
    let _later = order(&desk, "c");
    desk.lost();
    assert_eq!(take(&desk).unwrap().subscribe, names(&["a", "b", "c"]));
}

#[test]
fn nobody_waits_for_a_server_that_is_down() {
    let desk = Desk::new();
    confirmed(&desk, &["a", "b"]);
    let mut on_the_wire = order(&desk, "c");
    take(&desk).unwrap();
    let mut queued = order(&desk, "d");
    desk.unsubscribe(&name("a"));
    desk.lost();
    desk.down(&fault());
    let expected = Err(CallError::NotApplied(fault()));
    assert_eq!(on_the_wire.try_recv(), Ok(expected.clone()));
    assert_eq!(queued.try_recv(), Ok(expected.clone()));
    assert_eq!(desk.subscribe(&name("e")).map(drop), expected);
    // What was subscribed is restored, what was given up is not.
    let _seat = desk.seat();
    assert_eq!(desk.subscribed(), names(&["b"]));
}

#[test]
fn a_channel_that_cannot_be_restored_is_tried_alone_and_then_dropped() {
    let desk = Desk::new();
    confirmed(&desk, &["a", "b"]);
    desk.not_restored(&seat(&desk), &names(&["a", "b"]));
    assert_eq!(take(&desk).unwrap().subscribe.len(), 1);
    settle(&desk, &Fate::Confirmed);
    assert_eq!(take(&desk).unwrap().subscribe.len(), 1);
    settle(&desk, &Fate::Refused(fault()));
    assert_eq!(desk.subscribed().len(), 1);
    assert_eq!(take(&desk), None);
}

#[test]
fn closing_answers_everybody() {
    let desk = Desk::new();
    let mut waiting = order(&desk, "a");
    desk.close();
    assert_eq!(waiting.try_recv(), Ok(Err(CallError::Closed)));
    assert_eq!(desk.subscribe(&name("a")).map(drop), Err(CallError::Closed));
}

#[tokio::test]
async fn the_worker_of_an_earlier_connection_neither_takes_nor_settles() {
    let desk = Desk::new();
    let earlier = desk.seat();
    let mut parked = Box::pin(desk.next(&earlier));
    assert!(futures::poll!(&mut parked).is_pending());
    let later = desk.seat();
    let mut next = Box::pin(desk.next(&later));
    assert!(futures::poll!(&mut next).is_pending());
    // The earlier worker is still parked, but its bell does not ring any more.
    let mut answer = order(&desk, "a");
    let Poll::Ready(batch) = futures::poll!(&mut next) else { panic!("not woken") };
    assert_eq!(batch.subscribe, names(&["a"]));
    assert!(futures::poll!(&mut parked).is_pending());
    assert_eq!(desk.take(&earlier), None);
    desk.settle(&earlier, &Fate::Confirmed);
    assert!(answer.try_recv().is_err());
    desk.settle(&later, &Fate::Confirmed);
    assert_eq!(answer.try_recv(), Ok(Ok(())));
}

/// Leaves a channel when it is dropped, as a waiter does.
struct Leaves(Arc<Desk>);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.unsubscribe(&name("a"));
    }
}

/// Somebody waits for its subscription, and leaves when it is answered.
fn order_and_leave(desk: &Arc<Desk>) {
    let (leaves, order) = (Leaves(desk.clone()), order(desk, "a"));
    poll_and_drop_when_woken(async move {
        let _leaves = leaves;
        drop(order.await);
    });
}

#[test]
fn a_waiter_that_leaves_while_it_is_answered_does_not_wait_for_itself() {
    let settled = |desk: &Desk, fate: &Fate| {
        take(desk).unwrap();
        settle(desk, fate);
    };
    does_not_hang("its channel was subscribed before", || {
        let desk = Arc::new(Desk::new());
        confirmed(&desk, &["a"]);
        order_and_leave(&desk);
        take(&desk);
    });
    for fate in [Fate::Confirmed, Fate::Refused(fault()), Fate::NotYet(fault())] {
        does_not_hang(&format!("{fate:?}"), move || {
            let desk = Arc::new(Desk::new());
            order_and_leave(&desk);
            settled(&desk, &fate);
        });
    }
    for end in [Desk::close, |desk: &Desk| desk.down(&fault())] {
        does_not_hang("there is no connection", move || {
            let desk = Arc::new(Desk::new());
            order_and_leave(&desk);
            end(&desk);
        });
    }
}
