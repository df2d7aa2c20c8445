//! What the deployment as a whole guarantees, in the words of `docs/guarantees.md`.

use std::fmt;

use leasehold_transport::DeploymentKind;

use super::node::{NodeReport, Persistence, ServerState};

/// When a lock has one holder, and when it may have two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Guarantee {
    /// Events that do not break exclusion.
    pub(super) survives: Vec<String>,
    /// Events that break exclusion. Holders notice at their next renewal, within a third of the
    /// lease at most.
    pub(super) broken_by: Vec<String>,
    /// Events whose effect could not be determined. Assume that they break exclusion.
    pub(super) not_known: Vec<String>,
}

/// The guarantee covers every server, because a lock may be on any of them.
pub(super) fn of(kind: DeploymentKind, copies: Option<u32>, nodes: &[NodeReport]) -> Guarantee {
    let mut guarantee = Guarantee::default();
    guarantee.survives("lost replies, and futures that are dropped or not polled");
    if kind == DeploymentKind::Embedded {
        guarantee.broken_by(
            "another process: locks live in the memory of this process, and end with it",
        );
    } else {
        guarantee.of_servers(kind, copies, nodes);
    }
    guarantee.broken_by(
        "a holder that is paused beyond its lease in the middle of a step: only a fenced lock, \
         with a resource that checks its token, stops it",
    );
    guarantee
}

impl Guarantee {
    fn survives(&mut self, text: impl Into<String>) {
        self.survives.push(text.into());
    }

    fn broken_by(&mut self, text: impl Into<String>) {
        self.broken_by.push(text.into());
    }

    fn not_known(&mut self, text: impl Into<String>) {
        self.not_known.push(text.into());
    }

    fn of_servers(&mut self, kind: DeploymentKind, copies: Option<u32>, nodes: &[NodeReport]) {
        self.survives("the crash of a client: its locks are free when their leases end");
        self.survives("lost connections and messages, for as long as the lease lasts");
        let answered = nodes.iter().filter_map(|node| node.state.as_ref().ok());
        let states: Vec<_> = answered.collect();
        if states.len() < nodes.len() || nodes.is_empty() {
            let silent = nodes.iter().filter(|node| node.state.is_err());
            let names: Vec<_> = silent.map(|node| &*node.server).collect();
            self.not_known(format!("servers that did not answer: {}", names.join(", ")));
        }
        self.failover(kind, copies.unwrap_or(0), &states);
        self.restart(&states);
        self.eviction(&states);
        self.broken_by("a step forward of the server's clock");
    }

    /// `copies` is how many replicas must acknowledge a grant.
    fn failover(&mut self, kind: DeploymentKind, copies: u32, states: &[&ServerState]) {
        // `None` if a server does not report it, or if none answered.
        let counts = states
            .iter()
            .map(|state| state.replicas.as_ref().map(Vec::len));
        let counts: Option<Vec<_>> = counts.collect();
        let replicas = counts.and_then(|counts| counts.into_iter().max());
        match replicas {
            Some(0) if kind == DeploymentKind::Single => self.survives(
                "failovers: there are none, because the server has no replica; an outage lasts \
                 until it is back",
            ),
            Some(count) if (1..=copies as usize).contains(&count) => self.survives(format!(
                "a failover: every replica must acknowledge a grant, as long as there are at most \
                 {copies}"
            )),
            _ if copies > 0 => self.broken_by(format!(
                "a failover to a replica that had not acknowledged a grant ({copies} must)"
            )),
            _ => {
                let count = replicas.map_or("unknown".to_owned(), |count| count.to_string());
                self.broken_by(format!(
                    "a failover: replication is asynchronous (replicas: {count}), and writes that \
                     the promoted replica had not received are lost"
                ));
            }
        }
    }

