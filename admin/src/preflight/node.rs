//! What was found about one server.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use leasehold::Error;

use super::abilities::UsesOfServer;
use super::commands::Use;

/// A server and its state.
#[derive(Clone, Debug)]
pub(super) struct NodeReport {
    /// The server, as the configuration or the cluster names it.
    pub(super) server: String,
    /// The state of the server, or why it could not be asked.
    pub(super) state: Result<ServerState, Error>,
    /// What it can do, and what follows.
    pub(super) uses: UsesOfServer,
}

/// The state of a server, as it reports it. `None` means that the user has no right to see it, or
/// that the server does not report it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ServerState {
    /// The program that the server runs.
    pub(super) flavour: Option<Flavour>,
    /// The version of that program.
    pub(super) version: Option<Version>,
    /// Whether it is a primary. A replica takes no locks.
    pub(super) is_primary: Option<bool>,
    /// The replicas that are connected to it.
    pub(super) replicas: Option<Vec<Replica>>,
    /// `min-replicas-to-write`: the server refuses writes if it has fewer replicas.
    pub(super) min_replicas_to_write: Option<u64>,
    /// `maxmemory` in bytes; 0 means no limit.
    pub(super) maxmemory: Option<u64>,
    /// `maxmemory-policy`.
    pub(super) maxmemory_policy: Option<String>,
    /// What survives a restart.
    pub(super) persistence: Option<Persistence>,
    /// Whether its last attempt to save its data failed.
    pub(super) saving_fails: bool,
    /// Its clock, compared with the clock of this machine.
    pub(super) clock: Option<ClockDifference>,
    /// Whether it has `SPUBLISH` and `SSUBSCRIBE`.
    pub(super) sharded_pubsub: Option<bool>,
    /// The state of its cluster; `None` outside a cluster.
    pub(super) cluster: Option<ClusterState>,
    /// How long replies take.
    pub(super) round_trips: RoundTrips,
    /// The rights of the client's user.
    pub(super) rights: Rights,
}

/// The program that a server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Flavour {
    /// Redis.
    Redis,
    /// Valkey.
    Valkey,
    /// The engine in this process, which is not a server.
    Embedded,
}

/// A version, such as 7.0.15.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Version {
    /// The 7 in 7.0.15.
    pub(super) major: u32,
    /// The 0 in 7.0.15.
    pub(super) minor: u32,
    /// The 15 in 7.0.15.
    pub(super) patch: u32,
}

/// A replica, as its primary sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Replica {
    /// Host and port.
    pub(super) address: String,
    /// Whether it has finished the initial copy and follows its primary.
    pub(super) is_online: bool,
    /// How many bytes of writes it has not acknowledged.
    pub(super) behind: Option<u64>,
    /// The time since it last acknowledged. A healthy replica acknowledges once a second.
    pub(super) lag: Option<Duration>,
}

/// What survives a restart of a server. The weakest comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Persistence {
    /// Nothing.
    None,
    /// Snapshots (`save`): a crash loses everything after the last one.
    Snapshots,
    /// `appendonly` with `appendfsync no`: a crash of the machine loses what the system had not yet
    /// written.
    SystemDecides,
    /// `appendfsync everysec`: a crash of the machine may lose about the last second.
    EverySecond,
    /// `appendfsync always`: nothing that was confirmed is lost.
    Always,
}

/// The clock of a server, compared with the clock of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClockDifference {
    /// Milliseconds by which the server's clock is ahead; negative if it is behind.
    pub(super) ahead_ms: i64,
    /// The uncertainty of the difference: half the round trip.
    pub(super) error: Duration,
}

/// The state of a cluster, as one of its nodes reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ClusterState {
    /// Whether `cluster_state` is `ok`.
    pub(super) is_ok: Option<bool>,
    /// `cluster-require-full-coverage`: all nodes refuse calls while any slot is not served.
    pub(super) requires_full_coverage: Option<bool>,
    /// `cluster-node-timeout`.
    pub(super) node_timeout: Option<Duration>,
}

/// How long the replies to a few `PING`s took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RoundTrips {
    /// Half of the replies were faster.
    pub(super) median: Duration,
    /// The slowest reply.
    pub(super) worst: Duration,
}

/// The rights of the client's user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rights {
    /// The commands, keys and channels that the user needs but may not use. None if all is well.
    Known {
        /// Named as an administrator would: `publish`, `the key orders:42`.
        missing: Vec<String>,
        /// The uses that need one of them.
        unusable: BTreeSet<Use>,
    },
    /// The server does not report rights.
    Unknown {
        /// The reason.
        reason: String,
    },
}

impl Default for Rights {
    fn default() -> Self {
        Rights::Known {
            missing: Vec::new(),
            unusable: BTreeSet::new(),
        }
    }
}

impl Rights {
    /// The uses for which the user lacks a right, as far as that is known.
    pub(super) fn unusable(&self) -> BTreeSet<Use> {
        match self {
            Rights::Known { unusable, .. } => unusable.clone(),
            Rights::Unknown { .. } => BTreeSet::new(),
        }
    }
}

impl Version {
    /// For example, 7 and 0 mean 7.0.0.
    pub(super) const fn new(major: u32, minor: u32) -> Self {
        Version {
            major,
            minor,
            patch: 0,
        }
    }

    /// Parses `7.0.15` or `9.1.0-rc1`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let digits = |part: &str| {
            let end = part
                .find(|letter: char| !letter.is_ascii_digit())
                .unwrap_or(part.len());
            part[..end].parse().ok()
        };
        let mut parts = text.split('.');
        let (major, minor) = (digits(parts.next()?)?, digits(parts.next()?)?);
        Some(Version {
            major,
            minor,
            patch: parts.next().and_then(digits).unwrap_or_default(),
        })
    }
}

