//! What goes wrong when, drawn from the seed.

use leasehold::test_util::Restart;
use tokio::time::Instant;

use crate::kind::Kind;
use crate::plan::{Plan, Weather, ms};
use crate::run::{Sim, beyond};
use crate::way::Way;

pub(crate) struct Changes {
    rng: fastrand::Rng,
    /// Faults that end by themselves: when, and whose.
    pending: Vec<(Instant, Fault)>,
    /// When which client is shut down, in the midst of its work.
    closes: Option<(Instant, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Cut(usize),
    CutMessages(usize),
    Deaf(usize),
    Mute(usize),
    Frozen(usize),
    Paused,
}

impl Changes {
    pub(crate) fn new(plan: &Plan) -> Self {
        Changes {
            rng: fastrand::Rng::with_seed(plan.kind.stream(plan.seed) ^ 0x3EA7),
            pending: Vec::new(),
            closes: Changes::closing(plan),
        }
    }

    fn closing(plan: &Plan) -> Option<(Instant, usize)> {
        let mut rng = fastrand::Rng::with_seed(plan.kind.stream(plan.seed) ^ 0xC105E);
        let at = Instant::now() + plan.duration.mul_f64(0.2 + 0.7 * rng.f64());
        // The one that never pauses is what others are measured by.
        let client = rng.usize(1..plan.clients);
        (plan.wild && rng.bool()).then_some((at, client))
    }

    fn close_what_is_due(&mut self, sim: &Sim) {
        let Some((_, number)) = self.closes.filter(|(at, _)| *at <= Instant::now()) else {
            return;
        };
        self.closes = None;
        let process = &sim.processes[number];
        let Some(client) = process.client.clone().filter(|_| process.alive) else { return };
        sim.history.note(&format!("client {number} is shut down"));
        sim.history.rare.closes(number);
        let history = sim.history.clone();
        tokio::spawn(async move {
            let done = client.shutdown(ms(5000)).await;
            history.note(&format!("client {number} has shut down: {done:?}"));
            if done.is_ok() {
                history.rare.has_closed(number);
            }
        });
    }

    /// Microseconds to the next look.
    pub(crate) fn step(&mut self) -> u64 {
        self.rng.u64(5_000..30_000)
    }

    pub(crate) fn change(&mut self, sim: &mut Sim) {
        self.end_what_is_due(sim);
        self.close_what_is_due(sim);
        match sim.plan.weather {
            Weather::Storm if self.rng.u8(0..12) == 0 => self.blow(sim),
            // Over calls the link itself draws which messages are missed.
            Weather::Lag if sim.way == Way::Bytes && self.rng.u8(0..40) == 0 => {
                let victim = self.rng.usize(0..sim.processes.len());
                sim.processes[victim].link.lag();
            }
            Weather::Crash if self.rng.u16(0..150) == 0 => {
                let victim = self.rng.usize(0..sim.processes.len());
                let alive = sim.processes.iter().filter(|process| process.alive).count();
                let closed = sim.history.rare.is_closed(victim);
                if sim.processes[victim].alive && alive > 1 && !closed {
                    sim.history.note(&format!("client {victim} crashes"));
                    sim.crash(victim);
                }
            }
            _ => {}
        }
    }

    fn blow(&mut self, sim: &mut Sim) {
        let victim = self.rng.usize(0..sim.processes.len());
        let name = format!("lock:{}", self.rng.usize(0..sim.plan.names));
        let span = beyond(sim.plan.lease, &mut self.rng);
        let link = sim.processes[victim].link.clone();
        let fault = match self.rng.u8(0..11) {
            0 => Fault::Cut(victim),
            1 => Fault::CutMessages(victim),
            2 if sim.plan.hears => Fault::Cut(victim),
            2 => Fault::Deaf(victim),
            3 => Fault::Mute(victim),
            4 => Fault::Frozen(victim),
            5 => Fault::Paused,
            other => return self.strike(sim, other, &name),
        };
        if self.pending.iter().any(|(_, pending)| *pending == fault) {
            return;
        }
        sim.history.note(&format!("{fault:?} for {span:?}"));
        match fault {
            Fault::Cut(_) => link.cut(),
            Fault::CutMessages(_) => link.cut_pubsub(),
            Fault::Deaf(_) => link.deafen(),
            Fault::Mute(_) => link.mute(),
            Fault::Frozen(_) => {
                sim.stalls.freezes(victim);
                sim.processes[victim].gate.freeze();
            }
            Fault::Paused => sim.engine.pause(),
        }
        self.pending.push((Instant::now() + span, fault));
    }

    /// Faults of a moment. Those by which the server forgets a lock void the holds of that name.
    fn strike(&mut self, sim: &mut Sim, which: u8, name: &str) {
        match which {
            6 => {
                sim.history.note(&format!("{name} is evicted"));
                sim.history.void(&[name.to_owned()]);
                sim.engine.lose(name);
                self.lose_line(sim, name);
            }
            7 => {
                sim.history.note("restart with data");
                sim.engine.restart(Restart::WithData);
            }
            8 => {
                sim.history.note("restart without data");
                sim.history.void(&sim.plan.all_names());
                sim.history.forget_tokens();
                sim.engine.restart(Restart::Empty);
            }
            9 => {
                sim.history.note("the server's clock jumps");
                sim.history.void(&sim.plan.all_names());
                sim.engine.jump_clock(ms(self.rng.u64(1..4000)));
            }
            _ => {
                sim.history.note("the scripts are forgotten");
                drop(sim.engine.command(&["SCRIPT", "FLUSH"]));
            }
        }
    }

    /// Of a fair lock the queue or its deadlines, or both, may go as well.
    fn lose_line(&mut self, sim: &Sim, name: &str) {
        if sim.plan.kind != Kind::Fair {
            return;
        }
        for part in ["queue", "timeout"] {
            if self.rng.bool() {
                sim.history.note(&format!("the {part} of {name} is evicted"));
                sim.engine.lose(&format!("redisson_lock_{part}:{{{name}}}"));
            }
        }
    }

    fn end_what_is_due(&mut self, sim: &mut Sim) {
        let now = Instant::now();
        let (due, later): (Vec<_>, Vec<_>) = self.pending.drain(..).partition(|(at, _)| *at <= now);
        self.pending = later;
        for (_, fault) in due {
            sim.history.note(&format!("{fault:?} ends"));
            match fault {
                Fault::Cut(victim) | Fault::CutMessages(victim) => {
                    sim.processes[victim].link.heal();
                }
                Fault::Deaf(victim) => sim.processes[victim].link.hear(),
                Fault::Mute(victim) => sim.processes[victim].link.speak(),
                Fault::Frozen(victim) => {
                    sim.processes[victim].gate.thaw();
                    sim.stalls.thaws(victim);
                }
                Fault::Paused => sim.engine.resume(),
            }
        }
    }
}
