//! What the state of each server means for locks, and what to do about it.

use std::fmt;
use std::time::Duration;

use super::failover::{SentinelState, time_left};
use super::node::{
    ClusterState, Flavour, NodeReport, Persistence, Rights, ServerState, Version, or_unknown,
};
use crate::durability::Durability;
use crate::transport::DeploymentKind;

/// A fact about a server or the sentinels that matters for locks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// The server, as in [`NodeReport::server`]; or the sentinels, as in the URL.
    pub server: String,
    /// What it means for locks, and what to do about it.
    pub text: String,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// Good to know.
    Info,
    /// Exclusion or availability suffers in a case that will happen: a failover, a restart, a slow reply.
    Warning,
    /// Locks do not work, or are lost in normal operation.
    Danger,
}

/// What the findings depend on besides the servers.
#[derive(Clone, Debug)]
pub(super) struct Context {
    pub(super) kind: DeploymentKind,
    pub(super) lease: Duration,
    pub(super) command_timeout: Duration,
    pub(super) durability: Option<Durability>,
    /// The key for which rights were checked.
    pub(super) key: String,
}

/// The oldest servers with all commands that the scripts use.
const REDIS_MIN: Version = Version::new(6, 2);
const VALKEY_MIN: Version = Version::new(7, 2);
/// The first Redis with WAITAOF. Every Valkey has it.
const WAITAOF_MIN: Version = Version::new(7, 2);
/// A well-maintained clock is far more accurate.
const CLOCK_MAX: Duration = Duration::from_secs(1);

struct Findings<'a> {
    server: &'a str,
    found: Vec<Finding>,
}

impl Findings<'_> {
    fn add(&mut self, severity: Severity, text: impl Into<String>) {
        self.found.push(Finding {
            severity,
            server: self.server.to_owned(),
            text: text.into(),
        });
    }

    fn info(&mut self, text: impl Into<String>) {
        self.add(Severity::Info, text);
    }

    fn warn(&mut self, text: impl Into<String>) {
        self.add(Severity::Warning, text);
    }

    fn danger(&mut self, text: impl Into<String>) {
        self.add(Severity::Danger, text);
    }

    fn worst_first(mut self) -> Vec<Finding> {
        self.found
            .sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        self.found
    }
}

/// The findings about one server, the worst first.
pub(super) fn of(report: &NodeReport, context: &Context) -> Vec<Finding> {
    let mut findings = Findings {
        server: &report.server,
        found: Vec::new(),
    };
    match &report.state {
        Err(error) => findings.danger(format!(
            "it could not be asked ({error}): locks that it serves cannot be taken now"
        )),
        Ok(state) if state.flavour == Some(Flavour::Embedded) => findings.info(
            "locks live in the memory of this process: no other process sees them, and they end with it",
        ),
        Ok(state) => {
            program(&mut findings, state);
            replication(&mut findings, state, context);
            if let Some(durability) = context.durability {
                copies(&mut findings, state, durability);
            }
            memory(&mut findings, state);
            persistence(&mut findings, state);
            clock(&mut findings, state);
            cluster(&mut findings, state, context);
            times(&mut findings, state, context);
            rights(&mut findings, state, context);
        }
    }
    findings.worst_first()
}

/// The findings about the sentinels, the worst first.
pub(super) fn of_sentinels(server: &str, state: &SentinelState, context: &Context) -> Vec<Finding> {
    let mut findings = Findings {
        server,
        found: Vec::new(),
    };
    sentinels(&mut findings, state, context.lease);
    findings.worst_first()
}

fn program(findings: &mut Findings<'_>, state: &ServerState) {
    let (Some(flavour), Some(version)) = (state.flavour, state.version) else {
        return findings.warn("its version is not known: INFO is refused to this user");
    };
    let least = if flavour == Flavour::Valkey {
        VALKEY_MIN
    } else {
        REDIS_MIN
    };
    if version < least {
        findings.danger(format!(
            "{flavour} {version} lacks commands of the scripts: take {}.{} or later",
            least.major, least.minor
        ));
    }
}

