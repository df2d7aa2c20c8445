//! Tests each driver on its deployments.
//!
//! The tests are ignored by default, because they need Go, Java, Python, and registries to install
//! from. `cargo test -p leasehold-faults --bin leasehold-faults -- peers --include-ignored
//! --nocapture`

mod before_a_write;
mod clients;
mod redisson;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use leasehold_testbed::{Cluster, Reply, Sentinels, Server, Shape, Watch, wait_until};

use super::{ALL, Kind, Peer, Workload};
use crate::clock;
use crate::history::{Event, What};
use clients::{Client, LEASE, Resource, Run};

/// A failover timeout that is long enough that a busy machine causes no failover.
const PATIENT: Duration = Duration::from_secs(60);

macro_rules! for_each_peer {
    ($($module:ident $name:literal)*) => {$(
        mod $module {
            #[test]
            #[ignore = "needs the tools of its language, and a registry to install from"]
            fn two_processes_exclude_each_other() {
                super::two_processes_exclude_each_other(super::named($name));
            }

            #[test]
            #[ignore = "needs the tools of its language, and a registry to install from"]
            fn a_deleted_lock_ends_the_section() {
                super::a_deleted_lock_ends_the_section(super::named($name));
            }

            #[test]
            #[ignore = "needs the tools of its language, and a registry to install from"]
            fn a_client_obeys_block_and_stop() {
                super::a_client_obeys_block_and_stop(super::named($name));
            }

            #[test]
            #[ignore = "needs the tools of its language, and a registry to install from"]
            fn each_write_follows_a_check() {
                super::before_a_write::each_write_follows_a_check(super::named($name));
            }

            #[test]
            #[ignore = "needs the tools of its language, and a registry to install from"]
            fn a_client_stops_itself_before_a_write() {
                super::before_a_write::a_client_stops_itself_before_a_write(super::named($name));
            }
        }
    )*};
}

for_each_peer! {
    of_redisson "redisson"
    rueidislock "rueidislock"
    redsync "redsync"
    redislock "redislock"
    rslock "rslock"
    redis_py "redis-py"
}

fn named(name: &str) -> &'static Peer {
    let peer = Peer::named(name).expect("a known library");
    peer.prepare().unwrap_or_else(|error| panic!("{error}"));
    peer
}

enum Deployment {
    Servers(Vec<Server>),
    Sentinels(Sentinels),
    Cluster(Cluster),
}

impl Deployment {
    fn start(place: Kind) -> Self {
        match place {
            Kind::Single => Deployment::Servers(vec![Server::start()]),
            Kind::Five => Deployment::Servers((0..5).map(|_| Server::start()).collect()),
            Kind::Sentinel => {
                let watch = Watch {
                    down_after: PATIENT,
                    ..Watch::default()
                };
                Deployment::Sentinels(Sentinels::start_with(&watch))
            }
            Kind::Cluster => {
                let shape = Shape {
                    node_timeout: PATIENT,
                    ..Shape::default()
                };
                Deployment::Cluster(Cluster::start_with(shape))
            }
        }
    }

    fn url(&self) -> String {
        match self {
            Deployment::Servers(servers) => servers
                .iter()
                .map(Server::url)
                .collect::<Vec<_>>()
                .join(","),
            Deployment::Sentinels(sentinels) => sentinels.url(),
            Deployment::Cluster(cluster) => cluster.url(),
        }
    }

    fn keys(&self) -> BTreeSet<String> {
        let servers = match self {
            Deployment::Servers(servers) => &servers[..],
            Deployment::Sentinels(sentinels) => sentinels.servers(),
            Deployment::Cluster(cluster) => cluster.nodes(),
        };
        let keys = |server: &Server| {
            server
                .command(&["KEYS", "*"])
                .array()
                .iter()
                .map(Reply::text)
                .collect::<Vec<_>>()
        };
        servers.iter().flat_map(keys).collect()
    }
}

