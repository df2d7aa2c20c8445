//! One seed: a world under paused time in one thread, from the first call to an empty engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use leasehold::test_util::Gate;
use leasehold::{Client, EmbeddedRedis, Lease, LocalHandover, Owner};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::actor::User;
use crate::dog::Dog;
use crate::history::{Actor, History};
use crate::kind::Kind;
use crate::monitor;
use crate::plan::{Cast, Plan, Weather, ms, us};
use crate::seen;
use crate::stalls::Stalls;
use crate::way::{Line, Way};
use crate::weather;
use crate::wild::Wild;

/// What a run came to.
pub(crate) struct Outcome {
    pub(crate) violation: Option<String>,
    pub(crate) trace: Vec<String>,
    pub(crate) acquired: u64,
}

/// One client with everything that belongs to it.
pub(crate) struct Process {
    pub(crate) client: Option<Client>,
    /// What its fields begin with.
    pub(crate) id: String,
    pub(crate) gate: Gate,
    pub(crate) link: Line,
    pub(crate) users: Vec<JoinHandle<()>>,
    pub(crate) alive: bool,
}

pub(crate) struct Sim {
    pub(crate) plan: Plan,
    pub(crate) way: Way,
    pub(crate) engine: EmbeddedRedis,
    pub(crate) history: History,
    pub(crate) processes: Vec<Process>,
    pub(crate) over: Arc<AtomicBool>,
    pub(crate) stalls: Stalls,
    /// When the storm was over.
    cleared: Option<Instant>,
}

/// Runs one seed.
pub(crate) fn run(kind: Kind, seed: u64, cast: Cast, way: Way) -> Outcome {
    let plan = Plan::new(kind, seed, cast);
    let _dog = Dog::watch(crate::replay(kind, seed, cast, way));
    // The library's own jitter comes from this thread's generator.
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let sim = Sim::start(plan, way).await;
        sim.play().await
    })
}

impl Sim {
    async fn start(plan: Plan, way: Way) -> Self {
        let engine = EmbeddedRedis::new();
        let mut rng = fastrand::Rng::with_seed(plan.kind.stream(plan.seed) ^ 0x5EED);
        let over = Arc::new(AtomicBool::new(false));
        let stalls = Stalls::default();
        let history = History::new(&plan, &stalls);
        let mut wild = fastrand::Rng::with_seed(plan.kind.stream(plan.seed) ^ 0x3117D);
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
            let builder = way
                .builder(&engine)
                .lease(plan.lease)
                .safety_poll(plan.poll)
                .command_timeout(plan.command_timeout)
                .local_handover(handover)
                .fair_claim(plan.claim)
                .gate(gate.clone());
            let client = builder.connect().await.expect("a client");
            let link = way.line(&engine);
            link.set_faults(&plan, rng.u64(..));
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
                    stalls: stalls.clone(),
                };
                tokio::spawn(gate.clone().run(user.run()))
            });
            let mut users: Vec<_> = users.collect();
            if plan.wild {
                let user = User {
                    who: Actor { client: number, number: plan.actors, owner: plan.actors },
                    owner: Owner::new(),
                    plan: plan.clone(),
                    history: history.clone(),
                    client: client.clone(),
                    shares_owner: false,
                    rng: wild.fork(),
                    over: over.clone(),
                    stalls: stalls.clone(),
                };
                users.push(tokio::spawn(gate.clone().run(Wild(user).run())));
            }
            let id = client.id();
            processes.push(Process { client: Some(client), id, gate, link, users, alive: true });
        }
        Sim { plan, way, engine, history, processes, over, stalls, cleared: None }
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
            self.settle(&mut watch).await;
        }
        Outcome {
            violation: self.history.verdict(),
            trace: self.history.trace(),
            acquired: self.history.acquired(),
        }
    }

    /// Since when nothing goes wrong that takes more than a moment.
    pub(crate) fn unhurt_since(&self) -> Option<Instant> {
        match self.plan.weather {
            Weather::Storm => self.cleared,
            _ => Some(self.history.start()),
        }
    }

    /// After a storm what was missed must be found out first.
    pub(crate) fn recovers_within(&self) -> Duration {
        match self.plan.weather {
            Weather::Storm => self.plan.recovers_within(),
            _ => Duration::ZERO,
        }
    }

    fn clear(&mut self) {
        self.history.note("the weather clears");
        self.cleared = Some(Instant::now());
        self.engine.resume();
        for (number, process) in self.processes.iter().enumerate() {
            process.gate.thaw();
            self.stalls.thaws(number);
            process.link.clear(&self.plan);
        }
    }

    /// The weather clears: everybody must come to an end, and nothing may be left.
    async fn settle(&mut self, watch: &mut monitor::Monitor) {
        self.clear();
        // After a storm work goes on, and must be as prompt as ever.
        let lull = if self.plan.weather == Weather::Storm { self.lull() } else { ms(0) };
        let start = Instant::now();
        while start.elapsed() < lull && self.history.verdict().is_none() {
            sleep(ms(20)).await;
            watch.look(self);
        }
        self.over.store(true, SeqCst);
        let users: Vec<_> =
            self.processes.iter_mut().flat_map(|process| process.users.drain(..)).collect();
        let ended = async {
            for user in users {
                match timeout(self.plan.served_within() + self.plan.lease, user).await {
                    Ok(Err(error)) if error.is_panic() => {
                        return self.history.violation(format!("a user panicked: {error}"));
                    }
                    Ok(_) => {}
                    Err(_) => {
                        let waiters = self.history.waiters();
                        self.history.violation(format!("somebody waits for ever: {waiters:?}"));
                        return;
                    }
                }
            }
        };
        let watched = async {
            while self.history.verdict().is_none() {
                sleep(ms(20)).await;
                watch.look(self);
            }
        };
        tokio::select! {
            biased;
            () = ended => {}
            () = watched => {}
        }
        if self.history.verdict().is_none() {
            self.check_budget();
            self.rest().await;
        }
        if self.history.verdict().is_none() {
            self.shut_down().await;
        }
    }

    fn lull(&self) -> Duration {
        self.plan.recovers_within() + ms(1500)
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
        let alive =
            |number: &usize| self.processes[*number].alive && !self.history.rare.is_closed(*number);
        let alive = (0..self.processes.len()).find(alive).map(|number| &self.processes[number]);
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
            let closed = self.history.rare.is_closed(number);
            let alive = process.alive && !closed;
            let Some(client) = process.client.as_ref().filter(|_| alive) else { continue };
            let stats = client.stats();
            let kept = stats.local_queues + stats.waiting + stats.holds + stats.listeners;
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
        // While their clients live: each of them has ended what nobody uses.
        left.extend(self.engine.listeners().keys().map(|channel| format!("listener of {channel}")));
        left
    }

    async fn shut_down(&mut self) {
        for (number, process) in self.processes.iter_mut().enumerate() {
            let closed = self.history.rare.is_closed(number);
            let alive = process.alive && !closed;
            let Some(client) = process.client.take().filter(|_| alive) else { continue };
            if let Err(error) = client.shutdown(ms(5000)).await {
                self.history.violation(format!("client {number} does not shut down: {error}"));
            }
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
