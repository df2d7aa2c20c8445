//! The servers, the clients and the connections between them: everything that a fault can affect.

use std::net::SocketAddr;
use std::time::Duration;

use clap::ValueEnum;
use leasehold_testbed::{Cluster, Connection, Deployment, Line, Sentinels, Server, Shape, Watch};

use crate::clients::Clients;

/// A server that is silent for this long may be replaced by a failover.
const SUSPECTED_AFTER: Duration = Duration::from_secs(1);
/// The same if no fault of the run silences servers. It is long, so that a busy machine causes no
/// failover.
const PATIENT: Duration = Duration::from_secs(60);
const FAILOVER_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Kind {
    /// One server.
    Single,
    /// A master, two replicas, three sentinels.
    Sentinel,
    /// Three masters with a replica each.
    Cluster,
    /// Five independent servers.
    Five,
}

impl Kind {
    pub(crate) fn name(self) -> String {
        self.to_possible_value()
            .expect("no variant is skipped")
            .get_name()
            .to_owned()
    }
}

/// A server: the index of its deployment, and its index in the deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node(pub(crate) usize, pub(crate) usize);

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) kind: Kind,
    /// One deployment, or five independent servers.
    pub(crate) deployments: Vec<Deployment>,
    pub(crate) clients: Clients,
    /// The wall clocks that can be stepped, if a fault of the run needs them.
    pub(crate) clocks: Option<crate::wall_clocks::Clocks>,
}

/// Settings with which a deployment is started.
#[derive(Debug, Default)]
pub(crate) struct Setting {
    pub(crate) arguments: Vec<String>,
    /// Whether a silent server is replaced after a second, rather than after a minute.
    pub(crate) replaces: bool,
    /// The environment of the servers. Ignored for sentinels and clusters.
    pub(crate) environment: Vec<(String, String)>,
}

pub(crate) fn start(kind: Kind, setting: &Setting) -> Vec<Deployment> {
    let arguments: Vec<_> = setting.arguments.iter().map(String::as_str).collect();
    let pairs = setting.environment.iter();
    let environment: Vec<_> = pairs
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let server = |environment: &[(&str, &str)]| {
        Deployment::Server(Box::new(Server::start_in(environment, &arguments)))
    };
    let suspected_after = if setting.replaces {
        SUSPECTED_AFTER
    } else {
        PATIENT
    };
    match kind {
        Kind::Single => vec![server(&environment)],
        // Only a minority of the servers gets the environment, so that clock faults never affect a
        // majority.
        Kind::Five => (0..5)
            .map(|one| server(if one < 2 { &environment } else { &[] }))
            .collect(),
        Kind::Sentinel => vec![Deployment::Sentinels(Box::new(Sentinels::start_with(
            &Watch {
                down_after: suspected_after,
                failover_timeout: FAILOVER_TIMEOUT,
                arguments: setting.arguments.clone(),
                ..Watch::default()
            },
        )))],
        Kind::Cluster => vec![Deployment::Cluster(Box::new(Cluster::start_with(Shape {
            node_timeout: suspected_after,
            arguments: setting.arguments.clone(),
            ..Shape::default()
        })))],
    }
}

/// The slots that a cluster node owns by its own account.
pub(crate) fn slots_of(member: SocketAddr) -> Option<Vec<(u16, u16)>> {
    let reply = Connection::open(member)
        .ok()?
        .command(&["CLUSTER", "NODES"])
        .ok()?;
    let text = reply.text();
    let own = text.lines().find(|line| line.contains("myself"))?;
    // The slots follow eight other fields. Slots that are migrating are in brackets.
    let slots = own
        .split(' ')
        .skip(8)
        .filter(|slots| !slots.starts_with('['));
    let span = |slots: &str| {
        let (first, last) = slots.split_once('-').unwrap_or((slots, slots));
        Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
    };
    slots.map(span).collect()
}

impl World {
    pub(crate) fn server(&self, Node(deployment, server): Node) -> &Server {
        &self.deployments[deployment].servers()[server]
    }

