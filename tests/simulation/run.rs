//! One seed, on one thread under paused time, from the first call until the engines are empty.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::SeqCst;

use leasehold::Client;
use leasehold_specification::trace::coverage::Transition;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::Seed;
use crate::kind::Kind;
use crate::plan::{Plan, Weather, ms, us};
use crate::watchdog::Watchdog;
use crate::weather::Changes;
use crate::workload::Workload;
use crate::world::World;
use crate::{latch, locks, multi, quorum, semaphore};

/// The result of a run.
pub(crate) struct Outcome {
    pub(crate) violation: Option<String>,
    /// What the specification does not allow. A violation, too.
    pub(crate) disallowed: Option<String>,
    /// What acquisitions have gone through.
    pub(crate) walked: BTreeSet<Transition>,
    pub(crate) trace: Vec<String>,
    pub(crate) acquired: u64,
}

/// Runs one seed.
pub(crate) fn run(seed: Seed) -> Outcome {
    let _watchdog = Watchdog::watch(seed.replay());
    // The library's own jitter uses this thread's generator.
    fastrand::seed(seed.number);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let plan = Plan::new(seed.kind, seed.number, seed.cast);
        let mut world = World::new(plan);
        let mut workload = workload_of(&world);
        world.start(&mut *workload).await;
        world.play(&mut *workload).await;
        let ledger = &world.ledger;
        let verdict = world.histories.verdict(world.plan.noise());
        let disallowed = verdict.disallowed();
        Outcome {
            violation: ledger.verdict().or_else(|| disallowed.clone()),
            disallowed,
            walked: verdict.walked,
            trace: ledger.trace(),
            acquired: ledger.granted(),
        }
    })
}

fn workload_of(world: &World) -> Box<dyn Workload> {
    let plan = &world.plan;
    match plan.kind {
        Kind::Semaphore | Kind::Permits => Box::new(semaphore::Permits::new(plan)),
        Kind::Latch => Box::new(latch::Latches::new(plan)),
        Kind::Multi => Box::new(multi::Several::new(plan)),
        Kind::Quorum => Box::new(quorum::Quorums::new(world)),
        _ => Box::new(locks::Locks::new(plan)),
    }
}

impl World {
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

    /// True if nothing has been found yet.
    fn holds(&self) -> bool {
        self.ledger.verdict().is_none()
    }

    fn look(&self, workload: &mut dyn Workload) {
        self.ledger.check_guards();
        workload.look(self);
    }

    /// The weather clears, and everybody must finish.
    async fn settle(&mut self, workload: &mut dyn Workload) {
        self.clear();
        workload.repair(self).await;
        // After a storm, work continues and must be as prompt as ever.
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

    /// At the end, every table, queue and key must be gone.
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
            // While the clients live, because each removes what nobody uses.
            // A client listens on its own channel for as long as it lives.
            let channels = engine.listeners().into_keys();
            let channels = channels.filter(|channel| !channel.starts_with("leasehold_client:"));
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
