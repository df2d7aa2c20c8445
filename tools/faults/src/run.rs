//! One run: a deployment, clients, faults on a schedule, a history, and what it shows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;
use fastrand::Rng;
use leasehold_testbed::run_as_users;

use crate::clients::{Clients, History};
use crate::clock;
use crate::elections::Elections;
use crate::fault::{self, Fault, Injected, Needs};
use crate::habit::LARGE;
use crate::history::{Event, What};
use crate::memory::Group;
use crate::orders::Span;
use crate::peers::Peer;
use crate::stalls::Stalls;
use crate::wall_clocks::Clocks;
use crate::workload::Workload;
use crate::world::{self, Kind, Setting, World};

/// Of a run as it is published.
pub(crate) const SECONDS: u64 = 30;
/// Client processes.
const CLIENTS: usize = 3;
/// How often what goes on during a fault is done again.
const AGAIN: Duration = Duration::from_millis(100);
/// Within this every client has ended that was told to; clients of other libraries may try on for a minute.
const ENDING: Duration = Duration::from_secs(30);
const ENDING_OF_PEERS: Duration = Duration::from_secs(90);
/// A process may use so much more memory at the end than a second after its start: buffers of its connections.
const GROWTH_KIB: u64 = 8 * 1024;
/// Descriptors, and threads: connections that are being made again.
const GROWTH: u64 = 24;
/// Leases at the end of a run without another fault.
const AFTER_ROLES: u32 = 4;
const AFTER_OTHERS: u32 = 3;
/// Between two mixed faults that follow each other.
const PAUSES: std::ops::Range<u64> = 10..120;

#[derive(Args, Clone, Debug)]
pub(crate) struct RunArguments {
    /// What is done with locks; several, separated by commas. All that apply, if nothing is said.
    #[arg(long, value_delimiter = ',')]
    pub(crate) workload: Vec<Workload>,
    /// What happens meanwhile; `mixed` is one after another and some at once, `none` is nothing.
    #[arg(long, default_value = "none")]
    pub(crate) fault: String,
    #[arg(long, value_enum, default_value = "single")]
    pub(crate) deployment: Kind,
    #[arg(long, default_value_t = SECONDS)]
    pub(crate) seconds: u64,
    /// Of the schedule and of the clients; a new one, if nothing is said.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Of all holds, in milliseconds.
    #[arg(long, default_value_t = 3000)]
    pub(crate) lease_ms: u64,
    /// Another library: its name.
    #[arg(long, default_value = "leasehold")]
    pub(crate) library: String,
    /// Workers of each client and workload.
    #[arg(long, default_value_t = 3)]
    pub(crate) workers: u32,
    /// How long a worker stays inside.
    #[arg(long, default_value = "5-60")]
    pub(crate) hold_ms: Span,
    /// How long one of the long holds lasts.
    #[arg(long, default_value = "200-7500")]
    pub(crate) long_ms: Span,
    /// How long it stays away.
    #[arg(long, default_value = "0-20")]
    pub(crate) think_ms: Span,
    /// How long it works between two looks at its guard.
    #[arg(long, default_value_t = 6)]
    pub(crate) step_ms: u64,
    /// How long it waits for a lock: a lease, if nothing is said.
    #[arg(long)]
    pub(crate) wait_ms: Option<u64>,
    /// Between two faults: 1.3 leases, if nothing is said.
    #[arg(long)]
    pub(crate) pause_ms: Option<u64>,
    /// Checks the history of an earlier run instead: with the arguments of that.
    #[arg(long)]
    pub(crate) history: Option<PathBuf>,
    /// Keep the history also of a run that passes.
    #[arg(long)]
    pub(crate) keep_history: bool,
    /// Where the history, the pictures and the result go.
    #[arg(long, default_value = "target/fault-run")]
    pub(crate) out: PathBuf,
}

impl RunArguments {
    pub(crate) fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    /// Two faults.
    fn between(&self) -> Duration {
        self.pause_ms
            .map_or(self.lease() * 13 / 10, Duration::from_millis)
    }

