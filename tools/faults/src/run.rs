//! One run: starts a deployment and clients, injects faults on a schedule, and collects the
//! history.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;
use fastrand::Rng;
use leasehold_specification::trace::Entry;
use leasehold_testbed::run_as_users;

use crate::clients::{Clients, History};
use crate::clock;
use crate::elections::Elections;
use crate::fault::{self, Fault, Injected, Needs};
use crate::history::{Event, What};
use crate::memory::Group;
use crate::orders::Span;
use crate::peers::Peer;
use crate::plan::LARGE;
use crate::stalls::Stalls;
use crate::wall_clocks::Clocks;
use crate::workload::Workload;
use crate::world::{self, Kind, Setting, World};

/// Length of a published run.
pub(crate) const SECONDS: u64 = 30;
/// Number of client processes.
const CLIENTS: usize = 3;
/// How often the repeated action of an active fault is performed.
const INTERVAL: Duration = Duration::from_millis(100);
/// How long a client may take to end after `stop`. Clients of other libraries may keep retrying for
/// a minute.
const STOP_LIMIT: Duration = Duration::from_secs(30);
const STOP_LIMIT_OF_PEERS: Duration = Duration::from_secs(90);
/// How much more memory a process may use at the end than one second after its start. Connections
/// need buffers.
const GROWTH_KIB: u64 = 8 * 1024;
/// The same for file descriptors and for threads. Connections may be in the middle of a reconnect.
const GROWTH: u64 = 24;
/// The default `failover_grace` of the library, with its default timeouts.
const GRACE: Duration = Duration::from_millis(3_500);
/// How many leases before the end of a run the last fault must be over.
const AFTER_ROLES: u32 = 4;
const AFTER_OTHERS: u32 = 3;
/// Pause between two mixed faults that do not overlap, in hundredths of a lease.
const PAUSES: std::ops::Range<u64> = 10..120;

#[derive(Args, Clone, Debug)]
pub(crate) struct RunArguments {
    /// Workloads, separated by commas. Default: all that apply.
    #[arg(long, value_delimiter = ',')]
    pub(crate) workload: Vec<Workload>,
    /// The fault to inject. `mixed` injects all faults in random order, some at the same time;
    /// `none` injects nothing.
    #[arg(long, default_value = "none")]
    pub(crate) fault: String,
    #[arg(long, value_enum, default_value = "single")]
    pub(crate) deployment: Kind,
    #[arg(long, default_value_t = SECONDS)]
    pub(crate) seconds: u64,
    /// Seed of the schedule and of the clients. Default: random.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Lease of the holds, in milliseconds.
    #[arg(long, default_value_t = 3000)]
    pub(crate) lease_ms: u64,
    /// Library under test.
    #[arg(long, default_value = "leasehold")]
    pub(crate) library: String,
    /// Number of workers for each client and workload.
    #[arg(long, default_value_t = 3)]
    pub(crate) workers: u32,
    /// How long a quick worker holds a lock, in milliseconds.
    #[arg(long, default_value = "5-60")]
    pub(crate) hold_ms: Span,
    /// How long a long hold lasts, in milliseconds.
    #[arg(long, default_value = "200-7500")]
    pub(crate) long_ms: Span,
    /// How long a worker rests between two acquisitions, in milliseconds.
    #[arg(long, default_value = "0-20")]
    pub(crate) think_ms: Span,
    /// Time between two checks of the guard, in milliseconds.
    #[arg(long, default_value_t = 6)]
    pub(crate) step_ms: u64,
    /// How long a worker waits for a lock, in milliseconds. Default: one lease.
    #[arg(long)]
    pub(crate) wait_ms: Option<u64>,
    /// Pause between two faults, in milliseconds. Default: 1.3 leases.
    #[arg(long)]
    pub(crate) pause_ms: Option<u64>,
    /// The `failover_grace` of the clients, in milliseconds. Default: 3500, as in the library.
    #[arg(long)]
    pub(crate) grace_ms: Option<u64>,
    /// Masters take writes only while a replica is at most a second behind.
    #[arg(long)]
    pub(crate) min_replicas: bool,
    /// One worker of each workload connects anew for each acquisition, as a short program does.
    #[arg(long)]
    pub(crate) newcomers: bool,
    /// Check the history of an earlier run instead of running. Needs the arguments of that run.
    #[arg(long)]
    pub(crate) history: Option<PathBuf>,
    /// Keep the history even if the run passes.
    #[arg(long)]
    pub(crate) keep_history: bool,
    /// Folder for the history, the pictures and the result.
    #[arg(long, default_value = "target/fault-run")]
    pub(crate) out: PathBuf,
}

impl RunArguments {
    pub(crate) fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    /// For how long clients take nothing from a server that has just become the primary.
    pub(crate) fn grace(&self) -> Duration {
        self.grace_ms.map_or(GRACE, Duration::from_millis)
    }

