//! What the settings of a cluster, or of sentinels, mean for holds during a failover.

use std::time::Duration;

use super::{Findings, Severity};
use crate::preflight::failover::{SentinelState, time_left};
use crate::preflight::node::{ClusterState, ServerState, or_unknown};

pub(super) fn cluster(
    findings: &mut Findings<'_>,
    state: &ServerState,
    cluster: ClusterState,
    lease: Duration,
) {
    match cluster.is_ok {
        Some(false) => findings.danger("cluster_state is not ok: it refuses calls (CLUSTERDOWN)"),
        Some(true) => {}
        None => findings.unknown(
            Severity::Warning,
            "the state of the cluster",
            "CLUSTER INFO",
        ),
    }
    match cluster.requires_full_coverage {
        Some(true) => findings.info(
            "cluster-require-full-coverage yes: while one shard fails over, all shards refuse \
             calls; with no, the locks of the other shards keep working",
        ),
        Some(false) => {}
        None => findings.unknown(
            Severity::Info,
            "cluster-require-full-coverage",
            "CONFIG GET",
        ),
    }
    match (cluster.node_timeout, cluster.failover()) {
        (Some(timeout), Some(failover)) => {
            let setting = format!("cluster-node-timeout is {}", timeout.as_millis());
            compare(findings, &setting, failover, lease);
        }
        _ => findings.unknown(Severity::Info, "cluster-node-timeout", "CONFIG GET"),
    }
    if state.sharded_pubsub == Some(false) {
        findings.info(
            "it has no sharded publish/subscribe: each release is sent to every node of the \
             cluster",
        );
    }
}

pub(super) fn sentinels(findings: &mut Findings<'_>, state: &SentinelState, lease: Duration) {
    match (state.down_after, state.failover()) {
        (Some(down_after), Some(failover)) => {
            let setting = format!("down-after-milliseconds is {}", down_after.as_millis());
            compare(findings, &setting, failover, lease);
        }
        _ => findings.warn("down-after-milliseconds is unknown: no sentinel reports it"),
    }
    if let Some(again) = state.failover_timeout.map(|timeout| timeout * 2)
        && again > time_left(lease)
    {
        findings.info(format!(
            "a failed failover is retried after {again:.1?} (twice failover-timeout): holds with a \
             lease of {lease:.1?} are lost by then"
        ));
    }
    match (state.usable, state.needed()) {
        (Some(usable), Some(needed)) if usable < needed => findings.warn(format!(
            "{usable} of {} sentinels are up, and a failover needs {needed}: until then, no \
             failover can happen, and no lock can be acquired if the primary goes down",
            or_unknown(state.known)
        )),
        (Some(usable), Some(needed)) if usable == needed => findings.info(format!(
            "a failover needs all {usable} sentinels that are up: none of them may go down with \
             the primary"
        )),
        (Some(_), Some(_)) => {}
        _ => findings.warn("whether enough sentinels are up is unknown: no sentinel reports it"),
    }
}

fn compare(findings: &mut Findings<'_>, setting: &str, failover: Duration, lease: Duration) {
    let left = time_left(lease);
    if failover > left {
        findings.warn(format!(
            "a failover takes about {failover:.1?} ({setting}), and holds with a lease of \
             {lease:.1?} may end {left:.1?} after the primary goes down: they are lost by then; \
             lower the setting, or use a longer lease"
        ));
    }
}
