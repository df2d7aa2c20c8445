//! One seed: engines, processes and what they do, under paused time in one thread, from the first
//! call to empty engines.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use fastrand::Rng;
use futures::future::BoxFuture;
use leasehold::settings::LocalHandover;
use leasehold::test_util::Gate;
use leasehold::{Client, EmbeddedRedis};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::Seed;
use crate::connection::Connection;
use crate::frozen::Frozen;
use crate::ledger::{Actor, Ledger};
use crate::plan::{Plan, Weather, ms, us};
use crate::user::User;
use crate::watchdog::Watchdog;
use crate::weather::Changes;
use crate::workload::{self, Users, Workload};

/// What a run came to.
pub(crate) struct Outcome {
    pub(crate) violation: Option<String>,
    pub(crate) trace: Vec<String>,
    pub(crate) acquired: u64,
}

/// One process with everything that belongs to it.
pub(crate) struct Process {
    /// One for each engine.
    pub(crate) clients: Vec<Client>,
    pub(crate) connections: Vec<Connection>,
    /// What the fields of its clients begin with.
    pub(crate) ids: Vec<String>,
    pub(crate) gate: Gate,
    users: Vec<JoinHandle<()>>,
    /// It has not crashed.
    pub(crate) alive: bool,
}

pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) engines: Vec<EmbeddedRedis>,
    pub(crate) ledger: Ledger,
    pub(crate) processes: Vec<Process>,
    pub(crate) frozen: Frozen,
    over: Arc<AtomicBool>,
    /// When the weather cleared.
    pub(crate) cleared: Option<Instant>,
}

/// Runs one seed.
pub(crate) fn run(seed: Seed) -> Outcome {
    let _watchdog = Watchdog::watch(seed.replay());
    // The library's own jitter comes from this thread's generator.
    fastrand::seed(seed.number);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let plan = Plan::new(seed.kind, seed.number, seed.cast);
        let mut world = World::new(plan);
        let mut workload = workload::of(&world);
        world.start(&mut *workload).await;
        world.play(&mut *workload).await;
        let ledger = &world.ledger;
        Outcome {
            violation: ledger.verdict(),
            trace: ledger.trace(),
            acquired: ledger.granted(),
        }
    })
}

impl World {
    fn new(plan: Plan) -> Self {
        let ledger = Ledger::new(plan.lease);
        ledger.note(&format!("{plan:?}"));
        let engines = (0..plan.engines).map(|_| EmbeddedRedis::new()).collect();
        let (processes, frozen, over) = (Vec::new(), Frozen::default(), Arc::default());
        World {
            plan,
            engines,
            ledger,
            processes,
            frozen,
            over,
            cleared: None,
        }
    }

    async fn start(&mut self, workload: &mut dyn Workload) {
        let mut rng = self.plan.kind.rng(self.plan.seed, 0x5EED);
        for number in 0..self.plan.processes {
            let process = self.process(&mut rng).await;
            self.processes.push(process);
            let gate = &self.processes[number].gate;
            let users = workload.users(self, number, &mut rng).into_iter();
            let users = users
                .map(|user| tokio::spawn(gate.clone().run(user)))
                .collect();
            self.processes[number].users = users;
        }
    }

