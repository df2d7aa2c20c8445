//! What a deployment must give before a program relies on its locks.

use std::time::Duration;

use super::Preflight;
use super::commands::Use;
use super::failover::{time_left, too_long};
use super::node::{Flavour, Persistence, Rights, ServerState, Version};
use crate::error::{Refusal, Unmet};

const FAILOVER: &str = "failover within the lease";

/// What a deployment must give. [`Admin::require`](crate::Admin::require) refuses less.
///
/// In a cluster, each server must meet all requirements. If the client's user has no right to check
/// a requirement, it counts as not met. The settings are checked once. A server that is
/// reconfigured later, or a replica that is promoted, may give less.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use leasehold::Client;
/// use leasehold_admin::Admin;
/// use leasehold_admin::preflight::{Persistence, Requirements, Use};
///
/// let requirements = Requirements::new()
///     .min_version(7, 0)
///     .no_eviction()
///     .replicas(1)
///     .persistence(Persistence::EverySecond)
///     .rights_for([Use::Lock, Use::Semaphore], "orders:1");
/// let client = Client::connect("redis://127.0.0.1:6379").await?;
/// Admin::new(&client).require(&requirements).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "requirements do nothing until they are given to `Admin::require`"]
pub struct Requirements {
    no_eviction: bool,
    replicas: usize,
    min_replicas_to_write: u64,
    persistence: Option<Persistence>,
    min_version: Option<Version>,
    partial_coverage: bool,
    failover_within_lease: bool,
    pub(super) rights: Option<(Vec<Use>, String)>,
}

impl Requirements {
    /// Requires only that every server can be asked.
    pub fn new() -> Self {
        Requirements::default()
    }

    /// Requires that no key is evicted: `maxmemory-policy noeviction`, or no `maxmemory`.
    pub fn no_eviction(mut self) -> Self {
        self.no_eviction = true;
        self
    }

    /// Requires that `count` replicas keep up now: online, and heard from within the last three
    /// seconds.
    pub fn replicas(mut self, count: usize) -> Self {
        self.replicas = count;
        self
    }

    /// Requires `min-replicas-to-write` of at least `count`. Then a primary that is cut off stops
    /// granting locks.
    pub fn min_replicas_to_write(mut self, count: u64) -> Self {
        self.min_replicas_to_write = count;
        self
    }

    /// Requires that a restart loses no more than with `least`.
    pub fn persistence(mut self, least: Persistence) -> Self {
        self.persistence = Some(least);
        self
    }

    /// Requires at least this version of Redis or Valkey, whichever it is: `min_version(7, 0)`.
    pub fn min_version(mut self, major: u32, minor: u32) -> Self {
        self.min_version = Some(Version::new(major, minor));
        self
    }

    /// Requires that locks in a cluster survive the loss of another shard:
    /// `cluster-require-full-coverage no`. Always met outside a cluster.
    pub fn partial_coverage(mut self) -> Self {
        self.partial_coverage = true;
        self
    }

    /// Requires that a failover ends before holds expire that could not be renewed meanwhile.
    /// Always met without sentinels or a cluster.
    ///
    /// The duration of a failover is estimated: `down-after-milliseconds` plus 3 s, or one and a
    /// half `cluster-node-timeout` plus 2 s. It must not exceed two thirds of
    /// [`ClientBuilder::lease`](leasehold::ClientBuilder::lease). Enough sentinels must be up for a
    /// failover.
    pub fn failover_within_lease(mut self) -> Self {
        self.failover_within_lease = true;
        self
    }

    /// Requires that the user has all rights for these uses.
    ///
    /// Keys and channels are checked for a lock of this name; the client's prefix is prepended.
    /// Servers before Redis 7.0 cannot report rights, which counts as not met.
    pub fn rights_for(mut self, uses: impl IntoIterator<Item = Use>, name: &str) -> Self {
        self.rights = Some((uses.into_iter().collect(), name.to_owned()));
        self
    }