fn two_processes_exclude_each_other(peer: &Peer) {
    for &place in peer.places {
        let (deployment, resource) = (Deployment::start(place), Resource::start());
        let (began, wall) = (clock::monotonic(), clock::wall());
        let url = deployment.url();
        let run = Run {
            place,
            url,
            resource: resource.address(),
            ..Run::default()
        };
        let clients = [1, 2].map(|process| Client::start(peer, &run, process));
        let histories = clients.map(Client::history);
        let ended = clock::monotonic();

        let mut all = Vec::new();
        for (process, (pid, history)) in (1..).zip(histories) {
            let what = format!("{} {}: process {process}", peer.name, place.name());
            let is_plausible = |event: &Event| {
                (began..=ended).contains(&event.at)
                    && event.process == process
                    && event.wall.abs_diff(wall) < 600_000_000_000
            };
            assert!(
                history.iter().all(is_plausible),
                "{what}: wrong clocks, or events of another process"
            );
            assert_eq!(
                history[0].what,
                What::Started {
                    pid,
                    library: library(peer)
                },
                "{what}"
            );
            let ends = What::Ended {
                counts: BTreeMap::new(),
                error: None,
            };
            assert_eq!(count(&history, |what| *what == ends), 1, "{what}");
            assert!(
                count(&history, |what| matches!(what, What::Sample { .. })) >= 2,
                "{what}"
            );
            assert!(
                count(&history, |what| matches!(what, What::Granted { .. })) > 0,
                "{what}"
            );
            all.extend(history);
        }
        all.sort_by_key(|event| event.at);
        let granted = count(&all, |what| matches!(what, What::Granted { .. }));
        let deadlines = all.iter().filter_map(deadline).collect::<Vec<_>>();
        assert_eq!(
            deadlines.len(),
            if peer.knows_deadlines { granted } else { 0 }
        );
        let leases = deadlines
            .iter()
            .all(|left| (0..=LEASE.as_nanos()).contains(left));
        assert!(
            leases,
            "{}: deadlines are not on the monotonic clock: {deadlines:?}",
            peer.name
        );
        let wrote = count(&all, |what| *what == What::Wrote { accepted: true });
        assert_eq!(
            wrote,
            resource.writes(),
            "{}: recorded writes and received writes differ",
            peer.name
        );
        let overlaps = overlaps(&all);
        println!("{}", summary(peer, place, &all, overlaps.len()));
        assert!(
            overlaps.is_empty(),
            "{} {}: {overlaps:?}",
            peer.name,
            place.name()
        );
        let left = || deployment.keys().is_empty();
        wait_until("no key is left", Duration::from_secs(10), left);
    }
}

/// The library as its driver reports it: with its own version, but without the version of its Redis
/// client.
fn library(peer: &Peer) -> String {
    let version = peer.version();
    format!(
        "{} {}",
        peer.name,
        version.split(',').next().expect("a version")
    )
}

/// How long a granted lock is certainly held, in nanoseconds, if the library knows it.
fn deadline(event: &Event) -> Option<u128> {
    match event.what {
        What::Granted {
            until: Some(until), ..
        } => Some(u128::from(until.wrapping_sub(event.at))),
        _ => None,
    }
}

fn count(history: &[Event], which: impl Fn(&What) -> bool) -> usize {
    history.iter().filter(|event| which(&event.what)).count()
}

/// Pairs of holds in which the second was granted while the first was still valid.
fn overlaps(history: &[Event]) -> Vec<(Event, Event)> {
    let (mut holders, mut found) = (BTreeMap::<String, Event>::new(), Vec::new());
    for event in history {
        match &event.what {
            What::Granted { .. } => {
                let before = holders.insert(event.name.clone(), event.clone());
                let is_valid = |before: &Event| match before.what {
                    What::Granted { until, .. } => until.is_none_or(|until| until > event.at),
                    _ => false,
                };
                found.extend(
                    before
                        .filter(is_valid)
                        .map(|before| (before, event.clone())),
                );
            }
            What::Doubted | What::Lost { .. } | What::Releasing => {
                let is_holder = |holder: &Event| {
                    (holder.process, holder.worker) == (event.process, event.worker)
                };
                if holders.get(&event.name).is_some_and(is_holder) {
                    holders.remove(&event.name);
                }
            }
            _ => {}
        }
    }
    found
}

fn summary(peer: &Peer, place: Kind, history: &[Event], overlaps: usize) -> String {
    let mut refusals = BTreeMap::new();
    for event in history {
        let kind = match &event.what {
            What::Refused { error, timeout } => format!("refused {error} (timeout {timeout})"),
            What::Released { error: Some(error) } => format!("released {error}"),
            What::Lost { reason } => format!("lost {reason}"),
            What::Doubted => "doubted".to_owned(),
            _ => continue,
        };
        *refusals.entry(kind).or_insert(0) += 1;
    }
    let [granted, wrote] = [
        count(history, |what| matches!(what, What::Granted { .. })),
        count(history, |what| matches!(what, What::Wrote { .. })),
    ];
    let (name, version) = (peer.name, peer.version());
    format!(
        "{name} {version} on {}: {granted} grants, {wrote} writes, {overlaps} overlaps, \
         {refusals:?}",
        place.name()
    )
}

