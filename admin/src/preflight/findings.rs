//! What the state of each server means for locks, and what to do about it.

mod failover;

use std::fmt;
use std::time::Duration;

use leasehold_transport::DeploymentKind;

use super::abilities::UsesOfServer;
use super::failover::SentinelState;
use super::needs::Verdict;
use super::node::{Flavour, NodeReport, Persistence, Rights, ServerState, Version};

/// A fact about a server or the sentinels that matters for locks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// The server, as in [`CheckedServer::server`](super::CheckedServer::server); or the sentinels,
    /// as in the URL.
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
    /// Exclusion or availability suffers in a case that will happen: a failover, a restart, a slow
    /// reply.
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
    pub(super) copies: Option<u32>,
    /// The key for which rights were checked.
    pub(super) key: String,
}

/// The oldest servers with all commands that the scripts use.
const REDIS_MIN: Version = Version::new(6, 2);
const VALKEY_MIN: Version = Version::new(7, 2);
/// A well-maintained clock is far more accurate.
const CLOCK_MAX: Duration = Duration::from_secs(1);

struct Findings<'a> {
    server: &'a str,
    found: Vec<Finding>,
}

impl<'a> Findings<'a> {
    fn about(server: &'a str) -> Self {
        let found = Vec::new();
        Findings { server, found }
    }