    /// The pause between two faults.
    fn pause_between_faults(&self) -> Duration {
        self.pause_ms
            .map_or(self.lease() * 13 / 10, Duration::from_millis)
    }

    /// The requested workloads that apply to the deployment and to the fault.
    pub(crate) fn workloads(&self) -> Vec<Workload> {
        use clap::ValueEnum as _;
        if let Some(peer) = Peer::named(&self.library) {
            let wanted = |one: &&Workload| self.workload.is_empty() || self.workload.contains(one);
            return peer.workloads.iter().filter(wanted).copied().collect();
        }
        let all = Workload::value_variants().iter().copied();
        let applies = |one: &Workload| match fault::named(&self.fault) {
            Some(fault) => fault.applies_to(self.deployment, *one),
            None => one.runs_on(self.deployment),
        };
        let wanted = |one: &Workload| self.workload.is_empty() || self.workload.contains(one);
        all.filter(applies).filter(wanted).collect()
    }

    /// The faults of the run.
    pub(crate) fn faults(&self) -> Result<Vec<&'static Fault>, String> {
        match self.fault.as_str() {
            "none" => Ok(Vec::new()),
            "mixed" => {
                // Servers that persist every write would hide the data loss of the other faults.
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
                    return Err(format!(
                        "{name} does not apply to {}",
                        self.deployment.name()
                    ));
                }
                if !is_possible(fault.needs) {
                    return Err(format!("{name} is not possible here: {:?}", fault.needs));
                }
                Ok(vec![fault])
            }
        }
    }
}

/// Whether this machine and this user can meet the requirement.
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

/// The results of a run.
pub(crate) struct Ran {
    pub(crate) history: Vec<Event>,
    /// The steps of the protocol, of leasehold only.
    pub(crate) steps: Vec<Entry>,
    pub(crate) server: String,
    /// Keys of locks that are still in Redis after every lease has expired.
    pub(crate) keys: Vec<String>,
    /// Problems with client processes, one sentence each.
    pub(crate) wrong: Vec<String>,
}

