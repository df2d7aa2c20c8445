//! Each event arrives in its order, whichever process sends it, and over no more connections than
//! allowed.

use leasehold_testbed::Server;

use crate::process::{Process, exists};
use crate::resource::Resource;

const PROGRAM: &str = env!("CARGO_BIN_EXE_webhooks");

fn start(server: &Server, receiver: &Resource, customers: &str) -> Process {
    let address = receiver.address();
    let arguments = ["--customers", customers, "--receiver", &address];
    let limits = ["--events", "4", "--connections", "2", "--lease", "3000"];
    Process::start(PROGRAM, server, &[&arguments[..], &limits].concat())
}

/// The events of one customer, in the order of their arrival.
fn arrived(receiver: &Resource, customer: u32) -> Vec<u32> {
    let prefix = format!("{customer}/");
    let of_customer = |visitor: &String| visitor.strip_prefix(&prefix).map(str::parse);
    let events = receiver.visitors();
    events
        .iter()
        .filter_map(of_customer)
        .map(Result::unwrap)
        .collect()
}

#[test]
fn all_processes_together_send_each_event_once_and_in_order() {
    let (server, receiver) = (Server::start(), Resource::start());
    for failing in ["1/1", "2/3", "3/4"] {
        receiver.refuse_once(failing);
    }
    let mut processes = [(); 3].map(|()| start(&server, &receiver, "3"));
    receiver.until_inside(2);
    receiver.open();
    for process in &mut processes {
        assert!(process.ended().success(), "{:#?}", process.lines());
    }
    for customer in 1..=3 {
        assert_eq!(arrived(&receiver, customer), [1, 2, 3, 4]);
    }
    assert_eq!(receiver.most(), 2);
    let failed = |process: &Process| process.count_with(" has failed: ");
    assert_eq!(processes.iter().map(failed).sum::<usize>(), 3);
}

#[test]
fn a_terminated_process_finishes_its_attempt_and_the_next_one_goes_on() {
    let (server, receiver) = (Server::start(), Resource::start());
    let mut first = start(&server, &receiver, "1");
    receiver.until_inside(1);
    first.signal("-TERM");
    first.says("terminating");
    receiver.open();
    assert!(first.ended().success(), "{:#?}", first.lines());
    assert_eq!(arrived(&receiver, 1), [1]);
    assert!(!exists(&server, "example:webhooks:1"), "it is released");

    let mut next = start(&server, &receiver, "1");
    assert!(next.ended().success(), "{:#?}", next.lines());
    assert_eq!(arrived(&receiver, 1), [1, 2, 3, 4]);
}

#[test]
fn the_events_of_a_killed_process_arrive_after_its_lease() {
    let (server, receiver) = (Server::start(), Resource::start());
    let mut first = start(&server, &receiver, "1");
    receiver.until_inside(1);
    first.kill();
    receiver.open();
    let mut next = start(&server, &receiver, "1");
    assert!(next.ended().success(), "{:#?}", next.lines());
    assert_eq!(arrived(&receiver, 1), [1, 2, 3, 4]);
}

#[test]
fn a_process_that_was_paused_beyond_its_lease_sends_no_further_event() {
    let (server, receiver) = (Server::start(), Resource::start());
    let mut slow = start(&server, &receiver, "1");
    receiver.until_inside(1);
    slow.signal("-STOP");
    let mut quick = start(&server, &receiver, "1");
    receiver.until_inside(2); // its lease has ended, and the next process sends the same event
    receiver.open();
    assert!(quick.ended().success(), "{:#?}", quick.lines());
    slow.signal("-CONT");
    assert!(slow.ended().success(), "{:#?}", slow.lines());
    // The event that was under way arrives twice: the receiver knows it by its number.
    let mut events = arrived(&receiver, 1);
    events.sort_unstable();
    assert_eq!(events, [1, 1, 2, 3, 4]);
    assert_eq!(
        slow.count_with("the lock was lost"),
        1,
        "{:#?}",
        slow.lines()
    );
}