    /// An error that names everything that is missing.
    pub(crate) fn check(&self, report: &Preflight, lease: Duration) -> Result<(), Refusal> {
        let mut unmet = Vec::new();
        for node in &report.nodes {
            let missing = match &node.state {
                Ok(state) => self.missing(state, lease),
                Err(error) => vec![("reachable", error.to_string())],
            };
            let of_node = |(what, found): (&str, String)| Unmet::new(&node.server, what, &found);
            unmet.extend(missing.into_iter().map(of_node));
        }
        if self.failover_within_lease
            && let Some(sentinels) = &report.sentinels
            && let Some(found) = sentinels.obstacle(lease)
        {
            unmet.push(Unmet::new("the sentinels", FAILOVER, &found));
        }
        if report.nodes.is_empty() {
            unmet.push(Unmet::new(
                "the deployment",
                "reachable",
                "no server is known",
            ));
        }
        if unmet.is_empty() {
            Ok(())
        } else {
            Err(Refusal::Unmet { unmet })
        }
    }

    /// The unmet requirements, and what was found instead.
    fn missing(&self, state: &ServerState, lease: Duration) -> Vec<(&'static str, String)> {
        let checks = [
            ("no eviction", self.check_eviction(state)),
            ("replicas", self.check_replicas(state)),
            ("min-replicas-to-write", self.check_min_replicas(state)),
            ("persistence", self.check_persistence(state)),
            ("version", self.check_version(state)),
            ("partial coverage", self.check_coverage(state)),
            (FAILOVER, self.check_failover(state, lease)),
            ("rights", Ok(self.lacking_rights(state))),
        ];
        let unmet = |(what, check): (_, Check)| {
            let found = check.unwrap_or_else(|Unknown| Some(UNKNOWN.to_owned()));
            Some((what, found?))
        };
        checks.into_iter().filter_map(unmet).collect()
    }

    fn check_eviction(&self, state: &ServerState) -> Check {
        if !self.no_eviction || !state.evicts().ok_or(Unknown)? {
            return Ok(None);
        }
        Ok(Some(state.maxmemory_policy.clone().unwrap_or_default()))
    }

    fn check_replicas(&self, state: &ServerState) -> Check {
        if self.replicas == 0 {
            return Ok(None);
        }
        let count = state.replicas_in_step().ok_or(Unknown)?;
        let found = || format!("{count} of {} in step", self.replicas);
        Ok((count < self.replicas).then(found))
    }

    fn check_min_replicas(&self, state: &ServerState) -> Check {
        if self.min_replicas_to_write == 0 {
            return Ok(None);
        }
        let count = state.min_replicas_to_write.ok_or(Unknown)?;
        Ok((count < self.min_replicas_to_write).then(|| count.to_string()))
    }

    fn check_persistence(&self, state: &ServerState) -> Check {
        let Some(least) = self.persistence else {
            return Ok(None);
        };
        let kept = state.persistence.ok_or(Unknown)?;
        Ok((kept < least).then(|| format!("{kept} instead of {least}")))
    }

    fn check_version(&self, state: &ServerState) -> Check {
        let Some(least) = self.min_version else {
            return Ok(None);
        };
        if state.flavour == Some(Flavour::Embedded) {
            let found = "the embedded engine, which is not a server";
            return Ok(Some(found.to_owned()));
        }
        let version = state.version.ok_or(Unknown)?;
        Ok((version < least).then(|| version.to_string()))
    }

    fn check_coverage(&self, state: &ServerState) -> Check {
        match state.cluster {
            Some(cluster) if self.partial_coverage => {
                let is_full = cluster.requires_full_coverage.ok_or(Unknown)?;
                Ok(is_full.then(|| "cluster-require-full-coverage yes".to_owned()))
            }
            _ => Ok(None),
        }
    }

    fn check_failover(&self, state: &ServerState, lease: Duration) -> Check {
        match state.cluster {
            Some(cluster) if self.failover_within_lease => {
                let taken = cluster.failover().ok_or(Unknown)?;
                Ok((taken > time_left(lease)).then(|| too_long(taken, lease)))
            }
            _ => Ok(None),
        }
    }

    fn lacking_rights(&self, state: &ServerState) -> Option<String> {
        self.rights.as_ref()?;
        match &state.rights {
            Rights::Known { missing, .. } if missing.is_empty() => None,
            Rights::Known { missing, .. } => Some(format!("none to {}", missing.join(", "))),
            Rights::Unknown { reason } => Some(format!("unknown: {reason}")),
        }
    }
}

/// What was found in place of what is required; `None` if the requirement is met.
type Check = Result<Option<String>, Unknown>;

/// The server did not report it.
struct Unknown;

const UNKNOWN: &str = "unknown: the user has no right to see it";