fn replication(findings: &mut Findings<'_>, state: &ServerState, context: &Context) {
    if state.is_primary == Some(false) {
        return findings.danger("it is a replica, which takes no locks: connect to the primary");
    }
    let Some(replicas) = &state.replicas else {
        return findings.warn("its replicas are not known: INFO is refused to this user");
    };
    for replica in replicas.iter().filter(|replica| !replica.is_in_step()) {
        let lag = match (replica.is_online, replica.lag, replica.behind) {
            (false, ..) => "is not online yet".to_owned(),
            (true, Some(lag), Some(bytes)) => {
                format!("was silent for {lag:?} and is {bytes} bytes behind")
            }
            _ => "does not say how far it is".to_owned(),
        };
        findings.warn(format!(
            "replica {} {lag}: if it is promoted now, locks are free that are held",
            replica.address
        ));
    }
    let (followers, wanted) = (
        state.replicas_in_step().unwrap_or_default() as u64,
        state.min_replicas_to_write,
    );
    let fails_over = context.kind != DeploymentKind::Single || !replicas.is_empty();
    match wanted {
        Some(wanted) if followers < wanted => findings.danger(format!(
            "{followers} replicas follow and min-replicas-to-write is {wanted}: it refuses, or is about \
             to refuse, every acquisition (Unavailable)"
        )),
        Some(0) if !replicas.is_empty() => findings.warn(
            "min-replicas-to-write is 0: a primary that is cut off from its replicas goes on granting \
             locks until it learns that another was promoted; set it to 1, and min-replicas-max-lag low",
        ),
        None if fails_over => {
            findings.info("min-replicas-to-write is not known: CONFIG GET is refused to this user");
        }
        _ => {}
    }
    if replicas.is_empty() {
        let outage = "it has no replica: while it is down no lock can be taken, and holds are lost \
                      when their leases end";
        if context.kind == DeploymentKind::Single {
            findings.info(outage);
        } else {
            findings.warn(outage);
        }
    } else {
        findings.info(format!(
            "{} of {} replicas in step; replication is asynchronous: a failover loses what the \
             promoted replica had not seen",
            followers,
            replicas.len()
        ));
    }
}

fn copies(findings: &mut Findings<'_>, state: &ServerState, durability: Durability) {
    let wanted = durability.wanted() - durability.on_primary();
    if let Some(count) = state
        .replicas_in_step()
        .filter(|&count| count < wanted as usize)
    {
        findings.danger(format!(
            "{count} replicas follow, and the durability of this client asks for {wanted}: every \
             acquisition ends with NotDurable"
        ));
    }
    if !durability.needs_disk() {
        return;
    }
    if state.version.is_some_and(|version| version < WAITAOF_MIN) {
        findings.danger(
            "it has no WAITAOF, which the durability of this client needs: take 7.2 or later",
        );
    }
    if durability.on_primary() > 0
        && matches!(
            state.persistence,
            Some(Persistence::None | Persistence::Snapshots)
        )
    {
        findings.danger("the durability of this client needs appendonly yes, which is not set");
    }
}

fn memory(findings: &mut Findings<'_>, state: &ServerState) {
    let policy = state.maxmemory_policy.as_deref().unwrap_or_default();
    match state.evicts() {
        Some(true) => findings.danger(format!(
            "maxmemory-policy {policy} evicts locks when memory is full, as all of them have an \
             expiry: set noeviction, or give locks a server of their own"
        )),
        Some(false) if state.maxmemory == Some(0) && policy != "noeviction" => {
            findings.info(format!(
                "maxmemory-policy is {policy}, without effect while there is no maxmemory: set \
                 noeviction before somebody sets a limit"
            ));
        }
        Some(false) => {}
        None => findings.warn("its maxmemory-policy is not known: INFO is refused to this user"),
    }
}

fn persistence(findings: &mut Findings<'_>, state: &ServerState) {
    match state.persistence {
        Some(Persistence::Always) => {}
        Some(Persistence::None) => findings.warn(
            "nothing is kept over a restart: all locks are free after it, and their holders learn \
             it up to a third of a lease later; set appendonly yes",
        ),
        Some(Persistence::Snapshots) => findings.warn(
            "a crash loses what came after the last snapshot: locks taken since are free after it; \
             set appendonly yes",
        ),
        Some(Persistence::SystemDecides) => findings.warn(
            "appendfsync no: a crash of the machine may lose many seconds of acquisitions; set \
             everysec or always",
        ),
        Some(Persistence::EverySecond) => findings.info(
            "appendfsync everysec: a crash of the machine may lose the acquisitions of the last \
             second or so",
        ),
        None => findings.warn(
            "what it keeps over a restart is not known: CONFIG GET, or INFO, is refused to this user",
        ),
    }
    if state.saving_fails {
        findings.danger("its last attempt to save failed: it may refuse all writes (MISCONF)");
    }
}

