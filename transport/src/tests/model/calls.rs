//! Calls from several threads, while connections expire calls, end, and are replaced.

use tokio::sync::oneshot;

use super::*;
use crate::request::CallOutcome;

/// On a connection that lives, every call is answered, without the help of a clock.
#[test]
fn calls_are_answered() {
    check("calls_are_answered", || scenario(Fate::Lives));
}

/// Connections are given up at any moment. The server may have caused it or not.
#[test]
fn reported_outcomes_are_true() {
    check("reported_outcomes_are_true", || scenario(Fate::Ends));
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Lives,
    Ends,
}

#[derive(Default)]
struct Testbed {
    connections: Mutex<Vec<(Arc<Connection>, Socket)>>,
    reports: Mutex<Vec<Report>>,
}

/// One call, and what its caller knows about it.
struct Report {
    id: String,
    /// The number of its connection.
    number: usize,
    /// `None` if its future was dropped.
    outcome: Option<CallOutcome>,
    /// The previous call of the same caller on the same connection.
    after: Option<Before>,
}

struct Before {
    id: String,
    /// The future of the previous call was dropped before this call was made.
    dropped: bool,
}

/// A thread that calls on the caller's lane.
struct Caller {
    testbed: Arc<Testbed>,
    slot: Arc<ConnectionSlot>,
    id: usize,
}

type Sent = Result<oneshot::Receiver<CallOutcome>, CallError>;

fn scenario(fate: Fate) {
    let (testbed, slot, registry) = (
        Arc::new(Testbed::default()),
        Arc::new(ConnectionSlot::new()),
        Arc::new(SubscriptionRegistry::default()),
    );
    let mut made = Made::new(&registry);
    let mut gone = Vec::new();
    testbed.add(&made);
    slot.connected(&made.connection, 0);
    let callers: Vec<_> = (1..=3)
        .map(|id| {
            let mut caller = Caller {
                testbed: testbed.clone(),
                slot: slot.clone(),
                id: id * 100,
            };
            shuttle::thread::spawn(move || (0..2).for_each(|_| caller.act()))
        })
        .collect();
    if fate == Fate::Ends {
        for _ in 0..draw(3) {
            supervise(&made, &registry);
            slot.disconnected(Fault(LOST.into()));
            made.end(LOST, &registry);
            gone.push(std::mem::replace(&mut made, Made::new(&registry)));
            testbed.add(&made);
            slot.connected(&made.connection, 0);
        }
        let serves = supervise(&made, &registry);
        slot.close();
        if serves {
            made.close(&registry);
        } else {
            // The caller gives up, because no answer can come.
            made.connection.close(&*registry);
            made.end(CLOSED, &registry);
        }
        join(callers);
    } else {
        join(callers);
        slot.close();
        made.close(&registry);
    }
    gone.push(made);
    gone.into_iter().for_each(Made::settle);
    testbed.check(fate);
}

/// Supervises a connection until it is given up. Returns whether its server still answers.
fn supervise(made: &Made, registry: &SubscriptionRegistry) -> bool {
    for _ in 0..draw(4) {
        pause();
        if draw(2) == 0 {
            made.connection.expire(Duration::ZERO, "", registry);
        }
    }
    pause();
    match draw(4) {
        0 => made.socket.kill(),
        1 => made.driver.abort(),
        _ => return true,
    }
    false
}

impl Caller {
    /// Makes one call, which is waited for or dropped, or two calls at once.
    fn act(&mut self) {
        let epoch = self.slot.epoch();
        let Ok(connection) = self.slot.connection() else {
            return;
        };
        let number = self.testbed.number(&connection);
        assert!(epoch <= number as u64, "a connection of an earlier epoch");
        match draw(3) {
            0 => {
                let (id, answer) = self.send_call(&connection);
                self.wait(id, number, answer, None);
            }
            1 => {
                let (id, answer) = self.send_call(&connection);
                pause();
                let outcome = answer.err().map(Err);
                self.report(Report {
                    id: id.clone(),
                    number,
                    outcome,
                    after: None,
                });
                // The undo.
                let (undo, answer) = self.send_call(&connection);
                self.wait(undo, number, answer, Some(Before { id, dropped: true }));
            }
            _ => {
                let (first, answer) = self.send_call(&connection);
                let (second, other) = self.send_call(&connection);
                let before = Before {
                    id: first.clone(),
                    dropped: false,
                };
                self.wait(second, number, other, Some(before));
                self.wait(first, number, answer, None);
            }
        }
    }

    fn send_call(&mut self, connection: &Connection) -> (String, Sent) {
        self.id += 1;
        let id = self.id.to_string();
        let args = vec![Arg::Text(Arc::from(id.as_str()))];
        let asked = connection.call(Call::new(&ECHO, Vec::new(), args), KeyForm::Plain);
        (id, asked)
    }

    fn wait(&self, id: String, number: usize, asked: Sent, after: Option<Before>) {
        let outcome = asked.and_then(|answer| block_on(answer).expect("the call has an outcome"));
        if outcome == Err(CallError::NotApplied(lost()))
            || outcome == Err(CallError::Unknown(lost()))
        {
            // INVARIANT SLOT-1 of `slot.rs`.
            assert!(
                self.slot.epoch() > number as u64,
                "the call ended before the epoch rose"
            );
        }
        self.report(Report {
            id,
            number,
            outcome: Some(outcome),
            after,
        });
    }

    fn report(&self, report: Report) {
        self.testbed.reports.lock().push(report);
    }
}

impl Testbed {
    fn add(&self, made: &Made) {
        self.connections
            .lock()
            .push((made.connection.clone(), made.socket.clone()));
    }

    fn number(&self, connection: &Arc<Connection>) -> usize {
        let connections = self.connections.lock();
        connections
            .iter()
            .position(|(known, _)| Arc::ptr_eq(known, connection))
            .unwrap()
    }

    /// Compares the outcomes with what really happened.
    fn check(&self, fate: Fate) {
        let facts: Vec<_> = self
            .connections
            .lock()
            .iter()
            .map(|(_, socket)| socket.facts())
            .collect();
        for Report {
            id,
            number,
            outcome,
            after,
        } in &*self.reports.lock()
        {
            let ran: usize = facts
                .iter()
                .map(|facts| facts.ran.iter().filter(|ran| *ran == id).count())
                .sum();
            let facts = &facts[*number];
            assert!(ran <= 1, "{id} ran {ran} times");
            match outcome {
                Some(Ok(value)) => {
                    assert_eq!((ran, value), (1, &Value::Text(id.clone())), "{id}");
                }
                Some(Err(CallError::Unknown(fault))) => {
                    let ended = fault == &lost() || fault.0 == CLOSED;
                    assert!(
                        !ended || facts.whole.contains(id),
                        "{id} was surely not sent"
                    );
                }
                Some(Err(error)) => assert_eq!(ran, 0, "{id}: {error:?}"),
                None => {}
            }
            if fate == Fate::Lives && outcome.is_some() {
                assert!(matches!(outcome, Some(Ok(_))), "{id}: {outcome:?}");
            }
            let place = |id: &String| facts.ran.iter().position(|ran| ran == id);
            // INVARIANTS LEDGER-1 and LEDGER-3 of `ledger.rs`. Only a call that is waited for is
            // sent again.
            if let Some(before) = after
                && (before.dropped || !facts.without_script.contains(&before.id))
                && let (Some(first), Some(second)) = (place(&before.id), place(id))
            {
                assert!(first < second, "{id} ran before {}", before.id);
            }
        }
    }
}

fn lost() -> Fault {
    Fault(LOST.into())
}
