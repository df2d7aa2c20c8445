//! A node whose target changes while it is called. The threads are callers, two supervisors, and
//! one that changes the target.

use super::*;
use crate::node::generation::give_up;

/// How often the node gets another target.
const SWITCHES: u64 = 2;

#[test]
fn former_targets_are_left_at_once() {
    check("former_targets_are_left_at_once", scenario);
}

struct Testbed {
    slots: [ConnectionSlot; 1],
    registry: Arc<SubscriptionRegistry>,
    /// The generation of the target.
    target: sync::AtomicU64,
    /// The last generation whose switch is complete.
    switched: sync::AtomicU64,
    connections: Mutex<Vec<Known>>,
}

#[derive(Clone)]
struct Known {
    connection: Arc<Connection>,
    generation: u64,
    socket: Socket,
    /// The supervisor is ending the connection, perhaps right now. The epoch of any call on it has
    /// already passed.
    given_up: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    Calls,
    Messages,
}

fn scenario() {
    let testbed = Arc::new(Testbed {
        slots: [ConnectionSlot::new()],
        registry: Arc::default(),
        target: sync::AtomicU64::new(0),
        switched: sync::AtomicU64::new(0),
        connections: Mutex::default(),
    });
    let spawn = |act: fn(&Testbed)| {
        let testbed = testbed.clone();
        shuttle::thread::spawn(move || act(&testbed))
    };
    let threads = vec![
        spawn(Testbed::switch_twice),
        spawn(|testbed| (0..4).for_each(|_| testbed.call())),
        spawn(|testbed| (0..4).for_each(|_| testbed.call())),
        spawn(|testbed| {
            (0..2).for_each(|_| drop(testbed.registry.subscribe(&Arc::from("n"), PubSub::Plain)))
        }),
        spawn(|testbed| testbed.supervise(For::Calls)),
        spawn(|testbed| testbed.supervise(For::Messages)),
    ];
    join(threads);
}

impl Testbed {
    fn switch_twice(&self) {
        for generation in 1..=SWITCHES {
            pause();
            // The same order as in `Node::switch`.
            self.target.store(generation, Ordering::SeqCst);
            give_up(&self.slots, &self.registry, generation, &Fault(LOST.into()));
            self.switched.store(generation, Ordering::SeqCst);
            let connections = self.connections.lock();
            let ended = connections
                .iter()
                .filter(|known| known.generation < generation);
            ended
                .filter(|known| !known.given_up)
                .for_each(|known| known.socket.seal());
        }
    }

    /// Opens connections to the target, until one to the last target is accepted.
    fn supervise(&self, role: For) {
        loop {
            let generation = self.target.load(Ordering::SeqCst);
            let made = Made::new(&self.registry);
            let (connection, socket) = (made.connection.clone(), made.socket.clone());
            let known = Known {
                connection,
                generation,
                socket,
                given_up: false,
            };
            self.connections.lock().push(known);
            pause();
            // A connection that was opened before the switch was complete may be refused. Then the
            // supervisor tries again.
            let was_over = self.switched.load(Ordering::SeqCst) >= generation;
            let taken = match role {
                For::Calls => self.slots[0].connected(&made.connection, generation),
                For::Messages => self.registry.connected(&made.connection, generation),
            };
            let is_the_target = self.target.load(Ordering::SeqCst) == generation;
            assert!(taken || !was_over || !is_the_target, "refused in vain");
            pause();
            if taken && generation == SWITCHES {
                pause();
                match role {
                    For::Calls => self.slots[0].close(),
                    For::Messages => self.registry.close(),
                }
                made.close(&self.registry);
                return made.settle();
            }
            // The connection is lost, unless the switch has already ended it.
            self.change(&made.connection, |known| known.given_up = true);
            match role {
                _ if !taken => {}
                For::Calls => self.slots[0].disconnected(Fault(LOST.into())),
                For::Messages => self.registry.disconnected(),
            }
            made.end(LOST, &self.registry);
            made.settle();
            // A supervisor pauses before it tries again. Without that, a schedule with few
            // interruptions may never run the thread that switches.
            shuttle::thread::yield_now();
        }
    }

    fn call(&self) {
        let (least, epoch) = (self.switched.load(Ordering::SeqCst), self.slots[0].epoch());
        let Ok(connection) = self.slots[0].connection() else {
            return;
        };
        let mut generation = 0;
        self.change(&connection, |known| generation = known.generation);
        assert!(generation >= least, "a connection to a former target");
        let call = Call::new(&ECHO, Vec::new(), [Arg::Text(Arc::from("1"))]);
        let outcome = connection
            .call(call, KeyForm::Plain)
            .and_then(|answer| block_on(answer).unwrap());
        let ended = [CallError::NotApplied(lost()), CallError::Unknown(lost())];
        if outcome.as_ref().is_err_and(|error| ended.contains(error)) {
            // INVARIANT SLOT-1 of `slot.rs`: the epoch shows that the call is in doubt.
            assert!(
                self.slots[0].epoch() > epoch,
                "the call ended before the epoch rose"
            );
        }
    }

    fn change(&self, connection: &Arc<Connection>, change: impl FnOnce(&mut Known)) {
        let mut connections = self.connections.lock();
        let mut known = connections.iter_mut();
        change(
            known
                .find(|known| Arc::ptr_eq(&known.connection, connection))
                .unwrap(),
        );
    }
}

fn lost() -> Fault {
    Fault(LOST.into())
}