impl Replica {
    /// A replica that was silent for longer is not in step: a healthy one acknowledges every
    /// second.
    pub(super) const LAG_MAX: Duration = Duration::from_secs(3);

    /// Returns whether it keeps up with its primary.
    pub(super) fn is_in_step(&self) -> bool {
        self.is_online && self.lag.is_some_and(|lag| lag <= Replica::LAG_MAX)
    }
}

impl ServerState {
    /// Returns whether keys may be evicted when memory runs out; `None` if that is unknown.
    pub(super) fn evicts(&self) -> Option<bool> {
        match (self.maxmemory, self.maxmemory_policy.as_deref()) {
            (Some(0), _) | (_, Some("noeviction")) => Some(false),
            (_, Some(_)) => Some(true),
            (_, None) => None,
        }
    }

    /// The number of replicas that keep up.
    pub(super) fn replicas_in_step(&self) -> Option<usize> {
        let replicas = self.replicas.as_ref()?;
        Some(
            replicas
                .iter()
                .filter(|replica| replica.is_in_step())
                .count(),
        )
    }
}

impl ServerState {
    /// The engine in this process.
    pub(super) fn embedded() -> Self {
        ServerState {
            flavour: Some(Flavour::Embedded),
            is_primary: Some(true),
            replicas: Some(Vec::new()),
            min_replicas_to_write: Some(0),
            maxmemory: Some(0),
            maxmemory_policy: Some("noeviction".to_owned()),
            persistence: Some(Persistence::None),
            sharded_pubsub: Some(false),
            ..ServerState::default()
        }
    }
}

/// The server and its state, on one line each, and then what it can do.
impl fmt::Display for NodeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.state {
            Ok(state) => write!(f, "{}\n  {state}\n{}", self.server, self.uses),
            Err(_) => writeln!(f, "{}\n  not reached", self.server),
        }
    }
}

/// On one line; `?` marks what is unknown.
impl fmt::Display for ServerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.flavour {
            Some(Flavour::Embedded) => return f.write_str("embedded engine, in memory"),
            Some(flavour) => write!(f, "{flavour} ")?,
            None => {}
        }
        let role = match self.is_primary {
            Some(true) => "primary",
            Some(false) => "replica",
            None => "role ?",
        };
        let millis = |span: Duration| span.as_secs_f64() * 1000.0;
        write!(
            f,
            "{}, {role}, replicas {}/{}, min-replicas-to-write {}, maxmemory {} {}, persistence \
             {}, round trip {:.2} ms, worst {:.2} ms",
            or_unknown(self.version),
            or_unknown(self.replicas_in_step()),
            or_unknown(self.replicas.as_ref().map(Vec::len)),
            or_unknown(self.min_replicas_to_write),
            or_unknown(self.maxmemory),
            or_unknown(self.maxmemory_policy.as_ref()),
            or_unknown(self.persistence),
            millis(self.round_trips.median),
            millis(self.round_trips.worst),
        )?;
        if let Some(clock) = self.clock {
            write!(
                f,
                ", clock {:+} ms (± {:.1})",
                clock.ahead_ms,
                millis(clock.error)
            )?;
        }
        Ok(())
    }
}

pub(super) fn or_unknown<T: fmt::Display>(value: Option<T>) -> String {
    value.map_or_else(|| "?".to_owned(), |value| value.to_string())
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl fmt::Display for Flavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Flavour::Redis => "Redis",
            Flavour::Valkey => "Valkey",
            Flavour::Embedded => "embedded engine",
        })
    }
}

impl fmt::Display for Persistence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Persistence::None => "none",
            Persistence::Snapshots => "snapshots",
            Persistence::SystemDecides => "appendfsync no",
            Persistence::EverySecond => "appendfsync everysec",
            Persistence::Always => "appendfsync always",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        let version = |text: &str| Version::parse(text).expect(text);
        assert!(version("7.0.15") > version("7.0.9"));
        assert!(version("10.0") > Version::new(7, 2));
        assert_eq!(version("9.1.0-rc1"), Version::new(9, 1));
        assert_eq!(
            (Version::parse("unstable"), Version::parse("7")),
            (None, None)
        );
    }

    #[test]
    fn nothing_is_evicted_without_a_limit_of_memory() {
        let state = |maxmemory, policy: Option<&str>| ServerState {
            maxmemory,
            maxmemory_policy: policy.map(str::to_owned),
            ..ServerState::default()
        };
        assert_eq!(state(Some(0), Some("allkeys-lru")).evicts(), Some(false));
        assert_eq!(state(Some(1), Some("volatile-ttl")).evicts(), Some(true));
        assert_eq!(state(None, Some("volatile-ttl")).evicts(), Some(true));
        assert_eq!(state(Some(1), Some("noeviction")).evicts(), Some(false));
        assert_eq!(state(Some(1), None).evicts(), None);
    }

    #[test]
    fn a_replica_that_is_silent_does_not_count() {
        let replica = |is_online, lag| Replica {
            address: "a:1".into(),
            is_online,
            behind: Some(0),
            lag: Some(Duration::from_secs(lag)),
        };
        let replicas = vec![replica(true, 1), replica(true, 4), replica(false, 0)];
        let state = ServerState {
            replicas: Some(replicas),
            ..ServerState::default()
        };
        assert_eq!(state.replicas_in_step(), Some(1));
    }
}
