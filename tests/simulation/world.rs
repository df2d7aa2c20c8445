//! The engines and the processes of one seed.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fastrand::Rng;
use futures::future::BoxFuture;
use leasehold::settings::LocalHandover;
use leasehold::{Client, EmbeddedRedis};
use leasehold_testbed::{Gate, Histories};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::connection::Connection;
use crate::frozen::Frozen;
use crate::ledger::{Actor, Ledger};
use crate::plan::{Plan, Weather, ms};
use crate::user::{User, Users};

/// One process with everything that belongs to it.
pub(crate) struct Process {
    /// One for each engine.
    pub(crate) clients: Vec<Client>,
    pub(crate) connections: Vec<Connection>,
    /// The prefixes of the fields of its clients.
    pub(crate) ids: Vec<String>,
    pub(crate) gate: Gate,
    pub(crate) users: Vec<JoinHandle<()>>,
    /// The process has not crashed.
    pub(crate) alive: bool,
}

pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) engines: Vec<EmbeddedRedis>,
    pub(crate) ledger: Ledger,
    pub(crate) histories: Histories,
    pub(crate) processes: Vec<Process>,
    pub(crate) frozen: Frozen,
    /// Users shall come to an end.
    pub(crate) over: Arc<AtomicBool>,
    /// When the weather cleared.
    pub(crate) cleared: Option<Instant>,
}

impl World {
    pub(crate) fn new(plan: Plan) -> Self {
        let ledger = Ledger::new(plan.lease);
        ledger.note(&format!("{plan:?}"));
        let engines = (0..plan.engines).map(|_| EmbeddedRedis::new()).collect();
        let (processes, frozen, over) = (Vec::new(), Frozen::default(), Arc::default());
        World {
            plan,
            engines,
            ledger,
            histories: Histories::default(),
            processes,
            frozen,
            over,
            cleared: None,
        }
    }

    pub(crate) async fn process(&self, rng: &mut Rng) -> Process {
        let gate = Gate::default();
        let (mut clients, mut connections) = (Vec::new(), Vec::new());
        for (number, engine) in self.engines.iter().enumerate() {
            let recorder = self.histories.of_gated_client(number, &gate);
            let builder = engine
                .builder()
                // Its id, which is another one each time, would be in what forced holders are told.
                .name(format!("client-{number}"))
                .lease(self.plan.lease)
                .safety_poll(self.plan.poll)
                .command_timeout(self.plan.command_timeout)
                .local_handover(handover(rng))
                .fair_claim(self.plan.claim)
                .harness(recorder);
            clients.push(builder.connect().await.expect("a client"));
            let connection = Connection::of(engine);
            connection.set_faults(&self.plan, rng.u64(..));
            connections.push(connection);
        }
        let ids = clients.iter().map(Client::id).collect();
        Process {
            clients,
            connections,
            ids,
            gate,
            users: Vec::new(),
            alive: true,
        }
    }

    /// A user at its start.
    pub(crate) fn user<S>(&self, actor: Actor, rng: Rng, shared: S) -> User<S> {
        User {
            actor,
            plan: self.plan.clone(),
            ledger: self.ledger.clone(),
            clients: self.processes[actor.process].clients.clone(),
            frozen: self.frozen.clone(),
            over: self.over.clone(),
            rng,
            shared,
        }
    }

    /// All users of a process, for kinds whose users are alike.
    pub(crate) fn users<S: Clone>(
        &self,
        process: usize,
        rng: &mut Rng,
        shared: &S,
        life: impl Fn(User<S>) -> BoxFuture<'static, ()>,
    ) -> Users {
        let user = |number| self.user(Actor::new(process, number), rng.fork(), shared.clone());
        (0..self.plan.actors).map(user).map(life).collect()
    }

    /// Since when nothing has gone wrong for longer than a moment.
    pub(crate) fn unhurt_since(&self) -> Option<Instant> {
        match self.plan.weather {
            Weather::Storm => self.cleared,
            _ => Some(self.ledger.start),
        }
    }

    /// Processes whose clients answer.
    pub(crate) fn alive(&self) -> impl Iterator<Item = (usize, &Process)> {
        let processes = self.processes.iter().enumerate();
        processes.filter(|(number, one)| one.alive && !self.ledger.is_closed(*number))
    }

    /// The clients of a living process, one for each engine.
    pub(crate) fn witnesses(&self) -> &[Client] {
        let (_, process) = self.alive().next().expect("somebody lives");
        &process.clients
    }

    pub(crate) fn thaw(&self, process: usize) {
        self.processes[process].gate.thaw();
        self.frozen.thaws(process);
    }

    /// The process dies without closing anything: its tasks are gone and nothing of it is executed.
    pub(crate) fn crash(&mut self, number: usize) {
        let process = &mut self.processes[number];
        process.alive = false;
        process.connections.iter().for_each(Connection::crash);
        process.gate.freeze();
        self.ledger.crashed(number);
        // Dropped behind a closed gate, so that its handles cannot queue releases, which nobody
        // would send.
        process.users.drain(..).for_each(|user| user.abort());
    }

    pub(crate) fn clear(&mut self) {
        self.ledger.note("the weather clears");
        self.cleared = Some(Instant::now());
        for engine in &self.engines {
            engine.resume();
            engine.heal();
        }
        for (number, process) in self.processes.iter().enumerate() {
            self.thaw(number);
            process
                .connections
                .iter()
                .for_each(|connection| connection.clear(&self.plan));
        }
    }
}

fn handover(rng: &mut Rng) -> LocalHandover {
    match rng.u8(0..4) {
        0 => LocalHandover::Off,
        1 => LocalHandover::Streak {
            count: rng.u32(1..6),
            time: ms(50),
        },
        2 => LocalHandover::Streak {
            count: rng.u32(1..6),
            time: ms(3000),
        },
        _ => LocalHandover::default(),
    }
}