fn clock(findings: &mut Findings<'_>, state: &ServerState) {
    let Some(clock) = state.clock else { return };
    let apart = Duration::from_millis(clock.ahead_ms.unsigned_abs());
    if apart > CLOCK_MAX + clock.error {
        let way = if clock.ahead_ms > 0 {
            "ahead of"
        } else {
            "behind"
        };
        findings.warn(format!(
            "its clock is {apart:?} {way} this machine's: one of them is not kept by NTP. A step \
             forward of the server's clock ends leases early: slew it"
        ));
    }
}

fn cluster(findings: &mut Findings<'_>, state: &ServerState, context: &Context) {
    let Some(cluster) = state.cluster else { return };
    match cluster.is_ok {
        Some(false) => findings.danger("cluster_state is not ok: it refuses calls (CLUSTERDOWN)"),
        Some(true) => {}
        None => findings.warn("the state of the cluster is not known: CLUSTER INFO is refused"),
    }
    match cluster.requires_full_coverage {
        Some(true) => findings.info(
            "cluster-require-full-coverage yes: while one shard fails over, all refuse calls; with \
             no, the locks of the others go on",
        ),
        Some(false) => {}
        None => findings.info("cluster-require-full-coverage is not known"),
    }
    cluster_failover(findings, cluster, context.lease);
    if state.sharded_pubsub == Some(false) {
        findings.info(
            "it has no sharded publish/subscribe: each release is sent to every node of the cluster",
        );
    }
}

fn sentinels(findings: &mut Findings<'_>, state: &SentinelState, lease: Duration) {
    match (state.down_after, state.failover()) {
        (Some(down_after), Some(failover)) => compare(
            findings,
            &format!("down-after-milliseconds is {}", down_after.as_millis()),
            failover,
            lease,
        ),
        _ => findings.warn("down-after-milliseconds is not known: no sentinel tells it"),
    }
    if let Some(again) = state.failover_timeout.map(|timeout| timeout * 2)
        && again > time_left(lease)
    {
        findings.info(format!(
            "a failover that failed is tried again after {again:.1?} (twice failover-timeout): holds of a \
             lease of {lease:.1?} are lost by then"
        ));
    }
    match (state.usable, state.needed()) {
        (Some(usable), Some(needed)) if usable < needed => findings.warn(format!(
            "{usable} sentinels of {} are up, and a failover needs {needed}: there is none while it is so, \
             and no lock can be taken when the primary is down",
            or_unknown(state.known)
        )),
        (Some(usable), Some(needed)) if usable == needed => findings.info(format!(
            "a failover needs all {usable} sentinels that are up: none of them may be down with the primary"
        )),
        (Some(_), Some(_)) => {}
        _ => findings.warn("whether enough sentinels are up is not known: none tells it"),
    }
}

fn cluster_failover(findings: &mut Findings<'_>, state: ClusterState, lease: Duration) {
    match (state.node_timeout, state.failover()) {
        (Some(timeout), Some(failover)) => compare(
            findings,
            &format!("cluster-node-timeout is {}", timeout.as_millis()),
            failover,
            lease,
        ),
        _ => findings.info("cluster-node-timeout is not known: CONFIG GET is refused to this user"),
    }
}

fn compare(findings: &mut Findings<'_>, setting: &str, failover: Duration, lease: Duration) {
    let left = time_left(lease);
    if failover > left {
        findings.warn(format!(
            "a failover takes about {failover:.1?} ({setting}), and holds of a lease of {lease:.1?} may end \
             {left:.1?} after the primary is gone: they are lost by then; lower the setting, or lengthen the lease"
        ));
    }
}

fn times(findings: &mut Findings<'_>, state: &ServerState, context: &Context) {
    let (worst, limit) = (state.round_trips.worst, context.command_timeout);
    if worst > limit / 5 {
        findings.warn(format!(
            "a round trip took {worst:?}, and after {limit:?} a reply counts as lost: raise \
             command_timeout, or look for what is slow"
        ));
    }
    // A renewal is sent every third of the lease, and should have time for a few attempts.
    if context.lease / 3 < worst * 10 {
        findings.warn(format!(
            "a round trip took {worst:?}, and a lease of {:?} is renewed every third of it: lengthen \
             the lease",
            context.lease
        ));
    }
}

fn rights(findings: &mut Findings<'_>, state: &ServerState, context: &Context) {
    match &state.rights {
        Rights::Known { missing } if missing.is_empty() => {}
        Rights::Known { missing } => findings.danger(format!(
            "this user has no right to: {}; asked for a lock at the key {}",
            missing.join(", "),
            context.key
        )),
        Rights::Unknown { reason } => {
            findings.info(format!("the rights of this user are not known: {reason}"));
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Danger => "danger",
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.severity, self.server, self.text)
    }
}

#[cfg(test)]
mod tests;
