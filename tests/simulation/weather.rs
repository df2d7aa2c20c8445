//! What goes wrong and when, drawn from the seed.

use std::time::Duration;

use leasehold::test_util::Restart;
use tokio::time::Instant;

use crate::connection::{Connection, Trouble};
use crate::kind::Kind;
use crate::plan::{Plan, Weather, ms, name_of};
use crate::workload::Workload;
use crate::world::World;

pub(crate) struct Changes {
    rng: fastrand::Rng,
    /// Faults that will be ended, with the time of their end.
    pending: Vec<(Instant, Fault)>,
    /// Which process shuts its clients down in the middle of its work, and when.
    closes: Option<(Instant, usize)>,
    /// When the clock of each server last ran ahead a little.
    drifted: Vec<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The connections of a process to a server.
    Connection(usize, usize, Trouble),
    Frozen(usize),
    /// A server.
    Down(usize),
    Paused(usize),
}

/// Faults that are over in a moment.
#[derive(Clone, Copy, Debug)]
enum Strike {
    /// A name is evicted, perhaps with other keys of its lock.
    Eviction,
    /// With its data.
    Restart,
    /// A restart without its data.
    Emptying,
    ClockJump,
    ScriptFlush,
}

impl Changes {
    pub(crate) fn new(plan: &Plan) -> Self {
        Changes {
            rng: plan.kind.rng(plan.seed, 0x3EA7),
            pending: Vec::new(),
            closes: Changes::closing(plan),
            drifted: vec![Instant::now(); plan.engines],
        }
    }

    fn closing(plan: &Plan) -> Option<(Instant, usize)> {
        let mut rng = plan.kind.rng(plan.seed, 0xC105E);
        let at = Instant::now() + plan.duration.mul_f64(0.2 + 0.7 * rng.f64());
        // The client that never pauses is the measure for the others.
        let process = rng.usize(1..plan.processes);
        (plan.wild && rng.bool()).then_some((at, process))
    }

    /// Microseconds until the next look.
    pub(crate) fn step(&mut self) -> u64 {
        self.rng.u64(5_000..30_000)
    }

    pub(crate) fn change(&mut self, world: &mut World, workload: &mut dyn Workload) {
        self.end_what_is_due(world);
        self.close_what_is_due(world);
        if world.plan.drifts {
            self.drift(world);
        }
        match world.plan.weather {
            Weather::Storm if self.rng.u8(0..12) == 0 => self.blow(world, workload),
            Weather::Minority if self.rng.u8(0..15) == 0 => self.trouble_one(world, workload),
            Weather::Lag if self.rng.u8(0..25) == 0 => {
                let victim = self.rng.usize(0..world.processes.len());
                world.processes[victim]
                    .connections
                    .iter()
                    .for_each(Connection::lag);
            }
            Weather::Crash if self.rng.u16(0..150) == 0 => self.crash(world),
            _ => {}
        }
    }

    fn close_what_is_due(&mut self, world: &World) {
        let Some((_, number)) = self.closes.filter(|(at, _)| *at <= Instant::now()) else {
            return;
        };
        self.closes = None;
        let process = &world.processes[number];
        if !process.alive {
            return;
        }
        let (ledger, clients) = (world.ledger.clone(), process.clients.clone());
        ledger.note(&format!("process {number} shuts down"));
        ledger.closes(number);
        tokio::spawn(async move {
            for client in clients {
                let done = client.shutdown(ms(5000)).await;
                ledger.note(&format!("process {number} has shut down: {done:?}"));
                if done.is_ok() {
                    ledger.has_closed(number);
                }
            }
        });
    }

    fn crash(&mut self, world: &mut World) {
        let victim = self.rng.usize(0..world.processes.len());
        // One process must stay to look after the latches.
        let spared = world.plan.kind == Kind::Latch && victim == 0;
        let alive = world
            .processes
            .iter()
            .filter(|process| process.alive)
            .count();
        let closed = world.ledger.is_closed(victim);
        if world.processes[victim].alive && alive > 1 && !closed && !spared {
            world.crash(victim);
        }
    }

    /// At most once within any lease, and within the margin of a lease.
    fn drift(&mut self, world: &World) {
        let engine = self.rng.usize(0..world.engines.len());
        if self.drifted[engine].elapsed() > world.plan.lease + ms(20) {
            self.drifted[engine] = Instant::now();
            world.engines[engine].jump_clock(world.plan.drift());
            world
                .ledger
                .note(&format!("the clock of server {engine} is a little ahead"));
        }
    }

    /// Troubles a minority of the servers.
    fn trouble_one(&mut self, world: &World, workload: &mut dyn Workload) {
        let engine = self.rng.usize(0..world.engines.len());
        let bad = |fault: &Fault| match fault {
            Fault::Down(engine) | Fault::Paused(engine) => Some(*engine),
            _ => None,
        };
        let bad: Vec<_> = self
            .pending
            .iter()
            .filter_map(|(_, fault)| bad(fault))
            .collect();
        if bad.contains(&engine) || bad.len() >= (world.engines.len() - 1) / 2 {
            return;
        }
        let span = self.span(&world.plan);
        let at = (engine, self.rng.usize(0..world.plan.names));
        match self.rng.u8(0..6) {
            0 | 1 => self.begin(world, Fault::Down(engine), span),
            2 | 3 => self.begin(world, Fault::Paused(engine), span),
            _ if world.plan.breaks() => {
                let broken = [Strike::Eviction, Strike::Emptying, Strike::ClockJump];
                let which = broken[self.rng.usize(0..3)];
                self.strike(world, workload, which, at);
            }
            _ => self.strike(world, workload, Strike::Restart, at),
        }
    }

