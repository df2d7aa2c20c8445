//! Calls from several threads, while connections expire calls, end, and are replaced.

use tokio::sync::oneshot;

use super::super::super::ledger::Outcome;
use super::*;

/// A connection that lives: everything is answered, without any help by the clock.
#[test]
fn calls_are_answered() {
    check("calls_are_answered", || world(Fate::Lives));
}

/// Connections that are given up at any moment, with or without the server's doing.
#[test]
fn calls_are_told_the_truth() {
    check("calls_are_told_the_truth", || world(Fate::Ends));
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Lives,
    Ends,
}

#[derive(Default)]
struct World {
    connections: Mutex<Vec<(Arc<Connection>, Wire)>>,
    told: Mutex<Vec<Report>>,
}

/// One call and what its caller knows.
struct Report {
    id: String,
    /// Which connection it was given to.
    number: usize,
    /// `None`: its future was dropped.
    outcome: Option<Outcome>,
    /// The call before it on the same connection, by the same caller.
    after: Option<Before>,
}

struct Before {
    id: String,
    /// Its future was dropped before this call was made.
    dropped: bool,
}

/// One thread of the caller's lane.
struct Caller {
    world: Arc<World>,
    line: Arc<Line>,
    id: usize,
}

type Asked = Result<oneshot::Receiver<Outcome>, CallError>;

fn world(fate: Fate) {
    let (world, line, hub) =
        (Arc::new(World::default()), Arc::new(Line::new()), Arc::new(Hub::new()));
    let mut made = Made::new(&hub);
    let mut gone = Vec::new();
    world.add(&made);
    line.up(&made.connection);
    let callers: Vec<_> = (1..=3)
        .map(|id| {
            let mut caller = Caller { world: world.clone(), line: line.clone(), id: id * 100 };
            shuttle::thread::spawn(move || (0..2).for_each(|_| caller.acts()))
        })
        .collect();
    if fate == Fate::Ends {
        for _ in 0..draw(3) {
            supervise(&made, &hub);
            line.down(Fault(LOST.into()));
            made.end(LOST, &hub);
            gone.push(std::mem::replace(&mut made, Made::new(&hub)));
            world.add(&made);
            line.up(&made.connection);
        }
        let serves = supervise(&made, &hub);
        line.close();
        if serves {
            made.close(&hub);
        } else {
            // Its patience ends: no answer can come.
            made.connection.close(&hub);
            made.end(CLOSED, &hub);
        }
        join(callers);
    } else {
        join(callers);
        line.close();
        made.close(&hub);
    }
    gone.push(made);
    gone.into_iter().for_each(Made::settle);
    world.check(fate);
}

/// Until it is given up; says whether it still serves.
fn supervise(made: &Made, hub: &Hub) -> bool {
    for _ in 0..draw(4) {
        pause();
        if draw(2) == 0 {
            made.connection.expire(Duration::ZERO, hub);
        }
    }
    pause();
    match draw(4) {
        0 => made.wire.kill(),
        1 => made.driver.abort(),
        _ => return true,
    }
    false
}

impl Caller {
    /// One call that is waited for or dropped, or two at once.
    fn acts(&mut self) {
        let epoch = self.line.epoch();
        let Ok(connection) = self.line.connection() else { return };
        let number = self.world.number(&connection);
        assert!(epoch <= number as u64, "a connection of an earlier epoch");
        match draw(3) {
            0 => {
                let (id, answer) = self.asks(&connection);
                self.waits(id, number, answer, None);
            }
            1 => {
                let (id, answer) = self.asks(&connection);
                pause();
                let outcome = answer.err().map(Err);
                self.reports(Report { id: id.clone(), number, outcome, after: None });
                // What undoes it.
                let (undo, answer) = self.asks(&connection);
                self.waits(undo, number, answer, Some(Before { id, dropped: true }));
            }
            _ => {
                let (first, answer) = self.asks(&connection);
                let (second, other) = self.asks(&connection);
                let before = Before { id: first.clone(), dropped: false };
                self.waits(second, number, other, Some(before));
                self.waits(first, number, answer, None);
            }
        }
    }

    fn asks(&mut self, connection: &Connection) -> (String, Asked) {
        self.id += 1;
        let id = self.id.to_string();
        let args = vec![Arg::Text(Arc::from(id.as_str()))];
        let asked = connection.run(Call { script: &ECHO, keys: Vec::new(), args });
        (id, asked)
    }

    fn waits(&self, id: String, number: usize, asked: Asked, after: Option<Before>) {
        let outcome = asked.and_then(|answer| block_on(answer).expect("it is told something"));
        if outcome == Err(CallError::NotApplied(lost()))
            || outcome == Err(CallError::Unknown(lost()))
        {
            // INVARIANT I1 of `line.rs`.
            assert!(self.line.epoch() > number as u64, "told of the end before the epoch rose");
        }
        self.reports(Report { id, number, outcome: Some(outcome), after });
    }

    fn reports(&self, report: Report) {
        self.world.told.lock().push(report);
    }
}

impl World {
    fn add(&self, made: &Made) {
        self.connections.lock().push((made.connection.clone(), made.wire.clone()));
    }

    fn number(&self, connection: &Arc<Connection>) -> usize {
        let connections = self.connections.lock();
        connections.iter().position(|(one, _)| Arc::ptr_eq(one, connection)).unwrap()
    }

    /// What was told is what happened.
    fn check(&self, fate: Fate) {
        let facts: Vec<_> = self.connections.lock().iter().map(|(_, wire)| wire.facts()).collect();
        for Report { id, number, outcome, after } in &*self.told.lock() {
            let ran: usize =
                facts.iter().map(|facts| facts.ran.iter().filter(|ran| *ran == id).count()).sum();
            let facts = &facts[*number];
            assert!(ran <= 1, "{id} ran {ran} times");
            match outcome {
                Some(Ok(value)) => {
                    assert_eq!((ran, value), (1, &Value::Text(id.clone())), "{id}");
                }
                Some(Err(CallError::Unknown(fault))) => {
                    let ended = fault == &lost() || fault.0 == CLOSED;
                    assert!(!ended || facts.whole.contains(id), "{id} was surely not sent");
                }
                Some(Err(error)) => assert_eq!(ran, 0, "{id} was told {error:?}"),
                None => {}
            }
            if fate == Fate::Lives && outcome.is_some() {
                assert!(matches!(outcome, Some(Ok(_))), "{id}: {outcome:?}");
            }
            let place = |id: &String| facts.ran.iter().position(|ran| ran == id);
            // INVARIANTS L1 and L3 of `ledger.rs`. Only a call that is waited for is sent again.
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
