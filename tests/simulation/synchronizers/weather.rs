//! What goes wrong when, drawn from the seed.

use std::time::Duration;

use leasehold::test_util::{Flow, Restart};
use tokio::time::Instant;

use super::plan::{Plan, Sky, Sort};
use super::world::{Game, World};
use crate::plan::ms;
use crate::run::beyond;

pub(crate) struct Weather {
    rng: fastrand::Rng,
    /// Faults that end by themselves: when, and whose.
    pending: Vec<(Instant, Fault)>,
    /// When the clock of each server last ran ahead a little.
    drifted: Vec<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The connections of a process to a server.
    Cut(usize, usize),
    CutMessages(usize, usize),
    Deaf(usize, usize),
    Mute(usize, usize),
    Frozen(usize),
    /// A server.
    Down(usize),
    Paused(usize),
}

impl Weather {
    pub(crate) fn new(plan: &Plan) -> Self {
        let rng = fastrand::Rng::with_seed(plan.seed ^ 0x3EA7);
        Weather { rng, pending: Vec::new(), drifted: vec![Instant::now(); plan.engines] }
    }

    /// Microseconds to the next look.
    pub(crate) fn step(&mut self) -> u64 {
        self.rng.u64(5_000..30_000)
    }

    pub(crate) fn change(&mut self, world: &mut World, game: &mut dyn Game) {
        self.end_what_is_due(world);
        if world.plan.drifts {
            self.drift(world);
        }
        match world.plan.sky {
            Sky::Storm if self.rng.u8(0..12) == 0 => self.blow(world, game),
            Sky::Minority if self.rng.u8(0..15) == 0 => self.trouble(world, game),
            Sky::Crash if self.rng.u16(0..120) == 0 => {
                let victim = self.rng.usize(0..world.processes.len());
                // Somebody counts, and looks after the latches.
                let spared = world.plan.sort == Sort::Latch && victim == 0;
                let alive = world.alive().count();
                if world.processes[victim].alive && alive > 1 && !spared {
                    world.crash(victim);
                }
            }
            _ => {}
        }
    }

    /// At most once within any lease, and by less than a lease allows for.
    fn drift(&mut self, world: &World) {
        let engine = self.rng.usize(0..world.engines.len());
        if self.drifted[engine].elapsed() > world.plan.lease + ms(20) {
            self.drifted[engine] = Instant::now();
            world.engines[engine].jump_clock(world.plan.drift());
            world.book.log.note(&format!("the clock of server {engine} is a little ahead"));
        }
    }

    /// Something happens to a minority of the servers.
    fn trouble(&mut self, world: &mut World, game: &mut dyn Game) {
        let engine = self.rng.usize(0..world.engines.len());
        let bad = |fault: &Fault| match fault {
            Fault::Down(engine) | Fault::Paused(engine) => Some(*engine),
            _ => None,
        };
        let bad: Vec<_> = self.pending.iter().filter_map(|(_, fault)| bad(fault)).collect();
        if bad.contains(&engine) || bad.len() >= (world.engines.len() - 1) / 2 {
            return;
        }
        match self.rng.u8(0..6) {
            0 | 1 => self.begin(world, Fault::Down(engine)),
            2 | 3 => self.begin(world, Fault::Paused(engine)),
            _ if world.plan.breaks() => self.break_promises(world, game, engine),
            _ => restart(world, engine, Restart::WithData),
        }
    }

    fn blow(&mut self, world: &mut World, game: &mut dyn Game) {
        let victim = self.rng.usize(0..world.processes.len());
        let engine = self.rng.usize(0..world.engines.len());
        let fault = match self.rng.u8(0..11) {
            0 => Fault::Cut(victim, engine),
            1 => Fault::CutMessages(victim, engine),
            2 => Fault::Deaf(victim, engine),
            3 => Fault::Mute(victim, engine),
            4 => Fault::Frozen(victim),
            5 => Fault::Paused(engine),
            6 => Fault::Down(engine),
            7 => return restart(world, engine, Restart::WithData),
            8 => {
                world.book.log.note("the scripts are forgotten");
                return drop(world.engines[engine].command(&["SCRIPT", "FLUSH"]));
            }
            _ if world.plan.breaks() => return self.break_promises(world, game, engine),
            _ => return,
        };
        self.begin(world, fault);
    }

    /// A server forgets a hold, or all of them.
    fn break_promises(&mut self, world: &World, game: &mut dyn Game, engine: usize) {
        match self.rng.u8(0..3) {
            0 => game.evict(world, engine, &mut self.rng),
            // Replies to repeated counts are kept by this clock.
            1 if world.plan.sort != Sort::Latch => {
                world.book.log.note(&format!("the clock of server {engine} jumps"));
                game.forgets(world, engine);
                world.engines[engine].jump_clock(ms(self.rng.u64(1..4000)));
            }
            _ => {
                game.forgets(world, engine);
                restart(world, engine, Restart::Empty);
            }
        }
    }

    fn begin(&mut self, world: &World, fault: Fault) {
        if self.pending.iter().any(|(_, pending)| *pending == fault) {
            return;
        }
        let mut span = beyond(world.plan.lease, &mut self.rng);
        if matches!(fault, Fault::Paused(_)) {
            span = span.min(longest_pause(&world.plan));
        }
        world.book.log.note(&format!("{fault:?} for {span:?}"));
        match fault {
            Fault::Cut(victim, engine) => world.processes[victim].links[engine].cut(),
            Fault::CutMessages(victim, engine) => {
                world.processes[victim].links[engine].cut_pubsub();
            }
            Fault::Deaf(victim, engine) => {
                world.processes[victim].links[engine].set_messages(Flow::Vanishes);
            }
            Fault::Mute(victim, engine) => {
                world.processes[victim].links[engine].set_replies(Flow::Vanishes);
            }
            Fault::Frozen(victim) => world.processes[victim].gate.freeze(),
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
            world.book.log.note(&format!("{fault:?} ends"));
            match fault {
                Fault::Cut(victim, engine) | Fault::CutMessages(victim, engine) => {
                    world.processes[victim].links[engine].heal();
                }
                Fault::Deaf(victim, engine) => {
                    world.processes[victim].links[engine].set_messages(Flow::Passes);
                }
                Fault::Mute(victim, engine) => {
                    world.processes[victim].links[engine].set_replies(Flow::Passes);
                }
                Fault::Frozen(victim) => world.processes[victim].gate.thaw(),
                Fault::Down(engine) => world.engines[engine].heal(),
                Fault::Paused(engine) => world.engines[engine].resume(),
            }
        }
    }
}

/// A repeated change is known as such for half a minute at least: the pauses stay far below.
fn longest_pause(plan: &Plan) -> Duration {
    if plan.changes() || plan.sort == Sort::Latch { ms(600) } else { Duration::MAX }
}

fn restart(world: &World, engine: usize, data: Restart) {
    world.book.log.note(&format!("server {engine} restarts: {data:?}"));
    world.engines[engine].restart(data);
}