    /// The workloads that apply to the deployment and to the fault.
    pub(crate) fn workloads(&self) -> Vec<Workload> {
        use clap::ValueEnum as _;
        if let Some(peer) = Peer::named(&self.library) {
            let wanted = |one: &&Workload| self.workload.is_empty() || self.workload.contains(one);
            return peer.workloads.iter().filter(wanted).copied().collect();
        }
        let all = Workload::value_variants().iter().copied();
        let applies = |one: &Workload| match fault::named(&self.fault) {
            Some(fault) => fault.applies_to(self.deployment, *one),
            None => (self.deployment == Kind::Five) == (*one == Workload::Quorum),
        };
        let wanted = |one: &Workload| self.workload.is_empty() || self.workload.contains(one);
        all.filter(applies).filter(wanted).collect()
    }

    /// The faults of the run.
    pub(crate) fn faults(&self) -> Result<Vec<&'static Fault>, String> {
        match self.fault.as_str() {
            "none" => Ok(Vec::new()),
            "mixed" => {
                // Servers that have everything on disk would hide the faults of those that have not.
                let here = |fault: &&Fault| {
                    fault.on.contains(&self.deployment) && fault.needs != Needs::Disk
                };
                Ok(fault::all()
                    .filter(here)
                    .filter(|fault| is_possible(fault.needs))
                    .collect())
            }
            name => {
                let fault = fault::named(name).ok_or_else(|| format!("no such fault: {name}"))?;
                if !fault.on.contains(&self.deployment) {
                    return Err(format!("{name} is no fault of {}", self.deployment.name()));
                }
                if !is_possible(fault.needs) {
                    return Err(format!("{name} cannot be had here: {:?}", fault.needs));
                }
                Ok(vec![fault])
            }
        }
    }
}

/// Whether this machine, and who runs this, can have it.
pub(crate) fn is_possible(needs: Needs) -> bool {
    let runs = |program: &str, arguments: &[&str]| {
        Command::new(program)
            .args(arguments)
            .output()
            .is_ok_and(|output| output.status.success())
    };
    match needs {
        Needs::Nothing | Needs::Disk => true,
        Needs::Clocks => runs("cc", &["--version"]),
        Needs::Namespace => runs("unshare", &["--net", "true"]) && runs("nft", &["--version"]),
        Needs::MemoryLimit => Group::make().is_some(),
    }
}

/// What a run leaves behind.
pub(crate) struct Ran {
    pub(crate) history: Vec<Event>,
    pub(crate) server: String,
    /// Keys that were there two leases after the end.
    pub(crate) keys: Vec<String>,
    /// What went wrong with processes.
    pub(crate) wrong: Vec<String>,
}

pub(crate) fn run(
    arguments: &RunArguments,
    seed: u64,
    start: impl FnOnce(&Prepared) -> crate::clients::Start,
) -> Result<Ran, String> {
    let faults = arguments.faults()?;
    let needs = |needed: Needs| faults.iter().any(|fault| fault.needs == needed);
    if needs(Needs::Namespace) {
        run_as_users();
    }
    let folder = arguments.out.join("work");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let folder = folder.canonicalize().map_err(|error| error.to_string())?;
    let clocks = needs(Needs::Clocks).then(|| Clocks::prepare(&folder));
    let replaces = faults.iter().any(|fault| fault.replaces());
    let mut setting = Setting {
        replaces,
        ..Setting::default()
    };
    if needs(Needs::Disk) && faults.len() == 1 {
        let words = ["--appendonly", "yes", "--appendfsync", "always"];
        setting.arguments.extend(words.map(str::to_owned));
    }
    if let Some(clocks) = &clocks {
        setting.environment = clocks.environment("server");
    }
    let deployments = world::start(arguments.deployment, &setting);
    let history = History::default();
    let elections = Elections::watch(&deployments, &history);
    let stalls = Stalls::watch({
        let history = history.clone();
        move |what| history.note(what)
    });
    let prepared = Prepared {
        client_environment: clocks
            .as_ref()
            .map(|clocks| clocks.environment("client"))
            .unwrap_or_default(),
        memory: needs(Needs::MemoryLimit)
            .then(Group::make)
            .flatten()
            .map(std::sync::Arc::new),
        seed,
    };
    let clients = Clients::start(start(&prepared), CLIENTS, &deployments, history.clone());
    let mut world = World {
        kind: arguments.deployment,
        deployments,
        clients,
        clocks,
    };
    world.clients.until_at_work();

    let end = Instant::now() + Duration::from_secs(arguments.seconds);
    let mut schedule = Schedule {
        random: Rng::with_seed(seed),
        lease: arguments.lease(),
        end,
        between: arguments.between(),
        history: &history,
    };
    schedule.pause(50);
    match faults[..] {
        [] => sleep_until(end),
        [fault] => schedule.one_by_one(&mut world, fault),
        _ => schedule.mixed(&mut world, &faults),
    }
    let is_peer = Peer::named(&arguments.library).is_some();
    let mut wrong = world
        .clients
        .stop(if is_peer { ENDING_OF_PEERS } else { ENDING });
    let keys = keys_left(&world, arguments);
    drop((elections, stalls));
    let (server, history) = (world.version(), history.take());
    // What a heap of another language does is no fault of a lock.
    if !is_peer {
        wrong.extend(flat(&history));
    }
    Ok(Ran {
        history,
        server,
        keys,
        wrong,
    })
}

