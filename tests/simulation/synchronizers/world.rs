//! One seed: servers, processes and what they play, from the first call to empty servers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use futures::future::BoxFuture;
use leasehold::test_util::{ErrorReply, Faults, Flow, Gate, LinkControl, Reply};
use leasehold::{Client, EmbeddedRedis, LocalHandover};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::book::{Book, Who};
use super::plan::{FAIR_CLAIM, Plan, Sort};
use super::player::Player;
use super::weather::Weather;
use super::{latch, multi, permits, quorum};
use crate::dog::Dog;
use crate::plan::{ms, us};
use crate::run::Outcome;

/// What is played, and what must be true of it.
pub(crate) trait Game: Send {
    /// The life of one user.
    fn play(&self, player: Player) -> BoxFuture<'static, ()>;
    /// What must hold at every moment; looked at every few milliseconds.
    fn look(&mut self, world: &World);
    /// A server lost all its keys, or its clock ran away.
    fn forgets(&mut self, world: &World, engine: usize);
    /// A key is gone, and what belongs to it.
    fn evict(&mut self, world: &World, engine: usize, rng: &mut fastrand::Rng);
    /// The weather has cleared: what users cannot mend themselves.
    fn repair<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, ()>;
    /// What should not be there once everybody is gone.
    fn left<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, Vec<String>>;
}

/// One process with everything that belongs to it.
pub(crate) struct Process {
    /// One for each server.
    pub(crate) clients: Vec<Client>,
    pub(crate) links: Vec<LinkControl>,
    pub(crate) gate: Gate,
    users: Vec<JoinHandle<()>>,
    pub(crate) alive: bool,
}

pub(crate) struct World {
    pub(crate) plan: Plan,
    /// What the fields of each process begin with on each server.
    pub(crate) ids: Arc<Vec<Vec<String>>>,
    pub(crate) engines: Vec<EmbeddedRedis>,
    pub(crate) book: Book,
    pub(crate) processes: Vec<Process>,
    over: Arc<AtomicBool>,
}

/// Runs one seed.
pub(crate) fn run(seed: u64) -> Outcome {
    // The library's own jitter comes from this thread's generator.
    fastrand::seed(seed);
    let _dog = Dog::watch(super::replay_line(seed));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let plan = Plan::new(seed);
        let mut world = World::start(plan).await;
        let mut game: Box<dyn Game> = match world.plan.sort {
            Sort::Semaphore | Sort::Permits => Box::new(permits::Game::new(&world)),
            Sort::Latch => Box::new(latch::Game::new(&world)),
            Sort::Multi => Box::new(multi::Game::new(&world)),
            Sort::Quorum => Box::new(quorum::Game::new(&world)),
        };
        world.play(&mut *game).await;
        let log = &world.book.log;
        Outcome { violation: log.verdict(), trace: log.trace(), acquired: world.book.granted() }
    })
}

impl World {
    async fn start(plan: Plan) -> Self {
        let book = Book::new(plan.lease);
        book.log.note(&format!("{plan:?}"));
        let engines: Vec<_> = (0..plan.engines).map(|_| EmbeddedRedis::new()).collect();
        let mut rng = fastrand::Rng::with_seed(plan.seed ^ 0x5EED);
        let mut processes = Vec::new();
        for _ in 0..plan.processes {
            let gate = Gate::default();
            let (mut clients, mut links) = (Vec::new(), Vec::new());
            for engine in &engines {
                let builder = engine
                    .builder()
                    .lease(plan.lease)
                    .safety_poll(plan.poll)
                    .command_timeout(plan.command_timeout)
                    .fair_claim(FAIR_CLAIM)
                    .local_handover(handover(&mut rng))
                    .gate(gate.clone());
                clients.push(builder.connect().await.expect("a client"));
                let link = engine.links().pop().expect("its link");
                link.set_faults(plan.faults.clone(), rng.u64(..));
                links.push(link);
            }
            processes.push(Process { clients, links, gate, users: Vec::new(), alive: true });
        }
        let ids = processes.iter().map(|process: &Process| process.clients.iter().map(id_of));
        let ids = Arc::new(ids.map(Iterator::collect).collect());
        World { plan, ids, engines, book, processes, over: Arc::default() }
    }

    fn send_users(&mut self, game: &dyn Game) {
        let mut rng = fastrand::Rng::with_seed(self.plan.seed ^ 0xAC70);
        for number in 0..self.processes.len() {
            for actor in 0..self.plan.actors {
                let player = Player {
                    who: Who { process: number, actor },
                    plan: self.plan.clone(),
                    book: self.book.clone(),
                    clients: self.processes[number].clients.clone(),
                    rng: rng.fork(),
                    over: self.over.clone(),
                };
                let process = &mut self.processes[number];
                process.users.push(tokio::spawn(process.gate.clone().run(game.play(player))));
            }
        }
    }

    async fn play(&mut self, game: &mut dyn Game) {
        self.send_users(game);
        let start = Instant::now();
        let mut weather = Weather::new(&self.plan);
        while start.elapsed() < self.plan.duration && self.book.log.verdict().is_none() {
            sleep(us(weather.step())).await;
            weather.change(self, game);
            self.book.check_guards();
            game.look(self);
        }
        if self.book.log.verdict().is_none() {
            self.settle(game).await;
        }
    }