    fn blow(&mut self, world: &World, workload: &mut dyn Workload) {
        let victim = self.rng.usize(0..world.processes.len());
        let name = self.rng.usize(0..world.plan.names);
        let engine = match (world.plan.kind, world.engines.len()) {
            // The engine of this name.
            (Kind::Multi, engines) => name % engines,
            (_, 1) => 0,
            (_, engines) => self.rng.usize(0..engines),
        };
        let span = self.span(&world.plan);
        let which = self
            .rng
            .u8(0..if world.plan.kind.is_lock() { 11 } else { 12 });
        let connection = |trouble| Fault::Connection(victim, engine, trouble);
        let breaks = world.plan.breaks();
        let latch = world.plan.kind == Kind::Latch;
        let mut strike = |which| self.strike(world, workload, which, (engine, name));
        let fault = match which {
            0 => connection(Trouble::Cut),
            1 => connection(Trouble::CutMessages),
            2 if world.plan.hears => connection(Trouble::Cut),
            2 => connection(Trouble::Deaf),
            3 => connection(Trouble::Mute),
            4 => Fault::Frozen(victim),
            5 => Fault::Paused(engine),
            6 if breaks => return strike(Strike::Eviction),
            7 => return strike(Strike::Restart),
            // Replies to repeated counts of a latch expire by this clock.
            9 if breaks && !latch => return strike(Strike::ClockJump),
            8 | 9 if breaks => return strike(Strike::Emptying),
            10 => return strike(Strike::ScriptFlush),
            _ => Fault::Down(engine),
        };
        self.begin(world, fault, span);
    }

    /// Long enough for a frozen process to miss its leases.
    fn span(&mut self, plan: &Plan) -> Duration {
        plan.lease.mul_f64(0.2 + 1.5 * self.rng.f64())
    }

    fn begin(&mut self, world: &World, fault: Fault, span: Duration) {
        if self.pending.iter().any(|(_, pending)| *pending == fault) {
            return;
        }
        let paused = matches!(fault, Fault::Paused(_));
        let span = if paused {
            span.min(world.plan.longest_pause())
        } else {
            span
        };
        world.ledger.note(&format!("{fault:?} for {span:?}"));
        match fault {
            Fault::Connection(victim, engine, trouble) => {
                world.processes[victim].connections[engine].begin(trouble);
            }
            Fault::Frozen(victim) => {
                world.frozen.freezes(victim);
                world.processes[victim].gate.freeze();
            }
            Fault::Down(engine) => world.engines[engine].cut(),
            Fault::Paused(engine) => world.engines[engine].pause(),
        }
        self.pending.push((Instant::now() + span, fault));
    }

    fn end_what_is_due(&mut self, world: &World) {
        let now = Instant::now();
        let (due, later): (Vec<_>, Vec<_>) = self.pending.drain(..).partition(|(at, _)| *at <= now);
        self.pending = later;
        for (_, fault) in due {
            world.ledger.note(&format!("{fault:?} ends"));
            match fault {
                Fault::Connection(victim, engine, _) => {
                    world.processes[victim].connections[engine].end();
                }
                Fault::Frozen(victim) => world.thaw(victim),
                Fault::Down(engine) => world.engines[engine].heal(),
                Fault::Paused(engine) => world.engines[engine].resume(),
            }
        }
    }

    /// Momentary faults. Those by which the server forgets holds make them void.
    fn strike(
        &mut self,
        world: &World,
        workload: &mut dyn Workload,
        which: Strike,
        (engine, name): (usize, usize),
    ) {
        let server = &world.engines[engine];
        let names: Vec<_> = world.plan.names_on(engine).collect();
        world
            .ledger
            .note(&format!("{which:?} at server {engine}, {}", name_of(name)));
        match which {
            Strike::Eviction => {
                workload.forgets(world, engine, &[name]);
                world
                    .histories
                    .forgot(Instant::now(), engine, [name_of(name)]);
                server.lose(&name_of(name));
                for key in workload.evicted_with(name, &mut self.rng) {
                    world.ledger.note(&format!("{key} is evicted"));
                    server.lose(&key);
                }
            }
            Strike::Restart => server.restart(Restart::WithData),
            Strike::Emptying => {
                workload.forgets(world, engine, &names);
                world
                    .histories
                    .forgot(Instant::now(), engine, names.into_iter().map(name_of));
                workload.is_emptied();
                server.restart(Restart::Empty);
            }
            Strike::ClockJump => {
                workload.forgets(world, engine, &names);
                world
                    .histories
                    .forgot(Instant::now(), engine, names.into_iter().map(name_of));
                server.jump_clock(ms(self.rng.u64(1..4000)));
            }
            Strike::ScriptFlush => drop(server.command(&["SCRIPT", "FLUSH"])),
        }
    }
}