/// What clients are started with.
pub(crate) struct Prepared {
    /// Of the first client.
    pub(crate) client_environment: Vec<(String, String)>,
    /// Where the memory of the first client is limited.
    pub(crate) memory: Option<std::sync::Arc<Group>>,
    pub(crate) seed: u64,
}

/// When what begins and ends.
struct Schedule<'a> {
    random: Rng,
    lease: Duration,
    end: Instant,
    between: Duration,
    history: &'a History,
}

/// A fault that is on.
struct On {
    fault: &'static Fault,
    injected: Injected,
    until: Instant,
}

impl Schedule<'_> {
    /// In hundredths of a lease.
    fn pause(&self, hundredths: u64) {
        let span = self.lease * u32::try_from(hundredths).expect("few") / 100;
        sleep_until(Instant::now() + span);
    }

    fn one_by_one(&mut self, world: &mut World, fault: &'static Fault) {
        let longest = self.lease * u32::try_from(fault.lasts.end).expect("few") / 100;
        // The last one has time to be recovered from, and then all is calm: who waits for nothing is seen.
        let rest = if fault.replaces() {
            AFTER_ROLES
        } else {
            AFTER_OTHERS
        };
        while Instant::now() + longest + rest * self.lease < self.end {
            let mut on = self.begin(world, fault);
            while Instant::now() < on.until {
                Self::go_on(world, &mut on);
            }
            self.heal(world, on);
            sleep_until(Instant::now() + self.between);
        }
        sleep_until(self.end);
    }

    /// One after the other, each third time two at once.
    fn mixed(&mut self, world: &mut World, faults: &[&'static Fault]) {
        let mut on: Vec<On> = Vec::new();
        let mut next = Instant::now();
        let mut last = Instant::now();
        last += (self.end - last).saturating_sub(3 * self.lease);
        while Instant::now() < last || !on.is_empty() {
            let (ended, still): (Vec<_>, Vec<_>) =
                on.into_iter().partition(|one| one.until <= Instant::now());
            on = still;
            for one in ended {
                self.heal(world, one);
            }
            if Instant::now() >= next && Instant::now() < last && on.len() < 2 {
                let fault = *self.random.choice(faults).expect("some");
                if on.iter().all(|one| goes_with(one.fault, fault)) {
                    on.push(self.begin(world, fault));
                }
                let pause = if self.random.u8(0..3) == 0 {
                    5
                } else {
                    self.random.u64(PAUSES)
                };
                next = Instant::now() + self.lease * u32::try_from(pause).expect("few") / 100;
            }
            match &mut on[..] {
                [] => sleep_until(next.min(last)),
                all => all.iter_mut().for_each(|one| Self::go_on(world, one)),
            }
            for seat in 0..CLIENTS {
                // Of a fault that is over by now.
                if world.clients.is_gone(seat) && on.is_empty() {
                    world.clients.replace(seat);
                }
            }
        }
        sleep_until(self.end);
    }

    fn begin(&mut self, world: &mut World, fault: &'static Fault) -> On {
        let (at, wall) = (clock::monotonic(), clock::wall());
        let span = fault.span(self.lease, &mut self.random);
        let injected = fault.begin(world, &mut self.random);
        let what = event(fault, &injected, Edge::Begin);
        self.history.push(Event {
            at,
            wall,
            process: 0,
            worker: 0,
            name: String::new(),
            what,
        });
        On {
            fault,
            injected,
            until: Instant::now() + span,
        }
    }

    fn go_on(world: &mut World, on: &mut On) {
        match &mut on.injected.meanwhile {
            Some(again) => {
                again(world);
                sleep_until(on.until.min(Instant::now() + AGAIN));
            }
            None => sleep_until(on.until.min(Instant::now() + AGAIN)),
        }
    }

    fn heal(
        &self,
        world: &mut World,
        On {
            fault, injected, ..
        }: On,
    ) {
        let what = event(fault, &injected, Edge::End);
        (injected.heal)(world);
        self.history.note(what);
        // Not while another fault keeps servers from it.
        if fault.is_of_servers() {
            world.settle();
        }
    }
}