    fn restart(&mut self, states: &[&ServerState]) {
        // `None` sorts first and means unknown.
        match states.iter().map(|state| state.persistence).min() {
            None => {}
            Some(None) => self.not_known("a restart of the server: its persistence is unknown"),
            Some(Some(Persistence::None)) => self
                .broken_by("a restart of the server: it loses everything, so all locks are free"),
            Some(Some(Persistence::Snapshots)) => {
                self.broken_by("a crash of the server: everything after the last snapshot is lost");
            }
            Some(Some(Persistence::SystemDecides)) => self.broken_by(
                "a crash of the server's machine: appendfsync no loses what was not written yet",
            ),
            Some(Some(Persistence::EverySecond)) => self.broken_by(
                "a crash of the server's machine: appendfsync everysec loses up to about a second",
            ),
            Some(Some(Persistence::Always)) => {
                self.survives(
                    "a restart of the server: appendfsync always keeps what it confirmed",
                );
            }
        }
    }

    fn eviction(&mut self, states: &[&ServerState]) {
        if states.iter().any(|state| state.evicts().is_none()) {
            self.not_known("eviction: maxmemory-policy is unknown");
        }
        let evicting = states.iter().filter(|state| state.evicts() == Some(true));
        let mut policies: Vec<_> = evicting
            .filter_map(|state| state.maxmemory_policy.as_deref())
            .collect();
        policies.sort_unstable();
        policies.dedup();
        for policy in policies {
            self.broken_by(format!(
                "eviction: maxmemory-policy {policy} evicts locks when memory is full"
            ));
        }
        let keeps = |state: &&ServerState| state.evicts() == Some(false);
        if !states.is_empty() && states.iter().all(keeps) {
            self.survives("a full server: it refuses acquisitions and evicts nothing");
        }
    }
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lists = [
            ("Exclusion survives:", &self.survives),
            ("Exclusion can be broken by:", &self.broken_by),
            ("Unknown, so do not rely on it:", &self.not_known),
        ];
        for (title, list) in lists.iter().filter(|(_, list)| !list.is_empty()) {
            writeln!(f, "{title}")?;
            for text in *list {
                writeln!(f, "  - {text}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::preflight::abilities::UsesOfServer;
    use crate::preflight::node::Replica;

    fn node(persistence: Persistence) -> NodeReport {
        let state = ServerState {
            replicas: Some(vec![]),
            maxmemory: Some(0),
            persistence: Some(persistence),
            ..ServerState::default()
        };
        NodeReport {
            server: "a:1".to_owned(),
            uses: UsesOfServer::default(),
            state: Ok(state),
        }
    }

    #[test]
    fn the_weakest_server_counts() {
        let nodes = [node(Persistence::Always), node(Persistence::EverySecond)];
        let text = of(DeploymentKind::Cluster, None, &nodes).to_string();
        assert!(
            text.contains("everysec") && !text.contains("appendfsync always"),
            "{text}"
        );
        let text = of(DeploymentKind::Single, None, &nodes[..1]).to_string();
        assert!(
            text.contains("appendfsync always") && text.contains("failovers: there are none"),
            "{text}"
        );
        assert!(!text.contains("Unknown"), "{text}");
    }

    #[test]
    fn copies_reduce_what_a_failover_loses() {
        let with_replicas = |count| {
            let replica = Replica {
                address: "b:1".to_owned(),
                is_online: true,
                behind: Some(0),
                lag: Some(Duration::ZERO),
            };
            let mut node = node(Persistence::EverySecond);
            node.state.as_mut().expect("it is known").replicas = Some(vec![replica; count]);
            node
        };
        let text = |count| {
            let nodes = [with_replicas(count)];
            of(DeploymentKind::Sentinel, Some(1), &nodes).to_string()
        };
        let all = text(1);
        assert!(
            all.contains("at most 1") && all.contains("everysec loses"),
            "{all}"
        );
        let one_of_two = text(2);
        assert!(
            one_of_two.contains("had not acknowledged a grant (1 must)"),
            "{one_of_two}"
        );
    }

    #[test]
    fn what_the_user_may_not_see_is_not_promised() {
        let hidden = NodeReport {
            server: "a:1".to_owned(),
            uses: UsesOfServer::default(),
            state: Ok(ServerState::default()),
        };
        let guarantee = of(DeploymentKind::Single, None, &[hidden]);
        assert_eq!(guarantee.not_known.len(), 2, "{guarantee}");
        assert!(
            guarantee.to_string().contains("replicas: unknown"),
            "{guarantee}"
        );
    }
}
