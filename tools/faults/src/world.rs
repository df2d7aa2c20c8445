//! Servers, and the ways to them: everything that a fault can be done to.

use std::net::SocketAddr;
use std::time::Duration;

use clap::ValueEnum;
use leasehold_testbed::{Cluster, Connection, Deployment, Line, Sentinels, Server, Shape, Watch};

use crate::clients::Clients;

/// After this a silent server is suspected, and another one takes its place.
const SUSPECTED_AFTER: Duration = Duration::from_secs(1);
/// Where no fault makes a server silent nobody is replaced, however busy the machine is.
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
    /// Five servers that know nothing of each other.
    Five,
}

impl Kind {
    pub(crate) fn name(self) -> String {
        self.to_possible_value()
            .expect("none is skipped")
            .get_name()
            .to_owned()
    }
}

/// A server: of which deployment, and which of its servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node(pub(crate) usize, pub(crate) usize);

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) kind: Kind,
    /// One, or five servers.
    pub(crate) deployments: Vec<Deployment>,
    pub(crate) clients: Clients,
    /// Microseconds that are added to the wall clock of servers and of one client, if that was prepared.
    pub(crate) clocks: Option<crate::wall_clocks::Clocks>,
}

/// What a deployment is started with.
#[derive(Debug, Default)]
pub(crate) struct Setting {
    pub(crate) arguments: Vec<String>,
    /// Whether a silent server is replaced soon.
    pub(crate) replaces: bool,
    /// Of the servers; only where no server replaces another.
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
        // A minority is as the environment says.
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

/// The slots of a member of a cluster, as it says itself.
pub(crate) fn slots_of(member: SocketAddr) -> Option<Vec<(u16, u16)>> {
    let reply = Connection::open(member)
        .ok()?
        .command(&["CLUSTER", "NODES"])
        .ok()?;
    let text = reply.text();
    let own = text.lines().find(|line| line.contains("myself"))?;
    // Eight words about it; slots that are on their way are in brackets.
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

    /// Those that are masters now.
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

    /// Whom a fault hits: the master, one of several masters, two of five servers.
    pub(crate) fn victims(&self, random: &mut fastrand::Rng) -> Vec<Node> {
        let mut masters = self.masters();
        random.shuffle(&mut masters);
        masters.truncate(if self.kind == Kind::Five { 2 } else { 1 });
        masters
    }

    /// What only these servers have: nothing if they have everything, or nobody is sure.
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

    /// All ways of all clients.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &Line> {
        self.clients.seats().iter().flat_map(|seat| &seat.lines)
    }

    /// Waits until the servers agree again about who is who.
    pub(crate) fn settle(&self) {
        match &self.deployments[0] {
            Deployment::Server(_) => {}
            Deployment::Sentinels(sentinels) => sentinels.until_in_step(),
            Deployment::Cluster(cluster) => cluster.until_agreed(),
        }
    }

    /// Keys on all masters.
    pub(crate) fn keys(&self) -> Vec<String> {
        let mut keys: Vec<_> = self
            .masters()
            .into_iter()
            .flat_map(|node| {
                let reply = self.server(node).command(&["KEYS", "*"]);
                reply
                    .array()
                    .iter()
                    .map(leasehold_testbed::Reply::text)
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