/// Of the time of a fault.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Edge {
    Begin,
    End,
}

fn event(fault: &Fault, injected: &Injected, edge: Edge) -> What {
    let (detail, scope) = (injected.detail.clone(), injected.scope.clone());
    What::Fault {
        fault: fault.name.to_owned(),
        on: edge == Edge::Begin,
        detail,
        scope,
    }
}

fn sleep_until(then: Instant) {
    std::thread::sleep(then.saturating_duration_since(Instant::now()));
}

/// Faults that change who is master, or whether a server answers, need all servers for themselves. Of two faults of
/// the network the end of one would let replies through behind some that the other has lost: no network does that.
fn goes_with(one: &Fault, other: &Fault) -> bool {
    let both = |is_of: fn(&Fault) -> bool| is_of(one) && is_of(other);
    one.name != other.name && !both(Fault::is_of_servers) && !both(Fault::is_of_lines)
}

/// Keys of locks when the largest lease after the end is over, also that of the dead; but for what is documented to stay.
fn keys_left(world: &World, arguments: &RunArguments) -> Vec<String> {
    let deadline = Instant::now() + (LARGE + 1) * arguments.lease();
    loop {
        let is_left = |key: &String| !arguments.workloads().iter().any(|one| one.keeps(key));
        let left: Vec<_> = world.keys().into_iter().filter(is_left).collect();
        if left.is_empty() || Instant::now() > deadline {
            return left;
        }
        std::thread::sleep(AGAIN);
    }
}

/// Between the beginning and the end nothing has grown: a sentence for each process of which that is not so.
fn flat(history: &[Event]) -> Vec<String> {
    let mut samples: BTreeMap<u32, Vec<[u64; 3]>> = BTreeMap::new();
    let mut ended = BTreeSet::new();
    for event in history {
        match event.what {
            What::Sample {
                rss_kib,
                descriptors,
                threads,
            } => {
                samples
                    .entry(event.process)
                    .or_default()
                    .push([rss_kib, descriptors, threads]);
            }
            What::Ended { .. } => drop(ended.insert(event.process)),
            _ => {}
        }
    }
    let grown = |(process, samples): (&u32, &Vec<[u64; 3]>)| {
        // The first second is the start, and what comes in the middle may be a fault.
        let (first, last) = (samples.get(1)?, samples.last()?);
        let limits = [first[0] + GROWTH_KIB, first[1] + GROWTH, first[2] + GROWTH];
        let is_flat = last.iter().zip(limits).all(|(last, limit)| *last <= limit);
        let text = || {
            format!("process {process} grows: {first:?} to {last:?} [KiB, descriptors, threads]")
        };
        (!is_flat).then(text)
    };
    // One that was killed may have been about to grow: that was the fault.
    samples
        .iter()
        .filter(|(process, _)| ended.contains(process))
        .filter_map(grown)
        .collect()
}
