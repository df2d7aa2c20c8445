//! One seed: a world under paused time in one thread, from the first call to an empty engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use leasehold::test_util::{Faults, Flow, Gate, LinkControl};
use leasehold::{Client, EmbeddedRedis, Lease, LocalHandover, Mutant, Owner};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::actor::User;
use crate::history::{Actor, History};
use crate::kind::Kind;
use crate::monitor;
use crate::plan::{Plan, Weather, ms, us};
use crate::seen;
use crate::weather;

/// What a run came to.
pub(crate) struct Outcome {
    pub(crate) violation: Option<String>,
    pub(crate) trace: Vec<String>,
    pub(crate) acquired: u64,
}

/// One client with everything that belongs to it.
pub(crate) struct Process {
    pub(crate) client: Option<Client>,
    pub(crate) gate: Gate,
    pub(crate) link: LinkControl,
    pub(crate) users: Vec<JoinHandle<()>>,
    pub(crate) alive: bool,
}

pub(crate) struct Sim {
    pub(crate) plan: Plan,
    pub(crate) engine: EmbeddedRedis,
    pub(crate) history: History,
    pub(crate) processes: Vec<Process>,
    pub(crate) over: Arc<AtomicBool>,
    pub(crate) stalled: Arc<AtomicBool>,
}

/// Runs one seed, with a fault of our own if `mutant` names one.
pub(crate) fn run(kind: Kind, seed: u64, mutant: Option<Mutant>) -> Outcome {
    // The library's own jitter comes from this thread's generator.
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let sim = Sim::start(Plan::new(kind, seed), mutant).await;
        sim.play().await
    })
}

impl Sim {
    async fn start(plan: Plan, mutant: Option<Mutant>) -> Self {
        let engine = EmbeddedRedis::new();
        let mut rng = fastrand::Rng::with_seed(plan.kind.stream(plan.seed) ^ 0x5EED);
        let over = Arc::new(AtomicBool::new(false));
        let stalled = Arc::new(AtomicBool::new(false));
        let history = History::new(&plan, &stalled);
        history.note(&format!("{plan:?}"));
        let mut processes = Vec::new();
        for number in 0..plan.clients {
            let gate = Gate::default();
            let handover = match rng.u8(0..4) {
                0 => LocalHandover::Off,
                1 => LocalHandover::Streak { count: rng.u32(1..6), time: ms(50) },
                2 => LocalHandover::Streak { count: rng.u32(1..6), time: ms(3000) },
                _ => LocalHandover::default(),
            };
            let builder = engine
                .builder()
                .lease(plan.lease)
                .safety_poll(plan.poll)
                .command_timeout(plan.command_timeout)
                .local_handover(handover)
                .fair_claim(plan.claim)
                .mutant(mutant)
                .gate(gate.clone());
            let client = builder.connect().await.expect("a client");
            let link = engine.links().pop().expect("its link");
            link.set_faults(plan.faults.clone(), rng.u64(..));
            let owners: Vec<Owner> = (0..plan.actors).map(|_| Owner::new()).collect();
            let shared = rng.u8(0..4) == 0;
            let users = (0..plan.actors).map(|actor| {
                // Two futures of one owner share what they hold.
                let owner = if shared && actor == 1 { 0 } else { actor };
                let shares_owner = shared && actor < 2;
                let user = User {
                    who: Actor { client: number, number: actor, owner },
                    owner: owners[owner].clone(),
                    plan: plan.clone(),
                    history: history.clone(),
                    client: client.clone(),
                    shares_owner,
                    rng: rng.fork(),
                    over: over.clone(),
                    stalled: stalled.clone(),
                };
                tokio::spawn(gate.clone().run(user.run()))
            });
            let users = users.collect();
            processes.push(Process { client: Some(client), gate, link, users, alive: true });
        }
        Sim { plan, engine, history, processes, over, stalled }
    }

    async fn play(mut self) -> Outcome {
        let start = Instant::now();
        let mut weather = weather::Changes::new(&self.plan);
        let mut watch = monitor::Monitor::default();
        while start.elapsed() < self.plan.duration && self.history.verdict().is_none() {
            sleep(us(weather.step())).await;
            weather.change(&mut self);
            watch.look(&self);
        }
        if self.history.verdict().is_none() {
            self.settle().await;
        }
        Outcome {
            violation: self.history.verdict(),
            trace: self.history.trace(),
            acquired: self.history.acquired(),
        }
    }

    /// The weather clears: everybody must come to an end, and nothing may be left.
    async fn settle(&mut self) {
        self.history.note("the weather clears");
        self.over.store(true, SeqCst);
        self.engine.resume();
        for process in &self.processes {
            process.gate.thaw();
            process.link.set_messages(Flow::Passes);
            process.link.set_replies(Flow::Passes);
            let request = self.plan.faults.request;
            let faults = Faults { request, ..Faults::default() };
            process.link.set_faults(faults, 1);
            process.link.heal();
        }
        for number in 0..self.processes.len() {
            let users = std::mem::take(&mut self.processes[number].users);
            for user in users {
                if timeout(self.plan.served_within() + self.plan.lease, user).await.is_err() {
                    let waiters = self.history.waiters();
                    return self.history.violation(format!("somebody waits for ever: {waiters:?}"));
                }
            }
        }
        self.check_budget();
        self.rest().await;
        if self.history.verdict().is_none() {
            self.shut_down().await;
        }
    }