    /// The weather clears: everybody must come to an end, and nothing may be left.
    async fn settle(&mut self, game: &mut dyn Game) {
        self.book.log.note("the weather clears");
        self.over.store(true, SeqCst);
        for engine in &self.engines {
            engine.resume();
            engine.heal();
        }
        for process in &self.processes {
            process.gate.thaw();
            for link in &process.links {
                link.set_messages(Flow::Passes);
                link.set_replies(Flow::Passes);
                let Faults { request, reply, message, .. } = self.plan.faults.clone();
                // Without chance in it the same clients would be first for ever.
                link.set_faults(Faults { request, reply, message, ..Faults::default() }, link.id());
                link.heal();
            }
        }
        game.repair(self).await;
        for number in 0..self.processes.len() {
            for user in std::mem::take(&mut self.processes[number].users) {
                let limit = self.plan.served_within() + self.plan.lease;
                match timeout(limit, user).await {
                    Ok(Err(error)) if error.is_panic() => {
                        std::panic::resume_unwind(error.into_panic());
                    }
                    Ok(_) => {}
                    Err(_) => {
                        let waiters = self.book.wishes();
                        let text = format!("somebody waits for ever: {waiters:?}");
                        return self.book.log.violation(text);
                    }
                }
            }
        }
        self.rest(game).await;
        if self.book.log.verdict().is_none() {
            self.shut_down().await;
        }
    }

    /// An undo may be repeated for a lease, and the reply to a change is kept for half a minute; then
    /// every table, queue and key must be gone.
    async fn rest(&self, game: &mut dyn Game) {
        let limit = Instant::now() + 2 * self.plan.lease + ms(50_000);
        loop {
            let mut left = self.kept();
            // While their clients live: each of them has ended what nobody uses.
            let channels = self.engines.iter().flat_map(|engine| engine.listeners().into_keys());
            left.extend(channels.map(|channel| format!("listener of {channel}")));
            left.extend(game.left(self).await);
            if left.is_empty() {
                return;
            }
            if Instant::now() > limit {
                return self.book.log.violation(format!("left behind: {}", left.join("; ")));
            }
            sleep(ms(50)).await;
        }
    }

    /// What the clients still keep.
    fn kept(&self) -> Vec<String> {
        let mut left = Vec::new();
        for (number, process) in self.alive() {
            for client in &process.clients {
                let stats = client.stats();
                let kept = stats.local_queues + stats.waiting + stats.holds + stats.listeners;
                if kept + stats.subscriptions + stats.releases_pending > 0 {
                    left.push(format!("process {number} keeps {stats:?}"));
                }
            }
        }
        left
    }

    async fn shut_down(&mut self) {
        for (number, process) in self.processes.iter_mut().enumerate() {
            for client in process.clients.drain(..).filter(|_| process.alive) {
                if let Err(error) = client.shutdown(ms(5000)).await {
                    let text = format!("process {number} does not shut down: {error}");
                    self.book.log.violation(text);
                }
            }
        }
    }

    pub(crate) fn alive(&self) -> impl Iterator<Item = (usize, &Process)> {
        self.processes.iter().enumerate().filter(|(_, process)| process.alive)
    }

    /// Says what has been so for longer than it may.
    pub(crate) fn complain<K: Ord + std::fmt::Debug>(
        &self,
        what: &str,
        since: &BTreeMap<K, Instant>,
        limit: Duration,
    ) {
        for (name, since) in since {
            if since.elapsed() > limit {
                let wishes = self.book.wishes();
                let text = format!("{what} {name:?} for {:?}, {wishes:?}", since.elapsed());
                self.book.log.violation(text);
            }
        }
    }

    /// A client of a process that lives.
    pub(crate) fn witness(&self, engine: usize) -> Client {
        let (_, process) = self.alive().next().expect("somebody lives");
        process.clients[engine].clone()
    }

    /// The process dies without a farewell: its tasks are gone, and nothing of it is executed.
    pub(crate) fn crash(&mut self, number: usize) {
        self.book.log.note(&format!("process {number} crashes"));
        let process = &mut self.processes[number];
        process.alive = false;
        process.links.iter().for_each(LinkControl::crash);
        process.gate.freeze();
        self.book.crashed(number);
        // Dropped behind a closed gate, its handles would queue releases that nobody sends.
        process.users.drain(..).for_each(|user| user.abort());
    }
}

/// The first half of every field of a client.
fn id_of(client: &Client) -> String {
    let text = format!("{client:?}");
    let (_, id) = text.split_once("client_id: ").expect("it tells its id");
    id.chars().take_while(|letter| *letter != ',').collect()
}

/// The server's clock.
pub(crate) fn now_ms(engine: &EmbeddedRedis) -> f64 {
    let Ok(Reply::Array(parts)) = engine.command(&["TIME"]) else { unreachable!("TIME") };
    let number = |part: &Result<Reply, ErrorReply>| match part {
        Ok(Reply::Bulk(text)) => String::from_utf8_lossy(text).parse::<f64>().expect("a number"),
        other => unreachable!("{other:?}"),
    };
    (number(&parts[0]) * 1000.0 + number(&parts[1]) / 1000.0).floor()
}

fn handover(rng: &mut fastrand::Rng) -> LocalHandover {
    match rng.u8(0..4) {
        0 => LocalHandover::Off,
        1 => LocalHandover::Streak { count: rng.u32(1..6), time: ms(50) },
        2 => LocalHandover::Streak { count: rng.u32(1..6), time: ms(3000) },
        _ => LocalHandover::default(),
    }
}