    /// The current masters.
    pub(crate) fn masters(&self) -> Vec<Node> {
        match &self.deployments[0] {
            Deployment::Server(_) => (0..self.deployments.len())
                .map(|one| Node(one, 0))
                .collect(),
            Deployment::Sentinels(sentinels) => vec![Node(0, sentinels.current_master())],
            Deployment::Cluster(cluster) => (0..cluster.shards())
                .map(|shard| Node(0, cluster.master(shard)))
                .collect(),
        }
    }

    /// The servers that a fault affects, chosen at random: one master, or two of five servers.
    pub(crate) fn victims(&self, random: &mut fastrand::Rng) -> Vec<Node> {
        let mut masters = self.masters();
        random.shuffle(&mut masters);
        masters.truncate(if self.kind == Kind::Five { 2 } else { 1 });
        masters
    }

    /// The slots of these servers. Empty without a cluster, or if the slots of a server are
    /// unknown.
    pub(crate) fn slots_of(&self, nodes: &[Node]) -> Vec<(u16, u16)> {
        if self.kind != Kind::Cluster {
            return Vec::new();
        }
        let of = |node: &Node| slots_of(self.server(*node).address()).unwrap_or_default();
        let each: Vec<_> = nodes.iter().map(of).collect();
        if each.iter().any(Vec::is_empty) {
            Vec::new()
        } else {
            each.concat()
        }
    }

    pub(crate) fn kill(&mut self, Node(deployment, server): Node) {
        match &mut self.deployments[deployment] {
            Deployment::Server(server) => server.kill(),
            Deployment::Sentinels(sentinels) => sentinels.kill(server),
            Deployment::Cluster(cluster) => cluster.kill(server),
        }
    }

    pub(crate) fn restart(&mut self, Node(deployment, server): Node) {
        match &mut self.deployments[deployment] {
            Deployment::Server(server) => server.restart(),
            Deployment::Sentinels(sentinels) => sentinels.restart(server),
            Deployment::Cluster(cluster) => cluster.restart(server),
        }
    }

    /// The connections of all clients to the servers.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &Line> {
        self.clients.seats().iter().flat_map(|seat| &seat.lines)
    }

    /// Waits until the servers agree on the roles of all servers.
    pub(crate) fn settle(&self) {
        match &self.deployments[0] {
            Deployment::Server(_) => {}
            Deployment::Sentinels(sentinels) => sentinels.until_in_step(),
            Deployment::Cluster(cluster) => cluster.until_agreed(),
        }
    }

    /// All keys on all masters, sorted, but those that have only expired permits.
    pub(crate) fn keys(&self) -> Vec<String> {
        let mut keys: Vec<_> = self
            .masters()
            .into_iter()
            .flat_map(|node| {
                let server = self.server(node);
                let reply = server.command(&["KEYS", "*"]);
                let keys = reply.array().iter().map(leasehold_testbed::Reply::text);
                keys.filter(|key| !only_expired_permits(server, key))
                    .collect::<Vec<_>>()
            })
            .collect();
        keys.sort();
        keys.dedup();
        keys
    }

    pub(crate) fn version(&self) -> String {
        let info = self
            .server(self.masters()[0])
            .command(&["INFO", "server"])
            .text();
        let field = |name: &str| {
            info.lines()
                .find_map(|line| line.strip_prefix(name))
                .unwrap_or_default()
                .trim()
        };
        match field("valkey_version:") {
            "" => format!("Redis {}", field("redis_version:")),
            version => format!("Valkey {version}"),
        }
    }
}

/// Whether a key has nothing but permits whose leases have ended. They come back with the next
/// call.
fn only_expired_permits(server: &Server, key: &str) -> bool {
    if !key.starts_with("{permits:") || !key.ends_with(":timeout") {
        return false;
    }
    let time = server.command(&["TIME"]);
    let now = format!("({}000", time.array()[0].text());
    server.command(&["ZCOUNT", key, &now, "+inf"]).int() == 0
}