    async fn process(&self, rng: &mut Rng) -> Process {
        let gate = Gate::default();
        let (mut clients, mut connections) = (Vec::new(), Vec::new());
        for engine in &self.engines {
            let builder = engine
                .builder()
                .lease(self.plan.lease)
                .safety_poll(self.plan.poll)
                .command_timeout(self.plan.command_timeout)
                .local_handover(handover(rng))
                .fair_claim(self.plan.claim)
                .gate(gate.clone());
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

    /// What a user begins with.
    pub(crate) fn user<S>(&self, actor: Actor, rng: Rng, shared: S) -> User<S> {
        User {
            actor,
            shares_owner: false,
            plan: self.plan.clone(),
            ledger: self.ledger.clone(),
            clients: self.processes[actor.process].clients.clone(),
            frozen: self.frozen.clone(),
            over: self.over.clone(),
            rng,
            shared,
        }
    }

    /// All users of a process, where they are alike.
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

    async fn play(&mut self, workload: &mut dyn Workload) {
        let start = Instant::now();
        let mut weather = Changes::new(&self.plan);
        while start.elapsed() < self.plan.duration && self.holds() {
            sleep(us(weather.step())).await;
            weather.change(self, workload);
            self.look(workload);
        }
        if self.holds() {
            self.settle(workload).await;
        }
        if self.holds() {
            workload.check_the_whole(self);
            self.rest(workload).await;
        }
        if self.holds() {
            self.shut_down().await;
        }
    }

    /// Nothing has been found yet.
    fn holds(&self) -> bool {
        self.ledger.verdict().is_none()
    }

    fn look(&self, workload: &mut dyn Workload) {
        self.ledger.check_guards();
        workload.look(self);
    }

    /// Since when nothing goes wrong that takes more than a moment.
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

    /// The clients of a process that lives, one for each engine.
    pub(crate) fn witnesses(&self) -> &[Client] {
        let (_, process) = self.alive().next().expect("somebody lives");
        &process.clients
    }

    pub(crate) fn thaw(&self, process: usize) {
        self.processes[process].gate.thaw();
        self.frozen.thaws(process);
    }

    /// The process dies without a farewell: its tasks are gone, and nothing of it is executed.
    pub(crate) fn crash(&mut self, number: usize) {
        let process = &mut self.processes[number];
        process.alive = false;
        process.connections.iter().for_each(Connection::crash);
        process.gate.freeze();
        self.ledger.crashed(number);
        // Dropped behind a closed gate, its handles would queue releases that nobody sends.
        process.users.drain(..).for_each(|user| user.abort());
    }

    fn clear(&mut self) {
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

    /// The weather clears: everybody must come to an end.
    async fn settle(&mut self, workload: &mut dyn Workload) {
        self.clear();
        workload.repair(self).await;
        // After a storm work goes on, and must be as prompt as ever.
        let storm = self.plan.weather == Weather::Storm;
        let lull = if storm {
            self.plan.recovers_within() + ms(1500)
        } else {
            ms(0)
        };
        let start = Instant::now();
        while start.elapsed() < lull && self.holds() {
            sleep(ms(20)).await;
            self.look(workload);
        }
        self.over.store(true, SeqCst);
        let users: Vec<_> = self
            .processes
            .iter_mut()
            .flat_map(|process| process.users.drain(..))
            .collect();
        let watched = async {
            while self.holds() {
                sleep(ms(20)).await;
                self.look(workload);
            }
        };
        tokio::select! {
            biased;
            () = self.all_end(users) => {}
            () = watched => {}
        }
    }

    async fn all_end(&self, users: Vec<JoinHandle<()>>) {
        for user in users {
            match timeout(self.plan.served_within() + self.plan.lease, user).await {
                Ok(Err(error)) if error.is_panic() => {
                    return self.ledger.violation(format!("a user panicked: {error}"));
                }
                Ok(_) => {}
                Err(_) => {
                    let waiters = self.ledger.wishes();
                    let text = format!("somebody waits for ever: {waiters:?}");
                    return self.ledger.violation(text);
                }
            }
        }
    }

    /// In the end every table, queue and key must be gone.
    async fn rest(&self, workload: &dyn Workload) {
        let limit = Instant::now() + self.plan.rests_within();
        let mut passed_by = false;
        loop {
            let left = self.left(workload).await;
            if left.is_empty() {
                return;
            }
            if !passed_by && Instant::now() > limit - ms(10_000) {
                passed_by = true;
                workload.pass_by(self).await;
            }
            if Instant::now() > limit {
                return self
                    .ledger
                    .violation(format!("left behind: {}", left.join("; ")));
            }
            sleep(ms(200)).await;
        }
    }

    async fn left(&self, workload: &dyn Workload) -> Vec<String> {
        let mut left = workload.left(self).await;
        for (number, process) in self.alive() {
            for stats in process.clients.iter().map(Client::stats) {
                let kept = stats.local_queues + stats.waiting + stats.holds + stats.listeners;
                if kept + stats.subscriptions + stats.releases_pending > 0 {
                    left.push(format!("process {number} keeps {stats:?}"));
                }
            }
        }
        for engine in &self.engines {
            let keys = engine.dump().into_keys();
            let keys = keys.map(|key| String::from_utf8_lossy(&key).into_owned());
            left.extend(
                keys.filter(|key| !workload.stays(key))
                    .map(|key| format!("key {key}")),
            );
            // While their clients live: each of them has ended what nobody uses.
            let channels = engine.listeners().into_keys();
            left.extend(channels.map(|channel| format!("listener of {channel}")));
        }
        left
    }

    async fn shut_down(&self) {
        for (number, process) in self.alive() {
            for client in &process.clients {
                if let Err(error) = client.clone().shutdown(ms(5000)).await {
                    let text = format!("process {number} does not shut down: {error}");
                    self.ledger.violation(text);
                }
            }
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