    /// Without faults an acquisition costs at most four calls and one for each wake or lease that
    /// ended; what is renewed, undone or lost costs its own.
    fn check_budget(&self) {
        if !matches!(self.plan.weather, Weather::Calm | Weather::Busy) {
            return;
        }
        let stats: Vec<_> =
            self.processes.iter().filter_map(|process| process.client.as_ref()).collect();
        let stats: Vec<_> = stats.iter().map(|client| client.stats()).collect();
        let ended: u64 = stats.iter().map(|stats| stats.lost).sum();
        for (number, stats) in stats.iter().enumerate() {
            let events = stats.wakes + stats.renewed + stats.releases_queued + stats.polls + ended;
            let asked = self.history.asked(number);
            let budget = 4 * asked + events + self.cost_of_waiting(asked) + 10;
            if stats.calls > budget {
                let calls = stats.calls;
                self.history.violation(format!("client {number} made {calls} calls, not {budget}"));
            }
        }
    }

    /// What one client may ask while it waits, of kinds whose waiters do not only listen.
    fn cost_of_waiting(&self, asked: u64) -> u64 {
        let span = |span: Duration| u64::try_from(span.as_millis()).expect("short");
        let waited = self.plan.names as u64 * span(self.history.elapsed());
        match self.plan.kind {
            // A beat in each third of the claim, and one when somebody's lease ends.
            Kind::Fair => 2 * waited / span((self.plan.claim / 3).min(ms(500))) + asked,
            // Pauses double up to the longest, and are at least half of what they may be.
            kind => kind.asks_within_ms().map_or(0, |most| waited / (most / 2) + 8 * asked),
        }
    }

    /// A place of a dead waiter is taken off by whoever comes next.
    async fn pass_by(&self) {
        sleep(self.plan.claim).await;
        let alive = self.processes.iter().find(|process| process.alive);
        let Some(client) = alive.and_then(|process| process.client.as_ref()) else { return };
        for name in self.plan.all_names() {
            match client.fair_lock(&name).try_lock(Duration::ZERO, Lease::Renewed).await {
                Ok(guard) => drop(guard),
                Err(error) => self.history.violation(format!("{name} at rest: {error}")),
            }
        }
    }

    /// An undo may be repeated for a lease; then every table, queue and key must be gone.
    async fn rest(&self) {
        let limit = Instant::now() + 2 * self.plan.lease + ms(20_000);
        let dead_may_wait = matches!(self.plan.weather, Weather::Crash | Weather::Storm);
        let mut to_pass = self.plan.kind == Kind::Fair && dead_may_wait;
        loop {
            let left = self.left();
            if left.is_empty() {
                return;
            }
            if to_pass && Instant::now() > limit - ms(10_000) {
                to_pass = false;
                self.pass_by().await;
            }
            if Instant::now() > limit {
                return self.history.violation(format!("left behind: {}", left.join("; ")));
            }
            sleep(ms(50)).await;
        }
    }

    fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for (number, process) in self.processes.iter().enumerate() {
            let Some(client) = process.client.as_ref().filter(|_| process.alive) else { continue };
            let stats = client.stats();
            let kept = stats.rooms + stats.waiting + stats.holds + stats.listeners;
            if kept + stats.subscriptions + stats.releases_pending > 0 {
                left.push(format!("client {number} keeps {stats:?}"));
            }
        }
        for key in self.engine.dump().keys() {
            let key = String::from_utf8_lossy(key);
            if !seen::stays(self.plan.kind, &key) {
                left.push(format!("key {key}"));
            }
        }
        left
    }

    async fn shut_down(&mut self) {
        for (number, process) in self.processes.iter_mut().enumerate() {
            let Some(client) = process.client.take().filter(|_| process.alive) else { continue };
            if let Err(error) = client.shutdown(ms(5000)).await {
                self.history.violation(format!("client {number} does not shut down: {error}"));
            }
        }
        let listeners = self.engine.listeners();
        if self.processes.iter().all(|process| process.alive) && !listeners.is_empty() {
            self.history.violation(format!("subscribed for ever: {listeners:?}"));
        }
    }

    /// The client dies without a farewell: its tasks are gone, and nothing of it is executed.
    pub(crate) fn crash(&mut self, number: usize) {
        let process = &mut self.processes[number];
        process.alive = false;
        process.link.crash();
        process.gate.freeze();
        self.history.crashed(number);
        // Dropped behind a closed gate, its handles would queue releases that nobody sends.
        process.users.drain(..).for_each(|user| user.abort());
    }
}

/// Long enough for a frozen process to miss its leases.
pub(crate) fn beyond(lease: Duration, rng: &mut fastrand::Rng) -> Duration {
    lease.mul_f64(0.2 + 1.5 * rng.f64())
}