    fn add(&mut self, severity: Severity, text: impl Into<String>) {
        let (server, text) = (self.server.to_owned(), text.into());
        self.found.push(Finding {
            severity,
            server,
            text,
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

    /// The server refused the command that would have answered.
    fn unknown(&mut self, severity: Severity, what: &str, command: &str) {
        let text = format!("{what} is unknown: this user may not run {command}");
        self.add(severity, text);
    }

    fn worst_first(mut self) -> Vec<Finding> {
        self.found
            .sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        self.found
    }
}

/// The findings about one server, the worst first.
pub(super) fn of(report: &NodeReport, context: &Context) -> Vec<Finding> {
    let mut findings = Findings::about(&report.server);
    match &report.state {
        Err(error) => findings.danger(format!(
            "it did not answer ({error}): its locks cannot be acquired now"
        )),
        Ok(state) if state.flavour == Some(Flavour::Embedded) => findings.info(
            "locks live in the memory of this process: other processes do not see them, and they \
             end with it",
        ),
        Ok(state) => {
            program(&mut findings, state);
            replication(&mut findings, state, context);
            copies(&mut findings, state, context);
            memory(&mut findings, state);
            persistence(&mut findings, state);
            clock(&mut findings, state);
            if let Some(cluster) = state.cluster {
                failover::cluster(&mut findings, state, cluster, context.lease);
            }
            times(&mut findings, state, context);
            uses(&mut findings, &report.uses);
            rights(&mut findings, state, context);
        }
    }
    findings.worst_first()
}

/// The findings about the sentinels, the worst first.
pub(super) fn of_sentinels(server: &str, state: &SentinelState, context: &Context) -> Vec<Finding> {
    let mut findings = Findings::about(server);
    failover::sentinels(&mut findings, state, context.lease);
    findings.worst_first()
}

fn program(findings: &mut Findings<'_>, state: &ServerState) {
    let (Some(flavour), Some(version)) = (state.flavour, state.version) else {
        return findings.unknown(Severity::Warning, "its version", "INFO");
    };
    let least = match flavour {
        Flavour::Valkey => VALKEY_MIN,
        _ => REDIS_MIN,
    };
    if version < least {
        findings.danger(format!(
            "{flavour} {version} lacks commands that the scripts use: run {}.{} or later",
            least.major, least.minor
        ));
    }
}

fn replication(findings: &mut Findings<'_>, state: &ServerState, context: &Context) {
    if state.is_primary == Some(false) {
        return findings.danger("it is a replica, which grants no locks: connect to the primary");
    }
    let Some(replicas) = &state.replicas else {
        return findings.unknown(Severity::Warning, "the number of its replicas", "INFO");
    };
    for replica in replicas.iter().filter(|replica| !replica.is_in_step()) {
        let lag = match (replica.is_online, replica.lag, replica.behind) {
            (false, ..) => "is not online yet".to_owned(),
            (true, Some(lag), Some(bytes)) => {
                format!("was silent for {lag:?} and is {bytes} bytes behind")
            }
            _ => "does not report its lag".to_owned(),
        };
        findings.warn(format!(
            "replica {} {lag}: if it is promoted now, held locks become free",
            replica.address
        ));
    }
    let in_step = state.replicas_in_step().unwrap_or_default();
    min_replicas(findings, state, in_step as u64, context.kind);
    if !replicas.is_empty() {
        return findings.info(format!(
            "{in_step} of {} replicas in step; replication is asynchronous: a failover loses what \
             the promoted replica had not received",
            replicas.len()
        ));
    }
    let severity = match context.kind {
        DeploymentKind::Single => Severity::Info,
        _ => Severity::Warning,
    };
    let outage = "it has no replica: while it is down, no lock can be acquired, and holds are lost \
                  when their leases end";
    findings.add(severity, outage);
}

/// What `min-replicas-to-write` means with so many replicas in step.
fn min_replicas(
    findings: &mut Findings<'_>,
    state: &ServerState,
    in_step: u64,
    kind: DeploymentKind,
) {
    let has_replicas = state.replicas.as_ref().is_some_and(|all| !all.is_empty());
    match state.min_replicas_to_write {
        Some(wanted) if in_step < wanted => findings.danger(format!(
            "{in_step} replicas are in step and min-replicas-to-write is {wanted}: it refuses \
             every acquisition (Unavailable), or will soon"
        )),
        Some(0) if has_replicas => findings.warn(
            "min-replicas-to-write is 0: a primary that is cut off from its replicas keeps \
             granting locks until it learns that another was promoted; set it to 1, and \
             min-replicas-max-lag low",
        ),
        None if has_replicas || kind != DeploymentKind::Single => {
            findings.unknown(Severity::Info, "min-replicas-to-write", "CONFIG GET");
        }
        _ => {}
    }
}

fn copies(findings: &mut Findings<'_>, state: &ServerState, context: &Context) {
    let Some(wanted) = context.copies else {
        return;
    };
    let in_step = state.replicas_in_step();
    if let Some(count) = in_step.filter(|&count| count < wanted as usize) {
        findings.danger(format!(
            "{count} replicas are in step, and the durability of this client asks for {wanted}: \
             every acquisition fails with NotDurable"
        ));
    }
}

fn memory(findings: &mut Findings<'_>, state: &ServerState) {
    let policy = state.maxmemory_policy.as_deref().unwrap_or_default();
    match state.evicts() {
        Some(true) => findings.danger(format!(
            "maxmemory-policy {policy} evicts locks when memory is full, because every lock has an \
             expiry: set noeviction, or use a separate server for locks"
        )),
        Some(false) if state.maxmemory == Some(0) && policy != "noeviction" => {
            findings.info(format!(
                "maxmemory-policy is {policy}, which has no effect without maxmemory: set \
                 noeviction before somebody sets a limit"
            ));
        }
        Some(false) => {}
        None => findings.unknown(Severity::Warning, "its maxmemory-policy", "INFO"),
    }
}

fn persistence(findings: &mut Findings<'_>, state: &ServerState) {
    match state.persistence {
        Some(Persistence::Always) => {}
        Some(Persistence::None) => findings.warn(
            "a restart loses everything: all locks are free, and their holders notice up to a \
             third of a lease later; set appendonly yes",
        ),
        Some(Persistence::Snapshots) => findings.warn(
            "a crash loses everything after the last snapshot, so locks acquired since then are \
             free; set appendonly yes",
        ),
        Some(Persistence::SystemDecides) => findings.warn(
            "appendfsync no: a crash of the machine may lose many seconds of acquisitions; set \
             everysec or always",
        ),
        Some(Persistence::EverySecond) => findings.info(
            "appendfsync everysec: a crash of the machine may lose about the last second of \
             acquisitions",
        ),
        None => findings.unknown(
            Severity::Warning,
            "what survives a restart",
            "CONFIG GET or INFO",
        ),
    }
    if state.saving_fails {
        findings.danger("its last attempt to save failed: it may refuse all writes (MISCONF)");
    }
}

fn clock(findings: &mut Findings<'_>, state: &ServerState) {
    let Some(clock) = state.clock else { return };
    let difference = Duration::from_millis(clock.ahead_ms.unsigned_abs());
    if difference > CLOCK_MAX + clock.error {
        let order = if clock.ahead_ms > 0 {
            "ahead of"
        } else {
            "behind"
        };
        findings.warn(format!(
            "its clock is {difference:?} {order} this machine's: one of them is not synchronised. \
             If the server's clock steps forward, leases end early: slew it instead"
        ));
    }
}

fn times(findings: &mut Findings<'_>, state: &ServerState, context: &Context) {
    let (worst, limit) = (state.round_trips.worst, context.command_timeout);
    if worst > limit / 5 {
        findings.warn(format!(
            "a round trip took {worst:?}, and a reply counts as lost after {limit:?}: raise \
             command_timeout, or find out what is slow"
        ));
    }
    // A renewal is sent every third of the lease, and should have time for a few attempts.
    if context.lease / 3 < worst * 10 {
        findings.warn(format!(
            "a round trip took {worst:?}, and a lease of {:?} is renewed every third of it: use a \
             longer lease",
            context.lease
        ));
    }
}

fn uses(findings: &mut Findings<'_>, uses: &UsesOfServer) {
    for (verdict, uses) in uses.by_verdict() {
        match verdict {
            Verdict::Works => {}
            Verdict::With(how) => findings.info(format!("{uses}: {how}")),
            Verdict::Refused(reason) => {
                findings.danger(format!("{uses}: refused before anything is sent: {reason}"));
            }
        }
    }
}

fn rights(findings: &mut Findings<'_>, state: &ServerState, context: &Context) {
    match &state.rights {
        Rights::Known { missing, .. } if missing.is_empty() => {}
        Rights::Known { missing, .. } => findings.danger(format!(
            "this user has no right to: {}; checked for a lock with the key {}",
            missing.join(", "),
            context.key
        )),
        Rights::Unknown { reason } => {
            findings.info(format!("the rights of this user are unknown: {reason}"));
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
