//! What the deployment as a whole guarantees, in the words of `docs/guarantees.md`.

use std::fmt;

use super::node::{NodeReport, Persistence, ServerState};
use crate::durability::Durability;
use crate::transport::DeploymentKind;

/// When a lock has one holder, and when it may have two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Guarantee {
    /// Events that do not break exclusion.
    pub survives: Vec<String>,
    /// Events that break exclusion. Holders notice at their next renewal, within a third of the lease at
    /// most.
    pub broken_by: Vec<String>,
    /// Events whose effect could not be determined. Assume that they break exclusion.
    pub not_known: Vec<String>,
}

/// The guarantee covers every server, because a lock may be on any of them.
pub(super) fn of(
    kind: DeploymentKind,
    durability: Option<Durability>,
    nodes: &[NodeReport],
) -> Guarantee {
    let mut guarantee = Guarantee::default();
    let Guarantee {
        survives,
        broken_by,
        not_known,
    } = &mut guarantee;
    survives.push("lost replies, and futures that are dropped or not polled".to_owned());
    if kind == DeploymentKind::Embedded {
        broken_by.push(
            "another process: locks live in the memory of this one, and end with it".to_owned(),
        );
    } else {
        survives.push("the crash of a client: its locks are free when their leases end".to_owned());
        survives.push("lost connections and messages, for as long as the lease lasts".to_owned());
        let states: Vec<_> = nodes
            .iter()
            .filter_map(|node| node.state.as_ref().ok())
            .collect();
        let silent: Vec<_> = nodes
            .iter()
            .filter(|node| node.state.is_err())
            .map(|node| &*node.server)
            .collect();
        if !silent.is_empty() || nodes.is_empty() {
            not_known.push(format!(
                "the servers that could not be asked: {}",
                silent.join(", ")
            ));
        }
        failover(&mut guarantee, kind, durability, &states);
        match durability {
            Some(durability) if durability.on_primary() > 0 => guarantee
                .survives
                .push("a restart of the server: a grant counts when it is on disk".to_owned()),
            _ => restart(&mut guarantee, &states),
        }
        eviction(&mut guarantee, &states);
        guarantee
            .broken_by
            .push("a step forward of the server's clock".to_owned());
    }
    guarantee.broken_by.push(
        "a holder that is paused beyond its lease in the middle of a step: a fenced lock and a \
         resource that checks its token close this gap"
            .to_owned(),
    );
    guarantee
}

fn failover(
    guarantee: &mut Guarantee,
    kind: DeploymentKind,
    durability: Option<Durability>,
    states: &[&ServerState],
) {
    // `None` if a server does not report it, or if none was asked.
    let counts = states
        .iter()
        .map(|state| state.replicas.as_ref().map(Vec::len));
    let replicas = counts
        .collect::<Option<Vec<_>>>()
        .and_then(|all| all.into_iter().max());
    if kind == DeploymentKind::Single && replicas == Some(0) {
        guarantee.survives.push(
            "there is no failover: the server has no replica, and an outage lasts until it is back"
                .to_owned(),
        );
        return;
    }
    let copies = durability.map_or(0, |durability| {
        durability.wanted() - durability.on_primary()
    });
    if copies == 0 {
        let replicas = replicas.map_or("unknown".to_owned(), |count| count.to_string());
        guarantee.broken_by.push(format!(
            "a failover: replication is asynchronous (replicas: {replicas}), and what the promoted \
             one had not seen is lost"
        ));
    } else if replicas.is_some_and(|count| (1..=copies as usize).contains(&count)) {
        guarantee.survives.push(format!(
            "a failover: all replicas must acknowledge a grant, as long as there are no more than \
             {copies}"
        ));
    } else {
        guarantee.broken_by.push(format!(
            "a failover to a replica that had not acknowledged a grant ({copies} must)"
        ));
    }
}

fn restart(guarantee: &mut Guarantee, states: &[&ServerState]) {
    // `None` sorts first and means unknown.
    match states.iter().map(|state| state.persistence).min() {
        Some(Some(Persistence::Always)) => guarantee
            .survives
            .push("a restart of the server: appendfsync always keeps what it confirmed".to_owned()),
        Some(Some(Persistence::EverySecond)) => guarantee.broken_by.push(
            "a crash of the server's machine: appendfsync everysec loses up to a second or so"
                .to_owned(),
        ),
        Some(Some(Persistence::SystemDecides)) => guarantee.broken_by.push(
            "a crash of the server's machine: appendfsync no loses what was not written yet"
                .to_owned(),
        ),
        Some(Some(Persistence::Snapshots)) => guarantee
            .broken_by
            .push("a crash of the server: what came after the last snapshot is lost".to_owned()),
        Some(Some(Persistence::None)) => guarantee
            .broken_by
            .push("a restart of the server: it keeps nothing, and all locks are free".to_owned()),
        Some(None) => guarantee
            .not_known
            .push("a restart of the server: its persistence may not be looked at".to_owned()),
        None => {}
    }
}

fn eviction(guarantee: &mut Guarantee, states: &[&ServerState]) {
    for state in states {
        let text = match (state.evicts(), state.maxmemory_policy.as_deref()) {
            (Some(true), Some(policy)) => {
                format!("eviction: maxmemory-policy {policy} drops locks when memory is full")
            }
            (None, _) => "eviction: maxmemory-policy may not be looked at".to_owned(),
            _ => continue,
        };
        let list = if state.evicts().is_none() {
            &mut guarantee.not_known
        } else {
            &mut guarantee.broken_by
        };
        if !list.contains(&text) {
            list.push(text);
        }
    }
    let known = states.iter().all(|state| state.evicts() == Some(false));
    if known && !states.is_empty() {
        guarantee
            .survives
            .push("a full server: it refuses acquisitions and evicts nothing".to_owned());
    }
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lists = [
            ("Exclusion survives:", &self.survives),
            ("Exclusion can be broken by:", &self.broken_by),
            ("Not known, so do not rely on it:", &self.not_known),
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
            text.contains("appendfsync always") && text.contains("no failover"),
            "{text}"
        );
        assert!(!text.contains("Not known"), "{text}");
    }

    #[test]
    fn copies_narrow_what_a_failover_and_a_restart_lose() {
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
        let text = |durability, count| {
            of(
                DeploymentKind::Sentinel,
                Some(durability),
                &[with_replicas(count)],
            )
            .to_string()
        };
        let all = text(Durability::replicas(1), 1);
        assert!(
            all.contains("no more than 1") && all.contains("everysec loses"),
            "{all}"
        );
        let one_of_two = text(Durability::replicas(1), 2);
        assert!(
            one_of_two.contains("had not acknowledged a grant (1 must)"),
            "{one_of_two}"
        );
        let disk = text(Durability::on_disk(0), 1);
        assert!(
            disk.contains("asynchronous") && disk.contains("when it is on disk"),
            "{disk}"
        );
    }

    #[test]
    fn what_may_not_be_looked_at_is_not_promised() {
        let hidden = NodeReport {
            server: "a:1".to_owned(),
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
