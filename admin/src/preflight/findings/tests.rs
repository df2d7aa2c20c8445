use std::collections::BTreeSet;

use super::*;
use crate::preflight::Use;
use crate::preflight::node::{ClockDifference, ClusterState, Replica, RoundTrips};
use leasehold_transport::Abilities;

/// A server without findings.
fn well() -> ServerState {
    ServerState {
        flavour: Some(Flavour::Redis),
        version: Some(Version::new(7, 0)),
        is_primary: Some(true),
        replicas: Some(vec![replica(1)]),
        min_replicas_to_write: Some(1),
        maxmemory: Some(0),
        maxmemory_policy: Some("noeviction".to_owned()),
        persistence: Some(Persistence::Always),
        sharded_pubsub: Some(true),
        ..ServerState::default()
    }
}

fn replica(lag: u64) -> Replica {
    let lag = Some(Duration::from_secs(lag));
    Replica {
        address: "10.0.0.2:6379".to_owned(),
        is_online: true,
        behind: Some(7),
        lag,
    }
}

fn context(kind: DeploymentKind) -> Context {
    Context {
        kind,
        lease: Duration::from_secs(30),
        command_timeout: Duration::from_secs(1),
        copies: None,
        key: "orders:1".to_owned(),
    }
}

fn worst(state: ServerState, kind: DeploymentKind) -> (Severity, String) {
    let report = NodeReport {
        server: "a:1".to_owned(),
        uses: UsesOfServer::default(),
        state: Ok(state),
    };
    let first = of(&report, &context(kind)).into_iter().next();
    first.map_or((Severity::Info, String::new()), |finding| {
        (finding.severity, finding.text)
    })
}

#[test]
fn a_good_server_gives_no_warning() {
    let (severity, text) = worst(well(), DeploymentKind::Sentinel);
    assert_eq!(severity, Severity::Info, "{text}");
}

#[test]
fn each_fault_is_reported_with_its_severity_and_setting() {
    use Severity::{Danger, Warning};
    type Spoil = fn(&mut ServerState);
    let cluster = |is_ok, timeout| {
        Some(ClusterState {
            is_ok: Some(is_ok),
            requires_full_coverage: Some(false),
            node_timeout: Some(Duration::from_secs(timeout)),
        })
    };
    let (down, slow) = (cluster(false, 1), cluster(true, 16));
    let table: [(Severity, &str, Spoil); 14] = [
        (Danger, "6.2 or later", |state| {
            state.version = Some(Version::new(6, 0));
        }),
        (Danger, "it is a replica", |state| {
            state.is_primary = Some(false);
        }),
        (Danger, "min-replicas-to-write is 2", |state| {
            state.min_replicas_to_write = Some(2);
        }),
        (Danger, "volatile-lru", |state| {
            (state.maxmemory, state.maxmemory_policy) = (Some(1), Some("volatile-lru".to_owned()));
        }),
        (Danger, "MISCONF", |state| state.saving_fails = true),
        (Danger, "publish", |state| {
            state.rights = Rights::Known {
                missing: vec!["publish".to_owned()],
                unusable: BTreeSet::from([Use::Lock]),
            };
        }),
        (Warning, "until it learns", |state| {
            state.min_replicas_to_write = Some(0);
        }),
        (Warning, "silent for 9s and is 7 bytes behind", |state| {
            state.min_replicas_to_write = None;
            state.replicas = Some(vec![replica(9)]);
        }),
        (Warning, "it has no replica", |state| {
            (state.replicas, state.min_replicas_to_write) = (Some(vec![]), Some(0));
        }),
        (Warning, "all locks are free", |state| {
            state.persistence = Some(Persistence::None);
        }),
        (Warning, "is unknown", |state| state.persistence = None),
        (Warning, "behind this machine's", |state| {
            let error = Duration::from_millis(1);
            state.clock = Some(ClockDifference {
                ahead_ms: -1500,
                error,
            });
        }),
        (Warning, "a round trip took 300ms", |state| {
            state.round_trips.worst = Duration::from_millis(300);
        }),
        (Warning, "may not run INFO", |state| state.replicas = None),
    ];
    for (severity, part, spoil) in table {
        let mut state = well();
        spoil(&mut state);
        let (told, text) = worst(state, DeploymentKind::Sentinel);
        assert_eq!(told, severity, "{part}: {text}");
        assert!(text.contains(part), "{part}: {text}");
    }
    for (severity, part, cluster) in [
        (Danger, "cluster_state", down),
        (Warning, "about 26.0s (cluster-node-timeout is 16000)", slow),
    ] {
        let (told, text) = worst(ServerState { cluster, ..well() }, DeploymentKind::Cluster);
        assert!(told == severity && text.contains(part), "{part}: {text}");
    }
}

#[test]
fn copies_that_no_replica_can_keep_are_reported() {
    let told = |copies| {
        let report = NodeReport {
            server: "a:1".to_owned(),
            uses: UsesOfServer::new(&[], Abilities::default(), &BTreeSet::new()),
            state: Ok(well()),
        };
        let context = Context {
            copies: Some(copies),
            ..context(DeploymentKind::Sentinel)
        };
        let dangers = of(&report, &context)
            .into_iter()
            .filter(|f| f.severity == Severity::Danger);
        dangers
            .map(|finding| finding.text)
            .collect::<Vec<_>>()
            .join("; ")
    };
    assert_eq!(told(1), "");
    assert!(told(2).contains("asks for 2"));
}

#[test]
fn a_short_lease_is_compared_with_the_round_trip() {
    let worst = Duration::from_millis(20);
    let round_trips = RoundTrips {
        median: worst,
        worst,
    };
    let report = NodeReport {
        server: "a:1".to_owned(),
        uses: UsesOfServer::default(),
        state: Ok(ServerState {
            round_trips,
            ..well()
        }),
    };
    let lease = Duration::from_millis(500);
    let found = of(
        &report,
        &Context {
            lease,
            ..context(DeploymentKind::Single)
        },
    );
    assert!(found[0].text.contains("use a longer lease"), "{found:?}");
}