/// How the servers are started.
fn setting(arguments: &RunArguments, faults: &[&Fault], clocks: Option<&Clocks>) -> Setting {
    let mut setting = Setting {
        replaces: faults.iter().any(|fault| fault.replaces()),
        ..Setting::default()
    };
    if let [fault] = faults
        && fault.needs == Needs::Disk
    {
        let words = ["--appendonly", "yes", "--appendfsync", "always"];
        setting.arguments.extend(words.map(str::to_owned));
    }
    if arguments.min_replicas {
        let words = [
            "--min-replicas-to-write",
            "1",
            "--min-replicas-max-lag",
            "1",
        ];
        setting.arguments.extend(words.map(str::to_owned));
    }
    if let Some(clocks) = clocks {
        setting.environment = clocks.environment("server");
    }
    setting
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
    let setting = setting(arguments, &faults, clocks.as_ref());
    let deployments = world::start(arguments.deployment, &setting);
    let history = History::default();
    let elections = Elections::watch(&deployments, &history);
    let stalls = Stalls::record({
        let history = history.clone();
        move |what| history.record(what)
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
    world.clients.wait_until_working();

    let end = Instant::now() + Duration::from_secs(arguments.seconds);
    let mut schedule = Schedule {
        random: Rng::with_seed(seed),
        lease: arguments.lease(),
        end,
        pause_between: arguments.pause_between_faults(),
        history: &history,
    };
    schedule.pause(50);
    match faults[..] {
        [] => sleep_until(end),
        [fault] => schedule.one_by_one(&mut world, fault),
        _ => schedule.mixed(&mut world, &faults),
    }
    let is_peer = Peer::named(&arguments.library).is_some();
    let mut wrong = world.clients.stop(if is_peer {
        STOP_LIMIT_OF_PEERS
    } else {
        STOP_LIMIT
    });
    let keys = keys_left(&world, arguments);
    drop((elections, stalls));
    let (server, steps, history) = (world.version(), history.take_steps(), history.take());
    // A growing heap of another runtime is not a fault of its lock library.
    if !is_peer {
        wrong.extend(resource_growth(&history));
    }
    Ok(Ran {
        history,
        steps,
        server,
        keys,
        wrong,
    })
}

/// Settings with which clients are started.
pub(crate) struct Prepared {
    /// Environment of the first client.
    pub(crate) client_environment: Vec<(String, String)>,
    /// The group that limits the memory of the first client.
    pub(crate) memory: Option<std::sync::Arc<Group>>,
    pub(crate) seed: u64,
}

/// Begins and heals faults over the time of the run.
struct Schedule<'a> {
    random: Rng,
    lease: Duration,
    end: Instant,
    pause_between: Duration,
    history: &'a History,
}

/// A fault that has begun and is not healed yet.
struct ActiveFault {
    fault: &'static Fault,
    injected: Injected,
    until: Instant,
}

impl Schedule<'_> {
    /// Sleeps for this many hundredths of a lease.
    fn pause(&self, hundredths: u64) {
        let span = self.lease * u32::try_from(hundredths).expect("few") / 100;
        sleep_until(Instant::now() + span);
    }

    /// Injects one fault again and again.
    fn one_by_one(&mut self, world: &mut World, fault: &'static Fault) {
        let longest = self.lease * u32::try_from(fault.lasts.end).expect("few") / 100;
        // The last fault must be over early enough that clients can recover. In the calm time after
        // that, a waiter that waits for a free lock becomes visible.
        let rest = if fault.replaces() {
            AFTER_ROLES
        } else {
            AFTER_OTHERS
        };
        while Instant::now() + longest + rest * self.lease < self.end {
            let mut on = self.begin(world, fault);
            while Instant::now() < on.until {
                Self::step(world, &mut on);
            }
            self.heal(world, on);
            sleep_until(Instant::now() + self.pause_between);
        }
        sleep_until(self.end);
    }

    /// Injects random faults in sequence. About every third time, two of them overlap.
    fn mixed(&mut self, world: &mut World, faults: &[&'static Fault]) {
        let mut on: Vec<ActiveFault> = Vec::new();
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
                if on.iter().all(|one| can_overlap(one.fault, fault)) {
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
                all => all.iter_mut().for_each(|one| Self::step(world, one)),
            }
            for seat in 0..CLIENTS {
                // Replace a client that a fault has killed, after that fault was healed.
                if world.clients.is_gone(seat) && on.is_empty() {
                    world.clients.replace(seat);
                }
            }
        }
        sleep_until(self.end);
    }

    fn begin(&mut self, world: &mut World, fault: &'static Fault) -> ActiveFault {
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
        ActiveFault {
            fault,
            injected,
            until: Instant::now() + span,
        }
    }

    /// Performs the repeated action of the fault, if it has one, and sleeps until the next time.
    fn step(world: &mut World, on: &mut ActiveFault) {
        if let Some(action) = &mut on.injected.repeated {
            action(world);
        }
        sleep_until(on.until.min(Instant::now() + INTERVAL));
    }

    fn heal(
        &self,
        world: &mut World,
        ActiveFault {
            fault, injected, ..
        }: ActiveFault,
    ) {
        let what = event(fault, &injected, Edge::End);
        (injected.heal)(world);
        self.history.record(what);
        // Wait only after a fault of servers. After any other fault, a fault of servers may still
        // be active and keep the servers from agreeing.
        if fault.is_of_servers() {
            world.settle();
        }
    }
}

/// Whether a fault begins or ends.
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

/// Whether two faults may be active at the same time.
///
/// Faults that change masters or silence servers must not overlap. Neither may two faults of the
/// network: when the first one ends, it would deliver replies that follow replies which the second
/// one has lost. No real network does that.
fn can_overlap(one: &Fault, other: &Fault) -> bool {
    let both = |is_of: fn(&Fault) -> bool| is_of(one) && is_of(other);
    one.name != other.name && !both(Fault::is_of_servers) && !both(Fault::is_of_lines)
}

/// Keys of locks that remain after every lease has expired, including the leases of dead clients.
/// Keys that are documented to stay do not count.
fn keys_left(world: &World, arguments: &RunArguments) -> Vec<String> {
    let deadline = Instant::now() + (LARGE + 1) * arguments.lease();
    loop {
        let is_left = |key: &String| !arguments.workloads().iter().any(|one| one.keeps(key));
        let left: Vec<_> = world.keys().into_iter().filter(is_left).collect();
        if left.is_empty() || Instant::now() > deadline {
            return left;
        }
        std::thread::sleep(INTERVAL);
    }
}

/// Compares the first and the last sample of each process. Returns a sentence for each process that
/// uses more memory, descriptors or threads at the end than allowed.
fn resource_growth(history: &[Event]) -> Vec<String> {
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
        // Skip the sample of the start. Samples in the middle may be taken during a fault.
        let (first, last) = (samples.get(1)?, samples.last()?);
        let limits = [first[0] + GROWTH_KIB, first[1] + GROWTH, first[2] + GROWTH];
        let is_flat = last.iter().zip(limits).all(|(last, limit)| *last <= limit);
        let text = || {
            format!("process {process} grew from {first:?} to {last:?} [KiB, descriptors, threads]")
        };
        (!is_flat).then(text)
    };
    // A killed process is not judged: the fault itself may have made it grow.
    samples
        .iter()
        .filter(|(process, _)| ended.contains(process))
        .filter_map(grown)
        .collect()
}