/// The library must report that the lock is lost before the release, unasked or when it is asked.
fn a_deleted_lock_ends_the_section(peer: &Peer) {
    let (deployment, resource) = (Deployment::start(Kind::Single), Resource::start());
    let url = deployment.url();
    // Holds are longer than the lease, which the driver extends after a third of it.
    let (workers, hold_ms, seconds) = (1, "10000-10000", 10);
    let (resource_at, lease) = (resource.address(), Duration::from_secs(2));
    let run = Run {
        url,
        resource: resource_at,
        seconds,
        workers,
        hold_ms,
        lease,
        ..Run::default()
    };
    let client = Client::start(peer, &run, 1);
    let Deployment::Servers(servers) = &deployment else {
        unreachable!("one server")
    };
    let deletes = || {
        let keys = deployment.keys().into_iter();
        // Not during a hold with a single write, which would not notice.
        resource.writes() > 20
            && keys
                .map(|key| servers[0].command(&["DEL", &key]).int())
                .sum::<i64>()
                > 0
    };
    wait_until("a lock is deleted", Duration::from_secs(30), deletes);
    let (_, history) = client.history();
    let mut after = history.iter().skip_while(|event| {
        !matches!(
            event.what,
            What::Lost { .. } | What::Doubted | What::Released { error: Some(_) }
        )
    });
    let first = after.next().map(|event| &event.what);
    println!("{}: {first:?}", peer.name);
    assert!(
        matches!(first, Some(What::Lost { .. } | What::Doubted)),
        "{}: {first:?}",
        peer.name
    );
    let next = after.find(|event| !matches!(event.what, What::Sample { .. }));
    assert!(
        next.is_some_and(|event| event.what == What::Releasing),
        "{}: {next:?}",
        peer.name
    );
}

/// A blocked client must not write, and a client must end soon after `stop`.
fn a_client_obeys_block_and_stop(peer: &Peer) {
    let (deployment, resource) = (Deployment::start(Kind::Single), Resource::start());
    let url = deployment.url();
    let run = Run {
        url,
        resource: resource.address(),
        seconds: 60,
        ..Run::default()
    };
    let mut client = Client::start(peer, &run, 1);
    wait_until("the client writes", Duration::from_secs(30), || {
        resource.writes() > 20
    });
    client.send("block 1500");
    let ms = |millis: u64| millis * 1_000_000;
    let blocked = clock::monotonic();
    let (from, to) = (blocked + ms(500), blocked + ms(1400));
    wait_until("the block is over", Duration::from_secs(10), || {
        clock::monotonic() > to + ms(100)
    });
    let before = resource.writes();
    wait_until("the client writes again", Duration::from_secs(10), || {
        resource.writes() > before + 20
    });
    client.send("stop");
    let stopped = clock::monotonic();
    let (_, history) = client.history();
    assert!(
        clock::monotonic() < stopped + ms(5000),
        "the client took too long to stop"
    );
    let meanwhile = |event: &&Event| (from..to).contains(&event.at);
    let held = |event: &&Event| matches!(event.what, What::Held { .. });
    let checks: Vec<_> = history.iter().filter(meanwhile).filter(held).collect();
    assert!(checks.is_empty(), "{checks:?}");
}

#[test]
fn each_peer_is_described_completely() {
    for peer in &ALL {
        let version = peer.version();
        assert!(
            version.starts_with(|c: char| c.is_ascii_digit()),
            "{}: {version}",
            peer.name
        );
        assert!(!peer.settings.is_empty() && !peer.language.is_empty());
        let is_complete =
            |promise: &super::Promise| !promise.says.is_empty() && !promise.source.is_empty();
        assert!(
            !peer.promises.is_empty() && peer.promises.iter().all(is_complete),
            "{}",
            peer.name
        );
        assert!(peer.places.contains(&Kind::Single) && peer.key.contains("{name}"));
        assert!(peer.workloads.contains(&Workload::Plain), "{}", peer.name);
        // The program must come from our own build, so that the reported version is the one that
        // runs.
        let program = peer.command();
        let program = Path::new(program.get_program());
        assert!(
            program.is_absolute() || program == Path::new("java"),
            "{program:?}"
        );
    }
}
